"""Clips for towers with a temporal path: frames cut into patches that are several frames deep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from docai.preprocess.inputs import ImageInput, Rgb
from docai.preprocess.native import BudgetImages, FilledImages
from docai.preprocess.normalize import Normalization
from docai.preprocess.patches import flat_patches
from docai.preprocess.resample import BICUBIC, resize
from docai.preprocess.sizes import Size, sides, smart_resize
from docai.preprocess.sliced import SlicedImages


class ClipProcessor(Protocol):
    """Makes an `ImageInput` of the frames of a clip; implementations are frozen dataclasses."""

    @property
    def least_frames(self) -> int:
        """The fewest frames that a clip should have."""
        ...

    def __call__(self, frames: Iterable[Rgb], times: Sequence[float], seconds: float) -> ImageInput:
        """The input of the tower for frames (H, W, 3) shown at `times`, of a clip that is `seconds` long.

        `grid` (t, h, w) counts steps of some frames each; extra: `seconds` between steps, `stamps` (t,), the mean time
        of each.
        """
        ...

    def within(self, tokens: int) -> ClipProcessor:
        """This processor with steps of at most `tokens` tokens."""
        ...


@dataclass(frozen=True, slots=True)
class PackedClips:
    """Native resolution: the area kept within bounds, `temporal` frames to a patch (Qwen2-VL and its line).

    The bounds are those of each frame (Qwen2-VL) or, `whole`, of all frames together (Qwen3-VL). `most_tokens`, where a
    checkpoint has it, bounds a clip (Qwen2-VL: all of it; Qwen3-VL: each frame), too.
    """

    normalize: Normalization
    patch: int
    merge: int
    temporal: int
    least_pixels: int
    most_pixels: int
    how: Image.Resampling = BICUBIC
    whole: bool = False
    most_tokens: int | None = None
    least_frames: int = 4
    most_step: int | None = None  # tokens, as the request has it

    def __call__(self, frames: Iterable[Rgb], times: Sequence[float], seconds: float) -> ImageInput:
        """Patches (N, 3 * temporal * patch * patch); no more than one frame at a time is held as it came."""
        left = iter(frames)
        first = next(left)
        size = self.size(len(times), sides(first))
        small = np.stack([resize(frame, size, self.how) for frame in chain([first], left)])
        rows = np.concatenate([self._patches(step) for step in _steps(small, self.temporal)])
        height, width = size[0] // self.patch, size[1] // self.patch
        steps = -(-len(small) // self.temporal)
        return ImageInput(
            rows,
            steps * height * width // self.merge**2,
            grid=(steps, height, width),
            extra={
                "seconds": np.array(self.temporal * seconds / len(times)),
                "stamps": stamps(times, self.temporal),
            },
        )

    def _patches(self, step: NDArray[np.uint8]) -> NDArray[np.float32]:
        return flat_patches(self.normalize(step), self.patch, temporal=self.temporal, merge=self.merge)

    def within(self, tokens: int) -> PackedClips:
        """This processor with steps of at most `tokens` tokens; a narrow strip may take more."""
        return replace(self, most_step=tokens)

    def size(self, count: int, size: Size) -> Size:
        """(height, width) that each of `count` frames of `size` becomes."""
        return self._together(count, size) if self.whole else self._each(count, size)

    def _each(self, count: int, size: Size) -> Size:
        side = self.patch * self.merge
        most, least = self.most_pixels, self.least_pixels
        if self.most_tokens is not None:  # nine tenths of them are divided among the steps
            share = int(self.most_tokens * side * side * 0.9) * self.temporal // count
            most = max(min(most, share), int(least * 1.05))
        if self.most_step is not None:
            most = min(most, self.most_step * side * side)
        return smart_resize(size, side, least=min(least, most), most=most)

    def _together(self, count: int, size: Size) -> Size:
        side, count = self.patch * self.merge, max(count, self.temporal)
        most, least = self.most_pixels, self.least_pixels
        if self.most_tokens is not None:
            most = count * max(min(self.most_tokens * side * side, most // count), int(least * 1.05))
        if self.most_step is not None:
            most = min(most, self.most_step * side * side * count)
        return clip_resize(count, size, side, self.temporal, least=min(least, most), most=most)


@dataclass(frozen=True, slots=True)
class FramedClips:
    """Each frame as a picture, `together` of them as one part of the clip (Kimi K2.5: 4), which gives one's tokens."""

    frame: FilledImages | BudgetImages
    together: int = 1
    least_frames: int = 1

    def __call__(self, frames: Iterable[Rgb], times: Sequence[float], seconds: float) -> ImageInput:  # noqa: ARG002
        """Patches (N, 3 * patch * patch), frame by frame; extra: `grids` of the parts, `stamps`, when each begins."""
        left = iter(frames)
        first = next(left)
        size = self.frame.size(sides(first))
        shown = [self.frame.sized(rgb, size) for rgb in chain([first], left)]
        grids = [(len(part), *part[0].grids[0][1:]) for part in _parts(shown, self.together)]
        return ImageInput(
            np.concatenate([one.pixels for one in shown]),
            len(grids) * shown[0].tokens,
            extra={"grids": np.array(grids), "stamps": np.array(times[:: self.together], np.float64)},
        )

    def within(self, tokens: int) -> FramedClips:
        """This processor with parts of at most `tokens` tokens."""
        return replace(self, frame=self.frame.within(tokens))


@dataclass(frozen=True, slots=True)
class SlicedClips:
    """Each frame of a clip as a picture in slices."""

    frame: SlicedImages
    least_frames: int = 1

    def __call__(self, frames: Iterable[Rgb], times: Sequence[float], seconds: float) -> ImageInput:  # noqa: ARG002
        """As of pictures, one after another; extra: `grids` of all parts, `slices` of each frame, and its `stamps`."""
        shown = [self.frame(rgb) for rgb in frames]
        extra = {name: np.stack([one.extra[name] for one in shown]) for name in shown[0].extra if name != "grids"}
        return ImageInput(
            np.concatenate([one.pixels for one in shown]),
            sum(one.tokens for one in shown),
            extra={
                **extra,
                "grids": np.concatenate([one.extra["grids"] for one in shown]),
                "stamps": np.array(times, np.float64),
            },
        )

    def within(self, tokens: int) -> SlicedClips:
        """This processor with frames of at most `tokens` tokens."""
        return replace(self, frame=self.frame.within(tokens))


def _parts(shown: Sequence[ImageInput], together: int) -> Iterator[Sequence[ImageInput]]:
    return (shown[at : at + together] for at in range(0, len(shown), together))


def clip_resize(count: int, size: Size, factor: int, temporal: int, *, least: int, most: int) -> Size:
    """`smart_resize` of frames whose area is bounded together; `count` of them, in steps of `temporal` (Qwen3-VL)."""
    height, width = size
    if min(size) < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    tall, wide = smart_resize((height, width), factor, least=1, most=height * width * factor * factor * 4)
    steps = round(count / temporal) * temporal
    if steps * tall * wide > most:
        shrink = math.sqrt(count * height * width / most)
        tall = max(factor, math.floor(height / shrink / factor) * factor)
        wide = max(factor, math.floor(width / shrink / factor) * factor)
    elif steps * tall * wide < least:
        grow = math.sqrt(least / (count * height * width))
        tall = math.ceil(height * grow / factor) * factor
        wide = math.ceil(width * grow / factor) * factor
    return tall, wide


def stamps(times: Sequence[float], temporal: int) -> NDArray[np.float64]:
    """The time of each step of `temporal` frames: the middle of its first and its last. The last frame fills up."""
    filled = np.array([*times, *[times[-1]] * (-len(times) % temporal)], np.float64).reshape(-1, temporal)
    return (filled[:, 0] + filled[:, -1]) / 2


def _steps(frames: NDArray[np.uint8], temporal: int) -> Iterator[NDArray[np.uint8]]:
    return (frames[at : at + temporal] for at in range(0, len(frames), temporal))
