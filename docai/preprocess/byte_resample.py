"""Resizing of bytes as torch does it without antialiasing on a CPU: in whole numbers, rounded after each direction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from docai.preprocess.inputs import Rgb
from docai.preprocess.resample import cubic
from docai.preprocess.sizes import Size

_A = -0.75  # of the cubic kernel, in torch where nothing is antialiased
_WORD = 1 << 15  # weights are kept in 16 bits


def resize_bytes(rgb: Rgb, size: Size) -> Rgb:
    """`rgb` (H, W, 3) at `size` (height, width), bicubic; the four nearest pixels count, however far it shrinks.

    Equal to torch.nn.functional.interpolate of a uint8 tensor, which torchvision's processors call: along rows first,
    in fixed point, and what overshoots is cut off between the directions.
    """
    return _along(_along(rgb, size[1], axis=1), size[0], axis=0)


def _along(rgb: Rgb, after: int, axis: int) -> Rgb:
    if rgb.shape[axis] == after:
        return rgb
    indices, weights, digits = _taps(rgb.shape[axis], after)
    shape = [1, 1, 1]
    shape[axis] = -1
    total = np.full((), 1 << (digits - 1), np.int32)
    for tap in range(indices.shape[1]):
        total = total + np.take(rgb, indices[:, tap], axis) * weights[:, tap].reshape(shape)
    return np.asarray(np.clip(total >> digits, 0, 255), np.uint8)


def _taps(before: int, after: int) -> tuple[NDArray[np.intp], NDArray[np.int32], int]:
    """For each output four inputs (after, 4), their weights as whole numbers, and how many binary digits these have."""
    places = (np.arange(after) + 0.5) * (before / after) - 0.5
    first = np.floor(places).astype(np.intp)
    near = first[:, None] + np.arange(-1, 3)
    weights, near = cubic(np.abs(places[:, None] - near), _A), np.clip(near, 0, before - 1)
    for tap in range(1, near.shape[1]):  # an edge pixel that stands for those outside has one weight, which is rounded
        again = near[:, tap] == near[:, tap - 1]
        weights[again, tap] += weights[again, tap - 1]
        weights[again, tap - 1] = 0
    digits = next(d for d in range(22) if int(0.5 + weights.max() * (1 << (d + 1))) >= _WORD)
    return near, np.rint(weights * (1 << digits)).astype(np.int32), digits
