"""What families share whose checkpoints nest a text model and a vision tower, as LLaVA's do: configs and names.

Published files have `language_model.model.`, `language_model.lm_head.`, `vision_tower.vision_model.` and
`multi_modal_projector.`; those that transformers saves lack `vision_model.`, or have `model.language_model.`,
`lm_head.`, `model.vision_tower.` and so on; MLX's are as published, with convolutions of their own layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from docai.checkpoint.dialect import Rule, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.packed_vit import PackedVitSpec
from docai.nn.vit import VitSpec
from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.expansions import Rows
from docai.vlm.families import Rules
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.towers import TOWER, as_matrix, tower_rules, vit_spec
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import DecoderSpec, ModelSpec

_PARTS = renames(
    {
        "model.language_model.{rest}": "language_model.model.{rest}",
        "lm_head.{rest}": "language_model.lm_head.{rest}",
        "model.{name:vision_tower|multi_modal_projector}.{rest}": "{name}.{rest}",
        "model.image_newline": "image_newline",
        "vision_tower.vision_model.{rest}": "vision_tower.{rest}",
        # Pixtral and Mistral 3, as some early files call them
        "model.vision_encoder.{rest}": "vision_tower.{rest}",
        "model.vision_projection.{rest}": "multi_modal_projector.{rest}",
    }
)
PROJECTOR = "multi_modal_projector."
OUTSIDE = -200  # the image token of models whose vocabulary has none, as the original code of LLaVA has it
LAYERS = {"linear_1.{part}": "up.{part}", "linear_2.{part}": "down.{part}"}
TWO_LAYERS = renames(LAYERS, PROJECTOR, "connector.")
# Those behind a norm, of projectors that make several rows one.
MERGER = renames({"{x:layer_norm|pre_norm}.{part}": "norm.{part}", **LAYERS}, PROJECTOR, "connector.merge.")
# The names of files that the original code of LLaVA wrote, then those that MLX gives them.
LLAVA_NAMES = renames(
    {
        "model.{x:layers|embed_tokens|norm}.{rest}": "language_model.model.{x}.{rest}",
        "model.vision_tower.vision_tower.vision_model.{rest}": f"{TOWER}{{rest}}",
        "model.mm_projector.0.{part}": f"{PROJECTOR}linear_1.{{part}}",
        "model.mm_projector.2.{part}": f"{PROJECTOR}linear_2.{{part}}",
        "language_model.model.lm_head.{rest}": "language_model.lm_head.{rest}",
        "vision_tower.vision_tower.vision_model.{rest}": f"{TOWER}{{rest}}",
        "mm_projector.{rest}": f"{PROJECTOR}{{rest}}",
    }
)
# The turns of Vicuna, for checkpoints of LLaVA without a chat template.
VICUNA = (
    "{% for message in messages %}{{ {'user': 'USER: ', 'assistant': 'ASSISTANT: '}.get(message.role, '') }}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}"
    "{{ eos_token if message.role == 'assistant' else ' ' }}{% endfor %}ASSISTANT:"
)
LLAVA_PROMPT = PromptSpec(placeholder="<image>", token="<image>", image="<image>\n", template=VICUNA)
# The turns of Mistral, likewise for Pixtral and Mistral 3.
_MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}{{ eos_token }}{% else %}"
    "[INST]{% for part in message.content %}{{ part.text }}{% endfor %}[/INST]{% endif %}{% endfor %}"
)
PIXTRAL_PROMPT = PromptSpec("[IMG]", "[IMG]", "[IMG]", _MISTRAL, expand=Rows("[IMG_BREAK]", "[IMG_END]"))


def nested_decoder(config: Config, *kinds: str, part: str = "text_config") -> DecoderSpec:
    """The decoder of `text_config`, of one of these kinds; the first where it names none.

    A head is tied if either config says so. Raises CheckpointError for another kind.
    """
    text = config.section(part)
    kind = text.get("model_type", kinds[0])
    if kind not in kinds:
        raise CheckpointError(f"text decoder {kind!r} is not supported here; supported: {', '.join(kinds)}")
    spec = decoder_spec(text, kind)
    return replace(spec, tied=spec.tied or bool(config.get("tie_word_embeddings", False)))


def llava_spec(config: Config, *, tiled: bool) -> ModelSpec:
    """CLIP or SigLIP, a projector of two layers and a decoder. `tiled`: see `ProjectorSpec`."""
    decoder = nested_decoder(config, "llama", "mistral", "phi3", "qwen2", "qwen3")
    tower = vit_spec(
        vision_config(config),
        "clip_vision_model",
        config.get("vision_feature_layer", -2),
        class_row=config.get("vision_feature_select_strategy", "default") == "full",
    )
    projector = ProjectorSpec(
        tower.hidden * len(tower.features),
        decoder.dims,
        config.get("projector_hidden_act", "gelu"),
        config.get("multimodal_projector_bias", True),
        tiled,
    )
    return ModelSpec(decoder, tower, projector, image_token(config, 32_000))


def vision_config(config: Config) -> Config:
    """The part about the tower. Raises CheckpointError where there is none: these families have no text-only files."""
    if not config.get("vision_config"):
        raise CheckpointError("config.json: expected a vision_config, as this model has a vision tower; found none")
    return config.section("vision_config")


def image_token(config: Config, default: int) -> int:
    """The id that stands for a row of an image; newer files call it image_token_id."""
    token: int = config.get("image_token_index", config.get("image_token_id", default))
    return token


def nested_rules(
    projector: tuple[Rule, ...], *, norm_offset: bool = False, first: tuple[Rule, ...] = ()
) -> dict[str, Rules]:
    """Rules of every dialect; `projector`: those for what is called `multi_modal_projector.`

    `first`: from a family's own names to those here.
    """
    return by_layout(partial(_rules, projector=projector, norm_offset=norm_offset, first=first))


def by_layout(rules: Callable[..., tuple[Rule, ...]]) -> dict[str, Rules]:
    """The rules of every dialect from those that are told where convolutions have their channels: last in MLX's."""
    torch = partial(rules, channels_last=False)
    return {"hf": torch, "transformers": torch, "mlx": partial(rules, channels_last=True)}


def packed_rules(
    projector: tuple[Rule, ...], *, first: tuple[Rule, ...] = (), norm_offset: bool = False
) -> dict[str, Rules]:
    """`nested_rules` of towers over patches whose files have them as pictures: a convolution becomes a matrix.

    `norm_offset`: norms multiply by 1 + w; MLX's files have the 1 in them.
    """
    torch = nested_rules(projector, norm_offset=norm_offset, first=(*first, *_FLAT))
    mlx = nested_rules(projector, first=(*first, Transpose(_PATCH, (0, 3, 1, 2)), *_FLAT))
    return {**torch, "mlx": mlx["mlx"]}


_PATCH = f"{TOWER}embeddings.patch_embedding.weight"
_FLAT = as_matrix(_PATCH, (0, 3, 0, 0))


def _rules(
    spec: ModelSpec, *, projector: tuple[Rule, ...], norm_offset: bool, first: tuple[Rule, ...], channels_last: bool
) -> tuple[Rule, ...]:
    assert isinstance(spec.vision, VitSpec | PackedVitSpec), "these families have no text-only checkpoints"
    text = decoder_rules(spec.decoder, "language_model.model.", "language_model.lm_head.", norm_offset=norm_offset)
    return (*first, *_PARTS, *tower_rules(spec.vision, channels_last=channels_last), *projector, *text)
