"""Sound at another rate of samples, by band-limited interpolation (Smith and Gossett 1984, ICASSP)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_CROSSINGS = 64  # of the sinc on each side
_CUT = 0.945  # where the pass band ends, as a part of the lower of the two highest frequencies
_BETA = 10.0  # of the Kaiser window: what is beyond the band is 100 dB lower
_MOST = 1 << 22  # numbers of all kernels, and numbers that are laid out at a time


def at_rate(samples: NDArray[np.float32], source: int, rate: int) -> NDArray[np.float32]:
    """Samples (n,), `source` of them a second, as `rate` a second: (ceil(n * rate / source),).

    Frequencies that the new rate cannot hold are left out. Rates whose ratio takes too many kernels (44099 to
    16000) are taken for ones nearby, which is wrong by less than a ten-thousandth.
    """
    step = Fraction(source, rate)
    if step == 1 or not len(samples):
        return samples
    count = -(-len(samples) * rate // source)
    step = step.limit_denominator(_MOST // (2 * _half(step)))
    kernels = _kernels(step)
    taps = kernels.shape[1]
    steps = np.arange(count, dtype=np.int64) * step.numerator
    first, phase = steps // step.denominator, steps % step.denominator
    behind = max(0, int(first[-1]) + taps - (len(samples) + taps // 2 - 1))
    padded = np.pad(samples, (taps // 2 - 1, behind))
    out = np.empty(count, np.float32)
    block, along = max(1, _MOST // taps), np.arange(taps)
    for at in range(0, count, block):
        part = slice(at, at + block)
        np.einsum("nk,nk->n", padded[first[part, None] + along], kernels[phase[part]], out=out[part])
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
