"""SigLIP 2 over pictures of any size, and convolutions: a picture of two parts, and one of one."""

from __future__ import annotations

from dataclasses import replace

from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.text import TEXT, WORDS
from tests.parity.recipes.towers import OLDER, SIGLIP_VIT

NAFLEX_VIT = {**SIGLIP_VIT, "model_type": "siglip2_vision_model", "num_patches": 25, "vision_use_head": False}
LFM_TEXT = {
    **{k: v for k, v in TEXT.items() if k != "head_dim"}, "model_type": "lfm2", "num_hidden_layers": 3,
    "layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False, "conv_L_cache": 3,
    "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}  # fmt: skip
LFM_MLX = {
    "model_type": "lfm2-vl", "vision_config": NAFLEX_VIT, "image_token_index": 95, "projector_hidden_size": 40,
    "downsample_factor": 2,
    "text_config": {
        **{k: v for k, v in LFM_TEXT.items() if k not in ("rope_parameters", "layer_types")}, "rope_theta": 1000.0,
        "block_dim": 32, "block_ff_dim": 48, "full_attn_idxs": [1],
    },
}  # fmt: skip
LFM = Recipe(
    "lfm2_vl", "transformers:Lfm2VlForConditionalGeneration",
    {"text_config": LFM_TEXT, "vision_config": NAFLEX_VIT, "image_token_id": 95, "projector_hidden_size": 40},
    (5, 6, *(95,) * 6, 7, *(95,) * 2, 8, *(95,) * 15, *WORDS),
    (
        Image((32, 48), 8, extra={"grids": [[1, 4, 6], [1, 4, 2]]}),
        Image((60, 48), 15, (1, 6, 10)),
    ),
    "naflex",
    variants={"mlx": Variant(OLDER, LFM_MLX, channels_last=True, mlx="lfm2_vl")},
)  # fmt: skip
LFM_BARE = replace(
    LFM, name="lfm2_vl-bare", variants={}, seed=2,
    config={
        **LFM.config, "projector_use_layernorm": False, "projector_bias": False,
        "text_config": {
            **LFM_TEXT, "conv_bias": True, "conv_L_cache": 4, "block_auto_adjust_ff_dim": True, "block_multiple_of": 20,
        },
    },
)  # fmt: skip
ANY_SIZE = (LFM, LFM_BARE)
