"""Cohere Compass (Cohere 2026): Qwen3-VL's tower under Cohere's decoder, whose kinds of layers turn each in its way."""

from __future__ import annotations

from docai.vlm.config import Config
from docai.vlm.expansions import Stamped
from docai.vlm.families import Family
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.families.cohere_vision import TURNS
from docai.vlm.positions import MropeSpec
from docai.vlm.prompt_spec import MediumPrompt, PromptSpec
from docai.vlm.spec import ModelSpec

_CLIPS = MediumPrompt(
    "<|VIDEO_PAD|>",
    "<|VIDEO_PAD|>",
    "<|VISION_START|><|VIDEO_PAD|><|VISION_END|>",
    Stamped("<|VISION_START|>", "<|VISION_END|>"),
)


def spec(config: Config) -> ModelSpec:
    config = config.with_defaults({"image_token_id": 255_031, "video_token_id": 255_032})
    decoder = qwen.decoder(config, "cohere_compass_text", {}, qwen.QWEN_3_SECTIONS, mixed=True)
    tower, merger = qwen.tapped_tower(config.section("vision_config"), decoder.dims)
    return qwen.model_spec(config, decoder, tower, merger, MropeSpec(tower.merge, stamped=True))


FAMILY = Family(
    "cohere_compass",
    ("cohere_compass",),
    spec,
    qwen.TAPPED,
    PromptSpec(
        placeholder="<|IMAGE_PAD|>",
        token="<|IMAGE_PAD|>",
        image="<|VISION_START|><|IMAGE_PAD|><|VISION_END|>",
        template=TURNS,
        clips=_CLIPS,
    ),
    qwen.TAPPED_IMAGES,
    text_only=True,
    videos=qwen.TAPPED_CLIPS,
)
