"""Pages in the middle of a white canvas, and the way back from there (Nemotron-Parse)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from docai.preprocess.inputs import ImageInput, OneSize, Rgb
from docai.preprocess.normalize import Normalization
from docai.preprocess.resample import interpolate
from docai.preprocess.sizes import Size, sides


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a picture of `size` (height, width) comes to lie on a `canvas`, all in pixels: at (top, left), `fitted`."""

    canvas: Size
    size: Size
    fitted: Size

    @classmethod
    def of(cls, size: Size, canvas: Size) -> Placement:
        """A picture that is too large is made smaller, first to fit in height, then in width; none is enlarged."""
        height, width = size
        ratio = width / height
        if height > canvas[0]:
            height, width = canvas[0], int(canvas[0] * ratio)
        if width > canvas[1]:
            height, width = int(canvas[1] / ratio), canvas[1]
        return cls(canvas, size, (max(1, height), max(1, width)))

    @property
    def corner(self) -> tuple[int, int]:
        """(top, left)"""
        return (self.canvas[0] - self.fitted[0]) // 2, (self.canvas[1] - self.fitted[1]) // 2

    def back(self, x: float, y: float) -> tuple[float, float]:
        """Of a place on the canvas, each side of which is 1, the place on the picture, in shares of its sides, 0..1."""
        top, left = self.corner
        shares = (x * self.canvas[1] - left) / self.fitted[1], (y * self.canvas[0] - top) / self.fitted[0]
        return min(max(shares[0], 0.0), 1.0), min(max(shares[1], 0.0), 1.0)

    def forth(self, x: float, y: float) -> tuple[float, float]:
        """The reverse of `back`."""
        top, left = self.corner
        return (x * self.fitted[1] + left) / self.canvas[1], (y * self.fitted[0] + top) / self.canvas[0]


@dataclass(frozen=True, slots=True)
class CentredImages(OneSize):
    """Made to fit into a canvas, in the middle of it, on white; `across` patches of `patch` pixels give a token, and
    the whole of the page another.
    """

    normalize: Normalization
    size: Size
    patch: int = 16
    across: int = 4

    def __call__(self, rgb: Rgb) -> ImageInput:
        """One picture, (1, H, W, 3)."""
        placed = Placement.of(sides(rgb), self.size)
        (top, left), (height, width) = placed.corner, placed.fitted
        page = np.full((*self.size, 3), 255, np.uint8)
        page[top : top + height, left : left + width] = shrunk(rgb, placed.fitted)
        rows = (self.size[0] // self.patch) * (self.size[1] // self.patch // self.across)
        return ImageInput(self.normalize(page)[None], rows + 1)


def shrunk(rgb: Rgb, size: Size) -> Rgb:
    """`rgb` at `size` as OpenCV's linear interpolation has it: of the four nearest pixels, however far it shrinks."""
    if rgb.shape[:2] == size:
        return rgb
    values = interpolate(rgb.astype(np.float32), size)
    rounded: Rgb = np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
    return rounded
