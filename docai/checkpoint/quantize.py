"""How the config of an MLX export says that its matrices are quantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docai.checkpoint.tensors import Quantization
from docai.errors import CheckpointError, UsageError

# mode -> (group sizes, bits); the first of each is the default. What mlx.core.quantize takes.
MODES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "affine": ((64, 32, 128), (4, 2, 3, 5, 6, 8)),
    "mxfp4": ((32,), (4,)),
    "mxfp8": ((32,), (8,)),
    "nvfp4": ((16,), (4,)),
}
_FOREIGN = "quant_method"  # of GPTQ, AWQ, bitsandbytes, fp8, ...: packed in ways of their own


@dataclass(frozen=True, slots=True)
class QuantizationConfig:
    """How matrices are packed: most of them as `default` says, those in `modules` (names of the file) otherwise.

    None is a module that is not quantized.
    """

    default: Quantization
    modules: Mapping[str, Quantization | None] = field(default_factory=dict)

    def of(self, module: str) -> Quantization | None:
        """How the matrix of a module is packed, if it has scales."""
        for name in (module, module.removeprefix("language_model."), f"language_model.{module}"):
            if name in self.modules:  # mlx-vlm writes some of these names without their prefix
                return self.modules[name]
        return self.default


def quantization_of(config: Mapping[str, Any], where: str = "config.json") -> QuantizationConfig | None:
    """What a config says of its quantization. Raises CheckpointError for ways that are not MLX's."""
    text = config.get("text_config")
    nested = text if isinstance(text, Mapping) else {}
    sections = [c.get(key) for c in (config, nested) for key in ("quantization", "quantization_config")]
    said = next((section for section in sections if section), None)
    if said is None:
        return None
    if not isinstance(said, Mapping):
        raise CheckpointError(f"{where}: expected quantization to be an object; got {said!r}")
    if _FOREIGN in said:
        return _compressed(said, where)
    if not {"bits", "group_size"} <= said.keys() and said.get("mode") not in MODES:
        raise CheckpointError(f"{where}: expected quantization with group_size and bits; got {dict(said)!r}")
    default = _quantization(said, None, where)
    modules = {
        str(name): None if value is False else _quantization(value, default, where) if value is not True else default
        for name, value in said.items()
        if isinstance(value, Mapping | bool) and name != "quantize_input"
    }
    return QuantizationConfig(default, modules)


def _compressed(said: Mapping[str, Any], where: str) -> QuantizationConfig:
    """compressed-tensors' symmetric integers in groups, which are MLX's affine ones (see `compressed`)."""
    problem = CheckpointError(
        f"{where}: weights quantized by {said[_FOREIGN]} are not supported; expected an MLX export "
        "(affine, mxfp4, mxfp8 or nvfp4) or the original weights, which docai models convert can quantize"
    )
    groups = said.get("config_groups")
    if said[_FOREIGN] != "compressed-tensors" or said.get("format") != "pack-quantized" or not groups:
        raise problem
    if not isinstance(groups, Mapping) or not all(isinstance(group, Mapping) for group in groups.values()):
        raise problem
    weights = [group.get("weights") for group in groups.values()]
    first = weights[0]
    known = {"type": "int", "symmetric": True, "strategy": "group"}
    if not isinstance(first, Mapping) or any(other != first for other in weights[1:]):
        raise problem
    bits, group = first.get("num_bits"), first.get("group_size")
    if any(first.get(name) != value for name, value in known.items()) or bits not in (4, 8) or group is None:
        raise problem
    return QuantizationConfig(_quantization({"bits": bits, "group_size": group}, None, where))


def _quantization(said: Any, default: Quantization | None, where: str) -> Quantization:
    mode = said.get("mode") or (default.mode if default and not {"bits", "group_size"} & set(said) else "affine")
    try:
        return chosen(mode, said.get("group_size"), said.get("bits"))
    except UsageError as error:
        raise CheckpointError(f"{where}: quantization: {error}") from error


def chosen(mode: str = "affine", group_size: int | None = None, bits: int | None = None) -> Quantization:
    """A way to quantize, with the defaults of its mode. Raises UsageError for what MLX cannot do."""
    if mode not in MODES:
        raise UsageError(f"mode: expected one of {', '.join(MODES)}; got {mode!r}")
    groups, widths = MODES[mode]
    for what, value, allowed in (("group size", group_size, groups), ("bits", bits, widths)):
        if value is not None and (type(value) is not int or value not in allowed):
            raise UsageError(f"{what} of {mode}: expected {', '.join(map(str, sorted(allowed)))}; got {value!r}")
    return Quantization(group_size or groups[0], bits or widths[0], mode)
