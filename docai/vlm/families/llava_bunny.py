"""nanoLLaVA, made as Bunny is (He et al. 2024, arXiv:2402.11530): SigLIP, a projector of two layers, and Qwen2."""

from __future__ import annotations

from docai.vlm.families.bunny import bunny_family
from docai.vlm.families.text import CHATML

FAMILY = bunny_family("llava_bunny", "llava-qwen2", "qwen2", CHATML)
