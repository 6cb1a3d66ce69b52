"""How documents are opened and which of their pages are meant: options of every task that takes files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docai.errors import UsageError
from docai.options import check, option
from docai.types import Limits

LIMITS = Limits()


@dataclass(frozen=True, kw_only=True, slots=True)
class InputOptions:
    """How documents are opened, and what they may cost."""

    pages: str | None = option(None, "Pages to read, counted from 1: 1-3,7,10-,last.", flags=("--pages", "-p"))
    password: str | None = option(None, "Password of locked PDFs.", secret=True)
    max_bytes: int = option(LIMITS.max_bytes, "Largest file, in bytes.", least=1)
    max_pages: int = option(LIMITS.max_pages, "Most pages of a document.", least=1)
    max_pixels: int = option(
        LIMITS.max_pixels, "Most pixels of a page: larger images are refused, PDF pages rendered smaller.", least=1
    )
    page_seconds: float = option(LIMITS.page_seconds, "Longest time that decoding a page may take.", least=0.1)
    video_fps: float = option(
        LIMITS.video_fps,
        "How many frames a second of a video are looked at.",
        flags=("--video-fps", "--fps"),
        least=0.001,
    )
    max_video_seconds: float = option(LIMITS.max_video_seconds, "Longest video, in seconds.", least=0.1)
    max_decoded_frames: int = option(LIMITS.max_decoded_frames, "Most frames in a video.", least=1)

    def __post_init__(self) -> None:
        check(self)

    @property
    def limits(self) -> Limits:
        return Limits(
            self.max_bytes,
            self.max_pages,
            self.max_pixels,
            self.page_seconds,
            self.max_video_seconds,
            self.max_decoded_frames,
            self.video_fps,
        )


_RANGE = re.compile(r"^(\d+|last)?(-)?(\d+|last)?$")


def parse_pages(text: str, count: int) -> list[int]:
    """`1-3,7,10-,last` for a document of `count` pages -> 0-based indices, in the order asked for, each once.

    Ranges may reach past the end; a single page may not. Raises UsageError.
    """
    indices: dict[int, None] = {}
    for part in text.replace(" ", "").split(","):
        for index in _page_range(part, count):
            indices.setdefault(index)
    return list(indices)


def _page_range(part: str, count: int) -> range:
    match = _RANGE.match(part)
    if not part or not match or part == "-":
        raise UsageError(f"pages: expected a list such as 1-3,7,10-,last; got {part!r}")
    first = _page(match[1], count) if match[1] else 1
    last = first if not match[2] else _page(match[3], count) if match[3] else count
    if first < 1 or last < 1:
        raise UsageError(f"pages: {part!r} names no page; they count from 1")
    if first > count:
        raise UsageError(f"pages: {part!r} lies behind the last page, {count}")
    if last < first:
        raise UsageError(f"pages: {part!r} runs backwards; write the lower page first")
    return range(first - 1, min(last, count))


def _page(text: str, count: int) -> int:
    return count if text == "last" else int(text)
