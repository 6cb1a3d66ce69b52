"""The Qwen-VL line: two images of different grids; patches of 4 pixels, 2 frames deep, 96 numbers each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.text import TEXT, WORDS

QWEN_IMAGES = (Image((60, 96), 15, (1, 6, 10)), Image((32, 96), 8, (1, 8, 4)))
QWEN_PROMPT = (5, 6, 93, *(95,) * 15, 94, 7, 8, 9, 93, *(95,) * 8, 94, 10, 11, 12)
QWEN_IDS = {"image_token_id": 95, "video_token_id": 96, "vision_start_token_id": 93, "vision_end_token_id": 94}
QWEN_TEXT = {**TEXT, "hidden_size": 64}
QWEN_2_TEXT = {k: v for k, v in QWEN_TEXT.items() if k != "head_dim"}
QWEN_VISION = {
    "depth": 3, "hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 64, "num_heads": 2, "patch_size": 4,
    "in_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip


def mrope(*sections: int, interleaved: bool = False) -> dict[str, Any]:
    more = {"mrope_interleaved": True} if interleaved else {}
    return {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": list(sections), **more}


QWEN_2_VISION = {
    "depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "patch_size": 4, "mlp_ratio": 3, "in_channels": 3,
}  # fmt: skip
QWEN_2_5_VISION = {**QWEN_VISION, "window_size": 16, "fullatt_block_indexes": [1], "tokens_per_second": 2}
QWEN_3_VISION = {**QWEN_VISION, "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1]}


def qwen_recipe(
    name: str, oracle: str, text: Mapping[str, Any], vision: Mapping[str, Any], *, tied: bool = False, **more: Any
) -> Recipe:
    config = {"text_config": dict(text), "vision_config": dict(vision), **QWEN_IDS, "tie_word_embeddings": tied}
    asked = {"tokens": QWEN_PROMPT, "images": QWEN_IMAGES, "feed": "qwen", **more}
    return Recipe(name, f"transformers:{oracle}", config, **asked)


# An image and a clip of 3 steps. Its time does not pass its longer side, where transformers 5 would count otherwise.
CLIP = {"images": (QWEN_IMAGES[1], Image((120, 96), 30, (3, 4, 10))), "feed": "qwen_clip"}
CLIP_PROMPT = (5, 6, 93, *(95,) * 8, 94, 7, 8, 93, *(96,) * 30, 94, 10, 11, 12)
TIMED = {**CLIP, "images": (QWEN_IMAGES[1], Image((120, 96), 30, (3, 4, 10), {"seconds": 0.75}))}
STAMPED = (5, 93, *(95,) * 8, 94, 7, *(t for s in (20, 21, 22) for t in (s, 93, *(96,) * 10, 94)), 10, 11)


def mlx_recipe(kind: str, text: Mapping[str, Any], vision: Mapping[str, Any], *, nested: bool = True) -> Recipe:
    """The same as mlx-vlm saves it, with the config of the first files on the hub: Qwen2's text fields at the top."""
    rope = {"type": "mrope", "mrope_section": text["rope_parameters"]["mrope_section"]}
    fields = {**text, "model_type": f"{kind}_text", "rms_norm_eps": 1e-6, "rope_theta": 1000.0, "rope_scaling": rope}
    del fields["rope_parameters"]
    config = {
        **({"text_config": fields} if nested else fields),
        **QWEN_IDS,
        "model_type": kind,
        "vision_config": {**vision, "model_type": kind},
    }
    return Recipe(f"{kind}-mlx", f"mlx_vlm:{kind}", config, QWEN_PROMPT, QWEN_IMAGES, "qwen_mlx")


NESTED = Variant(((r"^model\.", "model.language_model."), (r"^visual\.", "model.visual.")))
TEXT_2 = {**QWEN_2_TEXT, "rope_parameters": mrope(2, 3, 3)}
TEXT_3 = {**QWEN_TEXT, "rope_parameters": mrope(4, 2, 2, interleaved=True)}
TEXT_3_MOE = {
    **TEXT_3, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "num_hidden_layers": 3,
    "mlp_only_layers": [1], "decoder_sparse_step": 1,
}  # fmt: skip
COMPASS_TEXT = {
    **QWEN_2_TEXT, "num_hidden_layers": 4, "sliding_window": 6, "logit_scale": 0.75,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "rope_parameters": {"sliding_attention": mrope(4, 2, 2, interleaved=True), "full_attention": None},
}  # fmt: skip
COMPASS_MLX = Variant(
    (
        (r"^lm_head", "language_model.lm_head"), (r"^model\.language_model\.", "language_model.model."),
        (r"^model\.visual\.", "vision_tower."),
    ),
    channels_last=True, mlx="cohere_compass",
)  # fmt: skip
QWEN_VL = (
    qwen_recipe(
        "qwen2_vl", "Qwen2VLForConditionalGeneration", TEXT_2, QWEN_2_VISION, variants={"nested": NESTED},
    ),
    qwen_recipe(
        "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", TEXT_2, QWEN_2_5_VISION, variants={"nested": NESTED},
    ),
    qwen_recipe("qwen3_vl", "Qwen3VLForConditionalGeneration", TEXT_3, QWEN_3_VISION),
    qwen_recipe("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", TEXT_3_MOE, QWEN_3_VISION),
    qwen_recipe(
        "qwen2_vl-clip", "Qwen2VLForConditionalGeneration", TEXT_2, QWEN_2_VISION, tokens=CLIP_PROMPT, **CLIP,
    ),
    qwen_recipe(
        "qwen2_5_vl-clip", "Qwen2_5_VLForConditionalGeneration", TEXT_2, QWEN_2_5_VISION, tokens=CLIP_PROMPT, seed=2,
        **TIMED,
    ),
    qwen_recipe("qwen3_vl-clip", "Qwen3VLForConditionalGeneration", TEXT_3, QWEN_3_VISION, tokens=STAMPED, **CLIP),
    qwen_recipe(
        "qwen3_vl-text", "Qwen3VLForConditionalGeneration", TEXT_3, QWEN_3_VISION, tied=True, tokens=WORDS, images=(),
        feed="text",
    ),
    qwen_recipe(
        "cohere_compass", "CohereCompassForConditionalGeneration", COMPASS_TEXT, QWEN_3_VISION,
        variants={"mlx": COMPASS_MLX},
    ),
    qwen_recipe(
        "cohere_compass-clip", "CohereCompassForConditionalGeneration", COMPASS_TEXT, QWEN_3_VISION, tied=True,
        tokens=STAMPED, **CLIP,
    ),
    mlx_recipe("qwen2_vl", TEXT_2, QWEN_2_VISION, nested=False),
    mlx_recipe("qwen2_5_vl", TEXT_2, QWEN_2_5_VISION, nested=False),
    mlx_recipe("qwen3_vl", TEXT_3, QWEN_3_VISION),
    mlx_recipe("qwen3_vl_moe", TEXT_3_MOE, QWEN_3_VISION),
)  # fmt: skip
