"""Llama 1-3 and Mistral, text only (Touvron et al. 2023, arXiv:2302.13971; Jiang et al. 2023, arXiv:2310.06825)."""

from __future__ import annotations

from docai.vlm.families import Family
from docai.vlm.families.text import text_family

FAMILY: Family = text_family("llama", ("llama", "mistral"))
