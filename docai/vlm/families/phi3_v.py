"""Phi-3 and Phi-3.5 Vision (Abdin et al. 2024, arXiv:2404.14219): CLIP over tiles, whose lines end in learned rows."""

from __future__ import annotations

from docai.checkpoint.dialect import Drop, Rename, Reshape, renames
from docai.vlm.config import Config
from docai.vlm.connector import LinesSpec
from docai.vlm.families import Family
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.nested import OUTSIDE, PROJECTOR, nested_rules
from docai.vlm.families.towers import TOWER, vit_spec
from docai.vlm.images import padded_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

# CLIP-L/336, which published configs do not describe.
_VISION = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "image_size": 336, "patch_size": 14,
}  # fmt: skip
_TURNS = (
    "{% for message in messages %}<|{{ message.role }}|>\n"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|end|>\n{% endfor %}"
    "<|assistant|>{{ '\\n' }}"  # Jinja would drop a bare line break
)


def spec(config: Config) -> ModelSpec:
    decoder = decoder_spec(config, "phi3")
    tower = vit_spec(config.section("vision_config", _VISION), "clip_vision_model", -2)
    return ModelSpec(decoder, tower, LinesSpec(4 * tower.hidden, decoder.dims), OUTSIDE)


_SEEING = "model.vision_embed_tokens."
_NAMES = renames(
    {
        f"{_SEEING}img_processor.vision_model.{{rest}}": f"{TOWER}{{rest}}",
        f"{_SEEING}{{rest}}": f"{PROJECTOR}{{rest}}",
        "model.{x:layers|embed_tokens|norm}.{rest}": "language_model.model.{x}.{rest}",
    }
)
_LINES = (
    Drop(f"{PROJECTOR}wte.weight"),  # the embeddings once more
    *(Reshape(f"{PROJECTOR}{name}", (-1,)) for name in ("sub_GN", "glb_GN")),
    Rename(f"{PROJECTOR}sub_GN", "connector.newline"),
    Rename(f"{PROJECTOR}glb_GN", "connector.between"),
    *renames({"0.{part}": "up.{part}", "2.{part}": "down.{part}"}, f"{PROJECTOR}img_projection.", "connector."),
)

FAMILY = Family(
    "phi3_v",
    ("phi3_v",),
    spec,
    nested_rules(_LINES, first=_NAMES),
    PromptSpec(
        placeholder="<|image_1|>",
        written=r"<\|image_\d+\|>",
        token="<|image_1|>",
        image="<|image_1|>\n",
        template=_TURNS,
        token_id=OUTSIDE,
        all_begin=True,
        stops=("<|end|>",),
    ),
    padded_images(),
)
