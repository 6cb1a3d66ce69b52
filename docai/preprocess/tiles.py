"""Parts of pictures: crops, pads and tiles, all of arrays (H, W, 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from docai.preprocess.inputs import Rgb
from docai.preprocess.resample import resize
from docai.preprocess.sizes import Size, shortest_edge, sides

MOST_RESIZED = 1 << 26  # pixels: 200 MB; only strips get there whose short side has a few pixels


def center_crop(rgb: Rgb, size: Size) -> Rgb:
    """The middle of `rgb`; where it is smaller than `size`, black stands around it (an odd rest above and left)."""
    rgb = pad_to(rgb, (max(size[0], rgb.shape[0]), max(size[1], rgb.shape[1])), early=True)
    top, left = (rgb.shape[0] - size[0]) // 2, (rgb.shape[1] - size[1]) // 2
    return rgb[top : top + size[0], left : left + size[1]]


def pad_to(rgb: Rgb, size: Size, *, colour: int | tuple[int, int, int] = 0, early: bool = False) -> Rgb:
    """`rgb` in the middle of a `size` of one colour; an odd rest is below and right, with `early` above and left."""
    height, width = rgb.shape[:2]
    if (height, width) == size:
        return rgb
    top, left = (size[0] - height + early) // 2, (size[1] - width + early) // 2
    canvas = np.empty((*size, 3), np.uint8)
    canvas[:] = colour
    canvas[top : top + height, left : left + width] = rgb
    return canvas


def resize_crop(rgb: Rgb, edge: int, crop: Size, how: Image.Resampling) -> Rgb:
    """`rgb` with its shorter side at `edge`, then the middle `crop` of it (CLIP)."""
    height, width = shortest_edge(sides(rgb), edge)
    if height * width <= MOST_RESIZED:
        return center_crop(resize(rgb, (height, width), how), crop)
    return _resize_middle(rgb, (height, width), crop, how)


def _resize_middle(rgb: Rgb, size: Size, crop: Size, how: Image.Resampling) -> Rgb:
    """The same without the parts that the crop drops: a strip of 1 x 3000 px would be resized to a gigabyte."""
    keep = min(size[0], crop[0]), min(size[1], crop[1])
    top, left = (size[0] - keep[0]) // 2, (size[1] - keep[1]) // 2
    y, x = rgb.shape[0] / size[0], rgb.shape[1] / size[1]
    box = (left * x, top * y, (left + keep[1]) * x, (top + keep[0]) * y)
    middle = Image.fromarray(rgb).resize((keep[1], keep[0]), how, box=box)
    return center_crop(np.asarray(middle), crop)


def split_tiles(rgb: Rgb, tile: int) -> list[Rgb]:
    """Squares of side `tile`, by rows; the sides of `rgb` are multiples of it."""
    height, width = rgb.shape[:2]
    return [rgb[y : y + tile, x : x + tile] for y in range(0, height, tile) for x in range(0, width, tile)]


@dataclass(frozen=True, slots=True)
class PanAndScan:
    """Gemma 3's crops of long pictures, beside the whole one; the defaults are those of its paper's release."""

    least_side: int = 256
    most_crops: int = 4
    least_ratio: float = 1.2

    def crops(self, rgb: Rgb) -> list[Rgb]:
        """Crops along the longer side, none where the picture is nearly square or small."""
        height, width = rgb.shape[:2]
        long, short = max(height, width), min(height, width)
        if long / short < self.least_ratio:
            return []
        count = min(math.floor(long / self.least_side), math.floor(long / short + 0.5))
        count = min(self.most_crops, max(2, count))
        step = math.ceil(long / count)
        if min(step, short) < self.least_side:
            return []
        starts = range(0, count * step, step)
        if width >= height:
            return [rgb[:, start : start + step] for start in starts]
        return [rgb[start : start + step] for start in starts]


@dataclass(frozen=True, slots=True)
class Cuts:
    """GOT-OCR's crops: the picture stretched to the grid of squares whose shape is nearest to its own (InternVL's)."""

    least: int = 1
    most: int = 12

    def __call__(self, rgb: Rgb, tile: int, how: Image.Resampling) -> list[Rgb]:
        """Squares of side `tile`, by rows; where there are several, the whole picture after them."""
        rows, columns = self.grid(sides(rgb), tile)
        parts = split_tiles(resize(rgb, (rows * tile, columns * tile), how), tile)
        return parts if len(parts) == 1 else [*parts, resize(rgb, (tile, tile), how)]

    def within(self, most: int) -> Cuts:
        """These crops, at most so many, but one at least."""
        most = max(1, min(most, self.most))
        return replace(self, least=min(self.least, most), most=most)

    def grid(self, size: Size, tile: int) -> Size:
        """(rows, columns). Of grids of the same shape the largest of which the picture fills half."""
        (height, width), best = size, (1, 1)
        grids = [
            (rows, columns)
            for columns in range(1, self.most + 1)
            for rows in range(1, self.most // columns + 1)
            if rows * columns >= self.least
        ]
        nearest = math.inf
        for rows, columns in sorted(grids, key=math.prod):
            away = abs(width / height - columns / rows)
            if away < nearest or (away == nearest and height * width > 0.5 * tile * tile * rows * columns):
                nearest, best = away, (rows, columns)
        return best


@dataclass(frozen=True, slots=True)
class CanvasCuts(Cuts):
    """Command A Vision's crops: the grid that the picture has to grow least to fill or, beyond all, to shrink least."""

    def grid(self, size: Size, tile: int) -> Size:
        """(rows, columns). Of grids that are equally good, the one with the fewest squares, then columns."""
        grids = [(rows, columns) for columns in range(1, self.most + 1) for rows in range(1, self.most // columns + 1)]
        grids.sort(key=math.prod)
        scales = {grid: min(grid[0] * tile / size[0], grid[1] * tile / size[1]) for grid in grids}
        growing = [grid for grid in grids if scales[grid] >= 1]
        return min(growing, key=scales.__getitem__) if growing else max(grids, key=scales.__getitem__)
