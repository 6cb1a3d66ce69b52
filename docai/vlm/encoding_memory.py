"""How much memory it takes to encode an image: what the layers of its tower hold at once, and their scores."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.nn.sam import SamSpec
from docai.nn.sandwich_vit import SandwichVitSpec
from docai.nn.segments import SCORE_BYTES, fused_width
from docai.nn.vit import VitSpec
from docai.preprocess.inputs import ImageInput
from docai.vlm.vision import VisionSpec

PASS_VALUES = 8 << 20  # pixel values of several images in one pass: a large page keeps a device busy by itself
_UNKNOWN = 16  # times its pixels, for what is encoded by something else: sounds, early fusion


def encoding_bytes(tower: VisionSpec | None, images: Sequence[ImageInput], dtype: mx.Dtype) -> int:
    """The most bytes that encoding these images takes at once, small ones in passes of several.

    Measured with towers on a CPU it is 1 to 1.5 times what was taken.
    """
    return max((_pass_bytes(tower, image, len(images), dtype) for image in images), default=0)


def _pass_bytes(tower: VisionSpec | None, image: ImageInput, count: int, dtype: mx.Dtype) -> int:
    """Of a pass with as many images like this one as fit in, at most `count`."""
    pixels = int(image.pixels.size)
    times = max(1, min(count, PASS_VALUES // max(1, pixels)))
    if tower is None or image.kind == "audio":
        return _UNKNOWN * pixels * mx.float32.size
    rows, seen = _rows(tower, image)
    layer = pixels * mx.float32.size + rows * _row_bytes(tower, dtype)
    return times * layer + _score_bytes(tower, times * rows, seen, dtype)


def _rows(tower: VisionSpec, image: ImageInput) -> tuple[int, int]:
    """Rows of a pass, and how many of them a row sees at most."""
    match tower:
        case SamSpec():
            return len(image.pixels) * tower.side**2, tower.side**2
        case VitSpec():
            return len(image.pixels) * tower.rows, tower.rows
        case PackedVitSpec() if tower.averaged:
            return len(image.pixels), max(t * h * w for t, h, w in image.grids)
        case _:
            return len(image.pixels), max(h * w for _, h, w in image.grids)


def _row_bytes(tower: VisionSpec, dtype: mx.Dtype) -> int:
    """What a layer holds of a row: the stream, its norm, queries, keys, values and what they give; then the MLP."""
    mlp = tower.mlp if not isinstance(tower, SandwichVitSpec) else MlpSpec(tower.width)
    return (8 * tower.hidden + (3 if mlp.gated else 2) * mlp.width) * dtype.size


def _score_bytes(tower: VisionSpec, rows: int, seen: int, dtype: mx.Dtype) -> int:
    """Scores where attention is not one kernel; slices bound them. They are there twice while they become weights."""
    width = tower.head_dim if isinstance(tower, SandwichVitSpec) else tower.hidden // tower.heads
    if isinstance(tower, SamSpec):
        return 3 * min(SCORE_BYTES, 4 * tower.heads * rows * seen)  # and what distances add to them
    fused = fused_width(mx.zeros((1, 1, 1, width), dtype)) is not None
    return 0 if fused else 2 * min(SCORE_BYTES, 4 * tower.heads * rows * seen)
