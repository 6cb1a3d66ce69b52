"""Cohere Compass (Cohere 2026): Qwen3-VL's tower under Cohere's decoder, whose kinds of layers turn each in its way."""

from __future__ import annotations

from docai.preprocess.normalize import HALF
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.families.cohere_vision import TURNS
from docai.vlm.images import qwen_images
from docai.vlm.positions import MropeSpec
from docai.vlm.prompt import ClipPrompt, PromptSpec, Stamped
from docai.vlm.spec import ModelSpec
from docai.vlm.videos import qwen_videos

_CLIPS = ClipPrompt(
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
    qwen_images(patch=16, mean=HALF, std=HALF, least_pixels=256**2, most_pixels=4096**2),
    text_only=True,
    videos=qwen_videos(patch=16, mean=HALF, std=HALF, whole=True, most_tokens=768),
)
