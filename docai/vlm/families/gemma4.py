"""Gemma 4 (Google 2026): a tower with positions of columns and rows, whose patches are averaged 3 x 3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from docai.checkpoint.dialect import Rule
from docai.nn.sandwich_vit import SandwichVitSpec
from docai.vlm.audio import mel_sounds
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families.gemma4_hearing import conformer_hearing
from docai.vlm.families.gemma4_parts import PROMPT, UNSEEN, base_spec, whole_rules
from docai.vlm.families.gemma4_vision import averager_spec, tower_rules, tower_spec
from docai.vlm.native_images import budget_images
from docai.vlm.spec import ModelSpec
from docai.vlm.videos import budget_videos


def spec(config: Config) -> ModelSpec:
    base = base_spec(config, "gemma4_text", conformer_hearing)
    if not config.get("vision_config"):
        return base
    vision = config.section("vision_config")
    tower = tower_spec(vision)
    return replace(base, vision=tower, connector=averager_spec(vision, tower, base.decoder.dims))


def rules(spec: ModelSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    seen = tower_rules(spec.vision) if isinstance(spec.vision, SandwichVitSpec) else UNSEEN
    return whole_rules(spec, seen, channels_last=channels_last)


_IMAGES = budget_images("position_embedding_size", 10_240, whole=False)

FAMILY = Family(
    "gemma4",
    ("gemma4",),
    spec,
    {dialect: partial(rules, channels_last=dialect == "mlx") for dialect in ("hf", "transformers", "mlx")},
    PROMPT,
    _IMAGES,
    text_only=True,
    videos=budget_videos(_IMAGES),
    sounds=mel_sounds,
)
