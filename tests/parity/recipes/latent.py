"""Latent attention and experts behind a router of sigmoids: DeepSeek-V3, Kimi-VL and Kimi K2.5, Youtu-VL's option."""

from __future__ import annotations

from dataclasses import replace

from tests.parity.recipes.documents import MOONVIT
from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.only_mlx import PUBLISHED_YOUTU, YOUTU
from tests.parity.recipes.qwen import QWEN_PROMPT
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
# MoonViT under it. Kimi-VL is an export of mlx-vlm's, whose names for sizes stand beside those of published files, and
# whose matrices of keys and values are one, also where they are quantized (so rows of a number that can be).
KIMI_TEXT = {
    **{k: v for k, v in DEEPSEEK.items() if not k.endswith("token_id")}, "model_type": "deepseek_v3",
    "num_hidden_layers": 2, "n_group": 1, "topk_group": 1, "rope_theta": 500.0,
}  # fmt: skip
KIMI = {
    "model_type": "kimi_vl", "media_placeholder_token_id": 95, "text_config": {**KIMI_TEXT, "kv_lora_rank": 64},
    "vision_config": {**MOONVIT, "depth": 2, "embed_dim": 32, "num_heads": 2},
}  # fmt: skip
KIMI_PROMPT = (5, 6, 93, *(95,) * 6, 94, 7, 8, 93, *(95,) * 10, 94, 9, 10, 11, 12)
KIMI_IMAGES = (Image((24, 48), 6, (1, 4, 6)), Image((40, 48), 10, (1, 10, 4)))
KIMI_VL = Recipe(
    "kimi_vl", "mlx_vlm:kimi_vl", KIMI, KIMI_PROMPT, KIMI_IMAGES, "moonvit",
    variants={
        "published": Variant(
            (
                (r"^vision_tower\.(blocks\.\d+\.)attn\.", r"vision_tower.encoder.\1"),
                (r"^vision_tower\.(blocks|final_layernorm)", r"vision_tower.encoder.\1"),
            ),
            {**KIMI, "vision_config": MOONVIT}, channels_first=True, experts="apart",
        ),
    },
)  # fmt: skip
# Frames of a clip, each with a grid of its own, as one run of tokens.
KIMI_CLIP = replace(
    KIMI_VL, name="kimi_vl-clip", variants={}, seed=2, tokens=(5, 93, *(95,) * 18, 94, 7, 8, *WORDS[:5]),
    images=(Image((72, 48), 18, extra={"grids": [[1, 4, 6]] * 3, "stamps": [0, 1, 2]}),),
)  # fmt: skip
K25 = {
    "text_config": {**{k: v for k, v in KIMI_TEXT.items() if k != "rope_theta"}, "rope_parameters": YARN},
    "vision_config": {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4,
        "pos_emb_height": 8, "pos_emb_width": 8,
    },
    "projection_hidden_size": 32, "image_token_id": 95, "video_token_id": 96, "tie_word_embeddings": False,
}  # fmt: skip
# What transformers 5.24 saves has names that are neither its own nor the published ones.
SAVED_K25 = (
    (r"^language_model\.model\.blocks", "language_model.model.layers"), (r"^model\.mm_projector", "mm_projector"),
    (r"^vision_tower\.encoder\.patch_embed", "vision_tower.patch_embed"),
)  # fmt: skip
PUBLISHED_K25 = {
    "model_type": "kimi_k25", "media_placeholder_token_id": 95,
    "text_config": {**K25["text_config"], "model_type": "kimi_k2"},
    "vision_config": {
        "vt_hidden_size": 32, "vt_intermediate_size": 48, "vt_num_hidden_layers": 2, "vt_num_attention_heads": 2,
        "patch_size": 4, "init_pos_emb_height": 8, "init_pos_emb_width": 8, "init_pos_emb_time": 4,
        "merge_kernel_size": [2, 2], "mm_hidden_size": 32, "text_hidden_size": 32, "projector_ln_eps": 1e-5,
    },
}  # fmt: skip
MLX_K25 = {
    "model_type": "kimi_k25", "media_placeholder_token_id": 95, "vision_config": KIMI["vision_config"],
    "text_config": {**KIMI_TEXT, "rope_scaling": YARN},
}  # fmt: skip
KIMI_K25 = Recipe(
    "kimi_k25", "transformers:Kimi_K25ForConditionalGeneration", K25, KIMI_PROMPT, KIMI_IMAGES, "moonvit_steps",
    variants={
        "published": Variant(SAVED_K25, PUBLISHED_K25),
        "mlx": Variant(
            (
                *SAVED_K25, (r"^vision_tower\.encoder\.(blocks\.\d+\.)w", r"vision_tower.\1attn.w"),
                (r"^vision_tower\.encoder\.", "vision_tower."),
            ),
            MLX_K25, channels_last=True, experts="stacked", latents_apart=KV_B, mlx="kimi_k25",
        ),
    },
)  # fmt: skip
# An image, and a clip of six frames: four are seen together, and the two that are left.
K25_CLIP = replace(
    KIMI_K25, name="kimi_k25-clip", variants={}, seed=2,
    tokens=(5, 6, 93, *(95,) * 6, 94, 7, 93, *(96,) * 6, 94, 8, 93, *(96,) * 6, 94, 9, 10, 11),
    images=(
        Image((24, 48), 6, (1, 4, 6)),
        Image((144, 48), 12, extra={"grids": [[4, 4, 6], [2, 4, 6]], "stamps": [0, 2]}),
    ),
)  # fmt: skip
# Youtu-VL with experts, which mlx-vlm has for models to come.
YOUTU_EXPERTS = Recipe(
    "youtu_vl-experts", "mlx_vlm:youtu_vl",
    {
        **YOUTU, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 20,
        "n_group": 3, "topk_group": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.3,
    },
    QWEN_PROMPT, (Image((60, 48), 15, (1, 6, 10)), Image((32, 48), 8, (1, 8, 4))), "flat",
    variants={"published": replace(PUBLISHED_YOUTU, experts="apart")},
)  # fmt: skip
LATENT = (
    KIMI_VL,
    KIMI_CLIP,
    KIMI_K25,
    K25_CLIP,
    YOUTU_EXPERTS,
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
