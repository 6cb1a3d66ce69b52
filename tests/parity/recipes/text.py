"""Text-only models."""

from __future__ import annotations

from tests.parity.recipes.kinds import Recipe

TEXT = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0, "tie_word_embeddings": False,
}  # fmt: skip
WORDS = tuple(range(5, 25))
LLAMA_3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32}
LONG = {
    "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0 + 0.1 * i for i in range(3)],
    "long_factor": [2.0 + 0.5 * i for i in range(3)], "original_max_position_embeddings": 16, "factor": 8.0,
    "partial_rotary_factor": 0.75,
}  # fmt: skip
GEMMA = {**TEXT, "tie_word_embeddings": True, "query_pre_attn_scalar": 24, "sliding_window": 6}

TEXTS = (
    Recipe("llama", "transformers:LlamaForCausalLM", {**TEXT, "attention_bias": True, "mlp_bias": True}, WORDS),
    Recipe("llama-llama3", "transformers:LlamaForCausalLM", {**TEXT, "rope_parameters": LLAMA_3}, WORDS),
    Recipe("llama-yarn", "transformers:LlamaForCausalLM", {**TEXT, "rope_parameters": YARN}, WORDS),
    Recipe("mistral", "transformers:MistralForCausalLM", {**TEXT, "sliding_window": 6}, WORDS),
    Recipe(
        "phi3", "transformers:Phi3ForCausalLM",
        {**TEXT, "head_dim": 8, "rope_parameters": LONG, "original_max_position_embeddings": 16}, WORDS,
    ),
    Recipe("qwen2", "transformers:Qwen2ForCausalLM", {**TEXT, "tie_word_embeddings": True}, WORDS),
    Recipe(
        "qwen2-window", "transformers:Qwen2ForCausalLM",
        {**TEXT, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}, WORDS,
    ),
    Recipe("qwen3", "transformers:Qwen3ForCausalLM", TEXT, WORDS),
    Recipe(
        "qwen3_moe", "transformers:Qwen3MoeForCausalLM",
        {**TEXT, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True,
         "num_hidden_layers": 3, "mlp_only_layers": [1]}, WORDS,
    ),
    Recipe("gemma", "transformers:GemmaForCausalLM", {**TEXT, "tie_word_embeddings": True}, WORDS, norm_offset=True),
    Recipe(
        "gemma2", "transformers:Gemma2ForCausalLM",
        {**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}, WORDS, norm_offset=True,
    ),
    Recipe(
        "gemma3_text", "transformers:Gemma3ForCausalLM", {**GEMMA, "num_hidden_layers": 6}, WORDS, norm_offset=True,
    ),
)  # fmt: skip
