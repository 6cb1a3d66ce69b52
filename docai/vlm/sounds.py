"""Sounds for models: files, bytes and samples, with a key that tells equal ones, decoded only when they are needed.

Files are decoded by `docai.render`, within its limits and in its process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docai.errors import InputError, LimitExceeded, UsageError
from docai.vlm.features import Key, bytes_key, path_key

if TYPE_CHECKING:
    from docai.render.inputs import InputFile
    from docai.types import Limits

Samples = NDArray[np.float32]  # (n,), full scale being 1

_PADDING = 0.25  # seconds by which an encoder may have made a sound longer; they are cut off


class Heard(Protocol):
    """An open sound; `seconds` is what is said of it, 0 where nothing is."""

    @property
    def seconds(self) -> float: ...

    def samples(self, rate: int) -> Samples: ...

    def close(self) -> None: ...


class Sound:
    """One sound. It is opened and decoded when it is needed."""

    def __init__(self, name: str, key: Key, opened: Callable[[], Heard]) -> None:
        self.name, self.key = name, ("sound", *key)
        self._opened = opened
        self._heard: Heard | None = None

    @property
    def track(self) -> Heard:
        """The open sound; opening it tells what is wrong with the file.

        Raises InputError, LimitExceeded or DependencyMissing.
        """
        if self._heard is None:
            self._heard = self._opened()
        return self._heard

    def close(self) -> None:
        """Let go of the file; it opens again on use."""
        if self._heard is not None:
            self._heard.close()

    def samples(self, rate: int, most: int | None = None) -> Samples:
        """All of it as one channel, `rate` numbers a second.

        Raises InputError where nothing can be decoded, LimitExceeded for more than `most` numbers.
        """
        self.check(rate, most)
        found = self.track.samples(rate)
        self._check(len(found), rate, most)
        return found[:most]

    def check(self, rate: int, most: int | None) -> None:
        """The same of its length, before anything is decoded, as far as the file says it."""
        self._check(round(self.track.seconds * rate), rate, most)

    def _check(self, count: int, rate: int, most: int | None) -> None:
        if most is not None and count > most + _PADDING * rate:
            raise LimitExceeded(
                f"{self.name}: {count / rate:.1f} seconds of audio are more than the {most / rate:g} that the model "
                "hears at once; cut it into parts"
            )


SoundLike: TypeAlias = "Sound | str | Path | bytes | InputFile | tuple[NDArray[np.floating[Any]], int]"


def sound_of(source: SoundLike, *, limits: Limits | None = None, name: str | None = None) -> Sound:
    """A sound of a file, its bytes, or (samples, how many a second); samples (n,) or (n, channels), full scale being 1.

    Raises InputError or UsageError.
    """
    if isinstance(source, Sound):
        return source
    if isinstance(source, tuple):
        return _of_samples(*source, name or "audio")
    from docai.render.document import input_file
    from docai.render.track import open_track

    file = input_file(source, name or "audio")
    if file.data is not None:
        key = bytes_key(file.data)
    else:
        try:
            key = path_key(str(file.path))
        except (OSError, ValueError) as error:
            raise InputError(f"{file.name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return Sound(file.name, key, lambda: open_track(file, limits=limits))


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """Samples that are there already."""

    whole: Samples
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.whole) / self.rate

    def samples(self, rate: int) -> Samples:
        from docai.render.rates import at_rate

        return at_rate(self.whole, self.rate, rate)

    def close(self) -> None:
        """There is nothing to be let go of."""


def _of_samples(samples: Any, rate: int, name: str) -> Sound:
    from docai.render.wave import RATES

    array = np.asarray(samples)
    known = isinstance(rate, int) and rate in RATES
    if array.dtype.kind != "f" or array.ndim not in (1, 2) or not array.size or not known:
        raise UsageError(
            f"audio: expected samples (n,) or (n, channels) of floats and how many a second, {RATES.start} to "
            f"{RATES.stop - 1}; got {array.shape} of {array.dtype}, {rate!r} a second"
        )
    mixed = (array if array.ndim == 1 else array.mean(axis=1)).astype(np.float32)
    if not np.isfinite(mixed).all():
        raise UsageError("audio: expected samples; got some that are no numbers")
    digest = hashlib.sha256(np.ascontiguousarray(mixed).data).hexdigest()
    return Sound(name, ("samples", rate, digest), lambda: _Given(mixed, rate))
