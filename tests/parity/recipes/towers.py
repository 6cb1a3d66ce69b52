"""Towers of one size: pictures of 18 pixels, of which 4 x 4 patches of 4 pixels are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.text import GEMMA, TEXT, WORDS

SMALL_VIT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4,
    "image_size": 18,
}  # fmt: skip
CLIP_VIT = {**SMALL_VIT, "model_type": "clip_vision_model"}
SIGLIP_VIT = {**SMALL_VIT, "model_type": "siglip_vision_model", "vision_use_head": False}
PICTURE = Image((1, 18, 18, 3), 16)
TWO_PICTURES = (5, 6, *(95,) * 16, 7, 8, 9, *(95,) * 16, 10, 11)
PUBLISHED = ((r"^vision_tower\.", "vision_tower.vision_model."),)
NEWER = (
    (r"^language_model\.lm_head", "lm_head"),
    (r"^language_model\.model\.", "model.language_model."),
    (r"^(vision_tower|multi_modal_projector|image_newline)", r"model.\1"),
)
OLDER = ((r"^model\.language_model\.", "language_model.model."), (r"^model\.", ""))


def fixed_recipe(
    name: str, oracle: str, text: Mapping[str, Any], vision: Mapping[str, Any], tokens: tuple[int, ...],
    images: tuple[Image, ...], feed: str, *, mlx: Variant | None = None, published: Mapping[str, Any] | None = None,
    norm_offset: bool = False, seed: int = 1, **more: Any,
) -> Recipe:  # fmt: skip
    """A family over a tower of one size, in its dialects. `published`: the config as first files have it."""
    config = {"text_config": text, "vision_config": vision, "image_token_id": 95, **more}
    variants = {"published": Variant(PUBLISHED, published), "newer": Variant(NEWER)}
    if mlx is not None:
        variants["mlx"] = mlx
    oracle = f"transformers:{oracle}ForConditionalGeneration"
    return Recipe(name, oracle, config, tokens, images, feed, norm_offset, variants, seed)


def mlx_variant(model: str, config: Mapping[str, Any] | None = None, *, copied_head: bool = False) -> Variant:
    copies = {"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"} if copied_head else {}
    return Variant(PUBLISHED, config, copies, channels_last=True, mlx=model)


LLAMA_TEXT = {**TEXT, "model_type": "llama", "head_dim": 8, "rms_norm_eps": 1e-5}
COHERE_TEXT = {
    **{k: v for k, v in TEXT.items() if k != "head_dim"}, "model_type": "cohere2", "num_hidden_layers": 4,
    "tie_word_embeddings": True, "sliding_window": 6, "logit_scale": 0.75, "layer_types": ["sliding_attention",
    "full_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}  # fmt: skip
# Pictures of 10 x 50 and 40 x 30 pixels, as tiles of 16: 2 x 8 of 4 x 8 patches are of the first, 8 x 6 of 8 x 8 of
# the second.
WIDE = Image((3, 16, 16, 3), 34, extra={"size": [10, 50], "tiles": [1, 2], "crop": [1, 0, 2, 8]})
TALL = Image((5, 16, 16, 3), 72, extra={"size": [40, 30], "tiles": [2, 2], "crop": [0, 1, 8, 6]})
TILED_PROMPT = (5, 6, *(95,) * 34, 7, 8, *(95,) * 72, 9, 10, 11)
GEMMA_3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
GEMMA_3_TEXT = {**GEMMA, "model_type": "gemma3_text", "num_hidden_layers": 6, "rope_parameters": GEMMA_3_ROPE}
# Configs as the first files on the hub have them: what a class knows is left out.
GEMMA_3 = {
    "model_type": "gemma3", "image_token_index": 95, "mm_tokens_per_image": 4, "boi_token_index": 93,
    "eoi_token_index": 94, "vision_config": SIGLIP_VIT,
    "text_config": {
        "model_type": "gemma3_text", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "query_pre_attn_scalar": 24, "sliding_window": 6, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
}  # fmt: skip
# mlx-vlm reads the number of tokens in the text's part
GEMMA_3_MLX = {**GEMMA_3, "text_config": {**GEMMA_3["text_config"], "mm_tokens_per_image": 4}}
PALIGEMMA = {
    "model_type": "paligemma", "image_token_index": 95, "projection_dim": 32, "vision_config": SIGLIP_VIT,
    "text_config": {
        "model_type": "gemma", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "hidden_act": "gelu",
    },
}  # fmt: skip
PIXTRAL_VIT = {
    "model_type": "pixtral", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 2, "patch_size": 4, "image_size": 32, "hidden_act": "gelu",
}  # fmt: skip
MISTRAL_TEXT = {
    **TEXT, "model_type": "mistral", "sliding_window": None, "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}  # fmt: skip
OLDER_MISTRAL = {
    "image_token_index": 95, "projector_hidden_act": "gelu", "vision_feature_layer": -1,
    "text_config": {
        "model_type": "mistral", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 1000.0,
        "sliding_window": None,
    },
    "vision_config": {**PIXTRAL_VIT, "rope_theta": 10_000.0, "head_dim": 16},
}  # fmt: skip
PIXTRAL = {**OLDER_MISTRAL, "model_type": "llava", "vision_feature_select_strategy": "full"}
MISTRAL_3 = {**OLDER_MISTRAL, "model_type": "mistral3", "multimodal_projector_bias": False, "spatial_merge_size": 2}
AYA = {
    "model_type": "aya_vision", "image_token_index": 95, "downsample_factor": 2, "alignment_intermediate_size": 48,
    "vision_feature_layer": -1, "vision_feature_select_strategy": "full", "vision_config": SIGLIP_VIT,
    "text_config": {
        **{k: v for k, v in COHERE_TEXT.items() if k not in ("rope_parameters", "layer_types")}, "rope_theta": 1000.0,
        "sliding_window_pattern": 2, "head_dim": 8,
    },
}  # fmt: skip
LLAVA = {
    "model_type": "llava", "image_token_index": 95, "projector_hidden_act": "gelu", "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default", "vision_config": CLIP_VIT,
    "text_config": {
        "model_type": "llama", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
    },
}  # fmt: skip
FIXED = (
    fixed_recipe(
        "llava", "Llava", LLAMA_TEXT, CLIP_VIT, TWO_PICTURES, (PICTURE,) * 2, "pictures", mlx=mlx_variant("llava"),
        published=LLAVA,
    ),
    fixed_recipe(
        "llava-layers", "Llava", LLAMA_TEXT, {**CLIP_VIT, "hidden_act": "gelu"}, TWO_PICTURES, (PICTURE,) * 2,
        "pictures", vision_feature_layer=[-2, 0, 1], projector_hidden_act="gelu_pytorch_tanh",
        multimodal_projector_bias=False,
    ),
    fixed_recipe(
        "llava-siglip", "Llava",
        {**{k: v for k, v in TEXT.items() if k != "head_dim"}, "model_type": "qwen2", "tie_word_embeddings": True},
        SIGLIP_VIT, TWO_PICTURES, (PICTURE,) * 2, "pictures", vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    ),
    fixed_recipe(
        "aya_vision", "AyaVision", COHERE_TEXT, SIGLIP_VIT, (5, *(95,) * 8, 7, *(95,) * 4, 8, 9, *WORDS),
        (Image((2, 18, 18, 3), 8), Image((1, 18, 18, 3), 4)), "pictures",
        mlx=mlx_variant("aya_vision", AYA), published=AYA, alignment_intermediate_size=48,
    ),
    Recipe(
        "cohere2_vision", "transformers:Cohere2VisionForConditionalGeneration",
        {"text_config": COHERE_TEXT, "vision_config": SIGLIP_VIT, "image_token_id": 95,
         "alignment_intermediate_size": 48},
        (5, *(95,) * 8, 7, *(95,) * 4, 8, 9, *WORDS), (Image((2, 18, 18, 3), 8), Image((1, 18, 18, 3), 4)), "pictures",
        variants={
            "mlx": Variant(
                (*OLDER, *PUBLISHED), {**AYA, "model_type": "cohere2_vision"}, channels_last=True, mlx="aya_vision",
            ),
        },
    ),
    fixed_recipe(
        "llava_next", "LlavaNext", {**LLAMA_TEXT, "model_type": "mistral", "sliding_window": None},
        {**CLIP_VIT, "image_size": 16}, TILED_PROMPT, (WIDE, TALL), "tiles", mlx=mlx_variant("llava_next"),
        image_grid_pinpoints=[[16, 32], [32, 16], [32, 32]],
    ),
    fixed_recipe(
        "paligemma", "PaliGemma",
        {**TEXT, "model_type": "gemma", "head_dim": 8, "tie_word_embeddings": True}, SIGLIP_VIT,
        (*(95,) * 16, *WORDS), (PICTURE,), "prefix", mlx=mlx_variant("paligemma"), norm_offset=True,
        projection_dim=32, vocab_size=100, hidden_size=32, published=PALIGEMMA,
    ),
    fixed_recipe(
        "paligemma2", "PaliGemma",
        {**GEMMA, "model_type": "gemma2", "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}, SIGLIP_VIT,
        (*(95,) * 32, *WORDS), (PICTURE,) * 2, "prefix", mlx=mlx_variant("paligemma"), norm_offset=True,
        projection_dim=32, vocab_size=100, hidden_size=32,
    ),
    fixed_recipe(
        "gemma3", "Gemma3", GEMMA_3_TEXT, SIGLIP_VIT,
        (5, 6, 93, *(95,) * 4, 94, 7, 8, 93, *(95,) * 4, 94, *WORDS), (Image((1, 18, 18, 3), 4),) * 2, "marked",
        mlx=mlx_variant("gemma3", GEMMA_3_MLX, copied_head=True), published=GEMMA_3, norm_offset=True,
        mm_tokens_per_image=4, boi_token_index=93, eoi_token_index=94,
    ),
    fixed_recipe(
        "pixtral", "Llava", MISTRAL_TEXT, PIXTRAL_VIT,
        (5, *(95,) * 6, 97, *(95,) * 6, 98, 7, *(95,) * 2, 97, *(95,) * 2, 97, *(95,) * 2, 98, 8, 9),
        (Image((12, 48), 12, (1, 2, 6)), Image((6, 48), 6, (1, 3, 2))), "fitted", mlx=mlx_variant("pixtral"),
        published=PIXTRAL, vision_feature_layer=-1, vision_feature_select_strategy="full",
    ),
    fixed_recipe(
        "pixtral-inner", "Llava", MISTRAL_TEXT, {**PIXTRAL_VIT, "hidden_act": "silu"},
        (5, *(95,) * 6, 97, *(95,) * 6, 98, 7), (Image((12, 48), 12, (1, 2, 6)),), "fitted",
        vision_feature_layer=-2, vision_feature_select_strategy="full",
    ),
    fixed_recipe(
        "mistral3", "Mistral3", MISTRAL_TEXT, PIXTRAL_VIT,
        (5, *(95,) * 3, 97, *(95,) * 3, 98, 7, 95, 97, 95, 97, 95, 98, 8, 9),
        (Image((24, 48), 6, (1, 4, 6)), Image((12, 48), 3, (1, 6, 2))), "fitted", mlx=mlx_variant("mistral3"),
        published=MISTRAL_3, tie_word_embeddings=False,
    ),
)  # fmt: skip
