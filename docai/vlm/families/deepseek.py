"""DeepSeek-V3 (DeepSeek-AI 2024, arXiv:2412.19437) and what is built like it (Kimi K2, Moonlight), text only."""

from __future__ import annotations

from dataclasses import replace

from docai.vlm.families import Family
from docai.vlm.families.decoder_rules import key_rows_by_names
from docai.vlm.families.text import text_family

FAMILY: Family = replace(text_family("deepseek", ("deepseek_v3", "kimi_k2")), by_names=key_rows_by_names)
