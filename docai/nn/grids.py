"""Where the patches of packed images lie: their order, their rows and columns, and who sees whom. NumPy only.

A grid (t, h, w) counts steps in time, rows and columns of patches. Patches come step by step; within a step in blocks
of merge x merge, row by row inside a block and block by block (with merge 1: simply row by row). Where they are merged
twice, a block is made of blocks of inner x inner in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from docai.nn.segments import Run, runs

Grid = tuple[int, int, int]
Ids = NDArray[np.int32]
Resampling = Literal["bilinear", "bicubic", "smooth", "nearest"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The patches of some images in the order in which a tower computes them.

    `order` (N,) gives the patch at each place, `back` (N,) the place of each patch; None where they are as they came.
    `rows` and `columns` (N,) are those of the patch at each place. A step of time, or a whole clip, sees itself
    (`steps`) or, in layers with windows, a window itself (`windows`).
    """

    rows: Ids
    columns: Ids
    steps: tuple[Run, ...]
    windows: tuple[Run, ...] = ()
    order: Ids | None = None
    back: Ids | None = None


def in_blocks(grid: NDArray[np.generic], merge: int, inner: int = 1) -> NDArray[np.generic]:
    """(h, w, ...) -> (h * w, ...), in the order of patches within a step."""
    h, w, *rest = grid.shape
    blocks = grid.reshape(h // merge, merge // inner, inner, w // merge, merge // inner, inner, *rest)
    return np.moveaxis(blocks, (3, 4), (1, 3)).reshape(h * w, *rest)


def layout(grids: Sequence[Grid], merge: int, window: int = 0, *, whole_clips: bool = False) -> Layout:
    """How images of these grids are computed. `window`: the side of a window in blocks, 0 for none.

    `whole_clips`: all steps of a clip see each other.
    """
    places = [np.tile(in_blocks(np.moveaxis(np.indices((h, w)), 0, -1), merge), (t, 1)) for t, h, w in grids]
    at = np.concatenate(places).astype(np.int32)  # (N, 2)
    steps = runs(t * h * w for t, h, w in grids) if whole_clips else runs(h * w for t, h, w in grids for _ in range(t))
    if not window:
        return Layout(at[:, 0], at[:, 1], steps)
    order, windows = _windowed(grids, merge, window)
    back = np.empty_like(order)
    back[order] = np.arange(len(order), dtype=np.int32)
    return Layout(at[order, 0], at[order, 1], steps, windows, order, back)


def _windowed(grids: Iterable[Grid], merge: int, window: int) -> tuple[Ids, tuple[Run, ...]]:
    """The order of patches in which each window is one stretch, and the windows. Steps of time stay together."""
    orders: list[NDArray[np.intp]] = []
    sizes: list[int] = []
    start = 0
    for t, h, w in grids:
        blocks, blocks_in_windows = _windows(h // merge, w // merge, window)
        inside = np.arange(merge**2)
        order = (blocks[:, None] * merge**2 + inside).reshape(-1)
        for _ in range(t):
            orders.append(order + start)
            sizes += (blocks_in_windows * merge**2).tolist()
            start += h * w
    return np.concatenate(orders).astype(np.int32), runs(sizes)


def _windows(height: int, width: int, window: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The blocks of a step window by window, and how many each has; large ones first: equal ones make one run."""
    row, column = np.indices((height, width)) // window
    number = (row * -(-width // window) + column).reshape(-1)
    sizes = np.bincount(number)
    order = np.lexsort((number, -sizes[number]))  # stable: row by row within a window
    return order, np.sort(sizes)[::-1]


def interpolated(
    grid: Grid, side: int, kind: Resampling = "bilinear"
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Matrices (h, side) and (w, side) that sample a square table: bilinearly, corner on corner, or in another way."""
    makers = {"bilinear": _samples, "bicubic": _cubic_samples, "smooth": _smooth_samples, "nearest": _nearest_samples}
    samples = makers[kind]
    return samples(grid[1], side), samples(grid[2], side)


def _samples(length: int, side: int) -> NDArray[np.float32]:
    at = np.arange(length) * (side - 1) / max(length - 1, 1)
    distance = np.abs(at[:, None] - np.arange(side))
    return np.clip(1 - distance, 0, None).astype(np.float32)


def _cubic_samples(length: int, side: int) -> NDArray[np.float32]:
    """As torch's `interpolate` does it: edge on edge, without antialiasing, Keys' kernel with -0.75."""
    at = (np.arange(length, dtype=np.float32) + np.float32(0.5)) * np.float32(side / length) - np.float32(0.5)
    taps = np.floor(at).astype(np.intp)[:, None] + np.arange(-1, 3)  # (length, 4)
    d, a = np.abs(at[:, None] - taps), -0.75
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, a * (((d - 5) * d + 8) * d - 4)
    out = np.zeros((length, side), np.float32)
    np.add.at(out, (np.arange(length)[:, None], taps.clip(0, side - 1)), np.where(d < 1, near, far))
    return out


def _smooth_samples(length: int, side: int) -> NDArray[np.float32]:
    """As torch's `interpolate` does it bilinearly: edge on edge, with antialiasing where the table is the larger."""
    scale = np.float32(side / length)
    at = (np.arange(length, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    out = np.clip(1 - np.abs(at[:, None] - np.arange(side, dtype=np.float32)) / max(scale, 1), 0, None)
    return (out / out.sum(axis=1, keepdims=True)).astype(np.float32)


def _nearest_samples(length: int, side: int) -> NDArray[np.float32]:
    """One row of the table for each patch: the one in which its near edge lies, as fractions of the sides."""
    return np.eye(side, dtype=np.float32)[np.arange(length) * side // length]


def split(grids: Iterable[Grid]) -> Iterator[slice]:
    """The patches of each image."""
    start = 0
    for t, h, w in grids:
        yield slice(start, start + t * h * w)
        start += t * h * w
