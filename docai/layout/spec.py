"""What a layout detector is made of, frozen; `layout/pp_doclayout_v3.py` and its like translate configs to it."""

from __future__ import annotations

from dataclasses import dataclass

from docai.nn.hgnet import HgNetSpec
from docai.nn.hybrid import HybridSpec
from docai.nn.prototypes import MaskSpec
from docai.nn.queries import QuerySpec
from docai.nn.resnet import ResNetSpec


@dataclass(frozen=True, slots=True)
class DetectorSpec:
    """`inputs`: channels of the backbone's last stages, which the encoder takes; `level_inputs`: of its maps.

    `masks`: with masks, made at the size of the stage before. `boxes_from_masks`: queries start from the boxes around
    their masks. `order`: with reading order, in vectors of that size.
    """

    backbone: HgNetSpec | ResNetSpec
    inputs: tuple[int, ...]
    encoder: HybridSpec
    level_inputs: tuple[int, ...]
    queries: QuerySpec
    masks: MaskSpec | None = None
    boxes_from_masks: bool = False
    order: int | None = None
