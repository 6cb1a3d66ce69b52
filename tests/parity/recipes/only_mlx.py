"""Families that only mlx-vlm has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.qwen import QWEN_PROMPT
from tests.parity.recipes.text import TEXT, WORDS
from tests.parity.recipes.towers import CLIP_VIT, LLAMA_TEXT, PICTURE, SIGLIP_VIT, SMALL_VIT

JP_VIT = {**SIGLIP_VIT, "layer_norm_eps": 1e-5}  # mlx-vlm norms the last rows with this, whatever the config says
JP_TEXT = {**LLAMA_TEXT, "rope_theta": 500.0}


def jp_recipe(name: str, text: Mapping[str, Any]) -> Recipe:
    """LLM-jp-VL; `published` has the text half under another name, and convolutions as torch has them."""
    common = {"model_type": "llmjpvl", "img_context_token_id": 95, "vision_config": JP_VIT}
    published = Variant(config={**common, "llm_config": text}, channels_first=True)
    config = {**common, "text_config": text}
    return Recipe(
        name, "mlx_vlm:llmjpvl", config, (5, *(95,) * 8, 7, *(95,) * 4, 8, 9, *WORDS),
        (Image((2, 18, 18, 3), 8), Image((1, 18, 18, 3), 4)), "masked", variants={"published": published},
    )  # fmt: skip


BUNNY_TEXT = {
    **{k: v for k, v in TEXT.items() if k not in ("head_dim", "bos_token_id", "eos_token_id", "pad_token_id")},
    "rms_norm_eps": 1e-6, "rope_theta": 1000.0, "tie_word_embeddings": False,
}  # fmt: skip
PUBLISHED_BUNNY = Variant(
    (
        (r"^language_model\.model\.lm_head", "lm_head"), (r"^language_model\.", ""),
        (r"^vision_tower\.", "model.vision_tower."),
        (r"^mm_projector\.linear_1", "model.mm_projector.0"), (r"^mm_projector\.linear_2", "model.mm_projector.2"),
    ),
    channels_first=True,
)  # fmt: skip


def bunny_recipe(name: str, kind: str, *, bias: bool) -> Recipe:
    config = {
        "model_type": kind, **BUNNY_TEXT, "attention_bias": bias, "auto_map": {}, "mm_hidden_size": 32,
        "image_token_index": -200, "vision_config": {"layer_norm_eps": 1e-5, **SIGLIP_VIT},
    }  # fmt: skip
    tokens = (5, *(-200,) * 16, 8, 9, *WORDS)
    variants = {"published": PUBLISHED_BUNNY}
    return Recipe(name, "mlx_vlm:llava_bunny", config, tokens, (PICTURE,), "pictures", variants=variants)


PUBLISHED_PHI_4 = replace(PUBLISHED_BUNNY, renames=PUBLISHED_BUNNY.renames[1:], channels_first=False)
PHI_4 = {
    "model_type": "phi4-siglip", **BUNNY_TEXT, "rms_norm_eps": 1e-5, "mm_hidden_size": 32, "mm_vision_select_layer": -2,
    "vision_config": {
        **{k: v for k, v in SMALL_VIT.items() if k != "image_size"}, "model_type": "siglip2_vision_model",
        "num_patches": 16,
    },
}  # fmt: skip
# Heads of 32 numbers, in which time, rows and columns have 4, 6 and 6 angles.
MAGE = {
    "model_type": "mage_vl", "image_token_id": 95, "video_token_id": 96,
    "vision_config": {
        "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4,
        "out_hidden_size": 32, "text_hidden_size": 32,
    },
    "text_config": {
        **{k: v for k, v in TEXT.items() if not k.endswith("token_id")}, "model_type": "qwen3", "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    },
}  # fmt: skip
PUBLISHED_MAGE = Variant(
    (
        (r"^vision_tower\.", "model.visual."), (r"^language_model\.lm_head", "lm_head"),
        (r"^language_model\.model\.", "model.language_model."),
    ),
    channels_first=True,
)  # fmt: skip
PHI_3 = {
    "model_type": "phi3_v", **BUNNY_TEXT, "num_key_value_heads": 2, "original_max_position_embeddings": 16,
    "rope_scaling": {"type": "su", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 2.5, 3.0, 3.5]},
    "vision_config": {**CLIP_VIT, "image_size": 16},
}  # fmt: skip
PHI_3_WIDE = Image((3, 16, 16, 3), 17, extra={"size": [16, 32], "tiles": [1, 2]})
PHI_3_TALL = Image((5, 16, 16, 3), 27, extra={"size": [32, 32], "tiles": [2, 2]})
YOUTU = {
    "model_type": "youtu_vl", "image_token_id": 95, "video_token_id": 96,
    **{k: v for k, v in TEXT.items() if k not in ("head_dim", "bos_token_id", "eos_token_id", "pad_token_id")},
    "kv_lora_rank": 32, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 64, "v_head_dim": 10,
    "rope_theta": 1000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    "vision_config": {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4,
        "out_hidden_size": 32, "window_size": 16, "fullatt_block_indexes": [1],
    },
}  # fmt: skip
PUBLISHED_YOUTU = Variant(
    (
        (r"^vision_tower\.merger", "merger"), (r"^vision_tower\.", "siglip2.vision_model."),
        (r"^language_model\.model\.", "model."), (r"^language_model\.lm_head", "lm_head"),
    ),
    latents=True,
)  # fmt: skip
ONLY_MLX = (
    Recipe(
        "phi3_v",
        "mlx_vlm:phi3_v",
        PHI_3,
        (5, 6, *(-200,) * 17, 7, 8, *(-200,) * 27, *WORDS),
        (PHI_3_WIDE, PHI_3_TALL),
        "tiles",
        variants={"published": Variant(channels_first=True)},
    ),
    Recipe(
        "youtu_vl",
        "mlx_vlm:youtu_vl",
        YOUTU,
        QWEN_PROMPT,
        (Image((60, 48), 15, (1, 6, 10)), Image((32, 48), 8, (1, 8, 4))),
        "flat",
        variants={"published": PUBLISHED_YOUTU},
    ),
    Recipe(
        "youtu_vl-direct",
        "mlx_vlm:youtu_vl",
        {
            **YOUTU,
            "q_lora_rank": None,
            "rope_interleave": False,
            "rope_traditional": False,
            "attention_bias": True,
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 12,
        },
        QWEN_PROMPT,
        (Image((60, 48), 15, (1, 6, 10)), Image((32, 48), 8, (1, 8, 4))),
        "flat",
    ),
    Recipe(
        "mage_vl",
        "mlx_vlm:mage_vl",
        MAGE,
        QWEN_PROMPT,
        (Image((60, 48), 15, (1, 6, 10)), Image((32, 48), 8, (1, 8, 4))),
        "qwen_mlx",
        variants={"published": PUBLISHED_MAGE},
    ),
    Recipe(
        "phi4_siglip",
        "mlx_vlm:phi4_siglip",
        PHI_4,
        (5, *(-200,) * 10, 8, 9, *WORDS),
        (Image((10, 48), 10, (1, 2, 5)),),
        "naflex",
        variants={"published": PUBLISHED_PHI_4},
    ),
    bunny_recipe("llava_bunny", "llava-qwen2", bias=True),
    bunny_recipe("llava_bunny-llama", "bunny-llama", bias=False),
    jp_recipe("llmjpvl", JP_TEXT),
    jp_recipe("llmjpvl-qwen3", {**JP_TEXT, "model_type": "qwen3", "head_dim": 16, "tie_word_embeddings": True}),
)
