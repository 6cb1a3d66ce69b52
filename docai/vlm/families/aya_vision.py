"""Aya Vision (Cohere 2025, arXiv:2505.08751): pictures in tiles and whole, read by Cohere2."""

from __future__ import annotations

from docai.vlm.config import Config
from docai.vlm.expansions import Parts
from docai.vlm.families import Family
from docai.vlm.families.cohere_vision import RULES, TURNS, model_spec
from docai.vlm.images import cut_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    return model_spec(config, config.get("vision_feature_layer", -1), None, normed=True)


FAMILY = Family(
    "aya_vision",
    ("aya_vision",),
    spec,
    RULES,
    PromptSpec(
        placeholder="<image>",
        token="<|IMG_PATCH|>",
        image="<image>",
        template=TURNS,
        expand=Parts("<|START_OF_IMG|>", "<|END_OF_IMG|>", "TILE_{}", "TILE_GLOBAL"),
    ),
    cut_images(edge=364, patch=14, merge=2, cut=True),
)
