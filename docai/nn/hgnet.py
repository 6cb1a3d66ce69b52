"""The HGNetV2 backbone of PaddleDetection's detectors: blocks that aggregate the outputs of all their layers."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.conv import Conv, ConvSpec


@dataclass(frozen=True, slots=True)
class HgStageSpec:
    """`blocks` of `layers` convolutions each. `stride`: of the depthwise convolution before them, 0 for none.

    `light`: a layer is a 1 x 1 convolution and a depthwise one.
    """

    inputs: int
    middle: int
    outputs: int
    blocks: int = 1
    layers: int = 6
    kernel: int = 3
    stride: int = 2
    light: bool = False


@dataclass(frozen=True, slots=True)
class HgNetSpec:
    """`stem`: channels of the picture, within the stem, and after it; `strides` of its five convolutions."""

    stem: tuple[int, int, int]
    strides: tuple[int, int, int, int, int]
    stages: tuple[HgStageSpec, ...]
    activation: str = "relu"

    @property
    def channels(self) -> tuple[int, ...]:
        """Of each stage's output."""
        return tuple(stage.outputs for stage in self.stages)


class HgStem(nn.Module):
    """Names: enter, narrow, widen, join, leave."""

    def __init__(self, spec: HgNetSpec) -> None:
        super().__init__()
        (picture, middle, outputs), strides, act = spec.stem, spec.strides, spec.activation
        self.enter = Conv(ConvSpec(picture, middle, 3, strides[0], act))
        self.narrow = Conv(ConvSpec(middle, middle // 2, 2, strides[1], act, pad=0))
        self.widen = Conv(ConvSpec(middle // 2, middle, 2, strides[2], act, pad=0))
        self.join = Conv(ConvSpec(2 * middle, middle, 3, strides[3], act))
        self.leave = Conv(ConvSpec(middle, outputs, 1, strides[4], act))

    def __call__(self, x: mx.array) -> mx.array:
        x = _one_more(self.enter(x))
        side = self.widen(_one_more(self.narrow(x)))
        pooled = mx.maximum(mx.maximum(x[:, :-1, :-1], x[:, :-1, 1:]), mx.maximum(x[:, 1:, :-1], x[:, 1:, 1:]))
        return self.leave(self.join(mx.concatenate([pooled, side], -1)))


def _one_more(x: mx.array) -> mx.array:
    """A row and a column of zeros below and on the right."""
    return mx.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)])


class LightConv(nn.Module):
    """Names: point, depth."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.point = Conv(ConvSpec(inputs, outputs))
        self.depth = Conv(ConvSpec(outputs, outputs, kernel, activation="relu", depthwise=True))

    def __call__(self, x: mx.array) -> mx.array:
        return self.depth(self.point(x))


class HgBlock(nn.Module):
    """Names: layers, squeeze, excite. With `residual`, what went in is added to what comes out."""

    def __init__(self, inputs: int, spec: HgStageSpec, *, residual: bool) -> None:
        super().__init__()
        widths = [inputs, *(spec.middle for _ in range(spec.layers - 1))]
        self.layers = [_layer(width, spec) for width in widths]
        half = spec.outputs // 2
        self.squeeze = Conv(ConvSpec(inputs + spec.layers * spec.middle, half, activation="relu"))
        self.excite = Conv(ConvSpec(half, spec.outputs, activation="relu"))
        self._residual = residual

    def __call__(self, x: mx.array) -> mx.array:
        seen = [x]
        for layer in self.layers:
            seen.append(layer(seen[-1]))
        y = self.excite(self.squeeze(mx.concatenate(seen, -1)))
        return x + y if self._residual else y


def _layer(inputs: int, spec: HgStageSpec) -> nn.Module:
    if spec.light:
        return LightConv(inputs, spec.middle, spec.kernel)
    return Conv(ConvSpec(inputs, spec.middle, spec.kernel, activation="relu"))


class HgStage(nn.Module):
    """Names: down (where it strides), blocks."""

    def __init__(self, spec: HgStageSpec) -> None:
        super().__init__()
        if spec.stride:
            self.down = Conv(ConvSpec(spec.inputs, spec.inputs, 3, spec.stride, depthwise=True))
        self.blocks = [
            HgBlock(spec.outputs if number else spec.inputs, spec, residual=number > 0) for number in range(spec.blocks)
        ]

    def __call__(self, x: mx.array) -> mx.array:
        x = self.down(x) if "down" in self else x
        for block in self.blocks:
            x = block(x)
        return x


class HgNet(nn.Module):
    """Names: stem, stages."""

    def __init__(self, spec: HgNetSpec) -> None:
        super().__init__()
        self.stem = HgStem(spec)
        self.stages = [HgStage(stage) for stage in spec.stages]

    def __call__(self, x: mx.array) -> list[mx.array]:
        """(B, H, W, 3) -> the output of each stage."""
        x = self.stem(x)
        out = []
        for stage in self.stages:
            x = stage(x)
            out.append(x)
        return out
