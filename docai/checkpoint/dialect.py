"""The language in which a family says how a checkpoint's tensors become its weights.

A dialect is a tuple of rules. They are applied in order, each once, to the whole table of tensors; what a rule does
not match goes on unchanged. So a prefix can be renamed first and the parts behind it afterwards. The rules work on
names and shapes (`apply_rules`); numbers are read and changed only when `Weight.parts` is asked for them.

**Names** are templates that must match a whole name:

- `{i}`: a placeholder of one letter is a number (`\\d+`);
- `{rest}`: any text, with its dots;
- `{part}`: any other placeholder is one segment, without dots;
- `{part:weight|bias}`: one of these words.

The same placeholder stands for the same text wherever it occurs, and the new name is filled from the old one.

**Quantized matrices** are one thing under the name of their `weight`: `scales` and `biases` beside it follow it
through every rule. Rules see and give logical shapes. What would have to unpack the last axis is an error.

No rule may match one of our own names (`own_names_matched` finds those that do), so a map that is applied twice
changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Protocol

from docai.checkpoint.names import fill, first_match, match, matches, placeholders
from docai.checkpoint.tensors import Quantization, TensorInfo
from docai.checkpoint.weights import Array, Shape, Table, Weight, WeightMap, weights_of
from docai.errors import CheckpointError


class Rule(Protocol):
    """A change of the table. `patterns` are the templates that it looks for."""

    @property
    def patterns(self) -> tuple[str, ...]: ...

    def apply(self, table: Table) -> Table:
        """A new table. Raises CheckpointError for what cannot be done."""
        ...


class _Each:
    """A rule for single tensors: `_made` gives what becomes of one that matches."""

    __slots__ = ()
    pattern: str

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,)

    def apply(self, table: Table) -> Table:
        found = matches(self.pattern, table)
        if not found:  # as with most rules: the table of a model with many experts is long
            return table
        out: Table = {}
        for name, weight in table.items():
            made = self._made(name, weight, found[name]) if name in found else {name: weight}
            for new, made_weight in made.items():
                put(out, new, made_weight)
        return out

    def _made(self, name: str, weight: Weight, values: dict[str, str], /) -> Table:
        raise NotImplementedError


class _InPlace(_Each):
    """A rule that changes a tensor and leaves it its name."""

    __slots__ = ()

    def _made(self, name: str, weight: Weight, _: dict[str, str], /) -> Table:
        return {name: self._changed(weight)}

    def _changed(self, weight: Weight) -> Weight:
        raise NotImplementedError


def put(table: Table, name: str, weight: Weight) -> None:
    """Give a weight its name in a table. Raises CheckpointError where that is taken, or none for a quantized one."""
    if name in table:
        both = ", ".join((*table[name].sources[:2], *weight.sources[:2]))
        raise CheckpointError(f"two tensors of the checkpoint would both become {name}: {both}")
    if weight.quantization is not None and not (name == "weight" or name.endswith(".weight")):
        raise CheckpointError(f"{weight.sources[0]} is quantized, so it needs a name that ends in .weight; got {name}")
    table[name] = weight


def _axis(axis: int, weight: Weight, rule: str) -> int:
    if not -len(weight.shape) <= axis < len(weight.shape):
        raise CheckpointError(f"{rule} of axis {axis}: {weight.sources[0]} has shape {weight.shape}")
    return axis % len(weight.shape)


def _keep_packed(weight: Weight, rule: str, *, allowed: bool) -> None:
    """Raise CheckpointError where a rule would have to unpack a quantized matrix."""
    if weight.quantization is not None and not allowed:
        raise CheckpointError(
            f"{rule} would change the packed axis of {weight.sources[0]}, which is quantized ({weight.quantization}); "
            "use the checkpoint that it was made from"
        )


@dataclass(frozen=True, slots=True)
class Rename(_Each):
    """`old` is called `new`."""

    pattern: str
    new: str

    def _made(self, _: str, weight: Weight, values: dict[str, str], /) -> Table:
        return {fill(self.new, values): weight}


@dataclass(frozen=True, slots=True)
class Drop(_Each):
    """Tensors that the network does not need: buffers that are computed, copies of tied weights, unused heads."""

    pattern: str

    def _made(self, _name: str, _weight: Weight, _values: dict[str, str], /) -> Table:
        return {}


@dataclass(frozen=True, slots=True)
class Transpose(_InPlace):
    """The axes in another order: (out, in, h, w) with axes (0, 2, 3, 1) becomes (out, h, w, in)."""

    pattern: str
    axes: tuple[int, ...]

    def _changed(self, weight: Weight) -> Weight:
        if sorted(self.axes) != list(range(len(weight.shape))):
            raise CheckpointError(f"Transpose{self.axes}: {weight.sources[0]} has shape {weight.shape}")
        _keep_packed(weight, "Transpose", allowed=self.axes[-1] == len(self.axes) - 1)
        axes = self.axes
        return weight.changed(lambda ops, a: ops.transpose(a[0], axes), tuple(weight.shape[i] for i in axes))


@dataclass(frozen=True, slots=True)
class Reshape(_InPlace):
    """Another shape. 0 keeps the size of the axis at that place, one -1 takes what is left over."""

    pattern: str
    shape: Shape

    def _changed(self, weight: Weight) -> Weight:
        shape = _resolved(self.shape, weight)
        _keep_packed(weight, "Reshape", allowed=bool(shape) and shape[-1] == weight.shape[-1])
        if weight.quantization is None:
            return weight.changed(lambda ops, a: ops.reshape(a[0], shape), shape)
        front = shape[:-1]  # each part has a last axis of its own width
        return weight.changed(lambda ops, a: ops.reshape(a[0], (*front, a[0].shape[-1])), shape)


def _resolved(wanted: Shape, weight: Weight) -> Shape:
    shape = weight.shape
    problem = CheckpointError(f"Reshape{wanted}: {weight.sources[0]} has shape {shape}")
    if any(size == 0 and at >= len(shape) for at, size in enumerate(wanted)):
        raise problem
    sizes = [shape[at] if size == 0 else size for at, size in enumerate(wanted)]
    if -1 in sizes:
        known = prod(size for size in sizes if size != -1)
        if known == 0 or prod(shape) % known:
            raise problem
        sizes[sizes.index(-1)] = prod(shape) // known
    if prod(sizes) != prod(shape) or min(sizes, default=0) < 0:
        raise problem
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class Shift(_InPlace):
    """`amount` is added to every number."""

    pattern: str
    amount: float

    def _changed(self, weight: Weight) -> Weight:
        _keep_packed(weight, "Shift", allowed=False)
        amount = self.amount
        return weight.changed(lambda _, a: a[0] + amount, weight.shape)


@dataclass(frozen=True, slots=True)
class Interleave(_InPlace):
    """Rows that lie one part after the other come to lie alternately, within each of `groups` groups.

    [a0 a1 b0 b1] with 2 parts becomes [a0 b0 a1 b1]; `inverse` does the opposite. With a group per head this turns
    the two halves of rotary dimensions into pairs.
    """

    pattern: str
    parts: int = 2
    groups: int = 1
    axis: int = 0
    inverse: bool = False

    def _changed(self, weight: Weight) -> Weight:
        axis = _axis(self.axis, weight, "Interleave")
        _keep_packed(weight, "Interleave", allowed=axis != len(weight.shape) - 1)
        count = self.parts * self.groups  # of a config, so it may be anything
        if count < 1 or weight.shape[axis] % count:
            what = f"{self.groups} groups of {self.parts} parts"
            raise CheckpointError(f"Interleave of {what}: {weight.sources[0]} has shape {weight.shape}")
        inner = weight.shape[axis] // count
        middle = (self.groups, inner, self.parts) if self.inverse else (self.groups, self.parts, inner)
        return weight.changed(partial(_swap, axis=axis, middle=middle), weight.shape)


def _swap(ops: Any, arrays: Sequence[Array], *, axis: int, middle: Shape) -> Array:
    """(..., groups * n * m, ...) -> the same with n and m of `middle` exchanged."""
    (array,) = arrays
    split = ops.reshape(array, (*array.shape[:axis], *middle, *array.shape[axis + 1 :]))
    return ops.reshape(ops.swapaxes(split, axis + 1, axis + 2), array.shape)


@dataclass(frozen=True, slots=True)
class Split(_Each):
    """One tensor becomes several along an axis, of equal length or in the proportion of `sizes`.

    A None in `new` leaves its part out.
    """

    pattern: str
    new: tuple[str | None, ...]
    axis: int = 0
    sizes: tuple[int, ...] | None = None

    def _made(self, name: str, weight: Weight, values: dict[str, str], /) -> Table:
        axis = _axis(self.axis, weight, "Split")
        _keep_packed(weight, "Split", allowed=axis != len(weight.shape) - 1)
        sizes = self.sizes or (1,) * len(self.new)
        length = weight.shape[axis]
        if len(sizes) != len(self.new) or min(sizes) < 0 or sum(sizes) < 1 or length % sum(sizes):
            raise CheckpointError(f"Split into {sizes} along axis {axis}: {name} has shape {weight.shape}")
        unit, start, out = length // sum(sizes), 0, {}
        for new, size in zip(self.new, sizes, strict=True):
            stop = start + size * unit
            if new is not None:
                shape = (*weight.shape[:axis], stop - start, *weight.shape[axis + 1 :])
                out[fill(new, values)] = weight.changed(partial(_cut, axis=axis, start=start, stop=stop), shape)
            start = stop
        return out


def _cut(_: Any, arrays: Sequence[Array], *, axis: int, start: int, stop: int) -> Array:
    return arrays[0][(slice(None),) * axis + (slice(start, stop),)]


@dataclass(frozen=True, slots=True)
class Stack:
    """Tensors that differ in one number become one, with a new axis for it.

    The number is the placeholder of `pattern` that `new` does not have; it must count from 0 without a gap.
    """

    pattern: str
    new: str
    axis: int = 0

    def __post_init__(self) -> None:
        gone = set(placeholders(self.pattern)) - set(placeholders(self.new))
        if len(gone) != 1:
            raise ValueError(f"Stack needs one placeholder that {self.new!r} lacks; {self.pattern!r} has {gone}")

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,)

    def apply(self, table: Table) -> Table:
        (number,) = set(placeholders(self.pattern)) - set(placeholders(self.new))
        matched = matches(self.pattern, table)
        out = {name: weight for name, weight in table.items() if name not in matched}
        found: dict[str, dict[int, Weight]] = {}
        for name, values in matched.items():
            found.setdefault(fill(self.new, values), {})[int(values[number])] = table[name]
        for new, numbered in found.items():
            if sorted(numbered) != list(range(len(numbered))):
                gap = next(i for i in range(len(numbered) + 1) if i not in numbered)
                raise CheckpointError(f"{new} is stacked of {self.pattern}: number {gap} is missing")
            put(out, new, _joined([numbered[i] for i in range(len(numbered))], new, self.axis, new_axis=True))
        return out


@dataclass(frozen=True, slots=True)
class Concat:
    """Several tensors become one, one after the other along an axis. All of them must be there, or none."""

    parts: tuple[str, ...]
    new: str
    axis: int = 0

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.parts

    def apply(self, table: Table) -> Table:
        out, found = gathered(table, self.parts, self.new)
        for new, weights in found.items():
            put(out, new, _joined(weights, new, self.axis, new_axis=False))
        return out


def gathered(table: Table, parts: Sequence[str], new: str) -> tuple[Table, dict[str, list[Weight]]]:
    """What matches none of the templates in `parts`; by the names that `new` becomes, the weights that match.

    These are in the order of `parts`. Raises CheckpointError where one of them is missing.
    """
    rest: Table = {}
    found: dict[str, dict[str, Weight]] = {}
    for name, weight in table.items():
        part, values = first_match(parts, name)
        if values is None:
            put(rest, name, weight)
        else:
            found.setdefault(fill(new, values), {})[part] = weight
    for made, matched in found.items():
        if missing := [part for part in parts if part not in matched]:
            raise CheckpointError(f"{made} is made of {', '.join(parts)}: {missing[0]} is missing")
    return rest, {made: [matched[part] for part in parts] for made, matched in found.items()}


def _joined(weights: Sequence[Weight], new: str, axis: int, *, new_axis: bool) -> Weight:
    first = weights[0]
    rule = "Stack" if new_axis else "Concat"
    axis = axis % (len(first.shape) + 1) if new_axis else _axis(axis, first, rule)
    for weight in weights:
        if weight.quantization != first.quantization:
            raise CheckpointError(
                f"{rule} into {new}: {first.sources[0]} is {first.quantization or 'not quantized'}, "
                f"{weight.sources[0]} is {weight.quantization or 'not quantized'}"
            )
        if not _joinable(first.shape, weight.shape, None if new_axis else axis):
            raise CheckpointError(
                f"{rule} into {new}: {first.sources[0]} has shape {first.shape}, {weight.sources[0]} has {weight.shape}"
            )
    _keep_packed(first, rule, allowed=axis != len(first.shape) - (not new_axis))
    if new_axis:
        shape = (*first.shape[:axis], len(weights), *first.shape[axis:])
        return Weight(first.dtype, shape, first.quantization, "", tuple(weights), lambda ops, a: ops.stack(a, axis))
    shape = (*first.shape[:axis], sum(w.shape[axis] for w in weights), *first.shape[axis + 1 :])
    return Weight(first.dtype, shape, first.quantization, "", tuple(weights), lambda ops, a: ops.concatenate(a, axis))


def _joinable(one: Shape, other: Shape, free: int | None) -> bool:
    return len(one) == len(other) and all(a == b for i, (a, b) in enumerate(zip(one, other, strict=True)) if i != free)


def renames(table: Mapping[str, str], old: str = "", new: str = "") -> tuple[Rename, ...]:
    """Rules that rename, from a table of templates; `old` and `new` stand before each."""
    return tuple(Rename(old + a, new + b) for a, b in table.items())


def own_names_matched(rules: Iterable[Rule], names: Iterable[str]) -> list[tuple[str, str]]:
    """(template, name) for each of our own names that a rule would change: there should be none."""
    names = list(names)
    return [
        (template, n) for rule in rules for template in rule.patterns for n in names if match(template, n) is not None
    ]


def apply_rules(
    tensors: Mapping[str, TensorInfo],
    rules: Iterable[Rule],
    quantization: Callable[[str], Quantization | None] = lambda _: None,
) -> WeightMap:
    """The table after all rules. `quantization` tells how the matrix in a module of the file is packed.

    Raises CheckpointError for what a rule cannot do.
    """
    table = weights_of(tensors, quantization)
    start = list(table.values())
    for rule in rules:
        table = rule.apply(table)
    used = {name for weight in table.values() for name in weight.sources}
    return WeightMap(table, tuple(weight.name for weight in start if weight.name not in used))
