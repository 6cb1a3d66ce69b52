"""Pictures whole at a bounded area and, where they are larger, in slices beside it (MiniCPM-V, LLaVA-UHD's slicing).

Guo et al. 2024, arXiv:2403.11703.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from PIL import Image

from docai.preprocess.inputs import ImageInput, Rgb
from docai.preprocess.normalize import Normalization
from docai.preprocess.patches import flat_patches
from docai.preprocess.resample import BICUBIC, resize
from docai.preprocess.sizes import Size, sides


@dataclass(frozen=True, slots=True)
class SlicedImages:
    """A picture at about `scale` squared, then rows of slices of it, each of that size, at most `most_slices`.

    A token is `merge` x `merge` patches, in squares of `inner` x `inner` (see `docai.nn.grids`). `cut`: whether there
    are slices; `numbered`: whether prompts number images. `most_tokens`: of a picture, where fewer are asked for.
    """

    normalize: Normalization
    patch: int
    merge: int
    inner: int
    scale: int
    most_slices: int
    how: Image.Resampling = BICUBIC
    cut: bool = True
    numbered: bool = True
    most_tokens: int | None = None

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Patches (N, 3 * patch * patch) of the whole picture and its slices, in blocks of merge x merge.

        extra: `grids` of each of them, `slices` (rows, columns), 0 where there are none; `numbered` where it is.
        """
        size = sides(rgb)
        rows, columns = self.layout(size)
        parts = [resize(rgb, self._fitted(size, grow=not rows), self.how)]
        if rows:
            height, width = self._fitted(_per_slice(size, (rows, columns)), grow=True)
            large = resize(rgb, (height * rows, width * columns), self.how)
            corners = [(y * height, x * width) for y in range(rows) for x in range(columns)]
            parts += [large[top : top + height, left : left + width] for top, left in corners]
        grids = [(1, part.shape[0] // self.patch, part.shape[1] // self.patch) for part in parts]
        pixels = [self._patches(part) for part in parts]
        extra = {"grids": np.array(grids), "slices": np.array((rows, columns))}
        extra |= {"numbered": np.array(1)} if self.numbered else {}
        return ImageInput(np.concatenate(pixels), sum(map(len, pixels)) // self.merge**2, extra=extra)

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`. A picture without slices, as they would be many times as many."""
        return replace(self, cut=False, most_tokens=tokens)

    def layout(self, size: Size) -> Size:
        """(rows, columns) of the slices, (0, 0) for none: of about as many as fit, those nearest to the shape."""
        height, width = size
        count = min(math.ceil(width * height / self.scale**2), self.most_slices)
        if not self.cut or count <= 1:
            return 0, 0
        counts = [n for n in (count - 1, count, count + 1) if 1 < n <= self.most_slices]
        choices = [(rows, n // rows) for n in counts for rows in range(1, n + 1) if n % rows == 0]
        shape = math.log(width / height)
        # of equally near ones that with more rows, of those the first
        return min(choices, key=lambda c: (abs(shape - math.log(c[1] / c[0])), -c[0]), default=(1, 1))

    def _fitted(self, size: tuple[float, float], *, grow: bool) -> Size:
        """Sides of whole blocks: of this shape at `scale` squared or, of smaller ones, as large unless they `grow`."""
        scale, block = float(self.scale), self.patch * self.merge
        fitted = _whole_blocks(size, scale, block, grow=grow)
        while self.most_tokens and math.prod(fitted) > self.most_tokens * block**2:
            scale *= 0.98
            fitted = _whole_blocks(size, scale, block, grow=grow)
        return fitted

    def _patches(self, part: Rgb) -> np.ndarray:
        pixels = self.normalize(part)[None]
        return flat_patches(pixels, self.patch, merge=self.merge, inner=self.inner)


def _whole_blocks(size: tuple[float, float], scale: float, block: int, *, grow: bool) -> Size:
    """At least one each way."""
    height, width = size
    if grow or height * width > scale**2:
        shape = width / height
        height = int(scale / math.sqrt(shape))
        width = int(height * shape)
    return _rounded(height, block), _rounded(width, block)


def _per_slice(size: Size, layout: Size) -> tuple[float, float]:
    rows, columns = layout
    return _rounded(size[0], rows) / rows, _rounded(size[1], columns) / columns


def _rounded(length: float, divisor: int) -> int:
    return max(round(length / divisor) * divisor, divisor)
