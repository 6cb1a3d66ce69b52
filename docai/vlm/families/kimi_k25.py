"""Kimi K2.5 and K2.6 (Kimi Team 2026, arXiv:2602.02276): MoonViT over some frames at once, under Kimi K2."""

from __future__ import annotations

from functools import partial

from docai.vlm.expansions import Timed
from docai.vlm.families import Family, kimi
from docai.vlm.native_images import navit_images
from docai.vlm.prompt_spec import MediumPrompt
from docai.vlm.videos import chunk_videos

_VIDEO = "<|kimi_k25_video_placeholder|>"
_CLIPS = MediumPrompt(_VIDEO, kimi.PAD, f"{_VIDEO}\n", Timed("<|media_begin|>video<|media_content|>", "<|media_end|>"))

FAMILY = Family(
    "kimi_k25",
    ("kimi_k25",),
    partial(kimi.spec, clips=True),
    kimi.RULES,
    kimi.prompt_spec("<|media_begin|>", "<|media_end|>\n", _CLIPS),
    navit_images(),
    text_only=True,
    by_names=kimi.by_names,
    videos=chunk_videos(),
)
