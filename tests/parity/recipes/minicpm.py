"""MiniCPM-V 4.6: pictures and clips with slices and without, their patches merged twice or once."""

from __future__ import annotations

from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.qwen3_5 import TEXT
from tests.parity.recipes.text import WORDS
from tests.parity.recipes.towers import OLDER, SMALL_VIT

VISION = {**SMALL_VIT, "image_size": 22, "layer_norm_eps": 1e-5}
TEXT_PART = {**{k: v for k, v in TEXT.items() if k != "rope_parameters"}, "model_type": "qwen3_5_text"}
ROPE = {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
CONFIG = {
    "text_config": {**TEXT_PART, "rope_parameters": ROPE}, "vision_config": VISION, "insert_layer_id": 1,
    "image_token_id": 95, "video_token_id": 96, "image_size": 22,
}  # fmt: skip
CONFIG_MLX = {
    **CONFIG, "model_type": "minicpmv4_6", "vision_config": {**VISION, "model_type": "siglip_vision_model"},
    "text_config": {
        **{k: v for k, v in TEXT_PART.items() if k != "layer_types"}, "rope_parameters": ROPE, "rms_norm_eps": 1e-6,
        "full_attention_interval": 2,
    },
}  # fmt: skip
SLICED = [[1, 4, 8], [1, 8, 4], [1, 8, 4]]
# As mlx-vlm saves it: modules beside each other, norms of the text with the 1 in them.
MLX = Variant(
    (*OLDER, (r"^lm_head", "language_model.lm_head"), (r"^vision_tower\.vit_merger", "vit_merger")), CONFIG_MLX,
    channels_last=True, ones=r"language_model\.model\.(norm|.*layernorm|.*[qk]_norm)\.", mlx="minicpmv4_6",
)  # fmt: skip
EARLY = Variant(
    ((r"^model\.language_model\.", "llm.model."), (r"^lm_head", "llm.lm_head"), (r"^model\.vision_tower", "vpm")),
)
MINICPM = (
    Recipe(
        "minicpmv4_6", "transformers:MiniCPMV4_6ForConditionalGeneration", CONFIG,
        (5, 6, *(95,) * 2, 7, *(95,) * 2, 8, *(95,) * 2, 9, *WORDS, *(95,) * 6, 10, 11),
        (Image((96, 48), 6, extra={"grids": SLICED}), Image((96, 48), 6, extra={"grids": [[1, 8, 12]]})), "navit",
        norm_offset=True, variants={"mlx": MLX, "early": EARLY},
    ),
    Recipe(
        "minicpmv4_6-fine", "transformers:MiniCPMV4_6ForConditionalGeneration",
        {**CONFIG, "downsample_mode": "4x", "tie_word_embeddings": True},
        (5, 6, *(95,) * 6, 7, *(95,) * 2, 8, *WORDS), (Image((32, 48), 8, extra={"grids": [[1, 4, 6], [1, 4, 2]]}),),
        "navit", norm_offset=True,
    ),
    # a picture, and a clip of two frames in two slices
    Recipe(
        "minicpmv4_6-clip", "transformers:MiniCPMV4_6ForConditionalGeneration", CONFIG,
        (5, 6, *(95,) * 3, 7, 8, *(((*((96,) * 2), 9) * 3) * 2), *WORDS),
        (
            Image((48, 48), 3, extra={"grids": [[1, 4, 12]]}),
            Image((192, 48), 12, extra={"grids": SLICED * 2, "slices": [[1, 2]] * 2, "stamps": [0, 1]}),
        ),
        "navit", norm_offset=True,
    ),
)  # fmt: skip
