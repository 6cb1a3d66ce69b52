"""The options of `docai models`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docai.checkpoint.options import LoadOptions
from docai.checkpoint.quantize import MODES
from docai.options import option


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertOptions(LoadOptions):
    """`docai models convert`: what a checkpoint becomes."""

    output: str | None = option(None, "New folder.", flags=("--output", "-o"), variable="DOCAI_CONVERT_OUTPUT")
    dtype: str | None = option(
        None,
        "Type of weights that are not quantized. Default: as stored.",
        choices=("float32", "bfloat16", "float16"),
        variable="DOCAI_CONVERT_DTYPE",
    )
    bits: int | None = option(None, "Quantize to this many bits: 2, 3, 4, 5, 6 or 8. Default: not at all.")
    group_size: int | None = option(None, "Numbers that share a scale: 32, 64 or 128. Default: 64.")
    mode: str | None = option(None, "Way to quantize. Default: affine, where bits are given.", choices=tuple(MODES))
    recipe: Literal["uniform", "mixed"] = option(
        "uniform",
        "mixed: the embedding, the head and the layers where rounding costs most get more bits.",
        choices=("uniform", "mixed"),
    )
    high_bits: int = option(8, "The bits of those, in a mixed recipe.")
    vision: bool = option(False, "Quantize the vision tower, too.")
    dequantize: bool = option(False, "Make a quantized checkpoint dense first.")
    shard_size: str = option("5GB", "Largest file, as in 500MB.")
