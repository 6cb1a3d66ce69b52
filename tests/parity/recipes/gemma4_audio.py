"""Gemma 4 and Gemma 4 Unified with sounds: alone, beside images, in front of them, and beside a clip."""

from __future__ import annotations

from typing import Any

from tests.parity.recipes.gemma4 import (
    CLIPPED,
    IMAGES,
    MIXED,
    MLX_NAMES,
    ORACLE,
    PATCH_CLIP,
    PATCH_IMAGES,
    PATCHES,
    SMALL,
    TOKENS,
    UNIFIED,
    UNIFIED_ORACLE,
    VISION,
)
from tests.parity.recipes.kinds import Image, Recipe, Sound, Variant
from tests.parity.recipes.text import WORDS

# Three chunks of rows and a part of one; as mlx-vlm has it, always 128 bins.
AUDIO = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "subsampling_conv_channels": [128, 4],
    "conv_kernel_size": 3, "attention_chunk_size": 4, "attention_context_left": 6, "attention_logit_cap": 2.0,
    "residual_weight": 0.4, "output_proj_dims": 20,
}  # fmt: skip
PLAIN = {
    **AUDIO, "subsampling_conv_channels": [16, 6], "attention_context_right": 3, "use_clipped_linears": False,
    "hidden_size": 32, "num_attention_heads": 4,
}  # fmt: skip
SOUND, PLAIN_SOUND, RAW = Sound((51, 128), 13), Sound((29, 16), 8), Sound((7, 20), 7)
FRAMES = {"audio_embed_dim": 20, "output_proj_dims": 20}


def hearing(
    name: str,
    text: dict[str, Any],
    vision: dict[str, Any],
    audio: dict[str, Any],
    images: tuple[Image, ...],
    tokens: tuple[int, ...],
    mlx: str = "",
    seed: int = 1,
) -> Recipe:
    config = {"text_config": text, "vision_config": vision, "audio_config": audio, **TOKENS}
    oracle = UNIFIED_ORACLE if audio is FRAMES else ORACLE
    exported = Variant(MLX_NAMES, {"model_type": mlx, **config}, channels_last=True, mlx=mlx)
    variants = {"mlx": exported} if mlx else {}
    return Recipe(name, f"transformers:{oracle}", config, tokens, images, "heard", variants=variants, seed=seed)


GEMMA_4_AUDIO = (
    hearing("gemma4-audio", SMALL, CLIPPED, AUDIO, (SOUND,), (5, 92, *(97,) * 13, 91, *WORDS), "gemma4"),
    # In front of an image, with nothing between them: tokens of images see each other, those of sounds do not.
    hearing(
        "gemma4-audio-image", {**MIXED, "use_bidirectional_attention": "vision"}, VISION, PLAIN,
        (PLAIN_SOUND, IMAGES[0]), (5, 92, *(97,) * 8, *(95,) * 8, 94, *WORDS),
    ),
    hearing(
        "gemma4_unified-audio", UNIFIED, PATCHES, FRAMES, (PATCH_IMAGES[0], RAW),
        (5, 93, *(95,) * 8, 94, 7, 92, *(97,) * 7, 91, *WORDS), "gemma4_unified",
    ),
    hearing(
        "gemma4_unified-audio-clip", UNIFIED, PATCHES, FRAMES, (PATCH_CLIP, RAW),
        (5, *(8, 93, *(96,) * 4, 94) * 3, 6, 92, *(97,) * 7, 91, *WORDS),
    ),
)  # fmt: skip
