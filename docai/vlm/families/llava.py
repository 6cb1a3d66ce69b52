"""LLaVA 1.5 (Liu et al. 2023, arXiv:2310.03744), over CLIP or SigLIP."""

from __future__ import annotations

from functools import partial

from docai.vlm.families import Family
from docai.vlm.families.nested import TWO_LAYERS, VICUNA, llava_spec, nested_rules
from docai.vlm.images import llava_images
from docai.vlm.prompt import PromptSpec

FAMILY = Family(
    "llava",
    ("llava",),
    partial(llava_spec, tiled=False),
    nested_rules(TWO_LAYERS),
    PromptSpec(placeholder="<image>", token="<image>", image="<image>\n", template=VICUNA),
    llava_images(),
)
