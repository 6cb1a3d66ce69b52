"""The image processors: a few shapes of the same steps, whose sizes and colours the families give."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from PIL import Image

from docai.errors import InputError
from docai.preprocess.inputs import ImageInput, ImageProcessor, Pixels, Rgb
from docai.preprocess.normalize import Normalization
from docai.preprocess.patches import flat_patches, grid_patches
from docai.preprocess.resample import BICUBIC, BILINEAR, interpolate, resize
from docai.preprocess.sizes import (
    Size,
    best_resolution,
    budgeted,
    clamped,
    fit_within,
    grown,
    longest_edge,
    most_tiles,
    scaled_to_patches,
    shrunk,
    shrunk_sides,
    smart_resize,
    stepped,
    unpadded,
)
from docai.preprocess.sliced import SlicedImages
from docai.preprocess.tiles import Cuts, PanAndScan, center_crop, pad_to, resize_crop, split_tiles

P = TypeVar("P", bound=ImageProcessor)


@dataclass(frozen=True, slots=True)
class PackedImages:
    """Native resolution: the area kept within bounds, cut into patches (Qwen2-VL and its line)."""

    normalize: Normalization
    patch: int
    merge: int
    temporal: int
    least_pixels: int
    most_pixels: int
    how: Image.Resampling = BICUBIC

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, 3 * temporal * patch * patch) and their grid (1, h, w)."""
        size = smart_resize(_size(rgb), self.patch * self.merge, least=self.least_pixels, most=self.most_pixels)
        pixels = self.normalize(resize(rgb, size, self.how))
        return _packed(pixels, self.patch, self.merge, self.temporal)


@dataclass(frozen=True, slots=True)
class FittedImages:
    """Native resolution: the longest side kept within `edge`, cut into patches (Pixtral, Mistral 3)."""

    normalize: Normalization
    patch: int
    merge: int
    edge: int
    how: Image.Resampling = BICUBIC

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, 3 * patch * patch), in merge x merge blocks, and their grid (1, h, w)."""
        size = longest_edge(_size(rgb), self.edge, self.patch * self.merge)
        return _packed(self.normalize(resize(rgb, size, self.how)), self.patch, self.merge, 1)


@dataclass(frozen=True, slots=True)
class GrownImages:
    """Native resolution: shrunk where there are too many patches, then stretched to whole blocks (LocateAnything).

    `most_side`: patches that the tower has turns for. `most_tokens`: of an image, where fewer are asked for.
    """

    normalize: Normalization
    patch: int
    merge: int
    most_patches: int
    how: Image.Resampling = BICUBIC
    most_side: int = 511
    most_tokens: int | None = None

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, 3 * patch * patch), in merge x merge blocks, and their grid (1, h, w)."""
        block = self.patch * self.merge
        size = _within_tokens(shrunk(_size(rgb), self.patch, self.most_patches), block, self.most_tokens)
        whole = grown(size, block)
        _check_side(rgb, max(whole) // self.patch, self.most_side)
        return _packed(self.normalize(resize(resize(rgb, size, self.how), whole, self.how)), self.patch, self.merge, 1)


@dataclass(frozen=True, slots=True)
class FilledImages:
    """Native resolution: shrunk where there are too many patches, then black to the right and below, to whole blocks.

    Kimi K2.5 shrinks pictures whose sides have more than `most_side` patches, too (`shrink_sides`); Kimi-VL refuses
    them, and cuts to whole blocks where it does not fill up (`fill`). `most_tokens`: see `GrownImages`.
    """

    normalize: Normalization
    patch: int
    merge: int
    most_patches: int
    most_side: int
    how: Image.Resampling = BICUBIC
    shrink_sides: bool = True
    fill: bool = True
    most_tokens: int | None = None

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, 3 * patch * patch), in merge x merge blocks, and their grid (1, h, w)."""
        return self.sized(rgb, self.size(_size(rgb)))

    def size(self, size: Size) -> Size:
        """(height, width) to which a picture of `size` is shrunk."""
        if self.shrink_sides:
            size = shrunk_sides(size, self.patch, self.most_patches, self.most_side)
        else:
            size = shrunk(size, self.patch, self.most_patches)
        return _within_tokens(size, self.patch * self.merge, self.most_tokens)

    def sized(self, rgb: Rgb, size: Size) -> ImageInput:
        """A picture shrunk to this size, in whole blocks."""
        return _packed(self._normalized(rgb, size), self.patch, self.merge, 1)

    def _normalized(self, rgb: Rgb, size: Size) -> Pixels:
        """(H, W, 3)"""
        block = self.patch * self.merge
        small = resize(rgb, size, self.how)
        if self.fill:
            whole = grown(size, block)
            _check_side(rgb, max(whole) // self.patch, self.most_side)
            return self.normalize(np.pad(small, [(0, whole[0] - size[0]), (0, whole[1] - size[1]), (0, 0)]))
        whole = size[0] // block * block, size[1] // block * block
        if min(whole) == 0:
            raise InputError(
                f"the image is {rgb.shape[1]} x {rgb.shape[0]} px: at {size[1]} x {size[0]}, a side has less than the "
                f"{block} that this model needs; pad it or make it larger"
            )
        _check_side(rgb, max(whole) // self.patch, self.most_side)
        return self.normalize(center_crop(small, whole))


@dataclass(frozen=True, slots=True)
class BoundedImages:
    """As many patches as a picture holds, within bounds, and a token for each of them (Phi-4 with SigLIP 2)."""

    normalize: Normalization
    patch: int
    least_patches: int
    most_patches: int
    how: Image.Resampling = BILINEAR

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, patch * patch * 3) in (p, p, C) order, row by row, and their grid (1, h, w)."""
        count = (rgb.shape[0] // self.patch) * (rgb.shape[1] // self.patch)
        most = min(max(count, self.least_patches), self.most_patches)
        size = scaled_to_patches(_size(rgb), self.patch, most)  # also where the count is within bounds
        return _by_pixels(self.normalize(resize(rgb, size, self.how)), self.patch, 1)


@dataclass(frozen=True, slots=True)
class BlockImages:
    """Native resolution in whole blocks of patches, as many as are allowed (Youtu-VL)."""

    normalize: Normalization
    patch: int
    merge: int
    most_patches: int
    how: Image.Resampling = BILINEAR

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, patch * patch * 3) in (p, p, C) order, in merge x merge blocks, and their grid (1, h, w)."""
        size = stepped(_size(rgb), self.patch, self.merge, self.most_patches)
        return _by_pixels(self.normalize(resize(rgb, size, self.how)), self.patch, self.merge)


@dataclass(frozen=True, slots=True)
class BudgetImages:
    """As large as whole blocks of patches allow of which there are at most `budget`, each of them a token (Gemma 4).

    A request may have more or fewer, up to `most_budget`. `most_side`: blocks of a side that the model has places for.
    """

    normalize: Normalization
    patch: int
    merge: int
    budget: int
    most_budget: int
    most_side: int
    how: Image.Resampling = BICUBIC

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, patch * patch * 3) in (p, p, C) order, in merge x merge blocks, and their grid (1, h, w)."""
        return self.sized(rgb, self.size(_size(rgb)))

    def size(self, size: Size) -> Size:
        """(height, width) that a picture of `size` becomes."""
        return budgeted(size, self.patch * self.merge, self.budget, self.most_side)

    def sized(self, rgb: Rgb, size: Size) -> ImageInput:
        """A picture brought to this size."""
        return _by_pixels(self.normalize(resize(rgb, size, self.how)), self.patch, self.merge)


@dataclass(frozen=True, slots=True)
class SplitImages:
    """Native resolution with tokens within bounds; a larger picture in tiles, and whole beside them (LFM2-VL).

    It is larger with more than `tolerance` times as many tokens.
    """

    normalize: Normalization
    patch: int
    merge: int
    least_tokens: int
    most_tokens: int
    tile: int
    cuts: Cuts | None
    tolerance: float = 2.0
    whole: bool = True
    how: Image.Resampling = BILINEAR

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, patch * patch * 3) in (p, p, C) order, in merge x merge blocks, and their grid (1, h, w).

        extra, of a picture in tiles: `tiles` (rows, columns), and `grids` of each of its parts, the whole one last.
        """
        block = self.patch * self.merge
        rounded = [max(self.patch, round(side / block) * block) for side in _size(rgb)]
        least, most = self.least_tokens * block**2, self.most_tokens * block**2
        size = smart_resize(_size(rgb), block, least=least, most=most, strips=True)
        if self.cuts is None or math.prod(rounded) <= most * self.tolerance:
            return self._part(resize(rgb, size, self.how))
        rows, columns = self.cuts.grid(_size(rgb), self.tile)
        tiles = split_tiles(resize(rgb, (rows * self.tile, columns * self.tile), self.how), self.tile)
        parts = [self._part(part) for part in (*tiles, *([resize(rgb, size, self.how)] if self.whole else []))]
        return ImageInput(
            np.concatenate([part.pixels for part in parts]),
            sum(part.tokens for part in parts),
            extra={"tiles": np.array((rows, columns)), "grids": np.array([part.grid for part in parts])},
        )

    def _part(self, rgb: Rgb) -> ImageInput:
        return _by_pixels(self.normalize(rgb), self.patch, self.merge)


@dataclass(frozen=True, slots=True)
class ClampedImages:
    """Sides and then the area kept within bounds, cut into patches that go straight into a decoder (Falcon-OCR)."""

    normalize: Normalization
    patch: int
    least_side: int
    most_side: int
    least_pixels: int
    most_pixels: int
    how: Image.Resampling = BICUBIC

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, patch * patch * 3) in (p, p, C) order, and their grid (1, h, w)."""
        size = clamped(_size(rgb), self.least_side, self.most_side)
        if min(size) < self.patch:
            raise InputError(
                f"the image is {rgb.shape[1]} x {rgb.shape[0]} px: at {size[1]} x {size[0]}, the most that this model "
                f"reads, a side has less than the {self.patch} of a patch; crop or pad it"
            )
        whole = smart_resize(size, self.patch, least=self.least_pixels, most=self.most_pixels)
        pixels = self.normalize(resize(resize(rgb, size, self.how), whole, self.how))
        height, width = whole[0] // self.patch, whole[1] // self.patch
        return ImageInput(grid_patches(pixels, self.patch), height * width, grid=(1, height, width))


@dataclass(frozen=True, slots=True)
class CroppedImages:
    """The shorter side to `edge`, then the middle (CLIP, LLaVA 1.5); with `square`, first padded to a square."""

    normalize: Normalization
    edge: int
    crop: Size
    tokens: int
    how: Image.Resampling = BICUBIC
    square: bool = False

    def __call__(self, rgb: Rgb) -> ImageInput:
        """One picture, (1, H, W, 3)."""
        if self.square:
            # the colour that normalises to nearly nothing
            colour = tuple(int(value * 255) for value in self.normalize.mean)
            rgb = pad_to(rgb, (max(_size(rgb)),) * 2, colour=colour)  # type: ignore[arg-type]  # three channels
        cropped = resize_crop(rgb, self.edge, self.crop, self.how)
        return ImageInput(self.normalize(cropped)[None], self.tokens)


@dataclass(frozen=True, slots=True)
class StretchedImages:
    """Stretched to one size, whatever the shape (SigLIP, PaliGemma, Gemma 3); with `pan`, crops of long ones too.

    With `cut`, in squares of that size as `cuts` says (GOT-OCR).
    """

    normalize: Normalization
    size: Size
    tokens: int
    how: Image.Resampling = BICUBIC
    pan: PanAndScan | None = None
    cuts: Cuts | None = None
    cut: bool = False

    def __call__(self, rgb: Rgb) -> ImageInput:
        """The picture and its crops, (1 + crops, H, W, 3); `tokens` is that of all of them."""
        if self.cuts and self.cut:
            parts = self.cuts(rgb, self.size[0], self.how)
        else:
            parts = [rgb, *(self.pan.crops(rgb) if self.pan else ())]
        pixels = self.normalize(np.stack([resize(part, self.size, self.how) for part in parts]))
        return ImageInput(pixels, self.tokens * len(parts))


@dataclass(frozen=True, slots=True)
class TiledImages:
    """The whole picture at the tower's size, then tiles of it at the best of some larger sizes (LLaVA 1.6 anyres)."""

    normalize: Normalization
    tile: int
    patch: int
    choices: tuple[Size, ...]
    how: Image.Resampling = BICUBIC

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Tiles (1 + rows * columns, tile, tile, 3), the whole picture first.

        extra: `size` (h, w) of the picture in pixels, `tiles` (rows, columns), and `crop` (top, left, height, width),
        what the picture covers of the features of all tiles put together. The rows of that crop end in a line break,
        which is counted in `tokens`.
        """
        size, side = _size(rgb), self.tile // self.patch
        target = best_resolution(size, self.choices)
        fitted = pad_to(resize(rgb, fit_within(size, target), self.how), target)
        parts = [resize(rgb, (self.tile, self.tile), self.how), *split_tiles(fitted, self.tile)]
        layout = target[0] // self.tile, target[1] // self.tile
        crop = unpadded(size, (layout[0] * side, layout[1] * side))
        return ImageInput(
            self.normalize(np.stack(parts)),
            tokens=side * side + crop[2] * (crop[3] + 1),
            extra={"size": np.array(size), "tiles": np.array(layout), "crop": np.array(crop)},
        )


@dataclass(frozen=True, slots=True)
class PaddedImages:
    """In tiles that the longer side fills, white beside the shorter one; the whole of it first (Phi-3 Vision's HD)."""

    normalize: Normalization
    tile: int
    patch: int
    most_cuts: int
    how: Image.Resampling = BILINEAR

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Tiles (1 + rows * columns, tile, tile, 3), the whole picture first; extra: `tiles` (rows, columns).

        Each row of 2 x 2 patches ends in a line break, and one row stands between the tiles and the whole picture.
        """
        tall = rgb.shape[0] > rgb.shape[1]  # such are laid on their side first, which shows in the last bits
        padded = self._padded(rgb.swapaxes(0, 1)).swapaxes(0, 1) if tall else self._padded(rgb)
        whole = interpolate(self.normalize(padded), (self.tile, self.tile), kind="bicubic")
        rows, columns = padded.shape[0] // self.tile, padded.shape[1] // self.tile
        side = self.tile // self.patch // 2
        return ImageInput(
            np.concatenate([whole[None], self.normalize(np.stack(split_tiles(padded, self.tile)))]),
            tokens=rows * side * (columns * side + 1) + 1 + side * (side + 1),
            extra={"tiles": np.array((rows, columns))},
        )

    def _padded(self, rgb: Rgb) -> Rgb:
        """A wide picture at its size, with white above and below."""
        size = most_tiles(_size(rgb), self.tile, self.most_cuts)
        return pad_to(resize(rgb, size, self.how), grown(size, self.tile), colour=255)


def _within_tokens(size: Size, block: int, most: int | None) -> Size:
    """A size shrunk by fiftieths until it takes at most so many blocks, where their number is bounded."""
    while most and math.prod(grown(size, block)) > most * block**2:
        size = max(1, int(size[0] * 0.98)), max(1, int(size[1] * 0.98))
    return size


def _check_side(rgb: Rgb, side: int, most: int) -> None:
    if side > most:
        raise InputError(
            f"the image is {rgb.shape[1]} x {rgb.shape[0]} px: a side would have {side} patches, and this model "
            f"reads at most {most}; crop it or make it smaller"
        )


def _size(rgb: Rgb) -> Size:
    return rgb.shape[0], rgb.shape[1]


def _by_pixels(pixels: Pixels, patch: int, merge: int) -> ImageInput:
    """As `_packed`, with the three colours of a pixel side by side."""
    packed = _packed(pixels, patch, merge, 1)
    rows = packed.pixels.reshape(len(packed.pixels), 3, -1).swapaxes(1, 2).reshape(len(packed.pixels), -1)
    return replace(packed, pixels=rows)


def _packed(pixels: Pixels, patch: int, merge: int, temporal: int) -> ImageInput:
    height, width = pixels.shape[0] // patch, pixels.shape[1] // patch
    rows = flat_patches(pixels[None], patch, temporal=temporal, merge=merge)
    return ImageInput(rows, height * width // merge**2, grid=(1, height, width))


def within(processor: P, tokens: int) -> P:
    """The processor with images of at most `tokens` tokens, where their number goes with their size.

    A narrow strip may take more: no side is shorter than a token.
    """
    if isinstance(processor, PackedImages):
        most = min(processor.most_pixels, tokens * (processor.patch * processor.merge) ** 2)
        return replace(processor, most_pixels=most, least_pixels=min(processor.least_pixels, most))
    if isinstance(processor, FittedImages):
        side = processor.patch * processor.merge
        return replace(processor, edge=min(processor.edge, math.isqrt(tokens) * side))
    if isinstance(processor, GrownImages | FilledImages):
        return replace(processor, most_tokens=tokens)
    if isinstance(processor, BoundedImages):
        most = min(processor.most_patches, tokens)
        return replace(processor, most_patches=most, least_patches=min(processor.least_patches, most))
    if isinstance(processor, BlockImages):
        return replace(processor, most_patches=min(processor.most_patches, tokens * processor.merge**2))
    if isinstance(processor, BudgetImages):
        return replace(processor, budget=min(tokens, processor.most_budget))
    if isinstance(processor, SlicedImages):
        return replace(processor, cut=False, most_tokens=tokens)
    if isinstance(processor, StretchedImages) and processor.cuts and processor.cut:
        return replace(processor, cuts=processor.cuts.within(tokens // processor.tokens - 1))
    if isinstance(processor, SplitImages):
        most = min(processor.most_tokens, tokens)
        return replace(processor, most_tokens=most, least_tokens=min(processor.least_tokens, most), cuts=None)
    return processor


def cutting(processor: ImageProcessor) -> ImageProcessor | None:
    """The processor with pictures cut into crops as well; None where it does not know how."""
    if isinstance(processor, StretchedImages) and processor.cuts:
        return replace(processor, cut=True)
    return None
