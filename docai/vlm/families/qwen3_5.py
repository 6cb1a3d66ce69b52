"""Qwen3.5, dense and with experts, also text only: gated DeltaNet between layers of attention (Qwen Team 2026)."""

from __future__ import annotations

from docai.checkpoint.dialect import Drop, Rule, renames
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.positions import MropeSpec
from docai.vlm.spec import ModelSpec

_TOKENS = {"image_token_id": 248_056, "video_token_id": 248_057}
_SECTIONS = (11, 11, 10)


def spec(config: Config) -> ModelSpec:
    kind = "qwen3_5_moe_text" if "moe" in config["model_type"] else "qwen3_5_text"
    sections = _SECTIONS if config.get("vision_config") else ()
    decoder = qwen.decoder(config, kind, {}, sections, mixed=True)
    tower, merger = qwen.tapped_tower(config.section("vision_config", {"deepstack_visual_indexes": ()}), decoder.dims)
    mrope = MropeSpec(tower.merge, stamped=True)
    return qwen.model_spec(config.with_defaults(_TOKENS), decoder, tower, merger, mrope)


# Heads that guess tokens ahead are left out. Files with the text half only have its names as those of other decoders.
_FIRST: tuple[Rule, ...] = (
    Drop("mtp.{rest}"),
    Drop("language_model.mtp.{rest}"),
    *renames(
        {
            "model.{x:layers|embed_tokens|norm}.{rest}": "model.language_model.{x}.{rest}",
            "model.language_model.visual.{rest}": "model.visual.{rest}",
        }
    ),
)

FAMILY = Family(
    "qwen3_5",
    ("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"),
    spec,
    qwen.dialects(qwen.LINEAR, qwen.TAPPED_MERGER, qwen.NESTED, norm_offset=True, first=_FIRST),
    qwen.prompt_spec(system=False, clips=qwen.STAMPED_CLIPS),
    qwen.TAPPED_IMAGES,
    text_only=True,
    videos=qwen.TAPPED_CLIPS,
)
