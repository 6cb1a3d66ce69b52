"""LLaVA 1.5 (Liu et al. 2023, arXiv:2310.03744), over CLIP or SigLIP."""

from __future__ import annotations

from functools import partial

from docai.vlm.families import Family
from docai.vlm.families.nested import LLAVA_PROMPT, TWO_LAYERS, llava_spec, nested_rules
from docai.vlm.images import llava_images

FAMILY = Family(
    "llava",
    ("llava",),
    partial(llava_spec, tiled=False),
    nested_rules(TWO_LAYERS),
    LLAVA_PROMPT,
    llava_images(),
)
