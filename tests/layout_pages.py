"""Pages of lines set by hand, for tests of the layout."""

from __future__ import annotations

from collections.abc import Sequence

from docai.types import Box, Line, Page, Word

LOREM = "lorem ipsum dolor sit amet consetetur sadipscing elitr sed diam nonumy eirmod tempor invidunt ut labore et"


def page(width: float = 600, height: float = 800, index: int = 1) -> Page:
    """A page without pixels; not the first, so that no title is looked for."""
    return Page(index, (width, height), "pt", "test.pdf")


def line(text: str, left: float, top: float, size: float = 10, right: float | None = None, **more: object) -> Line:
    """A line of a text layer; its width comes from its letters unless `right` is given."""
    width = (right - left) if right is not None else 0.5 * size * len(text)
    words, at = [], left
    for word in text.split(" "):
        part = width * (len(word) + 1) / (len(text) + 1)
        words.append(Word(word, Box(at, top, at + part * len(word) / (len(word) + 1), top + size)))
        at += part
    box = Box(left, top, left + width, top + size)
    return Line(text, box, tuple(words), size, **{"font": "Body", **more})  # type: ignore[arg-type]


def paragraph(
    left: float, top: float, right: float, count: int, *, size: float = 10, pitch: float = 12, indent: float = 0
) -> list[Line]:
    """Justified lines of running text, the first one indented, the last one short and with a full stop."""
    length = round((right - left) / (0.5 * size))
    text = (LOREM * 3)[:length]
    lines = [line(text, left, top + n * pitch, size, right) for n in range(count)]
    lines[0] = line(text[: len(text) - round(indent / 5)], left + indent, top, size, right)
    lines[-1] = line(text[: length // 2].strip() + ".", left, top + (count - 1) * pitch, size)
    return lines


def texts(lines: Sequence[Line]) -> list[str]:
    return [item.text for item in lines]
