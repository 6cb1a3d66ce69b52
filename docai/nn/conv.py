"""Convolutions and resizings of pictures, all (B, H, W, C)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import ACTIVATIONS


@dataclass(frozen=True, slots=True)
class ConvSpec:
    """A convolution with its bias and activation; a norm behind it is folded into it when weights are loaded.

    `pad`: pixels of zeros on each side; None keeps the size at stride 1 (kernel // 2). `depthwise`: each channel for
    itself.
    """

    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    activation: str | None = None
    depthwise: bool = False
    pad: int | None = None

    @property
    def padding(self) -> int:
        return self.kernel // 2 if self.pad is None else self.pad


class Conv(nn.Module):
    """Names: weight (outputs, k, k, inputs, or 1 where depthwise), bias."""

    def __init__(self, spec: ConvSpec) -> None:
        super().__init__()
        self.weight = mx.zeros((spec.outputs, spec.kernel, spec.kernel, 1 if spec.depthwise else spec.inputs))
        self.bias = mx.zeros((spec.outputs,))
        self._spec = spec
        self._activation = ACTIVATIONS[spec.activation] if spec.activation else None

    def __call__(self, x: mx.array) -> mx.array:
        """(B, H, W, inputs) -> (B, h, w, outputs)"""
        y = self._convolved(x)
        return y if self._activation is None else self._activation(y)

    def _convolved(self, x: mx.array) -> mx.array:
        spec = self._spec
        if spec.kernel == spec.stride == 1 and not spec.depthwise:
            return mx.addmm(self.bias, x, self.weight[:, 0, 0].T)
        if mx.default_device() == mx.cpu:
            if spec.depthwise:
                return depthwise(_padded(x, spec.padding), self.weight, self.bias, spec.stride)
            if spec.stride == 1:
                return row_by_row(_padded(x, spec.padding), self.weight, self.bias)
        groups = spec.inputs if spec.depthwise else 1
        return mx.conv2d(x, self.weight, spec.stride, spec.padding, groups=groups) + self.bias


def _padded(x: mx.array, by: int) -> mx.array:
    return mx.pad(x, [(0, 0), (by, by), (by, by), (0, 0)]) if by else x


@partial(mx.compile, shapeless=False)
def depthwise(x: mx.array, weight: mx.array, bias: mx.array, stride: int) -> mx.array:
    """A depthwise convolution of a padded picture as a sum over the kernel's places.

    MLX's own is 3 to 20 times slower on a CPU: it visits each output for itself.
    """
    kernel = weight.shape[1]
    height, width = ((edge - kernel) // stride * stride + 1 for edge in x.shape[1:3])
    total = bias
    for row in range(kernel):
        for column in range(kernel):
            seen = x[:, row : row + height : stride, column : column + width : stride]
            total = total + seen * weight[:, row, column, 0]
    return total


def row_by_row(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """A convolution of padded pictures (B, H, W, C) as one product for each row of its kernel.

    Only the pixels along a row are laid out side by side. On a CPU MLX's own lays out those of the whole kernel, which
    takes up to twice as long. The products run over the borders between pictures; what they give there is cut off.
    """
    outputs, kernel = weight.shape[:2]
    b, height, width = x.shape[0], x.shape[1], x.shape[2] - kernel + 1
    side = mx.concatenate([x[:, :, at : at + width] for at in range(kernel)], -1).reshape(b * height * width, -1)
    count = (b * height - kernel + 1) * width
    total = bias
    for row in range(kernel):
        total = mx.addmm(total, side[row * width : row * width + count], weight[:, row].reshape(outputs, -1).T)
    if b > 1:
        total = mx.pad(total, [(0, (kernel - 1) * width), (0, 0)])
    rows = height if b > 1 else height - kernel + 1
    return total.reshape(b, rows, width, outputs)[:, : height - kernel + 1]


def doubled(x: mx.array) -> mx.array:
    """Twice the size, each pixel repeated: (B, H, W, C) -> (B, 2H, 2W, C)"""
    b, h, w, c = x.shape
    return mx.broadcast_to(x[:, :, None, :, None], (b, h, 2, w, 2, c)).reshape(b, 2 * h, 2 * w, c)


def doubled_smoothly(x: mx.array) -> mx.array:
    """Twice the size, bilinear with pixels as areas (torch's align_corners=False)."""
    return _doubled_along(_doubled_along(x, 1), 2)


def _doubled_along(x: mx.array, axis: int) -> mx.array:
    """Each pixel becomes two, 3/4 of itself with 1/4 of the neighbour on that side; the edge is its own neighbour."""
    head, tail = (slice(None),) * axis, x.shape[axis]
    first, last = x[(*head, slice(0, 1))], x[(*head, slice(tail - 1, tail))]
    before = mx.concatenate([first, x[(*head, slice(0, tail - 1))]], axis)
    after = mx.concatenate([x[(*head, slice(1, tail))], last], axis)
    pairs = mx.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], axis + 1)
    return mx.flatten(pairs, axis, axis + 1)


def halved(x: mx.array) -> mx.array:
    """Means of 2 x 2 pixels; an odd edge is averaged over what it has."""
    odd = [(0, edge % 2) for edge in x.shape[1:3]]
    x = mx.pad(x, [(0, 0), *odd, (0, 0)], mode="edge") if odd != [(0, 0)] * 2 else x
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).mean((2, 4))
