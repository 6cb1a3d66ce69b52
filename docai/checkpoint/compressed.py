"""Weights as compressed-tensors packs them (`pack-quantized`): integers of 4 or 8 bits, each group with a scale.

They are shifted to be positive and lie in words of 32 bits, the first one lowest, as MLX's affine ones do: the words
are the same, and the offset of a group is its scale times the shift. So nothing is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docai.checkpoint.backend import require_mlx
from docai.checkpoint.tensors import TensorInfo
from docai.errors import CheckpointError

_PACKED, _SCALE, _SHAPE = ".weight_packed", ".weight_scale", ".weight_shape"
_WORDS = ("I32", "U32")
_UNKNOWN = (".weight_zero_point", ".weight_g_idx", ".weight_global_scale")


def as_affine(tensors: Mapping[str, TensorInfo]) -> Mapping[str, TensorInfo]:
    """The table of a checkpoint's tensors with packed matrices under the names that MLX's exports have.

    Raises CheckpointError for groups with zero points of their own, or in another order, and for words of other sizes.
    """
    if not holds_packed(tensors):
        return tensors
    if odd := next((name for name in tensors if name.endswith(_UNKNOWN)), None):
        raise CheckpointError(
            f"{odd}: of weights packed by compressed-tensors, only symmetric groups in order are read"
        )
    out: dict[str, TensorInfo] = {}
    for name, info in tensors.items():
        if name.endswith(_PACKED):
            if info.dtype not in _WORDS:
                raise CheckpointError(f"{name}: expected words of 32 bits ({', '.join(_WORDS)}), got {info.dtype}")
            out[f"{name.removesuffix(_PACKED)}.weight"] = TensorInfo("U32", info.shape, info.file, info.offset)
        elif name.endswith(_SCALE):
            stem = name.removesuffix(_SCALE)
            out |= {f"{stem}.scales": info, f"{stem}.biases": info}
        elif not name.endswith(_SHAPE):
            out[name] = info
    return out


def holds_packed(names: Iterable[str]) -> bool:
    """Whether there are packed matrices among tensors of these names."""
    return any(name.endswith(_PACKED) for name in names)


class CompressedArrays(dict[str, Any]):
    """The arrays of a file under those names, made when they are asked for; what is taken out is forgotten."""

    def __init__(self, arrays: Mapping[str, Any], bits: int) -> None:
        super().__init__(arrays)
        self._shift = 1 << (bits - 1)

    def __missing__(self, name: str) -> Any:
        mx = require_mlx()
        stem, _, part = name.rpartition(".")
        if part == "weight":
            self[name] = self.pop(f"{stem}{_PACKED}").view(mx.uint32)
        else:
            scales = self.pop(f"{stem}{_SCALE}")
            self[f"{stem}.scales"], self[f"{stem}.biases"] = scales, scales * -self._shift
        return self[name]
