"""Qwen3-VL, dense and with experts (Bai et al. 2025, arXiv:2511.21631)."""

from __future__ import annotations

from docai.checkpoint.dialect import Rule, Transpose
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families import qwen_vision as qwen
from docai.vlm.positions import MropeSpec
from docai.vlm.spec import ModelSpec

_TEXT = {
    "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 128_000,
}  # fmt: skip
_MOE = {
    "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
    "num_attention_heads": 16, "rope_theta": 5e5, "max_position_embeddings": 128_000, "moe_intermediate_size": 1408,
    "num_experts_per_tok": 4, "num_experts": 60, "norm_topk_prob": True,
}  # fmt: skip


def spec(config: Config) -> ModelSpec:
    moe = config.get("model_type") == "qwen3_vl_moe"
    decoder = qwen.decoder(
        config, "qwen3_moe" if moe else "qwen3", _MOE if moe else _TEXT, qwen.QWEN_3_SECTIONS, mixed=True
    )
    tower, merger = qwen.tapped_tower(config.section("vision_config"), decoder.dims)
    return qwen.model_spec(config, decoder, tower, merger, MropeSpec(tower.merge, stamped=True))


def hub_rules(model: ModelSpec) -> tuple[Rule, ...]:
    """The published experts are stored input by output; transformers 5 saves them output by input."""
    experts = f"{qwen.NESTED.model}layers.{{i}}.mlp.experts."
    turned = (Transpose(f"{experts}gate_up_proj", (0, 2, 1)), Transpose(f"{experts}down_proj", (0, 2, 1)))
    return (*turned, *qwen.TAPPED["hf"](model))


FAMILY = Family(
    "qwen3_vl",
    ("qwen3_vl", "qwen3_vl_moe"),
    spec,
    {**qwen.TAPPED, "hf": hub_rules},
    qwen.prompt_spec(system=False, clips=qwen.STAMPED_CLIPS),
    qwen.TAPPED_IMAGES,
    text_only=True,
    videos=qwen.TAPPED_CLIPS,
)
