"""Image processors of packed towers: pictures about as large as they are, within bounds, in flattened patches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from PIL import Image

from docai.errors import InputError
from docai.preprocess.inputs import ImageInput, OneSize, Pixels, Rgb
from docai.preprocess.normalize import Normalization
from docai.preprocess.patches import flat_patches, grid_patches
from docai.preprocess.resample import BICUBIC, BILINEAR, resize
from docai.preprocess.sizes import (
    Size,
    budgeted,
    clamped,
    grown,
    longest_edge,
    scaled_to_patches,
    shrunk,
    shrunk_sides,
    sides,
    smart_resize,
    stepped,
)
from docai.preprocess.tiles import Cuts, center_crop, split_tiles


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
        size = smart_resize(sides(rgb), self.patch * self.merge, least=self.least_pixels, most=self.most_pixels)
        pixels = self.normalize(resize(rgb, size, self.how))
        return _packed(pixels, self.patch, self.merge, self.temporal)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        most = min(self.most_pixels, tokens * (self.patch * self.merge) ** 2)
        return replace(self, most_pixels=most, least_pixels=min(self.least_pixels, most))


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
        size = longest_edge(sides(rgb), self.edge, self.patch * self.merge)
        return _packed(self.normalize(resize(rgb, size, self.how)), self.patch, self.merge, 1)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        return replace(self, edge=min(self.edge, math.isqrt(tokens) * self.patch * self.merge))


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
        size = _within_tokens(shrunk(sides(rgb), self.patch, self.most_patches), block, self.most_tokens)
        whole = grown(size, block)
        _check_side(rgb, max(whole) // self.patch, self.most_side)
        return _packed(self.normalize(resize(resize(rgb, size, self.how), whole, self.how)), self.patch, self.merge, 1)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        return replace(self, most_tokens=tokens)


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
        return self.sized(rgb, self.size(sides(rgb)))

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

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        return replace(self, most_tokens=tokens)


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
        size = scaled_to_patches(sides(rgb), self.patch, most)  # also where the count is within bounds
        return _by_pixels(self.normalize(resize(rgb, size, self.how)), self.patch, 1)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        most = min(self.most_patches, tokens)
        return replace(self, most_patches=most, least_patches=min(self.least_patches, most))


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
        size = stepped(sides(rgb), self.patch, self.merge, self.most_patches)
        return _by_pixels(self.normalize(resize(rgb, size, self.how)), self.patch, self.merge)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        return replace(self, most_patches=min(self.most_patches, tokens * self.merge**2))


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
        return self.sized(rgb, self.size(sides(rgb)))

    def size(self, size: Size) -> Size:
        """(height, width) that a picture of `size` becomes."""
        return budgeted(size, self.patch * self.merge, self.budget, self.most_side)

    def sized(self, rgb: Rgb, size: Size) -> ImageInput:
        """A picture brought to this size."""
        return _by_pixels(self.normalize(resize(rgb, size, self.how)), self.patch, self.merge)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        return replace(self, budget=min(tokens, self.most_budget))


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
        rounded = [max(self.patch, round(side / block) * block) for side in sides(rgb)]
        least, most = self.least_tokens * block**2, self.most_tokens * block**2
        size = smart_resize(sides(rgb), block, least=least, most=most, strips=True)
        if self.cuts is None or math.prod(rounded) <= most * self.tolerance:
            return self._part(resize(rgb, size, self.how))
        rows, columns = self.cuts.grid(sides(rgb), self.tile)
        tiles = split_tiles(resize(rgb, (rows * self.tile, columns * self.tile), self.how), self.tile)
        parts = [self._part(part) for part in (*tiles, *([resize(rgb, size, self.how)] if self.whole else []))]
        return ImageInput(
            np.concatenate([part.pixels for part in parts]),
            sum(part.tokens for part in parts),
            extra={"tiles": np.array((rows, columns)), "grids": np.array([part.grid for part in parts])},
        )

    def _part(self, rgb: Rgb) -> ImageInput:
        return _by_pixels(self.normalize(rgb), self.patch, self.merge)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        most = min(self.most_tokens, tokens)
        return replace(self, most_tokens=most, least_tokens=min(self.least_tokens, most), cuts=None)


@dataclass(frozen=True, slots=True)
class ClampedImages(OneSize):
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
        size = clamped(sides(rgb), self.least_side, self.most_side)
        if min(size) < self.patch:
            raise InputError(
                f"the image is {rgb.shape[1]} x {rgb.shape[0]} px: at {size[1]} x {size[0]}, the most that this model "
                f"reads, a side has less than the {self.patch} of a patch; crop or pad it"
            )
        whole = smart_resize(size, self.patch, least=self.least_pixels, most=self.most_pixels)
        pixels = self.normalize(resize(resize(rgb, size, self.how), whole, self.how))
        height, width = whole[0] // self.patch, whole[1] // self.patch
        return ImageInput(grid_patches(pixels, self.patch), height * width, grid=(1, height, width))


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


def _by_pixels(pixels: Pixels, patch: int, merge: int) -> ImageInput:
    """As `_packed`, with the three colours of a pixel side by side."""
    packed = _packed(pixels, patch, merge, 1)
    rows = packed.pixels.reshape(len(packed.pixels), 3, -1).swapaxes(1, 2).reshape(len(packed.pixels), -1)
    return replace(packed, pixels=rows)


def _packed(pixels: Pixels, patch: int, merge: int, temporal: int) -> ImageInput:
    height, width = pixels.shape[0] // patch, pixels.shape[1] // patch
    rows = flat_patches(pixels[None], patch, temporal=temporal, merge=merge)
    return ImageInput(rows, height * width // merge**2, grid=(1, height, width))
