"""Keys and values rounded to a few bits, in groups of numbers that share a scale and a bias.

Keys have a few large numbers, always in the same places, which leave the others of their group few steps. So keys are
turned by a Hadamard matrix first, and their queries likewise: that leaves products as they are and spreads what is
large over the head (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456; for keys alone, FlashAttention-3's incoherent
processing).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import mlx.core as mx

Arrays = list[mx.array]

SMALLEST_GROUP = 32
KEY_GROUP, VALUE_GROUP = SMALLEST_GROUP, 64  # where nothing else is said
SCALE_BYTES = 2  # of a scale, and of a bias


@dataclass(frozen=True, slots=True)
class Rounding:
    """How keys and values are rounded: to so many bits, in groups of up to `group` numbers along the head.

    `group` None: 32 for keys, 64 for values, which are more alike.
    """

    key_bits: int = 8
    value_bits: int = 8
    group: int | None = None

    def packed(self, x: mx.array, *, value: bool) -> Arrays:
        """Keys (or values) as mx.quantize has them: packed, scales, biases."""
        return rounded(x, self.grouped(x.shape[-1], value=value), self.value_bits if value else self.key_bits)

    def packed_rows(self, x: mx.array) -> Arrays:
        """The same of latent rows, which are keys and values at once: to the larger of both numbers of bits."""
        return self.packed(x, value=self.value_bits > self.key_bits)

    def rank(self, packed: Arrays) -> int:
        """The numbers of a latent row."""
        return int(packed[0].shape[-1]) * 32 // max(self.key_bits, self.value_bits)

    def grouped(self, head_dim: int, *, value: bool) -> int:
        """The numbers of a group, for heads of this size."""
        wanted = self.group or (VALUE_GROUP if value else KEY_GROUP)
        return next(g for g in (wanted, VALUE_GROUP, SMALLEST_GROUP) if head_dim % g == 0)


def turned(x: mx.array) -> mx.array:
    """Heads (..., d) turned by the orthonormal Hadamard matrix; as they are for sizes of which MLX knows none."""
    odd = x.shape[-1] // (x.shape[-1] & -x.shape[-1])
    return mx.hadamard_transform(x) if odd in (1, 3, 5, 7) else x


def rounded(x: mx.array, group: int, bits: int) -> Arrays:
    """x (..., n) as mx.quantize has it: packed (..., n * bits / 32), scales and biases (..., n / group), bits 4 or 8.

    Scales and biases take two bytes each. mx.quantize chooses codes before it rounds those, so that all numbers of a
    group are off by what its bias was rounded by; here codes are chosen for the scales and biases that are kept.
    """
    kept = x.dtype if x.dtype.size == SCALE_BYTES else mx.bfloat16
    _, scales, biases = mx.quantize(x, group_size=group, bits=bits)
    scales, biases = scales.astype(kept), biases.astype(kept)
    grouped = x.reshape(*x.shape[:-1], -1, group)
    codes = _codes(grouped, scales[..., None], biases[..., None], mx.array(2**bits - 1, mx.float32)).reshape(x.shape)
    if bits == 4:
        codes = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return [codes.view(mx.uint32), scales, biases]


@partial(mx.compile, shapeless=True)
def _codes(x: mx.array, scale: mx.array, bias: mx.array, most: mx.array) -> mx.array:
    step = mx.where(scale == 0, 1, scale).astype(mx.float32)
    return mx.clip(mx.round((x.astype(mx.float32) - bias.astype(mx.float32)) / step), 0, most).astype(mx.uint8)
