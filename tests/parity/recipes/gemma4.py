"""Gemma 4 and Gemma 4 Unified: text, images and clips."""

from __future__ import annotations

from typing import Any

from tests.parity.recipes.kinds import Image, Recipe, Variant
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

# What mlx-vlm would otherwise take from the smallest model.
EXPORTED = {
    **MIXED, "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "use_bidirectional_attention": None,
    "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}  # fmt: skip
# Heads that together are wider than the rows.
VISION = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 16, "pooling_kernel_size": 2, "patch_size": 4, "position_embedding_size": 16,
}  # fmt: skip
CLIPPED = {**VISION, "use_clipped_linears": True, "standardize": True}
PATCHES = {
    "patch_size": 2, "pooling_kernel_size": 2, "mm_embed_dim": 24, "output_proj_dims": 24, "mm_posemb_size": 16,
    "model_patch_size": 4,
}  # fmt: skip
UNIFIED = {**TEXT, "num_kv_shared_layers": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
TOKENS = {"image_token_id": 95, "video_token_id": 96, "audio_token_id": 97}
# More tokens than a window holds, and fewer.
IMAGES = (Image((32, 48), 8, (1, 4, 8)), Image((24, 48), 6, (1, 6, 4)))
PROMPT = (5, 93, *(95,) * 8, 94, 7, 93, *(95,) * 6, 94, *WORDS)
CLIP = Image((48, 48), 12, extra={"grids": [[1, 4, 4]] * 3, "stamps": [0.0, 1.5, 61.0]})
CLIP_PROMPT = (5, *(8, 93, *(96,) * 4, 94) * 3, 6, 93, *(95,) * 8, 94, *WORDS)
PATCH_IMAGES = (Image((8, 48), 8, (1, 2, 4)), Image((6, 48), 6, (1, 3, 2)))
PATCH_CLIP = Image((12, 48), 12, extra={"grids": [[1, 2, 2]] * 3, "stamps": [0.0, 1.5, 61.0]})
ORACLE, UNIFIED_ORACLE = "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"


def seeing(
    name: str,
    oracle: str,
    text: dict[str, Any],
    vision: dict[str, Any],
    images: tuple[Image, ...],
    mlx: str = "",
    seed: int = 1,
) -> Recipe:
    tokens = CLIP_PROMPT if len(images) > 1 and "stamps" in images[0].extra else PROMPT
    config = {"text_config": text, "vision_config": vision, **TOKENS}
    exported = {"model_type": mlx, **config, "audio_config": None}
    variants = {"mlx": Variant(MLX_NAMES, exported, mlx=mlx)} if mlx else {}
    return Recipe(name, f"transformers:{oracle}", config, tokens, images, "placed", variants=variants, seed=seed)


MLX_NAMES = (
    (r"^model\.language_model\.", "language_model.model."),
    (r"^model\.", ""),
    (r"experts\.(gate_up|down)_proj$", r"experts.switch_glu.\1_proj.weight"),
)
GEMMA_4 = (
    Recipe("gemma4_text", "transformers:Gemma4ForCausalLM", SMALL, WORDS),
    Recipe("gemma4_text-moe", "transformers:Gemma4ForCausalLM", MIXED, WORDS),
    seeing("gemma4", ORACLE, SMALL, CLIPPED, IMAGES, "gemma4", seed=3),
    seeing("gemma4-moe", ORACLE, {**MIXED, "use_bidirectional_attention": "vision"}, VISION, IMAGES),
    seeing("gemma4-clip", ORACLE, SMALL, CLIPPED, (CLIP, IMAGES[0])),
    seeing("gemma4-moe-clip", ORACLE, {**MIXED, "use_bidirectional_attention": "vision"}, VISION, (CLIP, IMAGES[0])),
    Recipe(
        "gemma4-moe-mlx",
        "mlx_vlm:gemma4",
        {"model_type": "gemma4", "text_config": EXPORTED, "vision_config": VISION, "audio_config": None, **TOKENS},
        PROMPT,
        IMAGES,
        "placed",
    ),
    seeing("gemma4_unified", UNIFIED_ORACLE, UNIFIED, PATCHES, PATCH_IMAGES, "gemma4_unified"),
    seeing("gemma4_unified-clip", UNIFIED_ORACLE, UNIFIED, PATCHES, (PATCH_CLIP, PATCH_IMAGES[0])),
)
