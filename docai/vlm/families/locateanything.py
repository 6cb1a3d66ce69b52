"""LocateAnything (NVIDIA 2026, arXiv:2605.27365): MoonViT (arXiv:2504.07491) and Qwen2.5, which answers with places."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rule, renames
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.expansions import Between
from docai.vlm.families import Family
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.moonvit import EPS, PUBLISHED, moonvit_rules, moonvit_spec
from docai.vlm.families.nested import MERGER, PROJECTOR, image_token, vision_config
from docai.vlm.families.text import ASSISTANT, chatml
from docai.vlm.families.towers import TOWER
from docai.vlm.native_images import locate_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import BoxSpec, ModelSpec

# What the published code knows of Qwen2.5-3B.
_TEXT = {
    "vocab_size": 152_681, "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36,
    "num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6,
    "rope_theta": 1e6, "tie_word_embeddings": True, "block_size": 6, "text_mask_token_id": 151_676,
    "null_token_id": 152_678,
}  # fmt: skip
_BOXES = {
    "box_start_token_id": 151_668, "box_end_token_id": 151_669, "ref_start_token_id": 151_672,
    "ref_end_token_id": 151_673, "coord_start_token_id": 151_677, "coord_end_token_id": 152_677, "none_token_id": 4064,
}  # fmt: skip
_WINDOW = 6  # a box: its two ends and four coordinates


def spec(config: Config) -> ModelSpec:
    decoder = decoder_spec(config.section("text_config", _TEXT), "qwen2")
    tower = moonvit_spec(vision_config(config))
    merger = MergerSpec(tower.hidden, decoder.dims, tower.merge**2, norm_eps=EPS, norm_joined=True, hidden=decoder.dims)
    boxes = box_spec(config.with_defaults(_BOXES), config.section("text_config", _TEXT), decoder.vocabulary)
    return ModelSpec(decoder, tower, merger, image_token(config, 151_665), boxes=boxes)


def box_spec(config: Config, text: Config, vocabulary: int) -> BoxSpec | None:
    """How boxes are written in a step each; None for a checkpoint that was not taught it, or has not the tokens."""
    end = config.get("eos_token_id", 151_645)
    spec = BoxSpec(
        (config["box_start_token_id"], config["box_end_token_id"]),
        (config["ref_start_token_id"], config["ref_end_token_id"]),
        (config["coord_start_token_id"], config["coord_end_token_id"]),
        config["none_token_id"],
        text["null_token_id"],
        text["text_mask_token_id"],
        end[0] if isinstance(end, list) else end,
        text["block_size"],
    )
    ids = (*spec.box, *spec.name, *spec.places, spec.none, spec.blank, spec.mask, spec.end)
    return spec if spec.window == _WINDOW and max(ids) < vocabulary else None


# Names of the published files, in those of mlx-vlm.
_PUBLISHED = (
    *renames(
        {
            "vision_model.{rest}": f"{TOWER}{{rest}}",
            "mlp1.0.{part}": f"{PROJECTOR}layer_norm.{{part}}",
            "mlp1.1.{part}": f"{PROJECTOR}linear_1.{{part}}",
            "mlp1.3.{part}": f"{PROJECTOR}linear_2.{{part}}",
        }
    ),
    *PUBLISHED,
)


def rules(spec: ModelSpec, *, channels_last: bool = False) -> tuple[Rule, ...]:
    assert isinstance(spec.vision, PackedVitSpec), "there is no LocateAnything without its tower"
    return (
        *_PUBLISHED,
        *moonvit_rules(spec.vision, channels_last=channels_last),
        *MERGER,
        *decoder_rules(spec.decoder, "language_model.model.", "language_model.lm_head."),
    )


FAMILY = Family(
    "locateanything",
    ("locateanything",),
    spec,
    {"hf": rules, "mlx": partial(rules, channels_last=True)},
    PromptSpec(
        placeholder="<image-1>",
        written=r"<image-\d+>",
        token="<IMG_CONTEXT>",
        image="<image-1>",
        template=chatml(ASSISTANT),
        expand=Between("<img>", "</img>"),
    ),
    locate_images(),
)
