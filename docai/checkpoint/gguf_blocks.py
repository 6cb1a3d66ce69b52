"""The block formats of GGUF, as arrays: a matrix packed as MLX packs it, or its numbers in half precision.

All of them are whole numbers with a scale and an offset per group. Where a group has 32 numbers that is MLX's affine
quantization, and nothing is lost. Groups of 16 are too small for it. Layouts as in ggml-common.h and ggml-quants.c;
MLX's own reader knows fewer of them, and takes the wrong scales for half of Q4_K's groups (0.32.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[Any]
# whole numbers (rows, blocks, numbers of a block), and scales and offsets (rows, blocks, groups of a block)
Parts = tuple[Numbers, Numbers, Numbers]


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A tensor type of GGUF: `block` numbers take `size` bytes, `split` tells them apart.

    `bits` of those that stay quantized, in groups of 32, with scales of type `scales`; 0 for those that do not.
    """

    name: str
    block: int
    size: int
    split: Callable[[Bytes], Parts] | None = None
    bits: int = 0
    dtype: str = "F16"

    def arrays(self, data: Bytes) -> dict[str, Numbers]:
        """The parts of a tensor from its bytes, (rows, bytes of a row): `weight`, perhaps `scales` and `biases`."""
        if self.split is None:
            return {"weight": data.view({"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[self.dtype])}
        rows = len(data)
        whole, scales, offsets = self.split(data.reshape(rows, -1, self.size))
        if not self.bits:
            groups = whole.reshape(*scales.shape, -1).astype(np.float32)
            return {"weight": (groups * scales[..., None] + offsets[..., None]).reshape(rows, -1).astype(np.float16)}
        kind = np.float32 if self.dtype == "F32" else np.float16
        weight = packed(whole.reshape(rows, -1).astype(np.uint8), self.bits)
        return {
            "weight": weight,
            **{n: a.reshape(rows, -1).astype(kind) for n, a in (("scales", scales), ("biases", offsets))},
        }


def packed(whole: Numbers, bits: int) -> NDArray[np.uint32]:
    """Numbers below 2^bits (rows, n) as MLX packs them: a stream of bits, the lowest first."""
    if bits == 8:
        stream = whole
    elif bits == 4:
        stream = whole[:, 0::2] | (whole[:, 1::2] << 4)
    else:
        single = np.unpackbits(whole[..., None], axis=-1, count=bits, bitorder="little")
        stream = np.packbits(single.reshape(len(whole), -1), axis=-1, bitorder="little")
    return np.ascontiguousarray(stream).view("<u4")


def _half(blocks: Bytes, at: int) -> Numbers:
    """The half-precision number at byte `at` of every block: (rows, blocks, 1)."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(data: Bytes) -> Bytes:
    """The low halves of all bytes, then the high ones."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _fifth_bits(data: Bytes) -> Bytes:
    """A bit for each of 32 numbers, from 4 bytes, as the number 16 or 0."""
    return np.unpackbits(data, axis=-1, bitorder="little") * np.uint8(16)


def _q4_0(blocks: Bytes) -> Parts:
    scale = _half(blocks, 0)
    return _nibbles(blocks[..., 2:]), scale, -8 * scale


def _q4_1(blocks: Bytes) -> Parts:
    return _nibbles(blocks[..., 4:]), _half(blocks, 0), _half(blocks, 2)


def _q5_0(blocks: Bytes) -> Parts:
    scale = _half(blocks, 0)
    return _nibbles(blocks[..., 6:]) | _fifth_bits(blocks[..., 2:6]), scale, -16 * scale


def _q5_1(blocks: Bytes) -> Parts:
    return _nibbles(blocks[..., 8:]) | _fifth_bits(blocks[..., 4:8]), _half(blocks, 0), _half(blocks, 2)


def _q8_0(blocks: Bytes) -> Parts:
    scale = _half(blocks, 0)
    return blocks[..., 2:] ^ 128, scale, -128 * scale  # two's complement, moved up by 128


def _six_bits(blocks: Bytes) -> tuple[Numbers, Numbers]:
    """The scales and offsets (rows, blocks, 8) of the formats with 12 bytes of them, behind two factors."""
    first, second, third = (blocks[..., at : at + 4] for at in (4, 8, 12))
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 6) << 4)], axis=-1)
    offsets = np.concatenate([second & 63, (third >> 4) | ((second >> 6) << 4)], axis=-1)
    return _half(blocks, 0) * scales, -_half(blocks, 2) * offsets


def _chunks(data: Bytes) -> Bytes:
    """Nibbles of 4 chunks of 32 bytes, chunk by chunk: (..., 128) -> (..., 4, 64)."""
    return _nibbles(data.reshape(*data.shape[:-1], 4, 32))


def _q4_k(blocks: Bytes) -> Parts:
    return _chunks(blocks[..., 16:]), *_six_bits(blocks)


def _q5_k(blocks: Bytes) -> Parts:
    high = blocks[..., 16:48][..., None, :] >> np.arange(8, dtype=np.uint8)[:, None]  # a bit for each group of 32
    low = _chunks(blocks[..., 48:])
    return low | ((high & 1) << 4).reshape(low.shape), *_six_bits(blocks)


def _q2_k(blocks: Bytes) -> Parts:
    scales, data = blocks[..., :16], blocks[..., 16:80].reshape(*blocks.shape[:2], 2, 1, 32)
    whole = (data >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    return whole, _half(blocks, 80) * (scales & 15), -_half(blocks, 82) * (scales >> 4)


def _q6_k(blocks: Bytes) -> Parts:
    low = blocks[..., :128].reshape(*blocks.shape[:2], 2, 64)
    high = blocks[..., 128:192].reshape(*blocks.shape[:2], 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    whole = _nibbles(low).reshape(high.shape) | ((high & 3) << 4)
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8) * _half(blocks, 208)
    return whole, scales, -32 * scales


BLOCKS: dict[int, BlockKind] = {
    0: BlockKind("F32", 1, 4, dtype="F32"),
    1: BlockKind("F16", 1, 2),
    2: BlockKind("Q4_0", 32, 18, _q4_0, 4),
    3: BlockKind("Q4_1", 32, 20, _q4_1, 4),
    6: BlockKind("Q5_0", 32, 22, _q5_0, 5),
    7: BlockKind("Q5_1", 32, 24, _q5_1, 5),
    8: BlockKind("Q8_0", 32, 34, _q8_0, 8),
    10: BlockKind("Q2_K", 256, 84, _q2_k),
    12: BlockKind("Q4_K", 256, 144, _q4_k, 4, "F32"),
    13: BlockKind("Q5_K", 256, 176, _q5_k, 5, "F32"),
    14: BlockKind("Q6_K", 256, 210, _q6_k),
    30: BlockKind("BF16", 1, 2, dtype="BF16"),
}
