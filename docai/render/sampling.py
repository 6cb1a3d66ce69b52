"""Which frames of a video are looked at: evenly spread, one of each scene, or those on which something new stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]  # (n,) seconds, ascending
Thumbs = Callable[[Sequence[int]], NDArray[np.uint8]]  # the first k of the frames asked for, small and grey: (k, h, w)

MOST_LOOKED_AT = 20_000  # frames of a video that are compared with each other
_STEP = 24  # levels of grey by which a place of a frame has to change to count: above the noise of codecs
_CHANGED = 0.0008  # part of a frame that has changed when a word came; a pointer is less
_STIRRED = 0.01  # part of a block that has changed, to count as one that did
_CUT = 0.2  # part of a frame that changes with a new scene
_RESTLESS = 0.3  # of late changes, from which on a block is one that always changes: two in a row
_STIR = 5.0  # seconds after which a frame is taken of a stretch that never rests


def frame_count(times: Times, seconds: float, fps: float, least: int = 2) -> int:
    """How many frames `fps` a second make of a video: at least `least`, where it has them."""
    return min(max(int(seconds * fps + 1e-6), least, 1), len(times))


def even(times: Times, count: int) -> list[int]:
    """The numbers of at most `count` frames, evenly spread over the time, the first and the last among them."""
    if count <= 1 or len(times) == 1:
        return [0]
    wanted = np.linspace(times[0], times[-1], count)
    places = np.interp(wanted, times, np.arange(len(times)))
    whole = np.round(np.round(places, 6))  # halves to even, whatever the last bits of the times say
    return [int(place) for place in np.unique(whole)]


def scenes(times: Times, numbers: Sequence[int], count: int, thumbs: Thumbs) -> list[int]:
    """At most `count` of the frames `numbers`: the first, the last, one of each scene, and others where time is left.

    Where there are more scenes than room, those that differ most from the one before have it.
    """
    if len(numbers) <= count:
        return list(numbers)
    if count == 1:
        return [numbers[0]]
    changes = np.array([0.0, *(changed(a, b) for a, b in _pairs(numbers, thumbs))])
    cuts = [at for at in np.argsort(-changes, kind="stable") if changes[at] > _CUT]
    starts = sorted(cuts[: max(0, count - 2)])
    chosen = {0, len(numbers) - 1}
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        chosen.add(int(start + (end - start) // 2))  # a scene's middle shows it best
    while len(chosen) < count:
        chosen.add(_widest(sorted(chosen), times[list(numbers)]))
    return [numbers[at] for at in sorted(chosen)]


def _widest(chosen: Sequence[int], times: Times) -> int:
    """The place that best divides the longest time between neighbours that have places between them."""
    gaps = [(times[b] - times[a], a, b) for a, b in pairwise(chosen) if b > a + 1]
    _, a, b = max(gaps, key=lambda gap: (gap[0], -gap[1]))
    middle = (times[a] + times[b]) / 2
    return a + 1 + int(np.argmin(np.abs(times[a + 1 : b] - middle)))


def changed(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> float:
    """The part of a frame, 0..1, that differs clearly between two of the same size."""
    return float((np.abs(after.astype(np.int16) - before) > _STEP).mean())


def new_pictures(times: Times, numbers: Sequence[int], thumbs: Thumbs) -> list[tuple[int, float]]:
    """(frame, since when in seconds) for each picture that stays for a while: slides, the states of a screen.

    Of a picture the last frame is taken: what builds up or blends in is complete there. A small part that never rests,
    as a speaker in a corner, does not count; where most of it does not (a film within a talk), a frame is taken every
    few seconds.
    """
    found: list[tuple[int, float]] = []
    start, rested = 0, float(times[numbers[0]])  # where the picture began; the time of the last one taken
    watch = _Watch()
    for at, (before, after) in enumerate(_pairs(numbers, thumbs), 1):
        if watch.changed(before, after) <= _CHANGED:
            continue
        now = float(times[numbers[at - 1]])
        if at - 1 > start or now - rested >= _STIR or not found:
            found.append((numbers[at - 1], float(times[numbers[start]])))
            rested = now
        start = at
    found.append((numbers[-1], float(times[numbers[start]])))
    return found


class _Watch:
    """Compares frame after frame, and learns which blocks of them change all the time."""

    def __init__(self) -> None:
        self._restless: NDArray[np.float64] = np.zeros(())  # of each block, how often it changed of late

    def changed(self, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> float:
        """The part of the frame that has changed, blocks that always do left out unless they are most of it."""
        parts = _by_blocks(np.abs(after.astype(np.int16) - before) > _STEP)
        calm = np.broadcast_to(self._restless < _RESTLESS, parts.shape)
        counted = parts[calm] if calm.mean() > 0.5 else parts
        self._restless = 0.8 * self._restless + 0.2 * (parts > _STIRRED)
        return float(counted.sum() / parts.size)


def _by_blocks(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The part of each block (16 x 16 places) that is set."""
    height, width = mask.shape
    tall, wide = min(height, 16), min(width, 16)
    whole = mask[: height // tall * tall, : width // wide * wide]
    parts: NDArray[np.float64] = whole.reshape(height // tall, tall, width // wide, wide).mean(axis=(1, 3))
    return parts


def _pairs(numbers: Sequence[int], thumbs: Thumbs) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Each thumb with the one before it; few are in memory at a time."""
    at, last = 0, None
    while at < len(numbers):
        for thumb in (batch := thumbs(numbers[at:])):
            if last is not None:
                yield last, thumb
            last = thumb
        at += len(batch)
