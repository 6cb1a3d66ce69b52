"""Image processors made from a checkpoint's files; each function here gives a family its `images`.

The names of preprocessor_config.json end in this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
from PIL import Image

from docai.errors import CheckpointError
from docai.preprocess.centred import CentredImages
from docai.preprocess.inputs import ImageInput, ImageProcessor
from docai.preprocess.normalize import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Colour,
    Normalization,
)
from docai.preprocess.processors import (
    BoundedImages,
    ClampedImages,
    CroppedImages,
    FittedImages,
    GrownImages,
    PackedImages,
    PaddedImages,
    SplitImages,
    StretchedImages,
    TiledImages,
)
from docai.preprocess.resample import BICUBIC, BILINEAR
from docai.preprocess.sizes import Size
from docai.preprocess.tiles import Cuts, PanAndScan

__all__ = [
    "ImageInput",
    "ImageProcessor",
    "Images",
    "bounded_images",
    "canvas_images",
    "cut_images",
    "falcon_images",
    "flat_images",
    "florence_images",
    "gemma_images",
    "llava_images",
    "locate_images",
    "padded_images",
    "pixtral_images",
    "preprocessor_config",
    "qwen_images",
    "siglip_images",
    "split_images",
    "tiled_images",
]


class Config(Protocol):
    """A JSON object: a mapping, or a `docai.vlm.config.Config`."""

    def get(self, name: str, /) -> Any:
        """A field, None where it is missing."""
        ...


Prep = Mapping[str, Any]
Images = Callable[[Prep, Config], ImageProcessor]  # (preprocessor_config, config) -> processor

MOST_SIDE, MOST_PIXELS = 1 << 14, 1 << 28  # above any tower's: more would only take memory
MOST_CUTS = 64  # crops of a picture, likewise
PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]  # LLaVA 1.6, sides in tiles of 336


class HasFiles(Protocol):
    """A checkpoint, as far as it is read here."""

    def json_file(self, name: str) -> Any:
        """The content of a JSON file of the checkpoint, None where it has none."""
        ...


def preprocessor_config(checkpoint: HasFiles) -> Prep:
    """What a checkpoint says of its image processor: in processor_config.json where newer files nest it, or alone."""
    nested = (checkpoint.json_file("processor_config.json") or {}).get("image_processor")
    return nested or checkpoint.json_file("preprocessor_config.json") or {}


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
            _normalization(prep, mean, std),
            patch=prep.get("patch_size") or vision.get("patch_size") or patch,
            merge=prep.get("merge_size") or vision.get("spatial_merge_size") or merge,
            temporal=prep.get("temporal_patch_size") or vision.get("temporal_patch_size") or temporal,
            least_pixels=prep.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels") or least_pixels,
            most_pixels=prep.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels") or most_pixels,
            how=_resampling(prep, BICUBIC),
        )

    return _checked(build)


def falcon_images(*, patch: int = 16) -> Images:
    """Falcon-OCR; its bounds are those of the reference's code, as its files say nothing but the patch."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        return ClampedImages(
            _normalization(prep, HALF, HALF),
            patch=config.get("spatial_patch_size") or prep.get("patch_size") or patch,
            least_side=prep.get("min_image_size") or 64,
            most_side=prep.get("max_image_size") or 1024,
            least_pixels=prep.get("min_pixels") or 56 * 56,
            most_pixels=prep.get("max_pixels") or 28 * 28 * 1280,
            how=_resampling(prep, BICUBIC),
        )

    return _checked(build)


def llava_images(*, edge: int = 336, patch: int = 14) -> Images:
    """LLaVA 1.5: CLIP's crop, or what its other towers ask for (SigLIP a stretch, Pixtral its own)."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        if str(vision.get("model_type", "")).startswith("pixtral"):
            return pixtral_images()(prep, config)
        side = vision.get("image_size") or edge
        size = _size(prep.get("crop_size") or prep.get("size"), side)
        tokens = _tower_tokens(size, vision.get("patch_size") or patch, config)
        if "height" in (prep.get("size") or {}) and not prep.get("do_center_crop"):
            return StretchedImages(_normalization(prep, HALF, HALF), size, tokens, _resampling(prep, BICUBIC))
        return CroppedImages(
            _normalization(prep, CLIP_MEAN, CLIP_STD),
            edge=_size(prep.get("size"), side)[0],
            crop=size,
            tokens=tokens,
            how=_resampling(prep, BICUBIC),
            square=bool(prep.get("do_pad")),
        )

    return _checked(build)


def tiled_images(*, edge: int = 336, patch: int = 14) -> Images:
    """LLaVA 1.6 (NeXT): the picture whole and in tiles."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        choices = prep.get("image_grid_pinpoints") or config.get("image_grid_pinpoints") or PINPOINTS
        tile = _size(prep.get("crop_size") or prep.get("size"), vision.get("image_size") or edge)[0]
        if any(side % tile for choice in choices for side in choice):
            raise ValueError(f"image_grid_pinpoints are not whole tiles of {tile}: {choices}")
        return TiledImages(
            _normalization(prep, CLIP_MEAN, CLIP_STD),
            tile=tile,
            patch=vision.get("patch_size") or patch,
            choices=tuple((height, width) for height, width in choices),
            how=_resampling(prep, BICUBIC),
        )

    return _checked(build)


def siglip_images(*, edge: int = 224, patch: int = 14) -> Images:
    """PaliGemma: stretched to a square, a token for each patch."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        size = _size(prep.get("size"), vision.get("image_size") or edge)
        side = vision.get("patch_size") or patch
        tokens = (size[0] // side) * (size[1] // side)
        return StretchedImages(_normalization(prep, HALF, HALF), size, tokens, _resampling(prep, BICUBIC))

    return _checked(build)


def gemma_images(*, edge: int = 896, tokens: int = 256) -> Images:
    """Gemma 3: stretched to a square whose patches are pooled to a fixed number of tokens."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        return StretchedImages(
            _normalization(prep, HALF, HALF),
            _size(prep.get("size"), vision.get("image_size") or edge),
            tokens=config.get("mm_tokens_per_image") or tokens,
            how=_resampling(prep, BILINEAR),
            pan=_pan_and_scan(prep) if prep.get("do_pan_and_scan") else None,
        )

    return _checked(build)


def pixtral_images(*, patch: int = 16, edge: int = 1024, merge: int = 1) -> Images:
    """Pixtral and Mistral 3: the longest side bounded, whole patches (of `spatial_merge_size` each way)."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision, size = config.get("vision_config") or {}, prep.get("size") or {}
        return FittedImages(
            _normalization(prep, CLIP_MEAN, CLIP_STD),
            patch=vision.get("patch_size") or _size(prep.get("patch_size"), patch)[0],
            merge=config.get("spatial_merge_size") or merge,
            edge=size.get("longest_edge") or size.get("height") or vision.get("image_size") or edge,
            how=_resampling(prep, BICUBIC),
        )

    return _checked(build)


def florence_images(*, edge: int = 768, strides: tuple[int, ...] = (4, 2, 2, 2)) -> Images:
    """Florence-2: stretched to a square; a token for each place of the tower's grid and one for their mean."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        size = _size(prep.get("size"), edge)
        height, width = size
        for stride in (config.get("vision_config") or {}).get("patch_stride") or strides:
            height, width = -(-height // stride), -(-width // stride)
        colours = _normalization(prep, IMAGENET_MEAN, IMAGENET_STD)
        return StretchedImages(colours, size, 1 + height * width, _resampling(prep, BICUBIC))

    return _checked(build)


def canvas_images(*, height: int = 2048, width: int = 1664, patch: int = 16) -> Images:
    """Nemotron-Parse: in the middle of a white page, whose size config.json knows best."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        rows, columns = config.get("image_size") or prep.get("final_size") or (height, width)
        encoder = config.get("encoder") or config.get("vision_config") or {}
        colours = _normalization(prep, CLIP_MEAN, CLIP_STD)
        return CentredImages(colours, (int(rows), int(columns)), encoder.get("patch_size") or patch)

    return _checked(build)


def locate_images(*, patch: int = 14, merge: int = 2, most: int = 25_600) -> Images:
    """LocateAnything: every picture at its own size as far as it has not too many patches."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        return GrownImages(
            _normalization(prep, HALF, HALF),
            patch=prep.get("patch_size") or vision.get("patch_size") or patch,
            merge=(prep.get("merge_kernel_size") or vision.get("merge_kernel_size") or [merge])[0],
            most_patches=prep.get("in_token_limit") or most,
            how=_resampling(prep, BICUBIC),
        )

    return _checked(build)


def padded_images(*, edge: int = 336, patch: int = 14, cuts: int = 16) -> Images:
    """Phi-3 Vision: in tiles, and whole. Published files do not describe the tower; a vision_config may."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        most = prep.get("num_crops") or cuts
        if not 1 <= most <= MOST_CUTS:
            raise ValueError(f"num_crops {most} is not from 1 to {MOST_CUTS}")
        return PaddedImages(
            _normalization(prep, CLIP_MEAN, CLIP_STD),
            tile=vision.get("image_size") or edge,
            patch=vision.get("patch_size") or patch,
            most_cuts=most,
            how=_resampling(prep, BILINEAR),
        )

    return _checked(build)


def bounded_images(*, patch: int = 16, least: int = 256, most: int = 3600) -> Images:
    """Phi-4 with SigLIP 2, whose config.json has the bounds."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        return BoundedImages(
            _normalization(prep, HALF, HALF),
            patch=prep.get("patch_size") or vision.get("patch_size") or patch,
            least_patches=prep.get("min_num_patches") or config.get("min_num_patches") or least,
            most_patches=prep.get("max_num_patches") or config.get("max_num_patches") or most,
            how=_resampling(prep, BILINEAR),
        )

    return _checked(build)


def flat_images(*, patch: int = 16, merge: int = 2, most: int = 4096) -> Images:
    """Youtu-VL: native resolution in whole blocks, patches of SigLIP 2's kind."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        block = vision.get("spatial_merge_size") or merge
        patches = prep.get("max_num_patches") or vision.get("num_patches") or most
        return SplitImages(
            _normalization(prep, HALF, HALF),
            patch=prep.get("patch_size") or vision.get("patch_size") or patch,
            merge=block,
            least_tokens=1,
            most_tokens=patches // block**2,
            tile=patch,
            cuts=None,
            how=_resampling(prep, BILINEAR),
        )

    return _checked(build)


def split_images(*, patch: int = 16, merge: int = 2, tile: int = 512, least: int = 64, most: int = 256) -> Images:
    """LFM2-VL: native resolution, tiles of large pictures and the whole of them."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}

        def said(name: str, default: Any) -> Any:
            value = prep.get(name)
            value = config.get(name) if value is None else value
            return default if value is None else value

        cuts = Cuts(said("min_tiles", 2), said("max_tiles", 10))
        if not 1 <= cuts.least <= cuts.most <= MOST_CUTS:
            raise ValueError(f"min_tiles {cuts.least} and max_tiles {cuts.most} are not from 1 to {MOST_CUTS}")
        return SplitImages(
            _normalization(prep, HALF, HALF),
            patch=said("encoder_patch_size", vision.get("patch_size") or patch),
            merge=said("downsample_factor", merge),
            least_tokens=said("min_image_tokens", least),
            most_tokens=said("max_image_tokens", most),
            tile=said("tile_size", tile),
            cuts=cuts if said("do_image_splitting", True) and cuts.most > 1 else None,
            tolerance=float(said("max_pixels_tolerance", 2.0)),
            whole=bool(said("use_thumbnail", True)),
            how=_resampling(prep, BILINEAR),
        )

    return _checked(build)


def cut_images(
    *,
    edge: int = 1024,
    patch: int = 16,
    merge: int = 4,
    cut: bool = False,
    kind: type[Cuts] = Cuts,
    mean: Colour = CLIP_MEAN,
    std: Colour = CLIP_STD,
) -> Images:
    """Stretched to a square, a token for `merge` x `merge` patches; with crops, in squares of that size as well.

    GOT-OCR 2.0 (crops where they are asked for), Aya Vision, Command A Vision, LLM-jp-VL (crops, `cut`).
    """

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        side = _size(vision.get("image_size") or vision.get("img_size"), edge)[0]
        size = _size(prep.get("size"), side)
        rows, columns = (-(-(length // _size(vision.get("patch_size"), patch)[0]) // merge) for length in size)
        most = prep.get("max_patches") or config.get("max_dynamic_patch") or 12
        cuts = kind(prep.get("min_patches") or config.get("min_dynamic_patch") or 1, most)
        if not 1 <= cuts.least <= cuts.most <= MOST_CUTS:
            raise ValueError(f"min_patches {cuts.least} and max_patches {cuts.most} are not from 1 to {MOST_CUTS}")
        asked = prep.get("crop_to_patches")
        return StretchedImages(
            _normalization(prep, mean, std),
            size,
            rows * columns,
            _resampling(prep, BICUBIC),
            cuts=cuts,
            cut=cut if asked is None else bool(asked),
        )

    return _checked(build)


def _checked(build: Images) -> Images:
    """`build` with errors that name the file, and no size that no picture has."""

    def checked(prep: Prep, config: Config) -> ImageProcessor:
        try:
            processor = build(prep, config)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"preprocessor_config.json: expected numbers, sizes and colours of an image processor; {error}"
            ) from error
        for name, number in _numbers(processor):
            most = MOST_PIXELS if name.endswith(("pixels", "patches")) else MOST_SIDE
            if not isinstance(number, int) or not 0 < number <= most:
                raise CheckpointError(f"preprocessor_config.json: expected a {name} from 1 to {most}, got {number!r}")
        return processor

    return checked


def _numbers(processor: ImageProcessor) -> Iterator[tuple[str, Any]]:
    """Every size of a processor, with the name of its field."""
    plain = {"normalize", "how", "square", "pan", "cuts", "cut", "most_tokens", "tolerance", "whole"}
    for name in (field.name for field in fields(processor) if field.name not in plain):  # type: ignore[arg-type]
        value = getattr(processor, name)
        for number in np.ravel(value).tolist() if isinstance(value, tuple) else (value,):
            yield name, number


def _normalization(prep: Prep, mean: Colour, std: Colour) -> Normalization:
    scale = 1.0 if prep.get("do_rescale") is False else float(prep.get("rescale_factor") or 1 / 255)
    if prep.get("do_normalize") is False:
        return Normalization(scale=scale)
    return Normalization(_colour(prep.get("image_mean"), mean), _colour(prep.get("image_std"), std), scale)


def _colour(value: Any, default: Colour) -> Colour:
    if value is None:
        return default
    if isinstance(value, int | float):
        return (float(value),) * 3
    red, green, blue = value
    return float(red), float(green), float(blue)


def _resampling(prep: Prep, default: Image.Resampling) -> Image.Resampling:
    number = prep.get("resample")
    if number is None:
        return default
    if number not in set(Image.Resampling):
        known = ", ".join(f"{how.value} ({how.name.lower()})" for how in Image.Resampling)
        raise CheckpointError(
            f"the checkpoint asks for the resampling filter {number}, which Pillow does not have; it has {known}"
        )
    return Image.Resampling(number)


def _size(value: Any, default: int) -> Size:
    """(height, width) of the forms that files have: a number, {height, width} or {shortest_edge}."""
    if value is None:
        return default, default
    if isinstance(value, int):
        return value, value
    height = int(value.get("height") or value.get("shortest_edge") or default)
    return height, int(value.get("width") or height)


def _tower_tokens(size: Size, patch: int, config: Config) -> int:
    """Rows of a tower of CLIP's kind: `default` drops its first row, the class token where it has one."""
    has_class = str((config.get("vision_config") or {}).get("model_type", "clip")).startswith("clip")
    dropped = bool((config.get("vision_feature_select_strategy") or "default") == "default")
    return (size[0] // patch) * (size[1] // patch) + has_class - dropped


def _pan_and_scan(prep: Prep) -> PanAndScan:
    default = PanAndScan()
    return PanAndScan(
        prep.get("pan_and_scan_min_crop_size") or default.least_side,
        prep.get("pan_and_scan_max_num_crops") or default.most_crops,
        prep.get("pan_and_scan_min_ratio_to_activate") or default.least_ratio,
    )
