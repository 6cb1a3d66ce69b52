"""Writes `Glyphs` for tests, as a PDF library would give them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from docai.types import Box, Font, Glyphs, Page, PageContent

NARROW, WIDE = set("iljtf.,:;'|![]() "), set("mwMW@%")


def advance(char: str, size: float, mono: bool = False) -> float:
    """The width of a character, about as in Helvetica."""
    if mono:
        return 0.6 * size
    if ord(char) >= 0x2E80:
        return size
    return size * (0.28 if char in NARROW else 0.85 if char in WIDE else 0.56)


@dataclass
class Typist:
    """Sets characters one after the other; `glyphs()` gives all that was set."""

    fonts: list[Font] = field(default_factory=lambda: [Font("Helvetica")])
    rows: list[tuple[int, tuple[float, float, float, float], float, int, int, int]] = field(default_factory=list)

    def put(self, char: str, box: tuple[float, float, float, float], size: float, **more: int) -> None:
        """One character in a box of its own."""
        self.rows.append((ord(char), box, size, more.get("font", 0), more.get("angle", 0), more.get("flags", 0)))

    def line(
        self,
        text: str,
        x: float,
        base: float,
        size: float = 10.0,
        *,
        tracking: float = 0.0,
        spaces: bool = True,
        word_gap: float | None = None,
        font: int = 0,
        angle: int = 0,
        flags: int = 0,
    ) -> float:
        """A run of text from `x` along the line; `base` is its baseline. Returns where it ends.

        `tracking`: room after each letter; `spaces`: whether the file has them; `word_gap`: their width.
        """
        mono = self.fonts[font].mono
        for char in text:
            width = advance(char, size, mono) if char != " " or word_gap is None else word_gap
            if char != " " or spaces:
                self.put(char, _turned(x, base, width, size, angle), size, font=font, angle=angle, flags=flags)
            x += width + tracking
        return x

    def right_to_left(self, text: str, right: float, base: float, size: float = 10.0) -> float:
        """Text in the order of reading, set from `right` leftwards. Returns its left end."""
        for char in text:
            width = advance(char, size)
            self.put(char, (right - width, base - 0.78 * size, right, base + 0.22 * size), size)
            right -= width
        return right

    def glyphs(self) -> Glyphs:
        """The columns."""
        codes, boxes, sizes, fonts, angles, flags = zip(*self.rows, strict=True) if self.rows else ([],) * 6
        return Glyphs(
            np.array(codes, np.uint32),
            np.array(boxes, np.float32).reshape(-1, 4),
            np.array(sizes, np.float32),
            np.array(fonts, np.int32),
            np.array(angles, np.int16),
            np.array(flags, np.uint8),
            tuple(self.fonts),
        )


def _turned(x: float, base: float, width: float, size: float, angle: int) -> tuple[float, float, float, float]:
    """A glyph's box; x runs along the line and `base` lies across it, as they would on the unturned page."""
    up, down = base - 0.78 * size, base + 0.22 * size
    match angle:
        case 90:
            return (-down, x, -up, x + width)
        case 180:
            return (-x - width, -down, -x, -up)
        case 270:
            return (up, -x - width, down, -x)
    return (x, up, x + width, down)


def page_of(
    typist: Typist, size: tuple[float, float] = (600, 800), **content: tuple[Box, ...]
) -> tuple[Page, PageContent]:
    """A page that shows what was set, among the pictures, fills and drawings of `content`."""
    return Page(0, size, "pt", "test.pdf"), PageContent(typist.glyphs(), **content)
