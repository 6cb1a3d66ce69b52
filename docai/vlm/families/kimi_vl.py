"""Kimi-VL (Kimi Team 2025, arXiv:2504.07491): MoonViT under a small decoder of DeepSeek-V3's kind."""

from __future__ import annotations

from functools import partial

from docai.vlm.expansions import Between
from docai.vlm.families import Family, kimi
from docai.vlm.native_images import moonshot_images
from docai.vlm.prompt_spec import MediumPrompt
from docai.vlm.videos import frame_videos

_VIDEO = f"video<|media_content|>{kimi.PAD}"
_CLIPS = MediumPrompt(_VIDEO, kimi.PAD, f"<|media_start|>{_VIDEO}<|media_end|>", Between("video<|media_content|>", ""))

FAMILY = Family(
    "kimi_vl",
    ("kimi_vl",),
    partial(kimi.spec, clips=False),
    kimi.RULES,
    kimi.prompt_spec("<|media_start|>", "<|media_end|>", _CLIPS),
    moonshot_images(),
    text_only=True,
    by_names=kimi.by_names,
    videos=frame_videos(),
)
