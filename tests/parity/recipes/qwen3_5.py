"""Qwen3.5: layers with a state between layers of attention, prompts longer than the chunks in which states go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.parity.recipes.kinds import Recipe, Variant
from tests.parity.recipes.qwen import (
    CLIP,
    QWEN_IDS,
    QWEN_IMAGES,
    QWEN_PROMPT,
    QWEN_TEXT,
    QWEN_VISION,
    STAMPED,
    mrope,
    qwen_recipe,
)
from tests.parity.recipes.text import WORDS

VISION = {**QWEN_VISION, "num_position_embeddings": 16}
TEXT = {
    **QWEN_TEXT, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4, "max_position_embeddings": 512,
    "rope_parameters": {**mrope(2, 1, 1, interleaved=True), "partial_rotary_factor": 0.5},
}  # fmt: skip
MOE = {
    **{k: v for k, v in TEXT.items() if k not in ("intermediate_size", "layer_types")}, "num_hidden_layers": 4,
    "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
    "linear_num_key_heads": 1, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 3,
}  # fmt: skip
LONG = tuple(5 + (n * n + 3 * n) % 89 for n in range(150))


def mlx_recipe(kind: str, text: Mapping[str, Any]) -> Recipe:
    """As mlx-vlm saves it: norms with the 1 in them, convolutions with their channels last, stacked experts."""
    fields = {k: v for k, v in text.items() if k != "layer_types"} | {"model_type": f"{kind}_text"}
    config = {
        "model_type": kind, "text_config": {**fields, "rms_norm_eps": 1e-6, "full_attention_interval": 2},
        "vision_config": {**VISION, "model_type": kind, "deepstack_visual_indexes": []}, **QWEN_IDS,
    }  # fmt: skip
    return Recipe(f"{kind}-mlx", f"mlx_vlm:{kind}", config, QWEN_PROMPT, QWEN_IMAGES, "qwen_mlx")


# The text half as MLX has it, and as it is published beside a head that guesses ahead.
TEXT_MLX = Variant(
    ((r"^model\.", "language_model.model."), (r"^lm_head", "language_model.lm_head")), channels_last=True,
    ones=r"layernorm\.|model\.norm\.|[qk]_norm\.",
)  # fmt: skip
NESTED = Variant(
    ((r"^model\.", "model.language_model."),), copies={"mtp.norm.weight": "model.language_model.norm.weight"}
)


def offset_recipe(name: str, oracle: str, text: Mapping[str, Any], **more: Any) -> Recipe:
    return qwen_recipe(name, oracle, text, VISION, norm_offset=True, **more)


QWEN_3_5 = (
    offset_recipe("qwen3_5", "Qwen3_5ForConditionalGeneration", TEXT),
    offset_recipe("qwen3_5-clip", "Qwen3_5ForConditionalGeneration", TEXT, tied=True, tokens=STAMPED, **CLIP),
    offset_recipe(
        "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", MOE, variants={"fused": Variant(experts="fused")}
    ),
    mlx_recipe("qwen3_5", TEXT),
    mlx_recipe("qwen3_5_moe", MOE),
    Recipe(
        "qwen3_5_text",
        "transformers:Qwen3_5ForCausalLM",
        {**TEXT, "attention_bias": True},
        LONG,
        norm_offset=True,
        variants={"mlx": TEXT_MLX, "nested": NESTED},
    ),
    Recipe("qwen3_5_moe_text", "transformers:Qwen3_5MoeForCausalLM", MOE, WORDS, norm_offset=True),
)
