"""Gemma 4 and Gemma 4 Unified: text, images and clips."""

from __future__ import annotations

from tests.parity.recipes.kinds import Recipe
from tests.parity.recipes.text import WORDS

TEXT = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 5, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16, "max_position_embeddings": 128, "bos_token_id": 1,
    "eos_token_id": 2, "sliding_window": 6, "final_logit_softcapping": 3.0,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
}  # fmt: skip
# As the small ones: the last layers see the keys of layers before them, and all take in embeddings of their own.
SMALL = {
    **TEXT, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": 100,
}  # fmt: skip
# As the large ones: experts beside a dense block, values that are keys.
MIXED = {
    **TEXT, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 5, "top_k_experts": 2,
    "moe_intermediate_size": 24, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
}  # fmt: skip

GEMMA_4 = (
    Recipe("gemma4_text", "transformers:Gemma4ForCausalLM", SMALL, WORDS),
    Recipe("gemma4_text-moe", "transformers:Gemma4ForCausalLM", MIXED, WORDS),
)
