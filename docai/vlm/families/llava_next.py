"""LLaVA 1.6 (Liu et al. 2024, llava-vl.github.io/blog/2024-01-30-llava-next): pictures whole and in tiles."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rename
from docai.vlm.families import Family
from docai.vlm.families.nested import LLAVA_PROMPT, TWO_LAYERS, llava_spec, nested_rules
from docai.vlm.images import tiled_images

FAMILY = Family(
    "llava_next",
    ("llava_next",),
    partial(llava_spec, tiled=True),
    nested_rules((*TWO_LAYERS, Rename("image_newline", "connector.newline"))),
    LLAVA_PROMPT,
    tiled_images(),
)
