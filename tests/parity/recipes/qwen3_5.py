"""Qwen3.5: layers with a state between layers of attention, prompts longer than the chunks that states take in."""

from __future__ import annotations

from tests.parity.recipes.kinds import Recipe
from tests.parity.recipes.qwen import CLIP, QWEN_TEXT, QWEN_VISION, STAMPED, mlx_recipe, mrope, qwen_recipe
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
QWEN_3_5 = (
    qwen_recipe("qwen3_5", "Qwen3_5ForConditionalGeneration", TEXT, VISION, norm_offset=True),
    qwen_recipe(
        "qwen3_5-clip", "Qwen3_5ForConditionalGeneration", TEXT, VISION, norm_offset=True, tokens=STAMPED, **CLIP
    ),
    qwen_recipe("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", MOE, VISION, norm_offset=True),
    Recipe("qwen3_5_text", "transformers:Qwen3_5ForCausalLM", {**TEXT, "attention_bias": True}, LONG, norm_offset=True),
    Recipe("qwen3_5_moe_text", "transformers:Qwen3_5MoeForCausalLM", MOE, WORDS, norm_offset=True),
)
