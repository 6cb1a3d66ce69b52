"""Weights to be: what each is made of, and whether together they are what a network needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import prod
from typing import Any

from docai.checkpoint.tensors import Quantization, TensorInfo
from docai.errors import CheckpointError

Array = Any  # of MLX, or of NumPy in tests
Shape = tuple[int, ...]
Change = Callable[[Any, Sequence[Array]], Array]  # (mlx.core or numpy, arrays) -> array


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight to be: its logical type and shape, the tensors of the file that it is made of, and how.

    A weight of the file has `name` only. Any other is `change` of the weights in `made_of`, where each part of a
    quantized one is changed in the same way.
    """

    dtype: str
    shape: Shape
    quantization: Quantization | None = None
    name: str = ""
    made_of: tuple[Weight, ...] = ()
    change: Change | None = None

    @property
    def size(self) -> int:
        """Numbers in it."""
        return prod(self.shape)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names, in the file, of what it is made of."""
        return tuple(dict.fromkeys(self._names()))

    def _names(self) -> Iterable[str]:
        if not self.made_of:
            return (self.name,)
        return (name for weight in self.made_of for name in weight._names())

    def reads(self) -> Iterator[str]:
        """The names that `parts` asks the file for, each as often as it asks."""
        if self.change is None:
            yield from (sibling(self.name, part) for part in part_names(self.quantization))
        for weight in self.made_of:
            yield from weight.reads()

    def parts(self, get: Callable[[str], Array], ops: Any) -> dict[str, Array]:
        """The arrays of the weight: `weight`, and `scales` and `biases` where it is quantized.

        `get` gives an array of the file by its name, `ops` is the library that the arrays are of.
        """
        if self.change is None:
            return {part: get(sibling(self.name, part)) for part in part_names(self.quantization)}
        made = [weight.parts(get, ops) for weight in self.made_of]
        return {part: self.change(ops, [m[part] for m in made]) for part in part_names(self.quantization)}

    def changed(self, change: Change, shape: Shape, dtype: str | None = None) -> Weight:
        """Another weight, made of this one."""
        return Weight(dtype or self.dtype, shape, self.quantization, "", (self,), change)


Table = dict[str, Weight]


def part_names(quantization: Quantization | None) -> tuple[str, ...]:
    """The tensors that a weight consists of."""
    if quantization is None:
        return ("weight",)
    return ("weight", "scales", "biases") if quantization.has_biases else ("weight", "scales")


def sibling(name: str, part: str) -> str:
    """The name of a part beside the weight of this name."""
    return name if part == "weight" else name.removesuffix("weight") + part


def weights_of(tensors: Mapping[str, TensorInfo], quantization: Callable[[str], Quantization | None]) -> Table:
    """The tensors of a file, each quantized matrix as one with its scales and biases."""
    table: Table = {}
    for name, info in tensors.items():
        module, _, part = name.rpartition(".")
        prefix = f"{module}." if module else ""
        if part in ("scales", "biases") and f"{prefix}scales" in tensors and f"{prefix}weight" in tensors:
            continue
        packed = part == "weight" and f"{prefix}scales" in tensors
        table[name] = (
            _packed(name, module, tensors, quantization(module))
            if packed
            else Weight(info.dtype, info.shape, None, name)
        )
    return table


def _packed(name: str, module: str, tensors: Mapping[str, TensorInfo], how: Quantization | None) -> Weight:
    """A quantized matrix, whose parts have to fit what the config says of it."""
    if how is None:
        raise CheckpointError(f"{name} has scales, but the config says nothing of how it is quantized")
    weight, scales = tensors[name], tensors[sibling(name, "scales")]
    if not scales.shape:
        raise CheckpointError(f"{module}.scales is a single number; expected one for each {how.group_size} of {name}")
    shape = (*scales.shape[:-1], scales.shape[-1] * how.group_size)
    packed = (*shape[:-1], shape[-1] * how.bits // 32)
    if packed != weight.shape:
        raise CheckpointError(
            f"{name} of shape {weight.shape} with scales of shape {scales.shape} is not {how}: "
            f"that would be a weight of shape {packed}"
        )
    if how.has_biases:
        biases = tensors.get(sibling(name, "biases"))
        if biases is None:
            raise CheckpointError(f"{module}.biases is missing: {how} needs it beside {name}")
        if biases.shape != scales.shape:
            raise CheckpointError(f"{module}.biases has shape {biases.shape}, its scales have {scales.shape}")
    return Weight(scales.dtype if how.has_biases else "BF16", shape, how, name)


@dataclass(frozen=True, slots=True)
class WeightMap:
    """The weights under our names, and which tensors of the file are used for none of them."""

    weights: Table
    dropped: tuple[str, ...] = field(default=())

    @property
    def shapes(self) -> dict[str, Shape]:
        """Logical shapes by our names."""
        return {name: weight.shape for name, weight in self.weights.items()}

    def problems(self, expected: Mapping[str, Shape]) -> tuple[str, ...]:
        """What is missing, left over or of another shape than the network expects; nothing where all fits."""
        missing = [name for name in expected if name not in self.weights]
        surplus = [name for name in self.weights if name not in expected]
        shapes = [
            f"{name} has shape {weight.shape} in the file ({weight.sources[0]}), the config asks for {expected[name]}"
            for name, weight in self.weights.items()
            if name in expected and weight.shape != tuple(expected[name])
        ]
        return (
            *_several("missing", [_beside(name, surplus) for name in missing]),
            *_several("left over", [_beside(name, missing, self._source(name)) for name in surplus]),
            *_several("of another shape", shapes),
        )

    def wrong(self, expected: Mapping[str, Shape]) -> int:
        """How many names are missing, left over or of another shape."""
        fit = sum(name in self.weights and self.weights[name].shape == tuple(s) for name, s in expected.items())
        return len(expected.keys() | self.weights.keys()) - fit

    def error(self, expected: Mapping[str, Shape], what: str) -> CheckpointError:
        """An error with all problems; `what` names the checkpoint."""
        lines = (f"{what}: its tensors are not what its config describes", *self.problems(expected))
        return CheckpointError("\n  ".join(lines))

    def _source(self, name: str) -> str:
        sources = self.weights[name].sources
        return "" if sources == (name,) else f"from {sources[0]}"


def _beside(name: str, others: Sequence[str], note: str = "") -> str:
    near = get_close_matches(name, others, n=1, cutoff=0.8)
    notes = [n for n in (note, f"nearest: {near[0]}" if near else "") if n]
    return f"{name} ({'; '.join(notes)})" if notes else name


def _several(what: str, names: Sequence[str], most: int = 8) -> tuple[str, ...]:
    """One line for all names of a kind; the first ones stand for many."""
    if not names:
        return ()
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return (f"{what}: {', '.join(names[:most])}{more}",)
