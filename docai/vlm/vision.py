"""Vision towers by their specs: pictures to rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.nn.davit import Davit, DavitSpec
from docai.nn.grids import Grid
from docai.nn.packed_vit import Encoded, PackedVit, PackedVitSpec
from docai.nn.radio import Radio, RadioSpec
from docai.nn.sam import Sam, SamSpec
from docai.nn.sandwich_vit import SandwichVit, SandwichVitSpec
from docai.nn.vit import Vit, VitSpec
from docai.preprocess.inputs import ImageInput

VisionSpec: TypeAlias = PackedVitSpec | SandwichVitSpec | VitSpec | SamSpec  # those under causal decoders
TowerSpec: TypeAlias = VisionSpec | DavitSpec | RadioSpec


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a tower makes of one image: `rows` (patches, D), and those of inner layers for DeepStack.

    A tower of a fixed size gives `rows` (tiles, patches, D), one whose connector asks where they lie (h, w, D) or
    (tiles, h, w, D).
    """

    rows: mx.array
    taps: tuple[mx.array, ...] = ()


class _Packed:
    """A packed transformer, one image at a time: so what an image gives does not depend on its company."""

    encode: Callable[[mx.array, Sequence[Grid]], Encoded]

    def __call__(self, images: Sequence[ImageInput]) -> list[Seen]:
        encoded = (self.encode(mx.array(image.pixels), image.grids) for image in images)
        return [Seen(one.rows, one.taps) for one in encoded]


class PackedTower(_Packed, PackedVit):
    """See `docai.nn.packed_vit`."""


class SandwichTower(_Packed, SandwichVit):
    """See `docai.nn.sandwich_vit`."""


class FixedTower(Vit):
    """A transformer over pictures of one size: the tiles of an image are a batch of their own."""

    def __call__(self, images: Sequence[ImageInput]) -> list[Seen]:
        return [Seen(self.encode(mx.array(image.pixels))) for image in images]


class SamTower(Sam):
    """A tower over pictures of one size, one at a time: a layer's scores are many."""

    def __call__(self, images: Sequence[ImageInput]) -> list[Seen]:
        return [Seen(mx.concatenate([self.encode(mx.array(a[None])) for a in image.pixels])) for image in images]


class DavitTower(Davit):
    """A tower over one picture at a time, whose rows stay where they lie."""

    def __call__(self, images: Sequence[ImageInput]) -> list[Seen]:
        return [Seen(self.encode(mx.array(image.pixels))[0]) for image in images]


class RadioTower(Radio):
    """A tower over one picture at a time; `taps` are the summary of the whole of it."""

    def __call__(self, images: Sequence[ImageInput]) -> list[Seen]:
        return [self._seen(image) for image in images]

    def _seen(self, image: ImageInput) -> Seen:
        patches, summary = self.encode(mx.array(image.pixels[0]))
        return Seen(patches, (summary,))


def seen_together(tower: nn.Module, images: Sequence[ImageInput]) -> list[Seen]:
    """As a tower gives, for images of one shape, in a single pass where it can.

    The sums are then of other sizes, so that numbers may differ in their last bits from those of an image by itself.
    """
    if len(images) < 2 or not isinstance(tower, PackedTower | SandwichTower | FixedTower):
        return tower(images)
    pixels = mx.array(np.concatenate([image.pixels for image in images]))
    if isinstance(tower, FixedTower):
        return [Seen(rows) for rows in mx.split(tower.encode(pixels), len(images))]
    encoded = tower.encode(pixels, [grid for image in images for grid in image.grids])
    taps = [mx.split(tap, len(images)) for tap in encoded.taps]
    rows = mx.split(encoded.rows, len(images))
    return [Seen(own, tuple(tap[number] for tap in taps)) for number, own in enumerate(rows)]


def build_tower(spec: TowerSpec) -> nn.Module:
    """The tower that `spec` describes; called with images, it gives what it has Seen of each."""
    match spec:
        case PackedVitSpec():
            return PackedTower(spec)
        case SandwichVitSpec():
            return SandwichTower(spec)
        case VitSpec():
            return FixedTower(spec)
        case SamSpec():
            return SamTower(spec)
        case DavitSpec():
            return DavitTower(spec)
        case RadioSpec():
            return RadioTower(spec)
