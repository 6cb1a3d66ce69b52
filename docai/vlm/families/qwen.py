"""Qwen2, Qwen2.5, Qwen3 and Qwen3-MoE, text only (Yang et al. 2025, arXiv:2505.09388)."""

from __future__ import annotations

from docai.vlm.families import Family
from docai.vlm.families.text import text_family

FAMILY: Family = text_family("qwen", ("qwen2", "qwen3", "qwen3_moe"))
