"""Bytes of colour into the floats that a tower was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from docai.preprocess.inputs import Pixels, Rgb

Colour = tuple[float, float, float]

CLIP_MEAN: Colour = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Colour = (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)
HALF: Colour = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True)
class Normalization:
    """value * scale, then minus `mean`, over `std`, each channel for itself."""

    mean: Colour = (0.0, 0.0, 0.0)
    std: Colour = (1.0, 1.0, 1.0)
    scale: float = 1 / 255

    def __call__(self, rgb: Rgb) -> Pixels:
        """`rgb` (..., 3) in floats of the same shape."""
        table = _table(self)
        out = np.empty(rgb.shape, np.float32)
        for channel in range(3):
            out[..., channel] = table[channel][rgb[..., channel]]
        return out


@lru_cache(maxsize=16)
def _table(rule: Normalization) -> Pixels:
    """The float of each byte, (3, 256): a byte has only 256 values.

    Computed as the reference computes pixels: scaled in float64, the rest in float32, so that results are equal bits.
    """
    scaled = (np.arange(256, dtype=np.float64) * rule.scale).astype(np.float32)
    mean, std = (np.array(colour, np.float32)[:, None] for colour in (rule.mean, rule.std))
    return (scaled - mean) / std
