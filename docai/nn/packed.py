"""Several matrices in one array, their numbers rounded to a few bits, as `mx.quantize` packs them."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn


class Packed(nn.Module):
    """Names: weight, scales and, in the modes that have them, biases. What is multiplied how is up to the layer."""

    def __init__(self, weight: mx.array, group_size: int | None, bits: int | None, mode: str) -> None:
        """Round `weight` (matrices, out, in) along its last axis; None for a mode's own numbers."""
        super().__init__()
        self.group_size, self.bits, self.mode = group_size, bits, mode
        self.weight, self.scales, *biases = mx.quantize(weight, group_size=group_size, bits=bits, mode=mode)
        if biases:
            self.biases = biases[0]
        self.freeze()
