"""Which layers of a network are quantized, and how finely."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from docai.checkpoint.tensors import Quantization
from docai.checkpoint.weights import Shape

_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
# Rounding these costs most: an error in them reaches the residual stream unweakened (llama.cpp's Q4_K_M and mlx-lm's
# mixed recipes choose the same).
_SENSITIVE = ("attn.v", "mlp.down", "mlp.experts.down", "mlp.shared.down")
_TABLES = ("decoder.embed", "decoder.head")


@dataclass(frozen=True, slots=True)
class Recipe:
    """`low` for most layers. `high`, where given, for the embedding, the head and the sensitive layers.

    The sensitive layers are the values and down projections in the first and the last eighth of the decoder, and in
    every third layer between. A vision tower stays as it is unless `vision`: it is small, and rounding it shows.
    """

    low: Quantization
    high: Quantization | None = None
    vision: bool = False

    def of(self, module: str, layers: int) -> Quantization | None:
        """How a module of ours is quantized, in a decoder of so many layers."""
        if not module.startswith(("decoder.", "encoder.")) and not self.vision:
            return None
        if module.endswith(("mlp.router", "mlp.shared_gate", ".positions")):  # small, and it decides
            return None
        return self.high if self.high and _is_sensitive(module, layers) else self.low


def _is_sensitive(module: str, layers: int) -> bool:
    found = _LAYER.fullmatch(module)
    if found is None:
        return module in _TABLES
    number, eighth = int(found[1]), layers // 8
    outer = number < eighth or number >= layers - eighth
    return found[2] in _SENSITIVE and (outer or (number - eighth) % 3 == 2)


def planned(recipe: Recipe, modules: Iterable[tuple[str, Shape]]) -> dict[str, Quantization]:
    """How each module is quantized, of (name, shape of its weight); those whose rows do not divide are left out."""
    modules = list(modules)
    layers = 1 + max((int(m[1]) for name, _ in modules if (m := _LAYER.fullmatch(name))), default=-1)
    out = {}
    for name, shape in modules:
        how = recipe.of(name, layers)
        if how is not None and shape[-1] % how.group_size == 0:
            out[name] = how
    return out
