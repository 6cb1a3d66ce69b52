"""What is known of a tensor before its numbers are read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

# Bits of an element, by the names that safetensors gives its types.
BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
}  # fmt: skip
# The same in MLX, for those that MLX computes with.
MLX_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool_",
}  # fmt: skip
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a matrix is packed along its last axis: `bits` a number, a scale for each `group_size` of them."""

    group_size: int
    bits: int
    mode: str = "affine"

    @property
    def has_biases(self) -> bool:
        """Whether each group has an offset beside its scale; the float modes have none."""
        return self.mode == "affine"

    @property
    def arguments(self) -> dict[str, Any]:
        """As MLX's functions and configs have it."""
        return {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}

    def __str__(self) -> str:
        return f"{self.bits} bit {self.mode}, groups of {self.group_size}"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor in a file: its type as safetensors spells it, its shape, and where its bytes are."""

    dtype: str
    shape: tuple[int, ...]
    file: Path | None = None
    offset: int = 0  # bytes from the start of the file

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return (self.size * BITS[self.dtype] + 7) // 8
