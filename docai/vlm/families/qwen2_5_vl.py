"""Qwen2.5-VL (Bai et al. 2025, arXiv:2502.13923)."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rule
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import Family
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.images import qwen_images
from docai.vlm.positions import MropeSpec
from docai.vlm.spec import ModelSpec

TEXT = {
    "vocab_size": 152_064, "hidden_size": 8192, "intermediate_size": 29_568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
    "max_position_embeddings": 32_768, "sliding_window": 4096, "max_window_layers": 80,
}  # fmt: skip
SECTIONS = (16, 24, 24)


def spec(config: Config) -> ModelSpec:
    decoder = qwen.decoder(config, "qwen2", TEXT, SECTIONS, mixed=False)
    vision = config.section("vision_config")
    width, patch = vision.get("hidden_size", 1280), vision.get("patch_size", 14)
    merge = vision.get("spatial_merge_size", 2)
    tower = PackedVitSpec(
        width,
        vision.get("depth", 32),
        vision.get("num_heads", 16),
        MlpSpec(vision.get("intermediate_size", 3420), vision.get("hidden_act", "silu"), bias=True),
        patch,
        frames=vision.get("temporal_patch_size", 2),
        channels=vision.get("in_channels", vision.get("in_chans", 3)),
        merge=merge,
        norm="rms",
        window=vision.get("window_size", 112) // merge // patch,
        full_layers=tuple(vision.get("fullatt_block_indexes", (7, 15, 23, 31))),
    )
    merger = MergerSpec(width, vision.get("out_hidden_size", decoder.dims), merge**2, norm="rms")
    return qwen.model_spec(
        config, decoder, tower, merger, MropeSpec(merge, per_second=vision.get("tokens_per_second", 4))
    )


def rules(model: ModelSpec, names: qwen.Names) -> tuple[Rule, ...]:
    return qwen.rules(model, names, qwen.GATED, qwen.SEQUENTIAL)


FAMILY = Family(
    "qwen2_5_vl",
    ("qwen2_5_vl",),
    spec,
    {
        "hf": partial(rules, names=qwen.FLAT),
        "transformers": partial(rules, names=qwen.NESTED),
        "mlx": partial(rules, names=qwen.MLX),
    },
    qwen.prompt_spec(system=True),
    qwen_images(),
)
