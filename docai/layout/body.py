"""The running text of a page: what everything else is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docai.types import Line

_WIDEST_LEADING = 3.2  # sizes
_COMMON = 0.15  # share of the characters from which on a font is one of the running text


@dataclass(frozen=True, slots=True)
class Body:
    """How most of a page's text is set.

    `recognised`: its sizes are heights of what was seen, which vary with the letters of a line. `leading`: from
    baseline to baseline, in sizes; None where no two lines tell. `fonts`: those that much of it is set in.
    """

    size: float
    bold: bool = False
    recognised: bool = False
    mono: bool = False
    fonts: frozenset[str] = frozenset()
    leading: float | None = None

    @property
    def tolerance(self) -> float:
        """By which share two sizes may differ and still be one."""
        return 0.4 if self.recognised else 0.12


def usual(values: Iterable[tuple[float, int]]) -> float:
    """The weighted median of (value, weight); 0 of none."""
    ordered = sorted(values)
    total = sum(weight for _, weight in ordered)
    passed = 0
    for value, weight in ordered:
        passed += weight
        if passed * 2 >= total:
            return value
    return 0.0


def body_of(lines: Sequence[Line]) -> Body:
    """The size, weight, font and leading that most characters have."""
    total = sum(len(line.text) for line in lines)
    if not total:
        return Body(10.0)
    bold = sum(len(line.text) for line in lines if line.bold)
    recognised = sum(len(line.text) for line in lines if line.source != "text-layer")
    mono = sum(len(line.text) for line in lines if line.mono)
    fonts: dict[str, int] = {}
    for line in lines:
        fonts[line.font] = fonts.get(line.font, 0) + len(line.text)
    return Body(
        size=usual((line.size, len(line.text)) for line in lines) or 10.0,
        bold=bold * 2 > total,
        recognised=recognised * 2 > total,
        mono=mono * 2 > total,
        fonts=frozenset(name for name, n in fonts.items() if n > _COMMON * total),
        leading=_leading(lines),
    )


def _leading(lines: Sequence[Line]) -> float | None:
    """The usual step from a line to the one below it in the same column, in sizes."""
    ordered = sorted((line for line in lines if not line.vertical and not line.angle), key=lambda line: line.box.b)
    steps: list[tuple[float, int]] = []
    for n, line in enumerate(ordered):
        size = max(line.size, 0.1)
        for below in ordered[n + 1 :]:
            step = below.box.b - line.box.b
            if step > _WIDEST_LEADING * size:
                break
            if (
                step > 0.8 * size
                and abs(below.box.l - line.box.l) < 2 * size
                and abs(below.size - line.size) < size / 4
            ):
                steps.append((step / size, min(len(line.text), len(below.text))))
                break
    return usual(steps) if len(steps) > 2 else None
