"""Gemma 1-3, text only (Gemma Team 2025, arXiv:2503.19786)."""

from __future__ import annotations

from docai.vlm.families import Family
from docai.vlm.families.text import text_family

FAMILY: Family = text_family("gemma", ("gemma", "gemma2", "gemma3_text"), norm_offset=True)
