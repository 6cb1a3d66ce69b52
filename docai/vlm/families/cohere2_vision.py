"""Command A Vision (Cohere 2025, cohere.com/blog/command-a-vision): the relative of Aya Vision, with other tiles."""

from __future__ import annotations

from docai.preprocess.tiles import CanvasCuts
from docai.vlm.config import Config
from docai.vlm.expansions import Parts
from docai.vlm.families import Family
from docai.vlm.families.cohere_vision import RULES, TURNS, model_spec
from docai.vlm.images import cut_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    return model_spec(config, None, 36_864, normed=False)


FAMILY = Family(
    "cohere2_vision",
    ("cohere2_vision",),
    spec,
    RULES,
    PromptSpec(
        placeholder="<|IMG_PATCH|>",
        token="<|IMG_PATCH|>",
        image="<|IMG_PATCH|>",
        template=TURNS,
        expand=Parts("<|START_OF_IMG|>", "<|END_OF_IMG|>", end="<|IMG_LINE_BREAK|>"),
    ),
    cut_images(edge=512, patch=16, merge=2, cut=True, kind=CanvasCuts),
)
