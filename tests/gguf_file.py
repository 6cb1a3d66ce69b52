"""GGUF files made on the spot: a writer, and the block formats of ggml as their numbers are packed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
KINDS = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "Q2_K": 10,
    "Q3_K": 11,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
    "BF16": 30,
}


def packed(array: Floats, kind: str) -> tuple[bytes, Floats]:
    """An array as ggml packs it, and the numbers that this stands for."""
    if kind == "F32":
        return array.astype("<f4").tobytes(), array
    if kind == "F16":
        return array.astype("<f2").tobytes(), array.astype(np.float16).astype(np.float32)
    if kind == "BF16":
        high = (array.view(np.uint32) >> 16).astype("<u2")
        return high.tobytes(), (high.astype(np.uint32) << 16).view(np.float32)
    rows = array.reshape(-1, 256 if kind.endswith("_K") else 32)
    ways = {
        "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1,
        "Q2_K": _q2_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
    }  # fmt: skip
    data, numbers = ways[kind](rows)
    return data, numbers.reshape(array.shape).astype(np.float32)


def _half(values: Floats) -> Floats:
    return values.astype(np.float16).astype(np.float32)


def _bytes(*columns: NDArray[Any]) -> bytes:
    parts = [np.ascontiguousarray(c).view(np.uint8).reshape(len(c), -1) for c in columns]
    return np.concatenate(parts, axis=1).tobytes()


def _q8_0(rows: Floats) -> tuple[bytes, Floats]:
    scale = _half(np.abs(rows).max(1, keepdims=True) / 127)
    whole = np.round(rows / scale).clip(-127, 127).astype(np.int8)
    return _bytes(scale.astype("<f2"), whole), whole * scale


def _nibbles(whole: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Numbers 0 to 15 of a block, those of its first half in the low bits."""
    return whole[:, :16] | (whole[:, 16:] << 4)


def _q4_0(rows: Floats) -> tuple[bytes, Floats]:
    scale = _half(np.abs(rows).max(1, keepdims=True) / 7)
    whole = np.round(rows / scale + 8).clip(0, 15).astype(np.uint8)
    return _bytes(scale.astype("<f2"), _nibbles(whole)), (whole.astype(np.float32) - 8) * scale


def _q4_1(rows: Floats) -> tuple[bytes, Floats]:
    low = _half(rows.min(1, keepdims=True))
    scale = _half((rows.max(1, keepdims=True) - low) / 15)
    whole = np.round((rows - low) / scale).clip(0, 15).astype(np.uint8)
    return _bytes(scale.astype("<f2"), low.astype("<f2"), _nibbles(whole)), whole * scale + low


def _q6_k(rows: Floats) -> tuple[bytes, Floats]:
    """16 groups of 16 numbers of 6 bits, with a whole scale each; see dequantize_row_q6_K in ggml-quants.c."""
    largest = np.abs(rows).max(1, keepdims=True)
    scale = _half(largest / 31 / 100)
    scales = np.full((len(rows), 16), 100, np.int8)
    whole = np.round(rows / (scale * 100) + 32).clip(0, 63).astype(np.uint8)
    low, high = [], []
    for half in (whole[:, :128], whole[:, 128:]):
        a, b, c, d = (half[:, i : i + 32] for i in (0, 32, 64, 96))
        low += [(a & 15) | ((c & 15) << 4), (b & 15) | ((d & 15) << 4)]
        high.append((a >> 4) | ((b >> 4) << 2) | ((c >> 4) << 4) | ((d >> 4) << 6))
    data = _bytes(np.concatenate(low, axis=1), np.concatenate(high, axis=1), scales, scale.astype("<f2"))
    return data, (whole.astype(np.float32) - 32) * scale * 100


def _random_blocks(rows: Floats, *widths: int) -> list[NDArray[np.uint8]]:
    """Columns of bytes: of these two formats only unpacking is told here, and any bytes will do."""
    random = np.random.RandomState(len(rows))
    return [random.randint(0, 256, (len(rows), width)).astype(np.uint8) for width in widths]


def _halves(rows: Floats, value: float) -> Floats:
    return _half(np.full((len(rows), 1), value, np.float32))


def _q2_k(rows: Floats) -> tuple[bytes, Floats]:
    """16 groups of 16 numbers of 2 bits; a byte has their scale and their offset. See dequantize_row_q2_K."""
    (scales, whole), d, low = _random_blocks(rows, 16, 64), _halves(rows, 0.01), _halves(rows, 0.02)
    parts = [(whole[:, h : h + 32] >> shift) & 3 for h in (0, 32) for shift in (0, 2, 4, 6)]
    numbers = np.concatenate(parts, axis=1).reshape(len(rows), 16, 16)
    numbers = d[..., None] * (scales & 15)[..., None] * numbers - low[..., None] * (scales >> 4)[..., None]
    return _bytes(scales, whole, d.astype("<f2"), low.astype("<f2")), numbers.reshape(rows.shape)


def _six_bits(packed: NDArray[np.uint8], d: Floats, low: Floats) -> tuple[Floats, Floats]:
    """8 scales and 8 offsets of 6 bits in 12 bytes; see get_scale_min_k4."""
    scales, offsets = np.zeros((2, len(packed), 8), np.float32)
    for j in range(8):
        if j < 4:
            scales[:, j], offsets[:, j] = packed[:, j] & 63, packed[:, j + 4] & 63
        else:
            scales[:, j] = (packed[:, j + 4] & 15) | ((packed[:, j - 4] >> 6) << 4)
            offsets[:, j] = (packed[:, j + 4] >> 4) | ((packed[:, j] >> 6) << 4)
    return d * scales, low * offsets


def _q4_k(rows: Floats) -> tuple[bytes, Floats]:
    """8 groups of 32 numbers of 4 bits. See dequantize_row_q4_K."""
    (packed, whole), d, low = _random_blocks(rows, 12, 128), _halves(rows, 0.001), _halves(rows, 0.005)
    scales, offsets = _six_bits(packed, d, low)
    numbers = np.zeros((len(rows), 256), np.float32)
    for group in range(8):
        data = whole[:, group // 2 * 32 :][:, :32]
        digits = data >> 4 if group % 2 else data & 15
        numbers[:, group * 32 :][:, :32] = scales[:, [group]] * digits - offsets[:, [group]]
    return _bytes(d.astype("<f2"), low.astype("<f2"), packed, whole), numbers


def _q5_k(rows: Floats) -> tuple[bytes, Floats]:
    """The same with a fifth bit, bit `group` of 32 bytes. See dequantize_row_q5_K."""
    (packed, high, whole), d, low = _random_blocks(rows, 12, 32, 128), _halves(rows, 0.001), _halves(rows, 0.005)
    scales, offsets = _six_bits(packed, d, low)
    numbers = np.zeros((len(rows), 256), np.float32)
    for group in range(8):
        data = whole[:, group // 2 * 32 :][:, :32]
        digits = (data >> 4 if group % 2 else data & 15) + 16 * ((high >> group) & 1)
        numbers[:, group * 32 :][:, :32] = scales[:, [group]] * digits - offsets[:, [group]]
    return _bytes(d.astype("<f2"), low.astype("<f2"), packed, high, whole), numbers


def _fives(rows: Floats) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[Any]]:
    """32 numbers of 5 bits: their fifth bits, the others, and the numbers. See dequantize_row_q5_0."""
    high, whole = _random_blocks(rows, 4, 16)
    bits = high.view("<u4").astype(np.int64)
    digits = [(whole[:, j % 16] >> (4 * (j // 16)) & 15) + 16 * ((bits[:, 0] >> j) & 1) for j in range(32)]
    return high, whole, np.stack(digits, axis=1)


def _q5_0(rows: Floats) -> tuple[bytes, Floats]:
    (high, whole, digits), d = _fives(rows), _halves(rows, 0.01)
    return _bytes(d.astype("<f2"), high, whole), (digits - 16) * d


def _q5_1(rows: Floats) -> tuple[bytes, Floats]:
    (high, whole, digits), d, low = _fives(rows), _halves(rows, 0.01), _halves(rows, -0.15)
    return _bytes(d.astype("<f2"), low.astype("<f2"), high, whole), digits * d + low


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    """A value with its type before it."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    kinds, bodies = zip(*((v[:4], v[4:]) for v in map(_value, value)), strict=True)
    return struct.pack("<I", 9) + kinds[0] + struct.pack("<Q", len(value)) + b"".join(bodies)


def write_gguf(path: Path, fields: Mapping[str, Any], tensors: Mapping[str, tuple[Floats, str]]) -> dict[str, Floats]:
    """A file of these metadata and tensors, each with its kind; the numbers that the tensors then stand for."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(fields))
    head += b"".join(_string(key) + _value(value) for key, value in fields.items())
    body, numbers = b"", {}
    for name, (array, kind) in tensors.items():
        data, numbers[name] = packed(array, kind)
        axes = tuple(reversed(array.shape))
        head += _string(name) + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, KINDS[kind], len(body))
        body += data + b"\0" * (-len(data) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + body)
    return numbers
