"""The network of a layout detector, as its spec says: backbone, hybrid encoder, queries, and their heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.layout.spec import DetectorSpec
from docai.nn.conv import Conv, ConvSpec
from docai.nn.hgnet import HgNet, HgNetSpec
from docai.nn.hybrid import HybridEncoder
from docai.nn.pointer import OrderPointer
from docai.nn.prototypes import Prototypes
from docai.nn.queries import QueryDecoder, Selection, logit
from docai.nn.resnet import ResNet


@dataclass(frozen=True, slots=True)
class Found:
    """What a network says of a batch of pages. Masks are mixtures: `mixtures` (B, Q, P) of `prototypes` (B, h, w, P).

    `boxes` (B, Q, 4): centre and size in fractions of the page. `order` (B, Q, Q): how sure i is before j, for i < j.
    """

    logits: mx.array  # (B, Q, classes)
    boxes: mx.array
    order: mx.array | None = None
    mixtures: mx.array | None = None
    prototypes: mx.array | None = None

    @property
    def arrays(self) -> list[mx.array]:
        """All that there are."""
        every = (self.logits, self.boxes, self.order, self.mixtures, self.prototypes)
        return [array for array in every if array is not None]


class Network(nn.Module):
    """Names: backbone, project, encoder, levels, select, decoder; masks and order where it has them."""

    def __init__(self, spec: DetectorSpec) -> None:
        super().__init__()
        encoder, queries = spec.encoder, spec.queries
        self.backbone = HgNet(spec.backbone) if isinstance(spec.backbone, HgNetSpec) else ResNet(spec.backbone)
        self.project = [Conv(ConvSpec(inputs, encoder.dims)) for inputs in spec.inputs]
        self.encoder = HybridEncoder(encoder)
        self.levels = [Conv(level) for level in _levels(spec)]
        self.select = Selection(queries, boxes=not spec.boxes_from_masks)
        self.decoder = QueryDecoder(queries)
        if spec.masks is not None:
            self.masks = Prototypes(spec.masks, queries.dims)
        if spec.order is not None:
            self.order = OrderPointer(queries.dims, spec.order)
        self._spec = spec

    def encode(self, pixels: mx.array) -> tuple[list[mx.array], mx.array | None]:
        """(B, H, W, 3) in 0..1 -> maps (B, h, w, D), finest first, and prototypes of masks where it has them"""
        seen = self.backbone(pixels.astype(self.project[0].weight.dtype))
        taken = seen[-len(self.project) :]
        maps = self.encoder([project(x) for project, x in zip(self.project, taken, strict=True)])
        return maps, self.masks(maps, seen[-len(self.project) - 1]) if "masks" in self else None

    def __call__(self, pixels: mx.array) -> Found:
        """(B, H, W, 3) in 0..1"""
        maps, prototypes = self.encode(pixels)
        levels, sizes = _flat([conv(maps[min(n, len(maps) - 1)]) for n, conv in enumerate(self.levels)])
        queries, boxes = self.select(levels, sizes)
        if boxes is None:
            boxes = mx.sigmoid(logit(self._masked_boxes(queries, prototypes)))
        queries, boxes = self.decoder(queries, boxes, levels, sizes)
        return Found(
            self.decoder.score(queries).astype(mx.float32),
            boxes,
            self.order(queries) if "order" in self else None,
            self.masks.query(queries) if "masks" in self else None,
            prototypes,
        )

    def _masked_boxes(self, queries: mx.array, prototypes: mx.array | None) -> mx.array:
        assert prototypes is not None, "boxes from masks need masks"
        normed = self.decoder.last_norm(queries) if "last_norm" in self.decoder else queries
        return self.masks.boxes(normed, prototypes)


def _levels(spec: DetectorSpec) -> list[ConvSpec]:
    """The convolutions that make the decoder's levels: one for each map, then ones that halve the coarsest."""
    dims = spec.queries.dims
    found = [ConvSpec(inputs, dims) for inputs in spec.level_inputs]
    more = spec.queries.deform.levels - len(found)
    widths = [spec.level_inputs[-1], *(dims for _ in range(more - 1))]
    return [*found, *(ConvSpec(width, dims, 3, 2) for width in widths[:more])]


def _flat(levels: Sequence[mx.array]) -> tuple[mx.array, list[tuple[int, int]]]:
    """Maps (B, h, w, D) one after another (B, S, D), and their sizes."""
    sizes = [(level.shape[1], level.shape[2]) for level in levels]
    return mx.concatenate([mx.flatten(level, 1, 2) for level in levels], 1), sizes
