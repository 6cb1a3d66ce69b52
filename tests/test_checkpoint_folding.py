"""Rules of convolutional networks, applied to NumPy arrays: norms folded, branches added up, weights used twice."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from docai.checkpoint.dialect import Rule, apply_rules
from docai.checkpoint.folding import AddKernels, Copy, FoldNorm
from docai.checkpoint.tensors import TensorInfo
from docai.errors import CheckpointError

Array = NDArray[np.float32]
FOLD = FoldNorm("{rest}.conv", "{rest}.bn", "{rest}", 1e-3)


def _applied(arrays: Mapping[str, Array], *rules: Rule) -> dict[str, Array]:
    found = apply_rules({name: TensorInfo("F32", array.shape) for name, array in arrays.items()}, rules)
    made = {name: weight.parts(arrays.__getitem__, np)["weight"] for name, weight in found.weights.items()}
    assert {name: array.shape for name, array in made.items()} == found.shapes
    return made


def _layer(name: str = "a.b", outputs: int = 4, inputs: int = 3, kernel: int = 3) -> dict[str, Array]:
    random = np.random.RandomState(len(name))
    norm = {part: random.rand(outputs).astype(np.float32) for part in ("weight", "bias", "running_mean", "running_var")}
    weight = random.randn(outputs, inputs, kernel, kernel).astype(np.float32)
    return {f"{name}.conv.weight": weight, **{f"{name}.bn.{part}": value for part, value in norm.items()}}


def test_a_norm_becomes_part_of_its_convolution() -> None:
    layer = _layer(kernel=1)
    made = _applied({**layer, "a.b.bn.num_batches_tracked": np.zeros((), np.float32)}, FOLD)
    assert set(made) == {"a.b.weight", "a.b.bias"}
    x = np.random.RandomState(0).randn(5, 3).astype(np.float32)
    y = x @ layer["a.b.conv.weight"][:, :, 0, 0].T
    y = (y - layer["a.b.bn.running_mean"]) / np.sqrt(layer["a.b.bn.running_var"] + 1e-3)
    y = y * layer["a.b.bn.weight"] + layer["a.b.bn.bias"]
    np.testing.assert_allclose(x @ made["a.b.weight"][:, 0, 0].T + made["a.b.bias"], y, rtol=1e-5, atol=1e-5)


def test_kernels_come_to_lie_channels_last_once() -> None:
    layer = _layer()
    first = _applied(layer, FOLD)["a.b.weight"]
    assert first.shape == (4, 3, 3, 3)
    moved = {n: np.moveaxis(a, 1, -1) if a.ndim == 4 else a for n, a in layer.items()}
    last = FoldNorm("{rest}.conv", "{rest}.bn", "{rest}", 1e-3, channels_last=True)
    np.testing.assert_array_equal(_applied(moved, last)["a.b.weight"], first)


def test_half_precision_is_folded_in_full() -> None:
    layer = {name: array.astype(np.float16) for name, array in _layer().items()}
    assert {array.dtype for array in _applied(layer, FOLD).values()} == {np.dtype(np.float32)}


def test_branches_are_added_in_the_middle() -> None:
    large, small = np.ones((2, 3, 3, 5), np.float32), np.full((2, 1, 1, 5), 2, np.float32)
    arrays = {
        "r.0.one.weight": large,
        "r.0.two.weight": small,
        "r.0.one.bias": large[:, 0, 0, 0],
        "r.0.two.bias": small[:, 0, 0, 0],
    }
    made = _applied(arrays, AddKernels(("r.{i}.one.{part}", "r.{i}.two.{part}"), "reps.{i}.{part}"))
    assert made["reps.0.weight"][0, :, :, 0].tolist() == [[1, 1, 1], [1, 3, 1], [1, 1, 1]]
    assert made["reps.0.bias"].tolist() == [3, 3]


def test_a_weight_may_be_used_twice() -> None:
    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    rule = Copy("root.{rest}", "inner.{rest}")
    assert set(_applied({"root.a.b": one}, rule)) == {"root.a.b", "inner.a.b"}
    made = _applied({"root.a": one, "inner.a": two}, rule)
    assert (made["root.a"][0], made["inner.a"][0]) == (1, 2)


@pytest.mark.parametrize(
    ("gone", "said"), [("a.b.conv.weight", "conv.weight is missing"), ("a.b.bn.bias", "bn.bias is missing")]
)
def test_what_is_missing_is_named(gone: str, said: str) -> None:
    layer = _layer()
    del layer[gone]
    with pytest.raises(CheckpointError, match=f"a.b is made of a convolution and its norm: .*{said}"):
        _applied(layer, FOLD)


def test_what_does_not_fit_is_named() -> None:
    layer = _layer() | {"a.b.bn.bias": np.ones(7, np.float32)}
    with pytest.raises(CheckpointError, match=r"a.b.conv.weight of shape \(4, 3, 3, 3\) is no convolution with a norm"):
        _applied(layer, FOLD)
    add = AddKernels(("one.{part}", "two.{part}"), "sum.{part}")
    even, odd = np.ones((2, 2, 2, 5), np.float32), np.ones((2, 3, 3, 5), np.float32)
    with pytest.raises(CheckpointError, match=r"kernels of shapes .* cannot be added"):
        _applied({"one.weight": even, "two.weight": odd}, add)
    with pytest.raises(CheckpointError, match=r"two.\{part\} is missing"):
        _applied({"one.weight": odd}, add)
