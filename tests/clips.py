"""Tiny clips, made with PyAV: each frame says by its bars which one it is."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

RGB = NDArray[np.uint8]

SIZE = (64, 48)  # (width, height)
KINDS = {  # container -> a codec that goes with it
    "mp4": "libx264",
    "webm": "libvpx-vp9",
    "avi": "mpeg4",
    "matroska": "ffv1",
    "mpegts": "libx264",
}


def barred(number: int, size: tuple[int, int] = SIZE) -> RGB:
    """A frame whose eight bars are the digits of its number."""
    bars = [200 if number >> bit & 1 else 50 for bit in range(8)]
    line = np.repeat(np.array(bars, np.uint8), size[0] // 8)
    return np.broadcast_to(line[None, :, None], (size[1], size[0], 3)).copy()


def number_of(rgb: RGB) -> int:
    """Which frame this is."""
    bars = rgb.reshape(rgb.shape[0], 8, -1).mean(axis=(0, 2))
    return sum(1 << bit for bit in range(8) if bars[bit] > 125)


def encoded(
    frames: Sequence[RGB],
    *,
    container: str = "matroska",
    codec: str | None = None,
    rate: int = 10,
    at: Sequence[int] | None = None,
    aspect: int = 1,
    **options: str,
) -> bytes:
    """A video of these frames, `rate` a second, or shown `at` these hundredths of a second; `aspect` of its pixels."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as out:
        stream: Any = out.add_stream(codec or KINDS[container], rate=rate, options=options)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(aspect)
        base = Fraction(1, 100 if at else rate)
        stream.codec_context.time_base = base
        for number, rgb in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            frame.time_base, frame.pts = base, at[number] if at else number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return buffer.getvalue()


def counted(count: int, **how: Any) -> bytes:
    """A video whose frames are `barred(0)`, `barred(1)`, ..."""
    return encoded([barred(n) for n in range(count)], **how)


def sound_only() -> bytes:
    """A file with sound and no video."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as out:
        stream: Any = out.add_stream("pcm_s16le", rate=8000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts = 8000, 0
        out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return buffer.getvalue()


def turned(mp4: bytes) -> bytes:
    """An MP4 whose display matrix turns it by 90 degrees clockwise, as a phone that is held upright writes it."""
    plain = np.array([1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30], ">i4").tobytes()
    clockwise = np.array([0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30], ">i4").tobytes()
    at = mp4.index(plain, mp4.index(b"tkhd"))
    return mp4[:at] + clockwise + mp4[at + len(plain) :]
