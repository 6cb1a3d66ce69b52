"""Image processors of towers of one size, made from a checkpoint's files; each function gives a family its `images`.

The names of preprocessor_config.json end here, in `docai.vlm.native_images` and in `docai.vlm.prep`.
"""

from __future__ import annotations

from docai.preprocess.centred import CentredImages
from docai.preprocess.fixed import CroppedImages, PaddedImages, StretchedImages, TiledImages
from docai.preprocess.inputs import ImageProcessor
from docai.preprocess.normalize import CLIP_MEAN, CLIP_STD, HALF, IMAGENET_MEAN, IMAGENET_STD, Colour
from docai.preprocess.resample import BICUBIC, BILINEAR
from docai.preprocess.sizes import Size
from docai.preprocess.tiles import Cuts, PanAndScan
from docai.vlm.native_images import pixtral_images
from docai.vlm.prep import Config, Images, Prep, checked, cuts_of, normalization, resampling, size_of

PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]  # LLaVA 1.6, sides in tiles of 336


def llava_images(*, edge: int = 336, patch: int = 14) -> Images:
    """LLaVA 1.5: CLIP's crop, or what its other towers ask for (SigLIP a stretch, Pixtral its own)."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        if str(vision.get("model_type", "")).startswith("pixtral"):
            return pixtral_images()(prep, config)
        side = vision.get("image_size") or edge
        size = size_of(prep.get("crop_size") or prep.get("size"), side)
        tokens = _tower_tokens(size, vision.get("patch_size") or patch, config)
        if "height" in (prep.get("size") or {}) and not prep.get("do_center_crop"):
            return StretchedImages(normalization(prep, HALF, HALF), size, tokens, resampling(prep, BICUBIC))
        return CroppedImages(
            normalization(prep, CLIP_MEAN, CLIP_STD),
            edge=size_of(prep.get("size"), side)[0],
            crop=size,
            tokens=tokens,
            how=resampling(prep, BICUBIC),
            square=bool(prep.get("do_pad")),
        )

    return checked(build)


def tiled_images(*, edge: int = 336, patch: int = 14) -> Images:
    """LLaVA 1.6 (NeXT): the picture whole and in tiles."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        choices = prep.get("image_grid_pinpoints") or config.get("image_grid_pinpoints") or PINPOINTS
        tile = size_of(prep.get("crop_size") or prep.get("size"), vision.get("image_size") or edge)[0]
        if any(side % tile for choice in choices for side in choice):
            raise ValueError(f"image_grid_pinpoints are not whole tiles of {tile}: {choices}")
        return TiledImages(
            normalization(prep, CLIP_MEAN, CLIP_STD),
            tile=tile,
            patch=vision.get("patch_size") or patch,
            choices=tuple((height, width) for height, width in choices),
            how=resampling(prep, BICUBIC),
        )

    return checked(build)


def siglip_images(*, edge: int = 224, patch: int = 14) -> Images:
    """PaliGemma, Bunny: stretched to a square, a token for each patch; Bunny's config may ask for a padded one."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        size = size_of(prep.get("size"), vision.get("image_size") or edge)
        side = vision.get("patch_size") or patch
        tokens = (size[0] // side) * (size[1] // side)
        colours, how = normalization(prep, HALF, HALF), resampling(prep, BICUBIC)
        if config.get("image_aspect_ratio") == "pad":
            return CroppedImages(colours, min(size), size, tokens, how, square=True)
        return StretchedImages(colours, size, tokens, how)

    return checked(build)


def gemma_images(*, edge: int = 896, tokens: int = 256) -> Images:
    """Gemma 3: stretched to a square whose patches are pooled to a fixed number of tokens."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        return StretchedImages(
            normalization(prep, HALF, HALF),
            size_of(prep.get("size"), vision.get("image_size") or edge),
            tokens=config.get("mm_tokens_per_image") or tokens,
            how=resampling(prep, BILINEAR),
            pan=_pan_and_scan(prep) if prep.get("do_pan_and_scan") else None,
        )

    return checked(build)


def florence_images(*, edge: int = 768, strides: tuple[int, ...] = (4, 2, 2, 2)) -> Images:
    """Florence-2: stretched to a square; a token for each place of the tower's grid and one for their mean."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        size = size_of(prep.get("size"), edge)
        height, width = size
        for stride in (config.get("vision_config") or {}).get("patch_stride") or strides:
            height, width = -(-height // stride), -(-width // stride)
        colours = normalization(prep, IMAGENET_MEAN, IMAGENET_STD)
        return StretchedImages(colours, size, 1 + height * width, resampling(prep, BICUBIC))

    return checked(build)


def canvas_images(*, height: int = 2048, width: int = 1664, patch: int = 16) -> Images:
    """Nemotron-Parse: in the middle of a white page, whose size config.json knows best."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        rows, columns = config.get("image_size") or prep.get("final_size") or (height, width)
        encoder = config.get("encoder") or config.get("vision_config") or {}
        colours = normalization(prep, CLIP_MEAN, CLIP_STD)
        return CentredImages(colours, (int(rows), int(columns)), encoder.get("patch_size") or patch)

    return checked(build)


def padded_images(*, edge: int = 336, patch: int = 14, cuts: int = 16) -> Images:
    """Phi-3 Vision: in tiles, and whole. Published files do not describe the tower; a vision_config may."""

    def build(prep: Prep, config: Config) -> ImageProcessor:
        vision = config.get("vision_config") or {}
        most = cuts_of(Cuts, 1, prep.get("num_crops") or cuts).most
        return PaddedImages(
            normalization(prep, CLIP_MEAN, CLIP_STD),
            tile=vision.get("image_size") or edge,
            patch=vision.get("patch_size") or patch,
            most_cuts=most,
            how=resampling(prep, BILINEAR),
        )

    return checked(build)


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
        side = size_of(vision.get("image_size") or vision.get("img_size"), edge)[0]
        size = size_of(prep.get("size"), side)
        rows, columns = (-(-(length // size_of(vision.get("patch_size"), patch)[0]) // merge) for length in size)
        most = prep.get("max_patches") or config.get("max_dynamic_patch") or 12
        cuts = cuts_of(kind, prep.get("min_patches") or config.get("min_dynamic_patch") or 1, most)
        asked = prep.get("crop_to_patches")
        return StretchedImages(
            normalization(prep, mean, std),
            size,
            rows * columns,
            resampling(prep, BICUBIC),
            cuts=cuts,
            cut=cut if asked is None else bool(asked),
        )

    return checked(build)


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
