"""Rounded keys and values, against their definition."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from docai.nn.rounding import Rounding, rounded, turned
from docai.nn.scores import Scoring, attend_quantized


def numbers(*shape: int, outlier: float = 0.0, seed: int = 3) -> np.ndarray:
    made = np.random.RandomState(seed).standard_normal(shape).astype(np.float32)
    made[..., 5] += outlier
    return made


def codes_of(packed: mx.array, bits: int) -> np.ndarray:
    """The codes that lie in 32-bit words, lowest bits first."""
    words = np.array(packed).astype(np.uint64)[..., None] >> np.arange(0, 32, bits, dtype=np.uint64)
    return (words & (2**bits - 1)).reshape(*packed.shape[:-1], -1).astype(np.float32)


@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("outlier", [0.0, 30.0, -30.0])
def test_codes_are_the_nearest_for_the_scales_that_are_kept(bits: int, group: int, outlier: float) -> None:
    x = numbers(2, 3, 7, 128, outlier=outlier)
    packed, scales, biases = rounded(mx.array(x), group, bits)
    assert scales.dtype == biases.dtype == mx.bfloat16
    assert (packed.shape, scales.shape) == ((2, 3, 7, 128 * bits // 32), (2, 3, 7, 128 // group))
    scale, bias = (np.repeat(np.array(a.astype(mx.float32)), group, axis=-1) for a in (scales, biases))
    nearest = np.clip(np.round((x - bias) / scale), 0, 2**bits - 1)
    codes = codes_of(packed, bits)
    assert np.abs(codes - nearest).max() <= 1  # where two are equally near
    assert (codes != nearest).mean() < 1e-3
    whole = mx.dequantize(packed, *(a.astype(mx.float32) for a in (scales, biases)), group_size=group, bits=bits)
    np.testing.assert_allclose(np.array(whole), codes * scale + bias, rtol=1e-6, atol=1e-6)


def test_no_number_is_far_off_although_biases_are_rounded() -> None:
    """Plain mx.quantize shifts a whole group by what its bias, here about -40, loses in bfloat16."""
    x = numbers(1, 1, 50, 64, outlier=-40.0)
    off = {}
    for name, parts in (("ours", rounded(mx.array(x), 64, 8)), ("plain", mx.quantize(mx.array(x), 64, 8))):
        packed, scales, biases = (a if a.dtype == mx.uint32 else a.astype(mx.bfloat16) for a in parts)
        scale, bias = (np.array(a.astype(mx.float32)) for a in (scales, biases))
        error = codes_of(packed, 8) * scale + bias - x
        off[name] = np.abs(np.delete(error, 5, axis=-1).mean(-1)).max()  # of a group; the outlier is its bias
    assert off["ours"] < 0.03
    assert off["ours"] < off["plain"] / 3


@pytest.mark.parametrize("dims", [32, 64, 96, 128, 160])
def test_turning_both_sides_leaves_products_as_they_are(dims: int) -> None:
    q, k = numbers(2, 3, 5, dims), numbers(2, 3, 9, dims, seed=4)
    ours = np.array(turned(mx.array(q)) @ turned(mx.array(k)).swapaxes(-1, -2))
    np.testing.assert_allclose(ours, q @ k.swapaxes(-1, -2), rtol=1e-4, atol=1e-4)


def test_turning_is_by_the_hadamard_matrix() -> None:
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < 64:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    x = numbers(4, 64)
    np.testing.assert_allclose(np.array(turned(mx.array(x))), x @ matrix / 8, rtol=1e-4, atol=1e-5)
    odd = mx.array(numbers(2, 11 * 32))
    assert mx.array_equal(turned(odd), odd)


@pytest.mark.parametrize(
    ("rounding", "dims", "expected"),
    [
        (Rounding(), 64, 64 + 64 + 4 * (2 + 1)),
        (Rounding(), 128, 128 + 128 + 4 * (4 + 2)),  # 1.83 times smaller than 16 bits
        (Rounding(), 96, 96 + 96 + 4 * (3 + 3)),  # no groups of 64
        (Rounding(4, 4), 64, 32 + 32 + 4 * (2 + 1)),
        (Rounding(8, 4, 64), 128, 128 + 64 + 4 * (2 + 2)),
    ],
)
def test_numbers_take_their_bits_and_four_bytes_a_group(rounding: Rounding, dims: int, expected: int) -> None:
    x = mx.array(numbers(1, 1, 1, dims))
    assert sum(a.nbytes for value in (False, True) for a in rounding.packed(x, value=value)) == expected


def test_outliers_of_keys_hardly_matter() -> None:
    """Scores over keys that have one large number each, as keys of language models do."""
    q, k, v = numbers(1, 2, 3, 64), numbers(1, 2, 40, 64, outlier=40.0, seed=4), numbers(1, 2, 40, 64, seed=5)
    scores = (q @ k.swapaxes(-1, -2)) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    off = {}
    for name, turn in (("turned", turned), ("plain", lambda a: a)):
        keys, values = Rounding().packed(turn(mx.array(k)), value=False), Rounding().packed(mx.array(v), value=True)
        ours = attend_quantized(turn(mx.array(q)), keys, values, Scoring(0.125), None)
        off[name] = float(np.abs(np.array(ours) - expected).mean())
    assert off["turned"] < off["plain"] / 1.5
    assert off["turned"] < 0.01
