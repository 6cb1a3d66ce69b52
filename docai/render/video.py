"""Video files through PyAV (FFmpeg): when each frame is shown, and the pixels of those asked for.

Runs in the decoding process. Packets are read first, without decoding them: that tells the time of every frame, exactly
and whatever the frame rate does. A frame is then decoded from the key frame before it. No more than one is held.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from docai.errors import InputError, LimitExceeded
from docai.render.ffmpeg import OPTIONS, pyav, said
from docai.render.inputs import HEARD
from docai.types import Limits

_THREADS = 4  # each holds frames of its own
_MOST_SIDE = 32_768
_NEAR = 8  # frames that are sooner decoded than a key frame behind them is found
_MOST_ASPECT = 4.0  # of a pixel; beyond it the file is wrong about it
_ATTACHED_PICTURE = 0x400  # AV_DISPOSITION_ATTACHED_PIC
_BROKEN = "not a valid video: corrupt, truncated or of an unknown format"


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the frames of a stream are shown: `pts` (n,) in units of `base` seconds, ascending; `keys` begin anew.

    `end` is when the last one goes.
    """

    pts: NDArray[np.int64]
    keys: NDArray[np.int64]
    end: int
    base: Fraction

    @property
    def times(self) -> NDArray[np.float64]:
        """Seconds from the first frame on."""
        since: NDArray[np.float64] = (self.pts - self.pts[0]).astype(np.float64)
        return since * float(self.base)

    @property
    def seconds(self) -> float:
        return float((self.end - int(self.pts[0])) * self.base)


class VideoFile:
    """An open video. Raises InputError, LimitExceeded, or DependencyMissing where PyAV is not installed."""

    kind = "video"

    def __init__(self, source: Path | bytes, password: str | None, limits: Limits) -> None:  # noqa: ARG002 - as PdfFile
        self._source, self._limits = source, limits
        self.notes: list[str] = []
        self.outline: list[tuple[str, int, int | None]] = []
        self._av = pyav("videos")
        self._container, self._stream = self._opened()
        self.metadata = {str(k): str(v) for k, v in self._container.metadata.items()}
        self._check_size(self._stream.codec_context.width, self._stream.codec_context.height)
        self._decoder: Iterator[Any] = iter(())
        self._held: Any = None  # the frame decoded last
        self._stamped = True  # whether frames say when they are shown
        self._wanted: int | None = None  # frames before it need not be decoded unless others are made from them
        self.timeline = self._timeline()
        self._check_length(self.timeline.seconds)

    @property
    def page_count(self) -> int:
        return len(self.timeline.pts)

    @property
    def seconds(self) -> float:
        """How long it is shown, the last frame included."""
        return self.timeline.seconds

    def close(self) -> None:
        self._decoder, self._held = iter(()), None
        self._container.close()

    def _opened(self) -> tuple[Any, Any]:
        """(container, the video stream), anew."""
        given = str(self._source) if isinstance(self._source, Path) else io.BytesIO(self._source)
        try:
            container = self._av.open(given, options=OPTIONS, metadata_errors="replace")
        except (self._av.error.FFmpegError, ValueError) as error:
            raise InputError(f"{_BROKEN} ({said(error)})") from error
        stream = next((s for s in container.streams.video if not _is_cover(s)), None)
        if stream is None:
            sound = f"it is audio only; {HEARD}" if container.streams.audio else "nothing in it is shown"
            raise InputError(f"the file has no video: {sound}")
        if stream.codec_context is None:
            raise InputError("the video's codec is not supported by this FFmpeg; convert it to H.264 first")
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.thread_count = min(_THREADS, os.cpu_count() or 1)
        return container, stream

    # --- time

    def _timeline(self) -> Timeline:
        """Of the packets where each says when its frame is shown, else of the frames, which are decoded for it."""
        rows: list[tuple[int, int]] = []
        keys: list[int] = []
        for packet in self._packets():
            if packet.pts is None:
                return self._counted()
            rows.append((packet.pts, packet.duration or 0))
            self._check_count(len(rows))
            if packet.is_keyframe:
                keys.append(packet.pts)
        if not rows:
            raise InputError("the video is empty: it has no frames")
        return _timeline(rows, keys, self._stream.time_base)

    def _packets(self) -> Iterator[Any]:
        """The packets of frames that are shown. A file that is cut off ends where it is."""
        try:
            for packet in self._container.demux(self._stream):
                if packet.size and not packet.is_discard:
                    yield packet
        except self._av.error.FFmpegError as error:
            self.notes.append(f"the file is damaged: what follows cannot be read ({said(error)})")

    def _counted(self) -> Timeline:
        """For files without time stamps: frames follow each other at the stream's rate."""
        self._stamped = False
        self._rewind()
        count = 0
        for _ in self._decoder:
            count += 1
            self._check_count(count)
        if not count:
            raise InputError(f"{_BROKEN} (no frame can be decoded)")
        rate = self._stream.average_rate or self._stream.guessed_rate or Fraction(25)
        self._rewind()
        return Timeline(np.arange(count), np.zeros(1, np.int64), count, 1 / Fraction(rate))

    # --- limits

    def _check_size(self, width: int, height: int) -> None:
        if width * height > self._limits.max_pixels or max(width, height) > _MOST_SIDE:
            raise LimitExceeded(
                f"video too large: frames of {width} x {height} pixels exceed the limit of {self._limits.max_pixels};"
                " raise it with --max-pixels"
            )

    def _check_count(self, count: int) -> None:
        if count > self._limits.max_decoded_frames:
            raise LimitExceeded(
                f"video too long: more than {self._limits.max_decoded_frames} frames, which is the limit; raise it with"
                " --max-decoded-frames"
            )

    def _check_length(self, seconds: float) -> None:
        if seconds > self._limits.max_video_seconds:
            raise LimitExceeded(
                f"video too long: {seconds:.0f} seconds exceed the limit of {self._limits.max_video_seconds:g}; raise"
                " it with --max-video-seconds"
            )

    # --- frames

    def page_size(self, index: int) -> tuple[float, float, float]:
        """(width, height, 0) in pixels, upright."""
        height, width = self.pixels(index, 0).shape[:2]
        return float(width), float(height), 0.0

    def content(self, index: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A frame says nothing of its content; it is decoded here so that what is wrong with it is known."""
        self.pixels(index, 0)
        return {}, {}

    def pixels(self, index: int, dpi: float) -> NDArray[np.uint8]:  # noqa: ARG002 - a frame has its own resolution
        """A frame as RGB (H, W, 3), upright. Where it cannot be decoded, the next one that can, or the last."""
        return self._rgb(self._frame(index))

    def page_pdf(self, index: int) -> bytes:
        """A PDF of this one frame."""
        buffer = io.BytesIO()
        Image.fromarray(self.pixels(index, 0)).save(buffer, "PDF", resolution=72.0)
        return buffer.getvalue()

    def frame(self, index: int, most: int) -> NDArray[np.uint8]:
        """The same with at most `most` pixels: a larger one comes smaller, its shape kept."""
        return self._rgb(self._frame(index), most)

    def thumbs(self, indices: list[int], width: int, height: int, seconds: float) -> NDArray[np.uint8]:
        """Frames (n, height, width) small and grey: the first ones of those asked for, as many as `seconds` allow."""
        end = time.monotonic() + seconds
        made: list[NDArray[np.uint8]] = []
        for index in indices:
            small = self._frame(index).reformat(width=width, height=height, format="gray", interpolation="AREA")
            made.append(small.to_ndarray())
            if time.monotonic() > end:
                break
        return np.stack(made)

    def _rgb(self, frame: Any, most: int | None = None) -> NDArray[np.uint8]:
        """A frame as a player shows it, upright and with square pixels."""
        width, height = frame.width, frame.height
        aspect = float(getattr(self._stream, "sample_aspect_ratio", None) or 1)
        if 1.02 < aspect < _MOST_ASPECT:
            width = round(width * aspect)
        elif 1 / _MOST_ASPECT < aspect < 0.98:
            height = round(height / aspect)
        shrink = 1.0 if most is None else min(1.0, (most / (width * height)) ** 0.5)
        size = max(1, int(width * shrink)), max(1, int(height * shrink))
        rgb = frame.to_ndarray(format="rgb24", width=size[0], height=size[1], interpolation="AREA")
        return _upright(rgb, int(getattr(frame, "rotation", 0)))

    def _frame(self, index: int) -> Any:
        """The frame shown at that place of the timeline."""
        self._wanted = wanted = int(self.timeline.pts[index])
        if self._held is None or self._held.pts > wanted or self._worth_a_seek(index):
            self._seek(wanted)
        while self._held is None or self._held.pts < wanted:
            frame = next(self._decoder, None)
            if frame is None:
                break
            self._held = frame
        if self._held is None:
            raise InputError("the frame is corrupt, and so are those behind it")
        return self._held

    def _worth_a_seek(self, index: int) -> bool:
        """Whether decoding can begin at a key frame well behind the frame held."""
        pts, keys = self.timeline.pts, self.timeline.keys
        at = int(np.searchsorted(keys, pts[index], side="right")) - 1
        return at >= 0 and int(np.searchsorted(pts, keys[at])) > int(np.searchsorted(pts, self._held.pts)) + _NEAR

    def _seek(self, wanted: int) -> None:
        """Go to the key frame before `wanted`, and take the first frame there; where that fails, to the beginning."""
        if not self._stamped:
            self._rewind()
            return
        try:
            self._container.seek(wanted, stream=self._stream, backward=True)
        except self._av.error.FFmpegError:
            self._rewind()
            return
        self._decoder = self._frames()
        self._held = next(self._decoder, None)
        if self._held is None or self._held.pts > wanted:  # the index is wrong, or there is none
            self._rewind()

    def _rewind(self) -> None:
        """Begin anew; some containers cannot go back."""
        self._container.close()
        self._container, self._stream = self._opened()
        self._decoder, self._held = self._frames(), None

    def _frames(self) -> Iterator[Any]:
        """Decoded frames, in the order in which they are shown."""
        number = 0
        for frame in self._decoded():
            self._check_size(frame.width, frame.height)
            if not self._stamped:
                frame.pts = number
                number += 1
            if frame.pts is not None:
                yield frame

    def _decoded(self) -> Iterator[Any]:
        """Frames as the decoder gives them; what cannot be decoded is passed over."""
        packets, ended = self._container.demux(self._stream), False
        while not ended:
            frames: list[Any] = []
            try:
                packet = self._next(packets)
                ended = packet is None
                self._stream.codec_context.skip_frame = "NONREF" if self._is_early(packet) else "DEFAULT"
                frames = self._stream.codec_context.decode(packet)  # None empties the decoder
            except MemoryError:
                raise
            except (self._av.error.FFmpegError, ValueError):
                continue
            yield from frames

    def _is_early(self, packet: Any) -> bool:
        """Whether a packet's frame is shown before the one that is wanted."""
        told = packet is not None and packet.pts is not None and self._stamped and self._wanted is not None
        return bool(told and packet.pts < self._wanted)

    def _next(self, packets: Iterator[Any]) -> Any:
        """The next packet; None at the end, which is where a file that is damaged cannot be read further."""
        try:
            return next(packets, None)
        except self._av.error.FFmpegError:
            return None


def _timeline(rows: list[tuple[int, int]], keys: list[int], base: Fraction) -> Timeline:
    """The timeline of packets, each (when it is shown, how long or 0)."""
    rows.sort()
    pts = np.unique(np.array([at for at, _ in rows], np.int64))
    at, shown = rows[-1]
    if shown <= 0 and len(pts) > 1:
        shown = round((int(pts[-1]) - int(pts[0])) / (len(pts) - 1))
    return Timeline(pts, np.unique(np.array(keys, np.int64)), at + max(1, shown), Fraction(base))


def _is_cover(stream: Any) -> bool:
    """Whether a stream is a picture that belongs to the sound, as in music files."""
    disposition = getattr(stream, "disposition", 0)  # a Flag, or an IntFlag, by the version of PyAV
    return bool(int(getattr(disposition, "value", disposition)) & _ATTACHED_PICTURE)


def _upright(pixels: NDArray[np.uint8], rotation: int) -> NDArray[np.uint8]:
    """Pixels (H, W, ...) turned counterclockwise by `rotation` degrees, as a player shows them."""
    return np.ascontiguousarray(np.rot90(pixels, rotation // 90))
