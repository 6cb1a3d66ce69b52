"""Samples of sound as models take them: logarithms of mel spectra (Gemma 4), or the samples themselves (its Unified).

The spectra are made as Gemma4AudioFeatureExtractor of transformers does, but for what is filled up there: frames that
reach beyond the sound, which its masks leave out again. Dither, which is random, is left out, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from docai.errors import InputError
from docai.preprocess.inputs import SoundInput

Samples = NDArray[np.float32]  # (n,), full scale being 1


class SoundProcessor(Protocol):
    """Makes a `SoundInput` of samples, `rate` a second, of `most` at most (None: any number)."""

    @property
    def rate(self) -> int: ...

    @property
    def most(self) -> int | None: ...

    def __call__(self, samples: Samples) -> SoundInput:
        """The input of the tower. Raises InputError for too few samples."""
        ...


@dataclass(frozen=True, slots=True)
class MelSounds:
    """Logarithms of mel spectra: `bins` numbers for each `hop` samples, of frames of `frame` samples.

    The first frame lies half before the sound. `low` ... `high`: hertz that the bins cover, on the scale of HTK.
    `floor` is added to each number before its logarithm; `mean` and `std` are those of the bins. `emphasis` of high
    frequencies, with the first sample of a frame by itself where `htk`. `joined` frames become a token.
    """

    rate: int = 16_000
    bins: int = 128
    frame: int = 320
    hop: int = 160
    fft: int = 512
    low: float = 0.0
    high: float = 8000.0
    emphasis: float = 0.0
    htk: bool = True
    scale: float = 1.0
    floor: float = 1e-3
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    joined: int = 4
    most: int | None = 480_000

    def __call__(self, samples: Samples) -> SoundInput:
        """Spectra (frames, bins) of all frames that lie within the sound."""
        waves = np.pad(samples * np.float32(self.scale), (self.frame // 2, 0))
        if len(waves) <= self.frame:  # a frame is looked at with the sample behind it
            raise _too_short(len(samples), self.frame // 2 + 1, self.rate)
        spans = np.lib.stride_tricks.sliding_window_view(waves, self.frame + 1)[:: self.hop]
        spectrum = np.abs(np.fft.rfft(self._emphasised(spans) * hann(self.frame), n=self.fft, axis=-1))
        mel = np.log(spectrum @ mel_filters(self.fft // 2 + 1, self.bins, self.low, self.high, self.rate) + self.floor)
        if self.mean:
            mel = mel - np.array(self.mean)
        if self.std:
            mel = mel / np.array(self.std)
        return SoundInput(mel.astype(np.float32), -(-len(mel) // self.joined))

    def _emphasised(self, spans: Samples) -> Samples:
        """(frames, frame) of (frames, frame + 1)."""
        if self.emphasis <= 0:
            return spans[:, :-1]
        if not self.htk:
            return spans[:, 1:] - np.float32(self.emphasis) * spans[:, :-1]
        first = spans[:, :1] * np.float32(1 - self.emphasis)
        return np.concatenate([first, spans[:, 1:-1] - np.float32(self.emphasis) * spans[:, :-2]], axis=-1)


@dataclass(frozen=True, slots=True)
class RawSounds:
    """The samples in frames of `frame`, each a token; the last one is filled up with silence."""

    rate: int = 16_000
    frame: int = 640
    most: int | None = None

    def __call__(self, samples: Samples) -> SoundInput:
        """Frames (tokens, frame)."""
        if not len(samples):
            raise _too_short(0, 1, self.rate)
        frames = np.pad(samples, (0, -len(samples) % self.frame)).reshape(-1, self.frame)
        return SoundInput(frames.astype(np.float32), len(frames))


def _too_short(count: int, least: int, rate: int) -> InputError:
    return InputError(
        f"the audio is too short: {1000 * count / rate:.1f} ms; the model hears {1000 * least / rate:.1f} ms or more"
    )


@lru_cache(maxsize=4)
def hann(length: int) -> NDArray[np.float32]:
    """The periodic Hann window."""
    window: NDArray[np.float32] = np.hanning(length + 1)[:-1].astype(np.float32)
    return window


@lru_cache(maxsize=4)
def mel_filters(frequencies: int, bins: int, low: float, high: float, rate: int) -> NDArray[np.float64]:
    """(frequencies, bins) triangles that overlap by half, equally wide in mel: 2595 log10(1 + f / 700), as in HTK."""
    first, last = 2595.0 * np.log10(1.0 + np.array([low, high]) / 700.0)
    corners = 700.0 * (10.0 ** (np.linspace(first, last, bins + 2) / 2595.0) - 1.0)
    wide = np.diff(corners)
    away = corners - np.linspace(0, rate // 2, frequencies)[:, None]
    filters: NDArray[np.float64] = np.maximum(0, np.minimum(-away[:, :-2] / wide[:-1], away[:, 2:] / wide[1:]))
    return filters
