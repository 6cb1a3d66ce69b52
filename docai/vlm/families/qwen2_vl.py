"""Qwen2-VL (Wang et al. 2024, arXiv:2409.12191)."""

from __future__ import annotations

from docai.nn.mlp import MlpSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.positions import MropeSpec
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    decoder = qwen.decoder(config, "qwen2", qwen.QWEN_2, qwen.QWEN_2_SECTIONS, mixed=False)
    vision = config.section("vision_config")
    hidden = vision.get("embed_dim", 1280)
    width, activation = int(hidden * vision.get("mlp_ratio", 4)), vision.get("hidden_act", "quick_gelu")
    tower = qwen.tower(vision, hidden, MlpSpec(width, activation, gated=False, bias=True))
    merger = MergerSpec(hidden, vision.get("hidden_size", decoder.dims), tower.merge**2)
    return qwen.model_spec(config, decoder, tower, merger, MropeSpec(tower.merge))


FAMILY = qwen.second_family("qwen2_vl", spec, mlp=qwen.NUMBERED)
