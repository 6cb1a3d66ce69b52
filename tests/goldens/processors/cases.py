"""The image processors that have goldens: what the checkpoints say, and pictures that try the corners of each rule.

Used by make.py (with the reference) and by tests/test_preprocess_processors.py (with docai), so that both see the same
bytes. The configurations are those of the published checkpoints named in `like`, except where a smaller limit makes
large pictures unnecessary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.preprocess.inputs import ImageInput
from docai.vlm import images, native_images
from docai.vlm.families import family_of
from docai.vlm.prep import Images

CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
COMMON = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255}

# (height, width): squares, sides that divide and that do not, one pixel, strips, growing and shrinking
SIZES = [(1, 1), (1, 90), (90, 1), (28, 28), (33, 77), (150, 40), (3, 600), (336, 336), (480, 701), (1200, 250)]
SAMPLES = 96  # values kept of each result


@dataclass(frozen=True)
class Case:
    """One processor: its reference class in transformers (or mlx-vlm), what the checkpoint says, and ours.

    A reference that begins with `published.` is in a checkpoint's own repo: stated.py says anew what it does.
    """

    like: str
    reference: str
    ours: Images
    prep: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = tuple(SIZES)


def of_family(kind: str) -> Images:
    """The maker of a family's image processor."""
    made = family_of({"model_type": kind}).images
    assert made is not None
    return made


QWEN = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "resample": 3}
MAGE = {"patch_size": 16, "temporal_patch_size": 1}
TILES_64 = {"size": {"height": 64, "width": 64}}
LLAVA = {"resample": 3, "do_center_crop": True, "crop_size": {"height": 336, "width": 336}}
PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
CLIP_TOWER = {"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14}
PAN = {
    "do_pan_and_scan": True,
    "pan_and_scan_min_crop_size": 64,
    "pan_and_scan_max_num_crops": 4,
    "pan_and_scan_min_ratio_to_activate": 1.2,
}
LFM2 = {
    **COMMON, **HALF, "resample": 2, "tile_size": 64, "min_image_tokens": 4, "max_image_tokens": 16,
    "encoder_patch_size": 16, "downsample_factor": 2, "use_thumbnail": True, "min_tiles": 2, "max_tiles": 10,
}  # fmt: skip
GEMMA_4 = {
    **COMMON, "do_normalize": False, "image_mean": [0.0] * 3, "image_std": [1.0] * 3, "resample": 3,
    "patch_size": 16, "pooling_kernel_size": 3, "max_soft_tokens": 280,
}  # fmt: skip

CASES = {
    "qwen2_vl": Case(
        "Qwen/Qwen2-VL-7B-Instruct",
        "qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil",
        native_images.qwen_images(),
        {**COMMON, **QWEN, **CLIP, "min_pixels": 3136, "max_pixels": 200704},
    ),
    "qwen3_vl": Case(
        "Qwen/Qwen3-VL-4B-Instruct",
        "qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil",
        native_images.qwen_images(patch=16),
        {**COMMON, **QWEN, **HALF, "patch_size": 16, "size": {"longest_edge": 1 << 24, "shortest_edge": 1 << 16}},
    ),
    "llava": Case(
        "llava-hf/llava-1.5-7b-hf",
        "clip.image_processing_pil_clip.CLIPImageProcessorPil",
        images.llava_images(),
        {**COMMON, **LLAVA, **CLIP, "size": {"shortest_edge": 336}},
        {"vision_config": CLIP_TOWER},
    ),
    "llava_square": Case(
        "liuhaotian/llava-v1.5-7b",
        "llava.image_processing_pil_llava.LlavaImageProcessorPil",
        images.llava_images(),
        {**COMMON, **LLAVA, **CLIP, "size": {"shortest_edge": 336}, "do_pad": True},
        {"vision_config": CLIP_TOWER},
    ),
    "llava_crop": Case(
        "none: a crop larger than the resized picture",
        "clip.image_processing_pil_clip.CLIPImageProcessorPil",
        images.llava_images(),
        {**COMMON, **LLAVA, **CLIP, "size": {"shortest_edge": 31}, "crop_size": {"height": 56, "width": 70}},
        {"vision_config": CLIP_TOWER},
    ),
    "llava_next": Case(
        "llava-hf/llava-v1.6-mistral-7b-hf",
        "llava_next.image_processing_pil_llava_next.LlavaNextImageProcessorPil",
        images.tiled_images(),
        {**COMMON, **LLAVA, **CLIP, "size": {"shortest_edge": 336}, "image_grid_pinpoints": PINPOINTS},
        {"vision_config": CLIP_TOWER},
    ),
    "paligemma": Case(
        "google/paligemma-3b-pt-224",
        "siglip.image_processing_pil_siglip.SiglipImageProcessorPil",
        images.siglip_images(),
        {**COMMON, **HALF, "resample": 3, "size": {"height": 224, "width": 224}, "image_seq_length": 256},
        {"vision_config": {"model_type": "siglip_vision_model", "patch_size": 14}},
    ),
    "gemma3": Case(
        "google/gemma-3-4b-it",
        "gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil",
        images.gemma_images(),
        {**COMMON, **HALF, "resample": 2, "size": {"height": 896, "width": 896}, "do_pan_and_scan": None},
        {"mm_tokens_per_image": 256},
        sizes=((1, 90), (33, 77), (480, 701), (1200, 250)),
    ),
    "gemma3_pan": Case(
        "google/gemma-3-4b-it with pan and scan, smaller crops",
        "gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil",
        images.gemma_images(),
        {**COMMON, **HALF, **PAN, "resample": 2, "size": {"height": 224, "width": 224}},
        {"mm_tokens_per_image": 256},
        sizes=(*SIZES, (240, 1200), (100, 330), (200, 210)),
    ),
    "pixtral": Case(
        "mistral-community/pixtral-12b",
        "pixtral.image_processing_pil_pixtral.PixtralImageProcessorPil",
        native_images.pixtral_images(),
        {**COMMON, **CLIP, "resample": 3, "patch_size": {"height": 16, "width": 16}, "size": {"longest_edge": 1024}},
        {"vision_config": {"model_type": "pixtral", "patch_size": 16}},
    ),
    "mistral3": Case(
        "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
        "pixtral.image_processing_pil_pixtral.PixtralImageProcessorPil",
        native_images.pixtral_images(patch=14, edge=1540),
        # the reference's processor multiplies the patch by the merge before it asks its image processor
        {**COMMON, **CLIP, "resample": 3, "patch_size": {"height": 28, "width": 28}, "size": {"longest_edge": 700}},
        {"vision_config": {"model_type": "pixtral", "patch_size": 14}, "spatial_merge_size": 2},
    ),
    "florence2": Case(
        "microsoft/Florence-2-base",
        "clip.image_processing_pil_clip.CLIPImageProcessorPil",
        images.florence_images(),
        {
            **COMMON,
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "resample": 3,
            "do_center_crop": False,
            "size": {"height": 768, "width": 768},
            "crop_size": {"height": 768, "width": 768},
        },
        sizes=((1, 90), (33, 77), (480, 701), (1200, 250), (768, 768)),
    ),
    "falcon_ocr": Case(
        "tiiuae/Falcon-OCR",
        "mlx_vlm.falcon_ocr.processing_falcon_ocr.preprocess_image",
        native_images.falcon_images(),
        {},
        {"spatial_patch_size": 16},
        # in bounds; too small; too large; both; the sheet's examples; an area that has to grow
        sizes=((336, 336), (33, 77), (77, 33), (1, 1), (1200, 250), (1400, 1100), (40, 1300), (224, 640), (213, 617)),
    ),
    "got": Case(
        "stepfun-ai/GOT-OCR-2.0-hf",
        "got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil",
        images.cut_images(),
        {**COMMON, **CLIP, "resample": 3, "size": {"height": 1024, "width": 1024}},
        sizes=((1, 1), (3, 600), (480, 701), (1200, 250)),
    ),
    "got_crops": Case(
        "stepfun-ai/GOT-OCR-2.0-hf with crop_to_patches, smaller crops",
        "got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil",
        images.cut_images(),
        {**COMMON, **CLIP, "resample": 3, "size": {"height": 64, "width": 64}, "crop_to_patches": True},
        # also: one crop, two of them, grids of the same shape of which the larger is taken, or not
        sizes=(*SIZES, (64, 128), (60, 119), (200, 200), (150, 150), (90, 90), (300, 400)),
    ),
    "got_few_crops": Case(
        "the same with bounds of its own",
        "got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil",
        images.cut_images(),
        {
            **COMMON, **CLIP, "resample": 3, "size": {"height": 64, "width": 64}, "crop_to_patches": True,
            "min_patches": 2, "max_patches": 5,
        },
    ),
    "aya_vision": Case(
        "CohereForAI/aya-vision-8b, smaller crops",
        "got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil",
        images.cut_images(edge=364, patch=14, merge=2, cut=True),
        {**COMMON, **HALF, "resample": 3, "size": {"height": 56, "width": 56}, "crop_to_patches": True},
        {"vision_config": {"patch_size": 14}},
        sizes=((3, 600), (28, 28), (150, 40), (90, 90)),
    ),
    "cohere2_vision": Case(
        "CohereLabs/command-a-vision-07-2025, smaller crops",
        "cohere2_vision.image_processing_cohere2_vision.Cohere2VisionImageProcessor",
        of_family("cohere2_vision"),
        # the reference's patch_size is the side of a tile in tokens: 16 of 512 px
        {**COMMON, **HALF, **TILES_64, "resample": 3, "crop_to_patches": True, "patch_size": 2},
        sizes=(*SIZES, (64, 64), (64, 65), (65, 129), (250, 1200), (500, 400)),
    ),
    "llava_bunny": Case(
        "qnguyen3/nanoLLaVA-1.5",
        "siglip.image_processing_pil_siglip.SiglipImageProcessorPil",
        of_family("llava-qwen2"),
        {**COMMON, **HALF, "resample": 3, "size": {"height": 384, "width": 384}},
        sizes=((1, 90), (33, 77), (480, 701), (1200, 250)),
    ),
    "llava_bunny_square": Case(
        "BAAI/Bunny-Llama-3-8B-V, and nanoLLaVA as its config.json has it",
        "published.bunny",
        of_family("bunny-llama"),
        {**COMMON, **HALF, "resample": 3, "size": {"height": 384, "width": 384}},
        {"image_aspect_ratio": "pad"},
        sizes=((1, 90), (33, 77), (77, 34), (480, 701), (384, 384)),
    ),
    "llmjpvl": Case(
        "llm-jp/llm-jp-4-vl-9B-beta, smaller tiles",
        "published.llmjpvl",
        of_family("llmjpvl"),
        {**COMMON, **HALF, "resample": 3, "size": {"height": 64, "width": 64}},
        {"max_dynamic_patch": 12, "min_dynamic_patch": 1},
        # also: grids of the same shape of which the larger is taken, or not
        sizes=(*SIZES, (64, 128), (60, 119), (200, 200), (150, 150), (90, 90), (300, 400), (96, 96)),
    ),
    "mage_vl": Case(
        "microsoft/Mage-VL",
        "qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil",
        of_family("mage_vl"),
        {**COMMON, **QWEN, **CLIP, **MAGE, "max_pixels": 1 << 18, "min_pixels": 3136},
    ),
    "minicpmv4_6": Case(
        "openbmb/MiniCPM-V-4.6, smaller slices",
        "minicpmv4_6.image_processing_pil_minicpmv4_6.MiniCPMV4_6ImageProcessorPil",
        of_family("minicpmv4_6"),
        {**COMMON, **HALF, "resample": 3, "patch_size": 14, "scale_resolution": 112, "max_slice_nums": 9},
        # none, two, three beside each other, grids equally near, as many as there may be and more
        sizes=(*SIZES, (112, 112), (100, 126), (112, 240), (130, 390), (200, 200), (224, 224), (340, 339), (500, 1100)),
    ),
    "minicpmv4_6_fine": Case(
        "the same with smaller tokens",
        "minicpmv4_6.image_processing_pil_minicpmv4_6.MiniCPMV4_6ImageProcessorPil",
        of_family("minicpmv4_6"),
        {**COMMON, **HALF, "resample": 3, "patch_size": 14, "scale_resolution": 112, "max_slice_nums": 4},
        {"downsample_mode": "4x"},
        sizes=((1, 90), (28, 28), (33, 77), (150, 40), (336, 336), (480, 701)),
    ),
    "minicpmv4_6_whole": Case(
        "the same without slices",
        "minicpmv4_6.image_processing_pil_minicpmv4_6.MiniCPMV4_6ImageProcessorPil",
        of_family("minicpmv4_6"),
        {**COMMON, **HALF, "resample": 3, "patch_size": 14, "scale_resolution": 112, "slice_mode": False},
        sizes=((1, 90), (28, 28), (33, 77), (150, 40), (336, 336), (480, 701)),
    ),
    "gemma4": Case(
        "google/gemma-4-e2b-it, fewer tokens",
        "gemma4.image_processing_pil_gemma4.Gemma4ImageProcessorPil",
        of_family("gemma4"),
        {**GEMMA_4, "max_soft_tokens": 70},
        sizes=(*SIZES, (400, 404)),
    ),
    "gemma4_default": Case(
        "google/gemma-4-e2b-it",
        "gemma4.image_processing_pil_gemma4.Gemma4ImageProcessorPil",
        of_family("gemma4"),
        GEMMA_4,
        sizes=((33, 77), (480, 701)),
    ),
    "gemma4_unified": Case(
        "google/gemma-4-12B-it, fewer tokens",
        "gemma4_unified.image_processing_gemma4_unified.Gemma4UnifiedImageProcessor",
        of_family("gemma4_unified"),
        {**GEMMA_4, "max_soft_tokens": 70},
    ),
    "youtu_vl": Case(
        "tencent/Youtu-VL-4B-Instruct",
        "published.youtu_vl",
        of_family("youtu_vl"),
        {**COMMON, **HALF, "resample": 2, "patch_size": 16, "max_num_patches": 256},
    ),
    "phi3_v": Case(
        "microsoft/Phi-3.5-vision-instruct",
        "microsoft.phi3_v.Phi3VImageProcessor",
        images.padded_images(),
        {**COMMON, **CLIP, "num_crops": 4},
        sizes=((28, 28), (33, 77), (150, 40), (480, 701), (1200, 250)),
    ),
    "phi4_siglip": Case(
        "microsoft/Phi-4-reasoning-vision-15B, whose Siglip2ImageProcessorNoUpscale asks for a picture's own patches",
        "siglip2.image_processing_pil_siglip2.Siglip2ImageProcessorPil",
        native_images.bounded_images(),
        {**COMMON, **HALF, "resample": 2, "patch_size": 16, "max_num_patches": 60, "min_num_patches": 12},
        sizes=((150, 40), (3, 600), (28, 28), (100, 90), (90, 130), (336, 336), (480, 701), (1200, 250)),
    ),
    "lfm2_vl": Case(
        "LiquidAI/LFM2-VL-1.6B, smaller tiles",
        "mlx_vlm.lfm2_vl.processing_lfm2_vl.Lfm2VlNumpyImageProcessor",
        native_images.split_images(),
        LFM2,
        sizes=((28, 28), (20, 90), (33, 77), (150, 40), (200, 150), (480, 701), (1200, 250)),
    ),
    "lfm2_vl_strips": Case(
        "the same, thin ones too: they become more tokens than are allowed here, and mlx-vlm cuts them to those",
        "lfm2_vl.image_processing_lfm2_vl.Lfm2VlImageProcessor",
        native_images.split_images(),
        LFM2,
        sizes=((28, 28), (1, 90), (90, 1), (20, 90), (3, 600), (200, 150), (480, 701)),
    ),
    "locateanything": Case(
        "nvidia/LocateAnything-3B",
        "mlx_vlm.locateanything.image_processing_locateanything.LocateAnythingImageProcessor",
        native_images.locate_images(),
        {"patch_size": 14, "merge_kernel_size": [2, 2], "in_token_limit": 300, **HALF},
        {"vision_config": {"patch_size": 14}},
        sizes=(*SIZES, (480, 640)),
    ),
    "kimi_vl": Case(
        "moonshotai/Kimi-VL-A3B-Instruct",
        "mlx_vlm.kimi_vl.processing_kimi_vl.KimiVLImageProcessor",
        native_images.moonshot_images(),
        {"patch_size": 14, "in_token_limit": 300, "pad_input": True, **HALF},
        {"vision_config": {"patch_size": 14, "merge_kernel_size": [2, 2]}},
        sizes=(*SIZES, (480, 640)),
    ),
    "kimi_vl_cut": Case(
        "none: what the class of Kimi-VL does where a file does not ask to fill up",
        "mlx_vlm.kimi_vl.processing_kimi_vl.KimiVLImageProcessor",
        native_images.moonshot_images(),
        {"patch_size": 14, "in_token_limit": 300},
        sizes=((28, 28), (33, 77), (150, 40), (336, 336), (480, 701), (1200, 250)),
    ),
    "kimi_k25": Case(
        "moonshotai/Kimi-K2.5",
        "mlx_vlm.kimi_k25.processing_kimi_k25.KimiK25ImageProcessor",
        native_images.navit_images(),
        {
            "media_proc_cfg": {
                "patch_size": 14, "in_patch_limit": 300, "patch_limit_on_one_side": 40, "merge_kernel_size": 2, **HALF,
            },
            # the class of the reference is given the same by its own names
            "patch_size": 14, "in_token_limit": 300, "patch_limit_on_one_side": 40, "merge_kernel_size": [2, 2],
        },
        sizes=(*SIZES, (480, 640), (2, 3000)),
    ),
}  # fmt: skip


def picture(size: tuple[int, int]) -> NDArray[np.uint8]:
    """Slopes of colour with noise and hard edges, (H, W, 3); the same bytes everywhere."""
    height, width = size
    random = np.random.RandomState(height * 10007 + width)
    y, x = np.mgrid[:height, :width]
    slopes = np.stack([y * 255 / height, x * 255 / width, (x + y) * 255 / (height + width)], axis=-1)
    noise = random.randint(-40, 40, (height, width, 3))
    lines = np.where(((x // 7 + y // 5) % 4 == 0)[..., None], 120, 0)
    return np.clip(slopes + noise - lines, 0, 255).astype(np.uint8)


def places(count: int) -> NDArray[np.intp]:
    """Which of `count` values a golden keeps."""
    return np.random.RandomState(count % 65521).randint(0, count, min(SAMPLES, count))


def row_by_row(image: ImageInput, merge: int, inner: int = 1) -> NDArray[np.float32]:
    """The patches of all parts of an image, of each row by row."""
    outer, sizes, width = merge // inner, [h * w for _, h, w in image.grids], image.pixels.shape[-1]
    parts = zip(image.grids, np.split(image.pixels, np.cumsum(sizes)[:-1]), strict=True)
    squares = [part.reshape(h // merge, w // merge, outer, outer, inner, inner, -1) for (_, h, w), part in parts]
    return np.concatenate([square.transpose(0, 2, 4, 1, 3, 5, 6).reshape(-1, width) for square in squares])


def summary(pixels: NDArray[np.float32]) -> NDArray[np.float64]:
    """Some values, then mean and mean square of all: what a golden keeps of a result."""
    flat = pixels.astype(np.float64).ravel()
    return np.concatenate([flat[places(flat.size)], [flat.mean(), np.square(flat).mean()]])
