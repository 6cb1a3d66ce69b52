"""ResNet-D (He et al. 2019, arXiv:1812.01187): three convolutions as stem, shortcuts that average before they jump."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import ACTIVATIONS
from docai.nn.conv import Conv, ConvSpec, halved


@dataclass(frozen=True, slots=True)
class ResNetSpec:
    """`widths` and `depths` of the stages. `bottleneck`: three convolutions in a block, otherwise two.

    `stride_first`: the first convolution of a bottleneck strides, otherwise the second. `shrink_first`: the first
    stage strides too.
    """

    stem: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    picture: int = 3
    activation: str = "relu"
    bottleneck: bool = True
    stride_first: bool = False
    shrink_first: bool = False

    @property
    def channels(self) -> tuple[int, ...]:
        """Of each stage's output."""
        return self.widths


class ResBlock(nn.Module):
    """Names: steps; shortcut where sizes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int, spec: ResNetSpec, *, first: bool) -> None:
        super().__init__()
        self.steps = [Conv(step) for step in _steps(inputs, outputs, stride, spec)]
        # Blocks of two convolutions average where channels change, bottlenecks where they stride.
        self._averaged = stride == 2 if spec.bottleneck else first and inputs != outputs
        if inputs != outputs or stride != 1 or (first and not spec.bottleneck):
            self.shortcut = Conv(ConvSpec(inputs, outputs, stride=1 if self._averaged else stride))
        self._activation = ACTIVATIONS[spec.activation]

    def __call__(self, x: mx.array) -> mx.array:
        y = x
        for step in self.steps:
            y = step(y)
        x = halved(x) if self._averaged else x
        return self._activation(y + (self.shortcut(x) if "shortcut" in self else x))


def _steps(inputs: int, outputs: int, stride: int, spec: ResNetSpec) -> tuple[ConvSpec, ...]:
    if not spec.bottleneck:
        return ConvSpec(inputs, outputs, 3, stride, "relu"), ConvSpec(outputs, outputs, 3)
    narrow, (first, second) = outputs // 4, (stride, 1) if spec.stride_first else (1, stride)
    return (
        ConvSpec(inputs, narrow, 1, first, "relu"),
        ConvSpec(narrow, narrow, 3, second, "relu"),
        ConvSpec(narrow, outputs),
    )


class ResStage(nn.Module):
    """Names: blocks."""

    def __init__(self, inputs: int, outputs: int, depth: int, stride: int, spec: ResNetSpec) -> None:
        super().__init__()
        self.blocks = [
            ResBlock(outputs if n else inputs, outputs, 1 if n else stride, spec, first=n == 0) for n in range(depth)
        ]

    def __call__(self, x: mx.array) -> mx.array:
        for block in self.blocks:
            x = block(x)
        return x


class ResNet(nn.Module):
    """Names: stem, stages."""

    def __init__(self, spec: ResNetSpec) -> None:
        super().__init__()
        widths, act, half = (spec.stem, *spec.widths), spec.activation, spec.stem // 2
        self.stem = [
            Conv(ConvSpec(spec.picture, half, 3, 2, act)),
            Conv(ConvSpec(half, half, 3, activation=act)),
            Conv(ConvSpec(half, spec.stem, 3, activation=act)),
        ]
        strides = [2 if number or spec.shrink_first else 1 for number in range(len(spec.widths))]
        self.stages = [
            ResStage(before, after, depth, stride, spec)
            for before, after, depth, stride in zip(widths, spec.widths, spec.depths, strides, strict=False)
        ]
        self._pool = nn.MaxPool2d(3, 2, 1)

    def __call__(self, x: mx.array) -> list[mx.array]:
        """(B, H, W, 3) -> the output of each stage."""
        for conv in self.stem:
            x = conv(x)
        x = self._pool(x)
        out = []
        for stage in self.stages:
            x = stage(x)
            out.append(x)
        return out
