"""What a tower gets for one image, clip or sound, and the shape of every processor that makes it of an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Rgb = NDArray[np.uint8]  # (H, W, 3)
Pixels = NDArray[np.float32]
Kind = Literal["image", "video", "audio"]


@dataclass(frozen=True, slots=True, eq=False)
class ImageInput:
    """One image, ready for its tower.

    Packed towers take `pixels` (N, C*T*p*p): flattened patches, in the order in which the merger joins them, and
    `grid` (t, h, w) in patches. Towers of a fixed size take `pixels` (tiles, H, W, 3) and no grid. `tokens` is the
    number of rows that the connector makes of it, so the number of image tokens in the prompt (line breaks and other
    marks between them are not counted). `extra` holds what only some families need, by name. A clip is one, too, with a
    grid of several steps and the `stamps` of them.
    """

    pixels: Pixels
    tokens: int
    grid: tuple[int, int, int] | None = None
    extra: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    @property
    def grids(self) -> list[tuple[int, int, int]]:
        """The grid of each part of a packed image, of which most have one: `extra["grids"]` has those of others."""
        if "grids" in self.extra:
            return [(int(t), int(h), int(w)) for t, h, w in self.extra["grids"]]
        assert self.grid is not None, "a packed tower needs the grid of its patches"
        return [self.grid]

    @property
    def is_clip(self) -> bool:
        return "stamps" in self.extra

    @property
    def kind(self) -> Kind:
        """What it is, by the names that chat templates have for it."""
        return "video" if self.is_clip else "image"


class ImageProcessor(Protocol):
    """Makes an `ImageInput` of an RGB picture; implementations are frozen dataclasses."""

    def __call__(self, rgb: Rgb) -> ImageInput:
        """The input of the tower for `rgb` (H, W, 3), uint8."""
        ...

    def within(self, tokens: int) -> ImageProcessor:
        """This processor with images of at most `tokens` tokens, where their number goes with their size.

        A narrow strip may take more: no side is shorter than a token.
        """
        ...


class OneSize:
    """What processors have in common whose images take as many tokens as they take."""

    __slots__ = ()

    def within(self, tokens: int) -> Self:  # noqa: ARG002
        """The same: there is nothing to make smaller."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class SoundInput(ImageInput):
    """A sound, ready for its tower: `pixels` are its frames (N, D), `tokens` as of an image."""

    @property
    def kind(self) -> Kind:
        return "audio"
