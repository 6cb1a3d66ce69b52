"""Matrices as compressed-tensors packs them, by the definition of its format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]


def setting(bits: int, group: int, **more: Any) -> dict[str, Any]:
    """What its config says."""
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": group, **more}
    return {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "weights": weights}},
    }  # fmt: skip


def packed(matrix: Matrix, bits: int, group: int) -> tuple[dict[str, NDArray[Any]], Matrix]:
    """(its tensors by the ends of their names, the numbers that they stand for)."""
    rows, width = matrix.shape
    most = (1 << (bits - 1)) - 1
    grouped = matrix.reshape(rows, -1, group)
    scales = (np.abs(grouped).max(axis=-1) / most).astype(np.float16).astype(np.float32)
    whole = np.clip(np.round(grouped / scales[..., None]), -most - 1, most).astype(np.int64)
    stands = (whole * scales[..., None]).reshape(rows, width).astype(np.float32)
    words = np.zeros((rows, width * bits // 32), np.uint32)
    each = 32 // bits
    for at, number in enumerate((whole + most + 1).reshape(rows, width).T):
        words[:, at // each] |= number.astype(np.uint32) << np.uint32(bits * (at % each))
    tensors = {
        "weight_packed": words.view(np.int32), "weight_scale": scales, "weight_shape": np.array(matrix.shape, np.int64)
    }  # fmt: skip
    return tensors, stands
