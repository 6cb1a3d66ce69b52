"""GGUF files made on the spot: a writer, and the block formats of ggml as their numbers are packed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q8_0": 8, "Q6_K": 14, "BF16": 30}


def packed(array: Floats, kind: str) -> tuple[bytes, Floats]:
    """An array as ggml packs it, and the numbers that this stands for."""
    if kind == "F32":
        return array.astype("<f4").tobytes(), array
    if kind == "F16":
        return array.astype("<f2").tobytes(), array.astype(np.float16).astype(np.float32)
    if kind == "BF16":
        high = (array.view(np.uint32) >> 16).astype("<u2")
        return high.tobytes(), (high.astype(np.uint32) << 16).view(np.float32)
    rows = array.reshape(-1, 256 if kind == "Q6_K" else 32)
    data, numbers = {"Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q6_K": _q6_k}[kind](rows)
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
