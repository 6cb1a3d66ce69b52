"""Image processors of packed towers, made from a checkpoint's files; each function here gives a family its `images`.

The names of preprocessor_config.json end here, in `docai.vlm.images` and in `docai.vlm.prep`. Of what the tower fixes
(the side of a patch, how many become a token), config.json's word counts first: it takes no others.
"""

from __future__ import annotations

from typing import Any

from docai.preprocess.inputs import ImageProcessor
from docai.preprocess.native import (
    BlockImages,
    BoundedImages,
    BudgetImages,
    ClampedImages,
    FilledImages,
    FittedImages,
    GrownImages,
    PackedImages,
    SplitImages,
)
from docai.preprocess.normalize import CLIP_MEAN, CLIP_STD, HALF, Colour
from docai.preprocess.resample import BICUBIC, BILINEAR
from docai.preprocess.sliced import SlicedImages
from docai.preprocess.tiles import Cuts
from docai.vlm.prep import Config, Images, Prep, checked, cuts_of, normalization, patch_of, resampling


def qwen_images(
    *,
    patch: int = 14,
    merge: int = 2,
    temporal: int = 2,
    mean: Colour = CLIP_MEAN,
    std: Colour = CLIP_STD,
    least_pixels: int = 56 * 56,
    most_pixels: int = 28 * 28 * 1280,
) -> Images:
    """The Qwen-VL line; the arguments are what its configuration files may leave out."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        size, vision = prep.get("size") or {}, config.get("vision_config") or {}
        return PackedImages(
            normalization(prep, mean, std),
            patch=patch_of(prep, config, patch),
            merge=vision.get("spatial_merge_size") or prep.get("merge_size") or merge,
            temporal=vision.get("temporal_patch_size") or prep.get("temporal_patch_size") or temporal,
            least_pixels=prep.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels") or least_pixels,
            most_pixels=prep.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels") or most_pixels,
            how=resampling(prep, BICUBIC),
        )

    return checked(build)


def falcon_images(*, patch: int = 16) -> Images:
    """Falcon-OCR; its bounds are those of the reference's code, as its files say nothing but the patch."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        return ClampedImages(
            normalization(prep, HALF, HALF),
            patch=config.get("spatial_patch_size") or prep.get("patch_size") or patch,
            least_side=prep.get("min_image_size") or 64,
            most_side=prep.get("max_image_size") or 1024,
            least_pixels=prep.get("min_pixels") or 56 * 56,
            most_pixels=prep.get("max_pixels") or 28 * 28 * 1280,
            how=resampling(prep, BICUBIC),
        )

    return checked(build)


def budget_images(
    positions: str, default: int, *, whole: bool, patch: int = 16, pool: int = 3, tokens: int = 280, most: int = 1120
) -> Images:
    """Gemma 4: a token for `pool` x `pool` patches, as many as a budget allows, which requests may change.

    `whole`: those are one patch to the model (Gemma 4 Unified). `positions`: the field of vision_config that says how
    many patches a side may have, `default` where it is not there.
    """

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        side = patch_of(prep, config, patch)
        merge = vision.get("pooling_kernel_size") or prep.get("pooling_kernel_size") or pool
        budget = prep.get("max_soft_tokens") or tokens
        return BudgetImages(
            normalization(prep, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
            patch=side * merge if whole else side,
            merge=1 if whole else merge,
            budget=budget,
            most_budget=max(budget, most),
            most_side=(vision.get(positions) or default) // (1 if whole else merge),
            how=resampling(prep, BICUBIC),
        )

    return checked(build)


def pixtral_images(*, patch: int = 16, edge: int = 1024, merge: int = 1) -> Images:
    """Pixtral and Mistral 3: the longest side bounded, whole patches (of `spatial_merge_size` each way)."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision, size = config.get("vision_config") or {}, prep.get("size") or {}
        return FittedImages(
            normalization(prep, CLIP_MEAN, CLIP_STD),
            patch=patch_of(prep, config, patch),
            merge=config.get("spatial_merge_size") or merge,
            edge=size.get("longest_edge") or size.get("height") or vision.get("image_size") or edge,
            how=resampling(prep, BICUBIC),
        )

    return checked(build)


def locate_images(*, patch: int = 14, merge: int = 2, most: int = 25_600) -> Images:
    """LocateAnything: every picture at its own size as far as it has not too many patches."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        return GrownImages(
            normalization(prep, HALF, HALF),
            patch=patch_of(prep, config, patch),
            merge=_square(vision.get("merge_kernel_size") or prep.get("merge_kernel_size"), merge),
            most_patches=prep.get("in_token_limit") or most,
            how=resampling(prep, BICUBIC),
        )

    return checked(build)


def moonshot_images(*, patch: int = 14, merge: int = 2, most: int = 4096) -> Images:
    """Kimi-VL: every picture at its own size, as far as it has not too many patches."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        # published files have the latter; the class behind them has the former where a file says nothing
        mean, std = (CLIP_MEAN, CLIP_STD) if prep else (HALF, HALF)
        return FilledImages(
            normalization(prep, mean, std),
            patch=patch_of(prep, config, patch),
            merge=_square(vision.get("merge_kernel_size") or prep.get("merge_kernel_size"), merge),
            most_patches=prep.get("in_token_limit") or most,
            most_side=511,
            how=resampling(prep, BICUBIC),
            shrink_sides=False,
            fill=bool(prep.get("pad_input", not prep)),  # likewise
        )

    return checked(build)


def navit_images(*, patch: int = 14, merge: int = 2, most: int = 16_384, side: int = 512) -> Images:
    """Kimi K2.5; its published file nests what transformers' has by other names."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision, said = config.get("vision_config") or {}, prep.get("media_proc_cfg") or prep
        longest = said.get("patch_limit_on_one_side") or (said.get("size") or {}).get("max_height") or side
        kernel = vision.get("merge_kernel_size") or said.get("merge_kernel_size") or said.get("merge_size")
        return FilledImages(
            normalization(said, HALF, HALF),
            patch=patch_of(said, config, patch),
            merge=_square(kernel, merge),
            most_patches=said.get("in_patch_limit") or said.get("max_patches") or most,
            most_side=longest,
            how=resampling(said, BICUBIC),
        )

    return checked(build)


def _square(value: Any, default: int) -> int:
    """A side that files give as a number or as two."""
    side: int = default if value is None else value if isinstance(value, int) else value[0]
    return side


def bounded_images(*, patch: int = 16, least: int = 256, most: int = 3600) -> Images:
    """Phi-4 with SigLIP 2, whose config.json has the bounds."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        return BoundedImages(
            normalization(prep, HALF, HALF),
            patch=patch_of(prep, config, patch),
            least_patches=prep.get("min_num_patches") or config.get("min_num_patches") or least,
            most_patches=prep.get("max_num_patches") or config.get("max_num_patches") or most,
            how=resampling(prep, BILINEAR),
        )

    return checked(build)


def block_images(*, patch: int = 16, merge: int = 2, most: int = 36_864) -> Images:
    """Youtu-VL: its code says how many patches there may be, whatever max_num_patches its files have."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        return BlockImages(
            normalization(prep, HALF, HALF),
            patch=patch_of(prep, config, patch),
            merge=vision.get("spatial_merge_size") or merge,
            most_patches=most,
            how=resampling(prep, BILINEAR),
        )

    return checked(build)


def split_images(*, patch: int = 16, merge: int = 2, tile: int = 512, least: int = 64, most: int = 256) -> Images:
    """LFM2-VL: native resolution, tiles of large pictures and the whole of them."""

    def build(prep: Prep, config: Config) -> ImageProcessor:

        def said(name: str, default: Any) -> Any:
            value = prep.get(name)
            value = config.get(name) if value is None else value
            return default if value is None else value

        cuts = cuts_of(Cuts, said("min_tiles", 2), said("max_tiles", 10))
        return SplitImages(
            normalization(prep, HALF, HALF),
            patch=patch_of(prep, config, said("encoder_patch_size", patch)),
            merge=config.get("downsample_factor") or said("downsample_factor", merge),
            least_tokens=said("min_image_tokens", least),
            most_tokens=said("max_image_tokens", most),
            tile=said("tile_size", tile),
            cuts=cuts if said("do_image_splitting", True) and cuts.most > 1 else None,
            tolerance=float(said("max_pixels_tolerance", 2.0)),
            whole=bool(said("use_thumbnail", True)),
            how=resampling(prep, BILINEAR),
        )

    return checked(build)


def sliced_images(*, patch: int = 14, scale: int = 448, slices: int = 9) -> Images:
    """MiniCPM-V 4.6: whole at about `scale` squared, and in slices of that size where a picture is larger.

    A token is 4 x 4 patches, or 2 x 2 where `downsample_mode` is 4x.
    """

    def build(prep: Prep, config: Config) -> ImageProcessor:
        fine = config.get("downsample_mode") == "4x"
        return SlicedImages(
            normalization(prep, HALF, HALF),
            patch=patch_of(prep, config, patch),
            merge=2 if fine else 4,
            inner=1 if fine else 2,
            scale=prep.get("scale_resolution") or scale,
            most_slices=prep.get("max_slice_nums") or slices,
            how=resampling(prep, BICUBIC),
            cut=bool(prep.get("slice_mode", True)),
            numbered=bool(prep.get("use_image_id", True)),
        )

    return checked(build)
