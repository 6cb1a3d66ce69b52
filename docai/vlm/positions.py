"""Positions of a prompt's tokens for rotary embeddings with three axes (MRoPE: time, height, width).

Text counts on along all three axes at once. The tokens of an image or a clip span a box: each axis counts from the
position where the box begins, and what follows begins one after the highest position in it (Qwen2-VL, arXiv:2409.12191,
section 2.1). So a prompt with images has fewer positions than tokens; the difference is the request's `delta`, which
every later token needs. transformers 5.x lets text that follows a clip begin after its longer side instead, even where
its time went further; the models were trained with the former.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docai.nn.golden import plane
from docai.preprocess.inputs import ImageInput

Ids = NDArray[np.int32]
Places = NDArray[np.int32] | NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Box:
    """The tokens of one image or clip: `frames` x `rows` x `columns` of them, `step` positions of time per frame."""

    frames: int
    rows: int
    columns: int
    step: float = 1.0

    @property
    def tokens(self) -> int:
        return self.frames * self.rows * self.columns

    def positions(self) -> Ids:
        """(3, tokens), from 0. Times are cut to whole numbers after they are multiplied, as in training."""
        time = (np.arange(self.frames, dtype=np.float64) * self.step).astype(np.int32)
        axes = np.meshgrid(time, np.arange(self.rows), np.arange(self.columns), indexing="ij")
        return np.stack(axes).reshape(3, -1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Positions:
    """Of the tokens of a prompt: `ids` (3, L), and what is added to a later token's place to get its position."""

    ids: Places
    delta: int


@dataclass(frozen=True, slots=True)
class MropeSpec:
    """How a family counts. `merge` x `merge` patches make a token.

    The steps of a clip count one by one or, where the family has `per_second` positions of time and the clip says how
    many seconds lie between them, by the clock (Qwen2.5-VL). `stamped`: a time stamp is written before each step of a
    clip, so that each is a box of its own (Qwen3-VL).
    """

    merge: int
    per_second: float | None = None
    stamped: bool = False

    def boxes(self, image: ImageInput) -> tuple[Box, ...]:
        """The boxes of tokens of an image or clip in a prompt; `extra["seconds"]` lie between the steps of a clip."""
        assert image.grid is not None, "these positions need the grid of an image's patches"
        t, h, w = image.grid
        rows, columns = h // self.merge, w // self.merge
        if self.stamped:
            return (Box(1, rows, columns),) * t
        if self.per_second is None or "seconds" not in image.extra:
            return (Box(t, rows, columns),)
        return (Box(t, rows, columns, step=self.per_second * float(image.extra["seconds"])),)

    def positions(self, tokens: Sequence[int], vision_tokens: Iterable[int], images: Iterable[ImageInput]) -> Positions:
        """Those of a prompt with these images and clips, in the order in which their tokens come."""
        return mrope_positions(tokens, vision_tokens, [box for image in images for box in self.boxes(image)])


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """One position of time for an image and the marks around it, `before` and `after`; its patches lie on a plane.

    The axes are time, y and x; all other tokens lie at (0, 0) (Falcon-OCR).
    """

    before: int
    after: int

    def positions(self, tokens: Sequence[int], vision_tokens: Iterable[int], images: Iterable[ImageInput]) -> Positions:
        """Those of a prompt with these images, in the order in which their tokens come."""
        left = np.flatnonzero(np.isin(np.asarray(tokens, np.int64), list(vision_tokens)))
        places, moves = np.zeros((2, len(tokens)), np.float32), np.ones(len(tokens), np.int32)
        for image in images:
            assert image.grid is not None, "these positions need the grid of an image's patches"
            own, left = left[: image.tokens], left[image.tokens :]
            places[:, own] = plane(*image.grid[1:])
            moves[max(0, own[0] - self.before) + 1 : own[-1] + self.after + 1] = 0
        time = np.cumsum(moves) - 1
        return Positions(np.concatenate([time[None].astype(np.float32), places]), int(time[-1]) + 1 - len(tokens))


def mrope_positions(tokens: Sequence[int], vision_tokens: Iterable[int], boxes: Sequence[Box]) -> Positions:
    """The positions of `tokens`, in which the runs of `vision_tokens` are the tokens of `boxes`, in that order."""
    is_vision = np.isin(np.asarray(tokens, dtype=np.int64), list(vision_tokens))
    parts: list[Ids] = []
    start = 0
    for part in _parts(is_vision, boxes):
        ids = _text(part) if isinstance(part, int) else part.positions()
        parts.append(ids + np.int32(start))
        start = int(parts[-1].max()) + 1
    ids = np.concatenate(parts, axis=1) if parts else _text(0)
    return Positions(ids, start - len(tokens))


def _text(length: int) -> Ids:
    return np.broadcast_to(np.arange(length, dtype=np.int32), (3, length))


def _parts(is_vision: NDArray[np.bool_], boxes: Sequence[Box]) -> Iterator[int | Box]:
    """The lengths of the stretches of text and the boxes, as they follow each other, without empty stretches."""
    left = iter(boxes)
    at, total = 0, len(is_vision)
    starts = np.flatnonzero(is_vision)
    while at < total:
        if is_vision[at]:
            box = next(left, None)
            if box is None or not is_vision[at : at + box.tokens].all() or at + box.tokens > total:
                raise AssertionError(f"the vision tokens at {at} are not those of {box}")
            yield box
            at += box.tokens
        else:
            following = starts[np.searchsorted(starts, at) :]
            end = int(following[0]) if following.size else total
            yield end - at
            at = end
    assert next(left, None) is None, "a box has no tokens in the prompt"
