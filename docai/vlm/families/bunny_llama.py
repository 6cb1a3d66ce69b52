"""Bunny over Llama 3 (He et al. 2024, arXiv:2402.11530), which was taught in the turns of Vicuna."""

from __future__ import annotations

from docai.vlm.families.bunny import bunny_family
from docai.vlm.families.nested import VICUNA

# Not those of Llama 3, which its tokenizer has kept as its chat template.
_TURNS = (
    "{% if messages[0].role != 'system' %}A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. {% endif %}" + VICUNA
)

FAMILY = bunny_family("bunny_llama", "bunny-llama", "llama", _TURNS, fixed=True)
