"""Phi-3 and Phi-4-mini, text only (Abdin et al. 2024, arXiv:2404.14219)."""

from __future__ import annotations

from docai.vlm.families import Family
from docai.vlm.families.text import text_family

FAMILY: Family = text_family("phi3", ("phi3",))
