"""How a model hears: frames of sound to rows of the decoder's width, one for each audio token."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.conformer import Conformer, ConformerSpec
from docai.nn.norm import rms
from docai.preprocess.inputs import SoundInput
from docai.vlm.connector import ImageFeatures


@dataclass(frozen=True, slots=True)
class HearingSpec:
    """The rows of a tower (Gemma 4) or, without one, the frames themselves (its Unified), of `dims` numbers.

    They are normed without a weight and projected to `out`.
    """

    dims: int
    out: int
    tower: ConformerSpec | None = None
    norm_eps: float = 1e-6


class Hearing(nn.Module):
    """Names: tower, where the spec has one, and up."""

    def __init__(self, spec: HearingSpec) -> None:
        super().__init__()
        if spec.tower is not None:
            self.tower = Conformer(spec.tower)
        self.up = nn.Linear(spec.dims, spec.out, bias=False)
        self._eps = spec.norm_eps

    def __call__(self, sound: SoundInput) -> ImageFeatures:
        """The features of one sound."""
        frames = mx.array(sound.pixels)
        rows = self.tower.encode(frames) if "tower" in self else frames
        return ImageFeatures(self.up(rms(rows, self._eps)))
