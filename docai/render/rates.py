"""Sound at another rate of samples, by band-limited interpolation (Smith and Gossett 1984, ICASSP)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_CROSSINGS = 64  # of the sinc on each side
_CUT = 0.945  # where the pass band ends, as a part of the lower of the two highest frequencies
_BETA = 10.0  # of the Kaiser window: what is beyond the band is 100 dB lower
_MOST = 1 << 22  # numbers of all kernels
_PART = 1 << 18  # samples that are looked at together


def at_rate(samples: NDArray[np.float32], source: int, rate: int) -> NDArray[np.float32]:
    """Samples (n,), `source` of them a second, as `rate` a second: (ceil(n * rate / source),). See `in_parts`."""
    return np.concatenate([*in_parts([samples], source, rate)])


def in_parts(parts: Iterable[NDArray[np.float32]], source: int, rate: int) -> Iterator[NDArray[np.float32]]:
    """The same, to the bit, of samples that come in parts: in parts, too, of which only a few are held at a time.

    Frequencies that the new rate cannot hold are left out. Rates whose ratio takes too many kernels (44099 to
    16000) are taken for ones nearby, which is wrong by less than a ten-thousandth.
    """
    if source == rate:
        yield from parts
        return
    resampler = _Resampler(source, rate)
    for part in _gathered(parts):
        yield resampler.take(part)
    yield resampler.end()


def _gathered(parts: Iterable[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    """Small parts as fewer large ones."""
    some: list[NDArray[np.float32]] = []
    count = 0
    for part in parts:
        some.append(part)
        count += len(part)
        if count >= _PART:
            yield np.concatenate(some)
            some, count = [], 0
    yield from some


class _Resampler:
    """What samples at another rate are made of, as far as it is still needed."""

    def __init__(self, source: int, rate: int) -> None:
        step = Fraction(source, rate)
        self._rates, self._step = (source, rate), step.limit_denominator(_MOST // (2 * _half(step)))
        self._kernels = _kernels(self._step)
        self._taps = self._kernels.shape[1]
        self._held = np.zeros(self._taps // 2 - 1, np.float32)  # silence, before the first sample
        self._dropped = 0  # before those that are held, the silence among them
        self._taken = self._made = 0

    def take(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """What can be made now that these have come."""
        self._held = np.concatenate([self._held, samples])
        self._taken += len(samples)
        places = self._dropped + len(self._held) - self._taps + 1  # at which a kernel can begin
        reached = -(-places * self._step.denominator // self._step.numerator)
        return self._made_up_to(max(self._made, min(reached, self._count)))

    def end(self) -> NDArray[np.float32]:
        """What is left to be made, with silence behind the last sample."""
        last = (self._count - 1) * self._step.numerator // self._step.denominator
        missing = last + self._taps - self._dropped - len(self._held)
        self._held = np.pad(self._held, (0, max(0, missing)))
        return self._made_up_to(self._count)

    @property
    def _count(self) -> int:
        source, rate = self._rates
        return -(-self._taken * rate // source)

    def _made_up_to(self, count: int) -> NDArray[np.float32]:
        out = np.empty(count - self._made, np.float32)
        along, phases = self._step.numerator, self._step.denominator
        spans = np.lib.stride_tricks.sliding_window_view(self._held, self._taps) if len(out) else self._held
        for at in range(min(phases, len(out))):  # those of one phase lie equally far apart
            first, phase = divmod((self._made + at) * along, phases)
            alike = out[at::phases]
            np.einsum("nk,k->n", spans[first - self._dropped :: along][: len(alike)], self._kernels[phase], out=alike)
        done = min(count * along // phases - self._dropped, len(self._held))
        self._held, self._dropped, self._made = self._held[done:].copy(), self._dropped + done, count
        return out


def _half(step: Fraction) -> int:
    """How many samples on each side count. For fewer samples a second the kernel is made as much wider."""
    return math.ceil(_CROSSINGS * max(1.0, float(step)))


def _kernels(step: Fraction) -> NDArray[np.float32]:
    """(phases, taps): what the samples around a place between two of them are multiplied with, for each such place."""
    wide, half = max(1.0, float(step)), _half(step)
    places = np.arange(1 - half, half + 1) - np.arange(step.denominator)[:, None] / step.denominator
    x = places / wide
    window = np.i0(_BETA * np.sqrt(np.maximum(0.0, 1 - (x / _CROSSINGS) ** 2))) / np.i0(_BETA)
    kernels = np.where(np.abs(x) <= _CROSSINGS, _CUT * np.sinc(_CUT * x) * window / wide, 0.0)
    scaled: NDArray[np.float32] = kernels.astype(np.float32)
    return scaled
