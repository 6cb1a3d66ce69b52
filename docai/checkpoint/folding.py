"""Weight rules of convolutional networks: norms folded into convolutions, branches added up, weights used twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docai.checkpoint.dialect import gathered, put
from docai.checkpoint.names import fill, first_match, match
from docai.checkpoint.weights import Array, Shape, Table, Weight
from docai.errors import CheckpointError

_NORM = ("weight", "bias", "running_mean", "running_var")  # PyTorch's and MLX's names
_TO_LAST = (0, 2, 3, 1)


@dataclass(frozen=True, slots=True)
class FoldNorm:
    """A convolution without a bias and the batch norm behind it become one convolution with a bias.

    `conv` and `norm` are templates of the modules, `new` of what they become. `channels_last`: the kernels are
    (outputs, h, w, inputs) already. A norm needs its four tensors; a counter of batches is left out.
    """

    conv: str
    norm: str
    new: str
    eps: float = 1e-5
    channels_last: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        return (f"{self.conv}.weight", *(f"{self.norm}.{part}" for part in (*_NORM, "num_batches_tracked")))

    def apply(self, table: Table) -> Table:
        out: Table = {}
        found: dict[str, dict[str, Weight]] = {}
        for name, weight in table.items():
            pattern, values = first_match(self.patterns, name)
            if values is None:
                put(out, name, weight)
            elif pattern != self.patterns[-1]:
                found.setdefault(fill(self.new, values), {})[pattern] = weight
        for new, parts in found.items():
            missing = [pattern for pattern in self.patterns[:-1] if pattern not in parts]
            if missing:
                raise CheckpointError(f"{new} is made of a convolution and its norm: {missing[0]} is missing")
            for name, weight in self._made(new, [parts[pattern] for pattern in self.patterns[:-1]]).items():
                put(out, name, weight)
        return out

    def _made(self, new: str, parts: Sequence[Weight]) -> Table:
        kernel, *norm = parts
        if len(kernel.shape) != 4 or any(part.shape != kernel.shape[:1] for part in norm):
            raise CheckpointError(f"{new}: {kernel.sources[0]} of shape {kernel.shape} is no convolution with a norm")
        shape = kernel.shape if self.channels_last else tuple(kernel.shape[axis] for axis in _TO_LAST)
        eps, axes = self.eps, None if self.channels_last else _TO_LAST

        def weight(ops: Any, a: Sequence[Array]) -> Array:
            kernel, gain, _, _, variance = (array.astype(ops.float32) for array in a)
            kernel = kernel if axes is None else ops.transpose(kernel, axes)
            return kernel * (gain * (variance + eps) ** -0.5).reshape(-1, 1, 1, 1)

        def bias(ops: Any, a: Sequence[Array]) -> Array:
            gain, offset, mean, variance = (array.astype(ops.float32) for array in a)
            return offset - mean * (gain * (variance + eps) ** -0.5)

        return {
            f"{new}.weight": Weight("F32", shape, made_of=tuple(parts), change=weight),
            f"{new}.bias": Weight("F32", kernel.shape[:1], made_of=tuple(norm), change=bias),
        }


@dataclass(frozen=True, slots=True)
class AddKernels:
    """Convolutions that work side by side on the same picture become one: their kernels, smaller ones in the middle
    of the largest, and their biases are added up. All parts must be there, or none. Kernels are channels-last."""

    parts: tuple[str, ...]
    new: str

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.parts

    def apply(self, table: Table) -> Table:
        out, found = gathered(table, self.parts, self.new)
        for new, weights in found.items():
            put(out, new, _added(weights, new))
        return out


def _added(weights: Sequence[Weight], new: str) -> Weight:
    largest = max((weight.shape for weight in weights), key=lambda shape: shape[1:3])
    for weight in weights:
        if not _fits(weight.shape, largest):
            raise CheckpointError(f"{new}: kernels of shapes {largest} and {weight.shape} cannot be added")

    def total(ops: Any, a: Sequence[Array]) -> Array:
        first, *rest = (_widened(ops, array, largest) for array in a)
        for array in rest:
            first = first + array
        return first

    return Weight(weights[0].dtype, largest, made_of=tuple(weights), change=total)


def _fits(shape: Shape, largest: Shape) -> bool:
    if len(shape) != len(largest) or len(shape) not in (1, 4):
        return False
    apart = [(small, large) for small, large in zip(shape, largest, strict=True) if small != large]
    return not apart or (len(shape) == 4 and all(small < large and not (large - small) % 2 for small, large in apart))


def _widened(ops: Any, array: Array, shape: Shape) -> Array:
    """Zeros around a kernel, as many on each side."""
    more = [(large - small) // 2 for small, large in zip(array.shape, shape, strict=True)]
    return ops.pad(array, [(n, n) for n in more]) if any(more) else array


@dataclass(frozen=True, slots=True)
class Copy:
    """Where there is no tensor called `new`, the one called `pattern` is used for it too: tied weights."""

    pattern: str
    new: str

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,)

    def apply(self, table: Table) -> Table:
        made = {}
        for name, weight in table.items():
            values = match(self.pattern, name)
            if values is not None:
                made[fill(self.new, values)] = weight
        return {**table, **{new: weight for new, weight in made.items() if new not in table}}
