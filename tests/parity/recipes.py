"""Tiny checkpoints of every family: what their oracle is built from, and what it is asked.

`python tests/parity/make.py NAME...` runs the oracles (in an environment with the `oracle` extra) and writes
`cases/NAME.json` and `cases/NAME.npz`; the suite needs only those. Sizes are chosen so that mistakes show: image grids
are not square, the hidden size is not twice an expert's, sequences are longer than a sliding window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Image:
    """One image as a tower takes it: the shape of its pixels in our layout, its grid, the rows that come of it.

    `extra`: small integer arrays that only some families need, by name.
    """

    shape: tuple[int, ...]
    tokens: int
    grid: tuple[int, int, int] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """The same checkpoint as another dialect has it: names renamed by regular expressions, in order, and a config.

    `copies`: tensors that are there a second time, new name -> name. `channels_last`: convolutions as MLX has them, of
    a case that has them otherwise, and `channels_first` the other way round.
    `drops`: names that are not there. `alternating`: names whose rows are not in two halves, but alternate. `mlx`: the
    model of mlx-vlm whose names and shapes these are; make.py asks it for them. `latents`: matrices of keys
    and values from latent rows are one.
    """

    renames: tuple[tuple[str, str], ...] = ()
    config: Mapping[str, Any] | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    channels_last: bool = False
    channels_first: bool = False
    drops: str = ""
    alternating: str = ""
    mlx: str = ""
    latents: bool = False


@dataclass(frozen=True)
class Recipe:
    """A case. `oracle`: the library and the class that is asked; `feed`: a function of make.py that asks it."""

    name: str
    oracle: str  # "transformers:LlamaForCausalLM" or "mlx_vlm:qwen2_vl"
    config: Mapping[str, Any]
    tokens: tuple[int, ...]
    images: tuple[Image, ...] = ()
    feed: str = "text"
    norm_offset: bool = False
    variants: Mapping[str, Variant] = field(default_factory=dict)
    seed: int = 1


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

# --- the Qwen-VL line: two images of different grids; patches of 4 pixels, 2 frames deep, 96 numbers each
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

# --- towers of one size: pictures of 18 pixels, of which 4 x 4 patches of 4 pixels are used
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

# --- SigLIP 2 over pictures of any size, and convolutions: a picture of two parts, and one of one
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

# --- families that only mlx-vlm has
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

# --- early fusion: a picture of 6 x 4 patches of 4 pixels, after its class token and 4 registers, before its end
FALCON = {
    "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "ffn_dim": 48, "vocab_size": 300,
    "norm_eps": 1e-5, "max_seq_len": 128, "rope_theta": 100.0, "spatial_patch_size": 4,
}  # fmt: skip
FALCON_PROMPT = (5, 6, 244, 245, 246, 247, 248, *(227,) * 24, 230, 7, 8, 9, 10)
PUBLISHED_FALCON = Variant(
    (
        (r"^language_model\.lm_head", "output"), (r"^language_model\.model\.", ""), ("embed_tokens", "tok_embeddings"),
        (r"\.self_attn\.", ".attention."), (r"\.mlp\.", ".feed_forward."),
    ),
    {"architectures": ["FalconOCRForCausalLM"], "model_type": "falcon_ocr", **FALCON}, drops="cos_1d|sin_1d",
    alternating=r"w13\.weight",
)  # fmt: skip

# --- SAM's tower: a picture of 16 x 16 patches in windows of 6, that is 18 x 18 with zeros
SAM_VIT = {
    "hidden_size": 32, "output_channels": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 64,
    "patch_size": 4, "window_size": 6, "global_attn_indexes": [1], "mlp_dim": 48,
}  # fmt: skip
GOT_TEXT = {
    **QWEN_2_TEXT, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}  # fmt: skip
FLAT_GOT = {
    "architectures": ["GOTQwenForCausalLM"], "model_type": "GOT", "im_patch_token": 95, "im_start_token": 93,
    "im_end_token": 94, "use_im_start_end": True, "image_token_len": 256, "rope_theta": 1000.0, "rms_norm_eps": 1e-6,
    **{name: value for name, value in GOT_TEXT.items() if name != "rope_parameters"},
    "vision_config": {
        "img_size": 64, "patch_size": 4, "embed_dim": 32, "depth": 3, "num_heads": 2, "mlp_ratio": 1.5, "out_chans": 16,
        "out_dim": 64, "window_size": 6, "global_attn_indexes": [1],
    },
}  # fmt: skip
GOT_BLOCKS = (
    (r"^vision_tower\.layers\.(\d+)\.layer_norm", r"vision_tower.blocks.\1.norm"),
    (r"^vision_tower\.layers\.", "vision_tower.blocks."), (r"patch_embed\.projection", "patch_embed.proj"),
    (r"multi_modal_projector\.conv_upsampler1", "vision_tower.net_2"),
    (r"multi_modal_projector\.conv_upsampler2", "vision_tower.net_3"),
    (r"multi_modal_projector\.multimodal_projector", "multi_modal_projector"), (r"neck\.layer_norm", "neck.norm"),
)  # fmt: skip
GOT_ORIGINAL = (
    *GOT_BLOCKS, (r"neck\.conv1", "neck.0"), (r"neck\.norm1", "neck.1"), (r"neck\.conv2", "neck.2"),
    (r"neck\.norm2", "neck.3"), (r"^vision_tower\.", "model.vision_tower_high."),
    (r"^multi_modal_projector\.", "model.mm_projector_vary."), (r"^language_model\.model\.", "model."),
)  # fmt: skip
GOT = Recipe(
    "got_ocr2", "transformers:GotOcr2ForConditionalGeneration",
    {"text_config": {**GOT_TEXT, "model_type": "qwen2"}, "vision_config": SAM_VIT, "image_token_index": 95},
    (5, 6, 93, *(95,) * 16, 94, 7, 8, 9, 10, 11), (Image((1, 64, 64, 3), 16),), "pictures",
    variants={
        "newer": Variant(NEWER),
        "original": Variant(
            GOT_ORIGINAL, FLAT_GOT, {"lm_head.weight": "model.embed_tokens.weight"},
        ),
        "mlx": Variant((*GOT_BLOCKS, (r"neck\.", "")), FLAT_GOT, channels_last=True, mlx="got"),
        "mlx-neck": Variant(GOT_BLOCKS, FLAT_GOT, channels_last=True),
    },
)  # fmt: skip

# --- MoonViT: two images of different grids, whose positions are resampled from a table of 8 x 8
MOONVIT = {
    "model_type": "moonvit", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 2, "patch_size": 4, "init_pos_emb_height": 8, "init_pos_emb_width": 8,
    "merge_kernel_size": [2, 2],
}  # fmt: skip
LOCATE = {
    "model_type": "locateanything", "image_token_index": 95, "vision_config": MOONVIT,
    "text_config": {
        **{name: value for name, value in QWEN_2_TEXT.items() if name not in ("bos_token_id", "eos_token_id")},
        "model_type": "qwen2", "tie_word_embeddings": True, "rope_theta": 1000.0, "rms_norm_eps": 1e-6, "block_size": 6,
        "causal_attn": False,
    },
}  # fmt: skip
PUBLISHED_LOCATE = Variant(
    (
        (r"^vision_tower\.(blocks\.\d+\.)attn\.", r"vision_model.encoder.\1"),
        (r"^vision_tower\.(blocks|final_layernorm)", r"vision_model.encoder.\1"), (r"^vision_tower\.", "vision_model."),
        (r"^multi_modal_projector\.layer_norm", "mlp1.0"), (r"^multi_modal_projector\.linear_1", "mlp1.1"),
        (r"^multi_modal_projector\.linear_2", "mlp1.3"),
    ),
    {"architectures": ["LocateAnythingForConditionalGeneration"], **LOCATE},
    {"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"}, channels_first=True,
)  # fmt: skip
RECIPES: tuple[Recipe, ...] = (
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
    *QWEN_VL,
    *FIXED,
    LFM,
    LFM_BARE,
    *ONLY_MLX,
    Recipe(
        "falcon_ocr", "mlx_vlm:falcon_ocr", {"model_type": "falcon_ocr", **FALCON}, FALCON_PROMPT,
        (Image((24, 48), 24, (1, 6, 4)),), "falcon", variants={"published": PUBLISHED_FALCON},
    ),
    Recipe("falcon_ocr-text", "mlx_vlm:falcon_ocr", {"model_type": "falcon_ocr", **FALCON}, WORDS),
    GOT,
    Recipe(
        "locateanything", "mlx_vlm:locateanything", LOCATE,
        (5, 6, 93, *(95,) * 6, 94, 7, 8, 93, *(95,) * 10, 94, 9, 10, 11, 12),
        (Image((24, 48), 6, (1, 4, 6)), Image((40, 48), 10, (1, 10, 4))), "moonvit",
        variants={"published": PUBLISHED_LOCATE},
    ),
)  # fmt: skip
