"""Resizing as the references do it: Pillow's filters for pictures, torch's `interpolate` for arrays of floats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from docai.preprocess.inputs import Pixels, Rgb
from docai.preprocess.sizes import Size

# preprocessor_config.json has filters by Pillow's numbers
BILINEAR, BICUBIC = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC


def resize(rgb: Rgb, size: Size, how: Image.Resampling) -> Rgb:
    """`rgb` at `size`, by Pillow: antialiased when it shrinks, rounded and clamped to 0..255."""
    if rgb.shape[:2] == size:
        return rgb
    height, width = size
    return np.asarray(Image.fromarray(rgb).resize((width, height), how))


@dataclass(frozen=True, slots=True)
class Taps:
    """Which inputs make each output along one axis: `indices` and `weights` (outputs, taps)."""

    indices: NDArray[np.intp]
    weights: Pixels


def interpolate(
    array: Pixels,
    size: Size,
    *,
    kind: Literal["bilinear", "bicubic"] = "bilinear",
    antialias: bool = False,
    align_corners: bool = False,
) -> Pixels:
    """`array` (H, W, C) at `size`, equal to torch.nn.functional.interpolate of the same arguments."""
    down = _taps(array.shape[0], size[0], kind, antialias, align_corners)
    across = _taps(array.shape[1], size[1], kind, antialias, align_corners)
    # torch goes along rows first; shorter arithmetic either way, the same sums
    return _apply(_apply(array.astype(np.float32, copy=False), across, axis=1), down, axis=0)


def _apply(array: Pixels, taps: Taps, axis: int) -> Pixels:
    shape = [1] * array.ndim
    shape[axis] = -1
    weighted = (
        np.take(array, taps.indices[:, tap], axis=axis) * taps.weights[:, tap].reshape(shape)
        for tap in range(taps.indices.shape[1])
    )
    return reduce(np.add, weighted)


def _taps(before: int, after: int, kind: str, antialias: bool, align_corners: bool) -> Taps:
    if antialias:
        return _wide_taps(before, after, kind)
    return _point_taps(before, after, kind, align_corners)


def _point_taps(before: int, after: int, kind: str, align_corners: bool) -> Taps:
    """The two or four neighbours of each output's place, however far the picture shrinks."""
    outputs = np.arange(after, dtype=np.float32)  # torch computes places in float32, which shows in the sixth digit
    if align_corners:
        places = outputs * np.float32((before - 1) / (after - 1) if after > 1 else 0.0)
    else:
        places = (outputs + np.float32(0.5)) * np.float32(before / after) - np.float32(0.5)
    if kind == "bilinear":
        places = np.clip(places, 0, None)
    first = np.floor(places).astype(np.intp)
    offsets = np.arange(2) if kind == "bilinear" else np.arange(-1, 3)
    distances = np.abs(places[:, None] - (first[:, None] + offsets))  # (outputs, taps)
    weights = np.clip(1 - distances, 0, None) if kind == "bilinear" else cubic(distances, -0.75)
    return Taps(np.clip(first[:, None] + offsets, 0, before - 1), weights.astype(np.float32))


def _wide_taps(before: int, after: int, kind: str) -> Taps:
    """All inputs under a kernel that widens as the picture shrinks; Pillow's filters, in floats."""
    scale = before / after
    stretch = max(scale, 1.0)
    reach = (1 if kind == "bilinear" else 2) * stretch
    centres = (np.arange(after) + 0.5) * scale
    starts = np.maximum((centres - reach + 0.5).astype(np.intp), 0)
    ends = np.minimum((centres + reach + 0.5).astype(np.intp), before)
    indices = starts[:, None] + np.arange((ends - starts).max())  # (outputs, taps)
    distances = np.abs((indices + 0.5 - centres[:, None]) / stretch)
    weights = np.clip(1 - distances, 0, None) if kind == "bilinear" else cubic(distances, -0.5)
    weights = np.where(indices < ends[:, None], weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return Taps(np.minimum(indices, before - 1), weights.astype(np.float32))


def cubic(distances: NDArray[np.floating], a: float) -> NDArray[np.floating]:
    """The cubic convolution kernel; `a` is -0.5 in Pillow and where torch antialiases, -0.75 elsewhere in torch."""
    near = ((a + 2) * distances - (a + 3)) * distances * distances + 1
    far = a * (((distances - 5) * distances + 8) * distances - 4)
    return np.where(distances < 1, near, np.where(distances < 2, far, 0.0))
