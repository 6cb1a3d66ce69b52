"""WAV files: where their samples lie, and these as numbers. Read without a library, so that they need no extra.

RIFF is a row of chunks, each a name, a length and so many bytes; `fmt ` says how the samples of `data` are written
(Microsoft's mmreg.h; multiple channel audio data and WAVE files, 2007).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from docai.errors import InputError

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_MOST_CHUNKS = 10_000  # before the samples
_MOST_CHANNELS, RATES = 64, range(1_000, 768_001)  # samples a second
_BLOCK = 1 << 18  # samples that are turned into numbers at a time
_KINDS = {(_PCM, 8): "u1", (_PCM, 16): "<i2", (_PCM, 24): "u1", (_PCM, 32): "<i4"}
_KINDS |= {(_FLOAT, 32): "<f4", (_FLOAT, 64): "<f8"}


def is_wave(head: bytes) -> bool:
    """Whether a file that begins so is a WAV file."""
    return head[:4] == b"RIFF" and head[8:12] == b"WAVE"


@dataclass(frozen=True, slots=True)
class Wave:
    """A WAV file: `count` frames of so many `channels` from the byte `start` on, `rate` frames a second.

    `code`, `bits`: how a sample is written, PCM (1) or floats (3).
    """

    code: int
    bits: int
    channels: int
    rate: int
    start: int
    count: int

    def blocks(self, file: BinaryIO) -> Iterator[NDArray[np.float32]]:
        """The frames, mixed down to one channel (n,), some at a time."""
        file.seek(self.start)
        size = self.channels * self.bits // 8
        for begin in range(0, self.count, self._block):
            data = file.read(min(self._block, self.count - begin) * size)
            whole = data[: len(data) // size * size]  # the file may have become shorter
            with np.errstate(over="ignore", invalid="ignore"):  # what is no sound is told by who reads it
                yield self._numbers(whole).reshape(-1, self.channels).mean(axis=1, dtype=np.float32)

    @property
    def _block(self) -> int:
        """Frames that are turned into numbers at a time."""
        return max(1, _BLOCK // self.channels)

    def _numbers(self, data: bytes) -> NDArray[np.float32]:
        """All samples of some frames, full scale being 1."""
        raw: NDArray[Any] = np.frombuffer(data, _KINDS[self.code, self.bits])
        if self.code == _FLOAT:
            return raw.astype(np.float32)
        if self.bits == 8:  # the only one without a sign
            return (raw.astype(np.float32) - np.float32(128)) / np.float32(128)
        if self.bits == 24:  # the upper three bytes of four
            wide = np.zeros((len(raw) // 3, 4), np.uint8)
            wide[:, 1:] = raw.reshape(-1, 3)
            raw = wide.reshape(-1).view("<i4")
        scaled: NDArray[np.float32] = raw.astype(np.float32) / np.float32(1 << (15 if self.bits == 16 else 31))
        return scaled


def wave_of(file: BinaryIO) -> Wave | None:
    """What a WAV file says of its samples; None where they are compressed in a way that is not read here.

    A length that goes beyond the file, as recorders that were cut off leave it, ends where the file does. Raises
    InputError where the file is no whole one.
    """
    size = file.seek(0, 2)
    how: tuple[int, int, int, int] | None = None
    for name, start, length in _chunks(file, size):
        if name == b"fmt ":
            how = _format(file.read(min(length, 40)))
            if how is None:
                return None
        elif name == b"data":
            if how is None:
                break
            code, bits, channels, rate = how
            length = min(length or size, size - start)  # 0: written while nobody knew how long it would be
            return Wave(code, bits, channels, rate, start, length // (channels * bits // 8))
    raise InputError("not a valid WAV file: corrupt or cut off, it has no samples")


def _chunks(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """(name, where its content begins, how long that is said to be) of each chunk; the file stands there."""
    at = 12
    for _ in range(_MOST_CHUNKS):
        if at + 8 > size:
            return
        file.seek(at)
        name, length = struct.unpack("<4sI", file.read(8))
        yield name, at + 8, length
        at += 8 + length + length % 2


def _format(said: bytes) -> tuple[int, int, int, int] | None:
    """(code, bits, channels, rate) of a `fmt ` chunk; None for a code that is not read here. Raises InputError."""
    if len(said) < 16:
        raise InputError("not a valid WAV file: corrupt, its format is cut off")
    code, channels, rate, _, frame, bits = struct.unpack("<HHIIHH", said[:16])
    if code == _EXTENSIBLE and len(said) >= 26:
        (code,) = struct.unpack("<H", said[24:26])
    if code not in (_PCM, _FLOAT):
        return None
    if (code, bits) not in _KINDS or not 0 < channels <= _MOST_CHANNELS or rate not in RATES:
        raise InputError(
            f"not a WAV file that is read: {channels} channels of {bits} bits, {rate} times a second; expected up to "
            f"{_MOST_CHANNELS} of 8, 16, 24, 32 or 64 bits, {RATES.start} to {RATES.stop - 1} times"
        )
    if frame != channels * bits // 8:
        raise InputError("not a valid WAV file: corrupt, its format contradicts itself")
    return code, bits, channels, rate
