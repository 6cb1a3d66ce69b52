"""Instance masks as mixtures of prototypes (Bolya et al. 2019, arXiv:1904.02689), over the maps of a detector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.conv import Conv, ConvSpec, doubled_smoothly
from docai.nn.queries import Perceptron

_ACT = "silu"


@dataclass(frozen=True, slots=True)
class MaskSpec:
    """`doublings` of each of the maps, finest first, up to the size of the finest. `fine`: channels of the map of
    twice that size, at which masks are made."""

    inputs: int
    hidden: int
    outputs: int
    prototypes: int
    fine: int
    doublings: tuple[int, ...] = (0, 1, 2)


class Raised(nn.Module):
    """A map brought up to the size of the finest. Names: layers."""

    def __init__(self, spec: MaskSpec, doublings: int) -> None:
        super().__init__()
        widths = [spec.inputs, *(spec.hidden for _ in range(doublings - 1))]
        self.layers = [Conv(ConvSpec(width, spec.hidden, 3, activation=_ACT)) for width in widths]
        self._grows = doublings > 0

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = doubled_smoothly(layer(x)) if self._grows else layer(x)
        return x


class Prototypes(nn.Module):
    """Names: maps, fuse, fine, mix, out; query."""

    def __init__(self, spec: MaskSpec, dims: int) -> None:
        super().__init__()
        self.maps = [Raised(spec, doublings) for doublings in spec.doublings]
        self.fuse = Conv(ConvSpec(spec.hidden, spec.outputs, 3, activation=_ACT))
        self.fine = Conv(ConvSpec(spec.fine, spec.outputs, 3, activation=_ACT))
        self.mix = Conv(ConvSpec(spec.outputs, spec.outputs, 3, activation=_ACT))
        self.out = Conv(ConvSpec(spec.outputs, spec.prototypes))
        self.query = Perceptron(dims, dims, dims, spec.prototypes)

    def __call__(self, maps: Sequence[mx.array], fine: mx.array) -> mx.array:
        """Maps (B, H, W, D), finest first, and one of twice the size -> prototypes (B, 2H, 2W, P)"""
        total = self.maps[0](maps[0])
        for raised, x in zip(self.maps[1:], maps[1:], strict=True):
            total = total + raised(x)
        return self.out(self.mix(doubled_smoothly(self.fuse(total)) + self.fine(fine)))

    def boxes(self, x: mx.array, prototypes: mx.array) -> mx.array:
        """Queries (B, Q, D) -> the box around each one's mask, as centre and size in fractions (B, Q, 4)"""
        b, height, width, count = prototypes.shape
        masks = self.query(x) @ prototypes.reshape(b, -1, count).swapaxes(1, 2) > 0
        return around(masks.reshape(b, -1, height, width))


def around(masks: mx.array) -> mx.array:
    """(B, Q, H, W) of booleans -> boxes (B, Q, 4), centre and size in fractions; zeros where a mask is empty"""
    (left, right), (top, bottom) = (_span(mx.any(masks, axis)) for axis in (2, 3))
    return mx.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], -1)


def _span(line: mx.array) -> tuple[mx.array, mx.array]:
    """Where the first of some booleans (..., N) that are true begins and the last one ends, in fractions."""
    length = line.shape[-1]
    line = line.astype(mx.uint8)
    first, last = mx.argmax(line, -1), length - mx.argmax(line[..., ::-1], -1)
    some = line.max(-1)
    return first * some / length, last * some / length
