"""Pages as a detector sees them: stretched to one size, in floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from docai.errors import CheckpointError
from docai.preprocess.byte_resample import resize_bytes
from docai.preprocess.inputs import Pixels, Rgb
from docai.preprocess.normalize import IMAGENET_MEAN, IMAGENET_STD, Normalization
from docai.preprocess.resample import BICUBIC, BILINEAR, resize
from docai.preprocess.sizes import Size

_TO_ONE = Normalization()
_STEP, _MOST_PX = 32, 4096  # the coarsest map is a 32nd of the page
_KINDS = {2: False, 3: True}  # Pillow's numbers of filters: bilinear, bicubic


@dataclass(frozen=True, slots=True)
class PageImages:
    """How a page becomes an array of `size` (height, width), whatever its shape.

    Without `antialias` a bicubic filter sees the nearest pixels only, however far it shrinks, as PaddlePaddle has it.
    """

    size: Size
    bicubic: bool = False
    antialias: bool = True
    normalize: Normalization = _TO_ONE

    def said(self, prep: Mapping[str, Any] | None) -> PageImages:
        """The same as a preprocessor_config.json has it; what that leaves out stays. Raises CheckpointError."""
        if not prep:
            return self
        resample = prep.get("resample", 3 if self.bicubic else 2)
        if resample not in _KINDS:
            raise CheckpointError(f"preprocessor_config.json: resample {resample!r} is not supported; expected 2 or 3")
        return replace(
            self, size=self._size(prep.get("size")), bicubic=_KINDS[resample], normalize=self._normalization(prep)
        )

    def _size(self, said: Any) -> Size:
        if said is None:
            return self.size
        edges = (said.get("height"), said.get("width")) if isinstance(said, Mapping) else (said, said)
        sizes = [edge for edge in edges if type(edge) is int and 0 < edge <= _MOST_PX and edge % _STEP == 0]
        if len(sizes) != len(edges):
            raise CheckpointError(
                f"preprocessor_config.json: expected a size of multiples of {_STEP} up to {_MOST_PX}; got {said!r}"
            )
        return sizes[0], sizes[1]

    def _normalization(self, prep: Mapping[str, Any]) -> Normalization:
        scale = float(prep.get("rescale_factor") or 1 / 255) if prep.get("do_rescale", True) else 1.0
        if not prep.get("do_normalize", False):
            return Normalization(scale=scale)
        mean, std = (
            tuple(map(float, prep.get(k) or d)) for k, d in (("image_mean", IMAGENET_MEAN), ("image_std", IMAGENET_STD))
        )
        return Normalization(mean, std, scale)  # type: ignore[arg-type]  # three channels

    def __call__(self, rgb: Rgb) -> Pixels:
        """(H, W, 3) of bytes -> (height, width, 3) of floats"""
        if self.bicubic and not self.antialias:
            return self.normalize(resize_bytes(rgb, self.size))
        return self.normalize(resize(rgb, self.size, BICUBIC if self.bicubic else BILINEAR))
