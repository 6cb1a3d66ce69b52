"""Qwen2.5-VL (Bai et al. 2025, arXiv:2502.13923)."""

from __future__ import annotations

from dataclasses import replace

from docai.nn.mlp import MlpSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.positions import MropeSpec
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    decoder = qwen.decoder(config, "qwen2", qwen.QWEN_2, qwen.QWEN_2_SECTIONS, mixed=False)
    vision = config.section("vision_config")
    hidden = vision.get("hidden_size", 1280)
    mlp = MlpSpec(vision.get("intermediate_size", 3420), vision.get("hidden_act", "silu"), bias=True)
    tower = qwen.tower(vision, hidden, mlp, norm="rms")
    window_px, whole = vision.get("window_size", 112), vision.get("fullatt_block_indexes", (7, 15, 23, 31))
    tower = replace(tower, window=window_px // tower.merge // tower.patch, full_layers=tuple(whole))
    merger = MergerSpec(hidden, vision.get("out_hidden_size", decoder.dims), tower.merge**2, norm="rms")
    per_second = vision.get("tokens_per_second", 4)
    return qwen.model_spec(config, decoder, tower, merger, MropeSpec(tower.merge, per_second=per_second))


FAMILY = qwen.second_family("qwen2_5_vl", spec, mlp=qwen.GATED)
