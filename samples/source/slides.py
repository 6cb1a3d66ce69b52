"""A recorded talk: slides that follow each other, one that builds up point by point, one that blends in."""

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from source.fonts import FONTS

SIZE = (960, 540)
RATE = 10  # frames a second
PAPER, INK, BAR = (250, 248, 242), (30, 34, 40), (36, 84, 140)
HELD = 3.0  # seconds that a slide stays

SLIDES = (
    ("Harbour report 2025", ("Prepared by the Lindvik port office", "Figures from January to December")),
    (
        "What changed",
        ("Two new cranes on the north quay", "Night shifts ended in March", "Ferry traffic rose by 14 percent"),
    ),
    ("Next year", ("Dredging begins in April", "The old customs house becomes a museum")),
)


def make() -> tuple[bytes, str]:
    """The video, and what its slides say, each behind the time since when it is shown."""
    return encoded(frames()), expected()


def frames() -> Iterator[np.ndarray]:
    """Frames (H, W, 3): the second slide gets its points one by one, the third blends in."""
    held = int(HELD * RATE)
    for number, (title, points) in enumerate(SLIDES):
        steps = range(1, len(points) + 1) if number == 1 else (len(points),)
        for shown in steps:
            yield from [drawn(title, points[:shown])] * (held // len(steps))
        if number == 1:
            before, after = drawn(title, points), drawn(SLIDES[2][0], SLIDES[2][1])
            for part in np.linspace(0, 1, 8)[1:-1]:
                yield (before * (1 - part) + after * part).astype(np.uint8)


def drawn(title: str, points: tuple[str, ...]) -> np.ndarray:
    """One state of a slide."""
    slide = Image.new("RGB", SIZE, PAPER)
    draw = ImageDraw.Draw(slide)
    draw.rectangle((0, 0, SIZE[0], 14), fill=BAR)
    draw.text((70, 70), title, font=_font("DejaVuSans-Bold", 52), fill=BAR)
    for row, point in enumerate(points):
        top = 190 + 80 * row
        draw.ellipse((74, top + 14, 86, top + 26), fill=INK)
        draw.text((110, top), point, font=_font("DejaVuSans", 34), fill=INK)
    return np.asarray(slide)


def encoded(pictures: Iterator[np.ndarray]) -> bytes:
    """An MP4 of the frames (H.264)."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as out:
        stream = out.add_stream("libx264", rate=RATE, options={"crf": "28", "threads": "1", "g": "30"})
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        for number, rgb in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return buffer.getvalue()


def expected() -> str:
    """The slides as markdown."""
    starts = (0, int(HELD), int(2 * HELD + 0.6))  # the third has blended in
    parts = []
    for start, (title, points) in zip(starts, SLIDES, strict=True):
        parts += [f"**[00:00:{start:02d}]**", f"# {title}", "\n".join(f"- {point}" for point in points)]
    return "\n\n".join(parts) + "\n"


def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FONTS / "truetype/dejavu" / f"{name}.ttf"), size)
