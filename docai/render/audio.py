"""Sound files, and the sound of videos: the samples of one channel. WAV is read by itself, all else through PyAV.

Runs in the decoding process. How long the sound is is looked at before anything is decoded, as far as the file says it,
and again while it is.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from docai.errors import InputError, LimitExceeded
from docai.render.ffmpeg import OPTIONS, pyav, said
from docai.render.rates import in_parts
from docai.render.wave import RATES, Wave, is_wave, wave_of
from docai.types import Limits

Samples = NDArray[np.float32]

_BROKEN = "not valid audio: corrupt, truncated or of an unknown format"
_LOUDEST = 1e4  # full scale is 1: what is beyond this is no sound, nor is what is no number
_MOST_OF, _PADDING = 0.97, 0.1  # of what a file says of its length, and seconds: what may be missing untold
_FULL = {"u1": 128.0, "i2": float(1 << 15), "i4": float(1 << 31), "i8": float(1 << 63)}


class AudioFile:
    """An open sound. Raises InputError, LimitExceeded, or DependencyMissing where it needs PyAV, which is not there."""

    kind = "audio"
    page_count = 1

    def __init__(self, source: Path | bytes, password: str | None, limits: Limits) -> None:  # noqa: ARG002 - as PdfFile
        self._limits = limits
        self.notes: list[str] = []
        self.outline: list[tuple[str, int, int | None]] = []
        self._file: BinaryIO = source.open("rb") if isinstance(source, Path) else io.BytesIO(source)
        try:
            self._sound: _WaveSound | _AvSound = self._opened()
            self.metadata = self._sound.metadata
            self.seconds = self._sound.seconds
            self._check_length(self.seconds)
        except BaseException:
            self.close()
            raise

    def _opened(self) -> _WaveSound | _AvSound:
        wave = wave_of(self._file) if is_wave(self._file.read(12)) else None
        return _AvSound(self._file, self.notes) if wave is None else _WaveSound(self._file, wave)

    def close(self) -> None:
        with contextlib.suppress(AttributeError):  # where it could not be opened
            self._sound.close()
        self._file.close()

    def samples(self, rate: int) -> Samples:
        """All of it as one channel (n,), `rate` numbers a second, full scale being 1.

        Raises InputError where nothing can be decoded, LimitExceeded where it turns out to be too long.
        """
        return np.concatenate([*in_parts(self._parts(), self._sound.rate, rate)])

    def _parts(self) -> Iterator[Samples]:
        """What is decoded, part by part, as long as it is sound and not too long."""
        self.notes.clear()
        count = 0
        for part in self._sound.parts():
            count += len(part)
            self._check_length(count / self._sound.rate)
            if len(part) and not (float(part.max()) < _LOUDEST and float(part.min()) > -_LOUDEST):
                raise InputError(f"{_BROKEN} (samples that are no numbers, or {_LOUDEST:g} times full scale)")
            yield part
        if not count:
            raise InputError("the audio is empty: it has no samples")
        heard = count / self._sound.rate
        if heard < _MOST_OF * self.seconds - _PADDING:
            self.notes.append(f"it is cut off or damaged: {_told(heard)} of {_told(self.seconds)} seconds can be heard")

    def _check_length(self, seconds: float) -> None:
        if seconds > self._limits.max_audio_seconds:
            raise LimitExceeded(
                f"audio too long: {_told(seconds)} seconds exceed the limit of {self._limits.max_audio_seconds:g}; "
                "raise it with --max-audio-seconds"
            )


class _WaveSound:
    """The samples of a WAV file."""

    def __init__(self, file: BinaryIO, wave: Wave) -> None:
        self._file, self._wave = file, wave
        self.rate, self.seconds = wave.rate, wave.count / wave.rate
        self.metadata: dict[str, str] = {}

    def parts(self) -> Iterable[Samples]:
        return self._wave.blocks(self._file)

    def close(self) -> None:
        """There is nothing to be let go of."""


class _AvSound:
    """The first sound of a file that FFmpeg reads."""

    def __init__(self, file: BinaryIO, notes: list[str]) -> None:
        self._av, self._notes = pyav("audio other than WAV, and the sound of videos,"), notes
        self._file, self._begun = file, False
        self._stream = self._opened()
        self.metadata = {str(k): str(v) for k, v in self._container.metadata.items()}
        self.seconds = self._length()
        self.rate = int(self._stream.codec_context.sample_rate or 0) or self._first_rate()
        if self.rate not in RATES:
            self.close()
            raise self._wrong_rate(self.rate)

    def _opened(self) -> Any:
        """The stream of sound, at its beginning."""
        self._file.seek(0)
        self._begun = False
        try:
            self._container = self._av.open(self._file, options=OPTIONS, metadata_errors="replace")
        except (self._av.error.FFmpegError, ValueError) as error:
            raise InputError(f"{_BROKEN} ({said(error)})") from error
        stream = next(iter(self._container.streams.audio), None)
        if stream is None:
            shown = "it is a video without sound" if self._container.streams.video else "nothing in it can be heard"
            self.close()
            raise InputError(f"the file has no audio track: {shown}")
        if stream.codec_context is None:
            self.close()
            raise InputError("the audio's codec is not supported by this FFmpeg; convert it to WAV first")
        return stream

    def _length(self) -> float:
        """Seconds, as far as the file says it; 0 where it does not."""
        if self._stream.duration and self._stream.time_base:
            return max(0.0, float(self._stream.duration * self._stream.time_base))
        microseconds = float(self._container.duration or 0)
        return max(0.0, microseconds / 1e6)

    def _first_rate(self) -> int:
        """The rate, where only the samples say it."""
        frame = next(self._frames(), None)
        if frame is None:
            raise InputError(f"{_BROKEN} (nothing can be decoded)")
        return int(frame.sample_rate)

    def parts(self) -> Iterator[Samples]:
        """What each frame holds, in order. What cannot be decoded is passed over; where nothing can, that is told."""
        count = 0
        for frame in self._frames():
            if frame.sample_rate != self.rate:
                raise self._wrong_rate(frame.sample_rate)
            yield _mixed(frame)
            count += 1
        if not count and self._notes:
            raise InputError(f"{_BROKEN} ({self._notes[-1]})")

    def _wrong_rate(self, found: int) -> InputError:
        said = "" if found == self.rate else f", where {self.rate} are said"
        return InputError(
            f"{found} samples a second{said}; expected one rate from {RATES.start} to {RATES.stop - 1}: convert it to "
            "WAV first"
        )

    def _frames(self) -> Iterator[Any]:
        """All frames, from the first one on."""
        if self._begun:
            self.close()
            self._stream = self._opened()
        self._begun = True
        packets, ended = self._container.demux(self._stream), False
        while not ended:
            frames: list[Any] = []
            try:
                packet = next(packets, None)
                ended = packet is None
                frames = self._stream.codec_context.decode(packet)  # None empties the decoder
            except MemoryError:
                raise
            except EOFError:  # the decoder had been emptied already
                return
            except (self._av.error.FFmpegError, ValueError) as error:
                self._notes[:] = [f"parts of it cannot be decoded: {said(error)}"]
                continue
            yield from frames

    def close(self) -> None:
        self._container.close()


def _mixed(frame: Any) -> Samples:
    """A frame of sound as one channel (n,): the mean of all."""
    raw = frame.to_ndarray()  # (channels, n), or (1, n * channels) where they take turns
    if not frame.format.is_planar:
        raw = raw.reshape(-1, frame.layout.nb_channels).T
    kind = raw.dtype.str[1:]
    numbers: Samples = raw.astype(np.float32)
    if kind in _FULL:
        numbers = (numbers - (128 if kind == "u1" else 0)) / np.float32(_FULL[kind])
    mixed: Samples = numbers.mean(axis=0, dtype=np.float32)
    return mixed


def _told(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 1000 else f"{seconds:.0f}"
