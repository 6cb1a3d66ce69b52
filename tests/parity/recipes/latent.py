"""Latent attention and experts behind a router of sigmoids: DeepSeek-V3."""

from __future__ import annotations

from dataclasses import replace

from tests.parity.recipes.kinds import Recipe, Variant
from tests.parity.recipes.text import TEXT, WORDS

# Rows of 40 numbers: prompts of more than ten tokens are read with keys and values expanded from them, steps are not.
DEEPSEEK = {
    **{k: v for k, v in TEXT.items() if k not in ("head_dim", "num_key_value_heads")}, "num_hidden_layers": 3,
    "num_key_value_heads": 4, "kv_lora_rank": 40, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 6,
    "v_head_dim": 10, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 2, "n_group": 3,
    "topk_group": 2, "moe_intermediate_size": 20, "first_k_dense_replace": 1, "routed_scaling_factor": 1.7,
    "rms_norm_eps": 1e-5,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 0.8,
    "mscale_all_dim": 0.6, "beta_fast": 32.0, "beta_slow": 1.0,
}  # fmt: skip
KV_B = (DEEPSEEK["num_attention_heads"], DEEPSEEK["qk_nope_head_dim"], DEEPSEEK["v_head_dim"])

DEEPSEEK_V3 = Recipe(
    "deepseek_v3", "transformers:DeepseekV3ForCausalLM", {**DEEPSEEK, "rope_parameters": YARN}, WORDS,
    variants={
        "mlx": Variant(experts="stacked", latents_apart=KV_B),
        "fused": Variant(experts="fused"),
    },
)  # fmt: skip
LATENT = (
    DEEPSEEK_V3,
    replace(
        DEEPSEEK_V3, name="deepseek_v3-direct", variants={}, seed=3,
        config={
            **DEEPSEEK, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False,
            "num_experts_per_tok": 3, "n_shared_experts": 1, "attention_bias": True, "first_k_dense_replace": 0,
            "kv_lora_rank": 16,
        },
    ),
)  # fmt: skip
