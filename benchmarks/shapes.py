"""Configs of published models, whose shapes the benchmarks fill with random weights."""

from __future__ import annotations

from typing import Any

QWEN_2_5_VL_3B = {
    "model_type": "qwen2_5_vl", "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
    "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 128000,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True, "image_token_id": 151655,
    "video_token_id": 151656, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {
        "model_type": "qwen2_5_vl", "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
        "patch_size": 14, "out_hidden_size": 2048, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
        "spatial_merge_size": 2, "temporal_patch_size": 2, "tokens_per_second": 2,
    },
}  # fmt: skip
QWEN_3_VL_4B = {
    "model_type": "qwen3_vl", "image_token_id": 151655, "video_token_id": 151656, "vision_start_token_id": 151652,
    "vision_end_token_id": 151653, "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "rope_theta": 5e6, "tie_word_embeddings": True,
        "attention_bias": False, "hidden_act": "silu",
        "rope_scaling": {
            "rope_type": "default", "type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True,
        },
    },
    "vision_config": {
        "model_type": "qwen3_vl", "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
        "patch_size": 16, "out_hidden_size": 2560, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "num_position_embeddings": 2304, "deepstack_visual_indexes": [5, 11, 17], "in_channels": 3,
        "hidden_act": "gelu_pytorch_tanh",
    },
}  # fmt: skip
QWEN_3_0_6B = {
    "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True,
    "attention_bias": False,
}  # fmt: skip
LLAMA_1B = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "tie_word_embeddings": True,
}  # fmt: skip
QWEN_3_5_0_8B = {
    "model_type": "qwen3_5", "image_token_id": 248056, "video_token_id": 248057, "vision_start_token_id": 248053,
    "vision_end_token_id": 248054, "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320,
        "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "attention_bias": False,
        "hidden_act": "silu", "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 16,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "rope_parameters": {
            "type": "default", "mrope_section": [11, 11, 10], "mrope_interleaved": True, "rope_theta": 1e7,
            "partial_rotary_factor": 0.25,
        },
    },
    "vision_config": {
        "model_type": "qwen3_5", "depth": 12, "hidden_size": 768, "intermediate_size": 3072, "num_heads": 12,
        "patch_size": 16, "out_hidden_size": 1024, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "num_position_embeddings": 2304, "deepstack_visual_indexes": [], "in_channels": 3,
        "hidden_act": "gelu_pytorch_tanh",
    },
}  # fmt: skip
LFM_2_VL_450M = {
    "model_type": "lfm2-vl", "image_token_index": 65000, "projector_hidden_size": 2560, "downsample_factor": 2,
    "vision_feature_layer": -1,
    "text_config": {
        "model_type": "lfm2", "hidden_size": 1024, "num_hidden_layers": 16, "intermediate_size": 6656,
        "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000,
        "norm_eps": 1e-5, "rope_theta": 1e6, "conv_L_cache": 3, "block_ff_dim": 6656, "block_auto_adjust_ff_dim": True,
        "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    },
    "vision_config": {
        "model_type": "lfm2_vl", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "patch_size": 16, "num_patches": 256,
    },
}  # fmt: skip
NANOLLAVA_1_5 = {
    "model_type": "llava-qwen2", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True, "mm_hidden_size": 1152,
    "mm_vision_tower": "google/siglip-so400m-patch14-384", "mm_projector_type": "mlp2x_gelu", "auto_map": {},
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "image_size": 384, "patch_size": 14,
    },
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> (peer, config)
    "qwen2.5-vl-3b": ("mlx_vlm", QWEN_2_5_VL_3B),
    "qwen3-vl-4b": ("mlx_vlm", QWEN_3_VL_4B),
    "qwen3-0.6b": ("mlx_lm", QWEN_3_0_6B),
    "llama-1b": ("mlx_lm", LLAMA_1B),
    "qwen3.5-0.8b": ("mlx_vlm", QWEN_3_5_0_8B),
    "lfm2-vl-450m": ("mlx_vlm", LFM_2_VL_450M),
    "nanollava-1.5": ("mlx_vlm", NANOLLAVA_1_5),
}
