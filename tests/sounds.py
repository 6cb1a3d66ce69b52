"""Short sounds for tests: tones, as WAV files written here or in what PyAV can write."""

from __future__ import annotations

import io
import struct
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from tests.clips import barred

Samples = NDArray[np.float32]

EXTENSIBLE = 0xFFFE


def tone(seconds: float, rate: int = 16_000, hertz: float = 440.0, loud: float = 0.5) -> Samples:
    """A sine (n,), which begins at 0."""
    at = np.arange(round(seconds * rate)) / rate
    return (loud * np.sin(2 * np.pi * hertz * at)).astype(np.float32)


def wav(
    samples: Samples, rate: int = 16_000, bits: int = 16, *, code: int = 1, extensible: bool = False, extra: bytes = b""
) -> bytes:
    """A WAV file of samples (n,) or (n, channels); `extra`: chunks before the samples."""
    frames = samples[:, None] if samples.ndim == 1 else samples
    channels = frames.shape[1]
    if code == 3:
        data = frames.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        data = np.round(frames * 127 + 128).astype(np.uint8).tobytes()
    else:
        whole = np.round(frames.astype(np.float64) * ((1 << (bits - 1)) - 1)).astype("<i4")
        data = whole.reshape(-1, 1).view(np.uint8)[:, : bits // 8].tobytes()
    frame = channels * bits // 8
    said = struct.pack("<HHIIHH", EXTENSIBLE if extensible else code, channels, rate, rate * frame, frame, bits)
    if extensible:
        said += struct.pack("<HHIH", 22, bits, 0, code) + bytes.fromhex("000000001000800000aa00389b71")
    chunks = b"fmt " + struct.pack("<I", len(said)) + said + extra + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def encoded(samples: Samples, rate: int, container: str, codec: str, *, video: int = 0) -> bytes:
    """Sound (n,) or (n, channels) by PyAV, beside so many frames of a video."""
    frames = samples[:, None] if samples.ndim == 1 else samples
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as out:
        shown: Any = out.add_stream("mpeg4", rate=10) if video else None
        heard: Any = out.add_stream(codec, rate=rate)
        heard.layout = "stereo" if frames.shape[1] == 2 else "mono"
        if shown is not None:
            shown.width, shown.height, shown.pix_fmt = 64, 48, "yuv420p"
            for number in range(video):
                out.mux(shown.encode(av.VideoFrame.from_ndarray(barred(number), format="rgb24")))
            out.mux(shown.encode())
        packed = np.ascontiguousarray(frames.reshape(1, -1))
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=heard.layout.name)
        frame.sample_rate, frame.pts = rate, 0
        out.mux(heard.encode(frame))
        out.mux(heard.encode())
    return buffer.getvalue()
