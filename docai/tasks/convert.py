"""`docai models convert`: a checkpoint in our own names, dense or quantized."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docai.checkpoint.convert import Conversion, convert
from docai.checkpoint.load import DTYPES
from docai.checkpoint.quantize import chosen
from docai.checkpoint.recipe import Recipe, planned
from docai.errors import UsageError
from docai.tasks.models import Resolved, modules_of, opened
from docai.tasks.models_options import ConvertOptions

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def convert_model(
    name: str,
    options: ConvertOptions,
    *,
    quiet: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write the converted checkpoint; what its manifest says. Raises UsageError, CheckpointError or OutputError."""
    if not options.output:
        raise UsageError("convert: expected a new folder: name one with -o")
    recipe = recipe_of(options)
    size = parse_size(options.shard_size)
    checkpoint = opened(name, options, quiet=quiet)
    if recipe and checkpoint.quantization and not options.dequantize:
        raise UsageError(
            f"{name} is quantized already ({checkpoint.quantization.default}); convert the original, "
            "or add --dequantize, which keeps its rounding"
        )
    resolved = Resolved.of(checkpoint)
    weights = resolved.mapped.map.weights
    able = {path for path, module in modules_of(resolved.network) if hasattr(module, "to_quantized")}
    modules = [(path, weights[f"{path}.weight"].shape) for path in sorted(able) if f"{path}.weight" in weights]
    plan = planned(recipe, modules) if recipe else {}
    dtype = DTYPES[options.dtype] if options.dtype else None
    conversion = Conversion(plan, dtype, options.dequantize, size)
    return convert(checkpoint, resolved.mapped, conversion, Path(options.output).expanduser(), on_progress=on_progress)


def recipe_of(options: ConvertOptions) -> Recipe | None:
    """How to quantize, if at all. Raises UsageError for what contradicts itself."""
    if options.bits is None and options.mode is None:
        extra = [flag for flag, value in (("--group-size", options.group_size), ("--vision", options.vision)) if value]
        if extra or options.recipe != "uniform":
            raise UsageError(f"{(*extra, '--recipe')[0]} says how to quantize: give --bits or --mode, too")
        return None
    low = chosen(options.mode or "affine", options.group_size, options.bits)
    if options.recipe == "uniform":
        return Recipe(low, vision=options.vision)
    high = chosen("affine", options.group_size if low.mode == "affine" else None, options.high_bits)
    if high.bits <= low.bits:
        raise UsageError(f"a mixed recipe needs more high bits than {low.bits}; got {high.bits}")
    return Recipe(low, high, options.vision)


def parse_size(text: str) -> int:
    """`500MB` -> bytes. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(kb|mb|gb|)", text.strip().lower())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if size < 1:
        raise UsageError(f"shard size: expected a size such as 5GB or 500MB; got {text!r}")
    return size
