"""Sets the sample article: two columns, two pages, and its expected markdown."""

from __future__ import annotations

import io
import math
from functools import singledispatch

import numpy as np
from PIL import Image

from source import article_text as told
from source.article_text import Chart, Formula, Grid, Heading, Numbered, Para, Part, Photo, References
from source.fonts import MATH, SANS, SANS_BOLD, SERIF, SERIF_BOLD, SERIF_ITALIC
from source.pdf import Pdf, Sheet
from source.setting import Column, Flow, Setter, draw_line

LEFT, RIGHT, GUTTER = 51.0, 544.28, 20.0
MEASURE = (RIGHT - LEFT - GUTTER) / 2
FOOT = 786.0
BALANCED = 412.0  # where the first column of the last page ends, so that both are about as long
GREY = (0.35, 0.35, 0.35)
TEAL = (0.1, 0.45, 0.5)
SETTER = Setter(told.HYPHENS)


def make() -> tuple[bytes, str, str]:
    """The PDF, its expected markdown, and that of its first page alone."""
    pdf = Pdf(told.TITLE)
    for number in range(2):
        furniture(pdf.sheet(), told.FIRST_PAGE + number)
    top = head(pdf.sheets[0])
    note_top = footnote(pdf.sheets[0])
    x2 = LEFT + MEASURE + GUTTER
    columns = [
        Column(0, LEFT, top, note_top),
        Column(0, x2, top, FOOT),
        Column(1, LEFT, 62.0, BALANCED),
        Column(1, x2, 62.0, FOOT),
    ]
    flow = Flow(pdf, columns, MEASURE, SETTER)
    first = [place(part, flow) for part in told.PARTS]
    intro = [f"# {told.TITLE}", told.AUTHORS, told.PLACE, f"**Abstract.** {told.ABSTRACT}"]
    note = f"[^{told.NOTE.mark}]: {told.NOTE.text}"
    whole = [*intro, *(markdown(part) for part in told.PARTS), note]
    return pdf.save(), "\n\n".join(whole) + "\n", "\n\n".join([*intro, *filter(None, first), note]) + "\n"


def furniture(sheet: Sheet, number: int) -> None:
    """Running header, footer and page number."""
    sheet.text(LEFT, 38, told.RUNNING, SERIF_ITALIC, 8.5, colour=GREY)
    sheet.line(LEFT, 43, RIGHT, 43, 0.4, GREY)
    sheet.text(LEFT, 812, told.FOOTER, SERIF, 7.5, colour=GREY)
    sheet.text(RIGHT, 812, str(number), SERIF, 8.5, align="right")


def head(sheet: Sheet) -> float:
    """Title, authors and abstract over both columns; returns where the columns start."""
    middle, wide = (LEFT + RIGHT) / 2, RIGHT - LEFT
    y = 76.0
    for line in SETTER.lines(told.TITLE, wide * 0.8, 20, SERIF_BOLD):
        draw_line(sheet, line, LEFT, y, wide, 20, "centre")
        y += 24
    sheet.text(middle, y, told.AUTHORS, SERIF, 11, align="centre")
    sheet.text(middle, y + 15, told.PLACE, SERIF_ITALIC, 9.5, align="centre")
    y += 39
    for line in SETTER.lines(f"**Abstract.** {told.ABSTRACT}", wide - 64, 9.2):
        draw_line(sheet, line, LEFT + 32, y, wide - 64, 9.2)
        y += 11.2
    return y + 8


def footnote(sheet: Sheet) -> float:
    """The footnote of the first column; returns where it starts."""
    lines = SETTER.lines(f"^{told.NOTE.mark}^ {told.NOTE.text}", MEASURE, 7.8)
    top = FOOT - 9.4 * len(lines) - 6
    sheet.line(LEFT, top + 4, LEFT + 70, top + 4, 0.4)
    for i, line in enumerate(lines):
        draw_line(sheet, line, LEFT, top + 13.5 + 9.4 * i, MEASURE, 7.8)
    return top - 4


@singledispatch
def place(part: Part, flow: Flow) -> str:
    """Set a part of the article; returns the markdown of what of it stands on page 1."""
    raise TypeError(f"no way to set {part!r} into {flow!r}")


@singledispatch
def markdown(part: Part) -> str:
    """The expected markdown of a part."""
    raise TypeError(f"no markdown for {part!r}")


@place.register
def _(part: Heading, flow: Flow) -> str:
    size = 11.5 if part.level == 1 else 9.8
    flow.need(46)
    flow.space(9 if part.level == 1 else 6)
    flow.pdf.bookmarks.append((part.text, flow.column.page))
    on_first = flow.paragraph(part.text, face=SERIF_BOLD, size=size)
    flow.space(2)
    return markdown(part) if on_first else ""


@markdown.register
def _(part: Heading) -> str:
    return f"{'#' * (part.level + 1)} {part.text}"


@place.register
def _(part: Para, flow: Flow) -> str:
    return flow.paragraph(part.text, indent=11 if part.indent else 0, keep=2)


@markdown.register
def _(part: Para) -> str:
    return part.text.replace(f"^{told.NOTE.mark}^", f"[^{told.NOTE.mark}]")


@place.register
def _(part: Numbered, flow: Flow) -> str:
    flow.space(3)
    on_first = []
    for i, item in enumerate(part.items, 1):
        flow.need(flow.leading * 2)
        sheet, x, y = flow.sheet, flow.column.x + 6, flow.y + flow.leading * 0.75
        on_first.append(flow.paragraph(item, left=20))
        sheet.text(x, y, f"{i}.", SERIF, flow.size)
        flow.space(1.5)
    flow.space(2)
    return "\n".join(f"{i}. {text}" for i, text in enumerate(on_first, 1) if text)


@markdown.register
def _(part: Numbered) -> str:
    return "\n".join(f"{i}. {item}" for i, item in enumerate(part.items, 1))


@place.register
def _(part: References, flow: Flow) -> str:
    on_first = []
    for i, item in enumerate(part.items, 1):
        flow.need(flow.leading)
        sheet, x, y = flow.sheet, flow.column.x, flow.y + flow.leading * 0.67
        on_first.append(flow.paragraph(item, left=18, size=8.6))
        sheet.text(x, y, f"[{i}]", SERIF, 8.6)
        flow.space(1.5)
    return "\n\n".join(f"[{i}] {text}" for i, text in enumerate(on_first, 1) if text)


@markdown.register
def _(part: References) -> str:
    return "\n\n".join(f"[{i}] {item}" for i, item in enumerate(part.items, 1))


@place.register
def _(part: Formula, flow: Flow) -> str:
    return markdown(part) if flow.whole(40, lambda sheet, x, y: draw_formula(sheet, x, y, part)) else ""


def draw_formula(sheet: Sheet, x: float, y: float, part: Formula) -> None:
    """Equation (1), set by hand: its fraction, its bars, its number at the right edge."""
    base, size = y + 22, 10.5
    at = x + 34
    at += sheet.text(at, base, "𝑠(𝑎, 𝑏) = 1 − ", MATH, size)
    above, below = "𝑑(𝑎, 𝑏)", "max(|𝑎|, |𝑏|)"
    long = sheet.text(at + 3, base + 8.5, below, MATH, size)
    sheet.text(at + 3 + long / 2, base - 6.5, above, MATH, size, align="centre")
    sheet.line(at, base - 2.6, at + long + 6, base - 2.6, 0.6)
    sheet.text(x + MEASURE, base, part.number, SERIF, size - 0.9, align="right")


@markdown.register
def _(part: Formula) -> str:
    return f"$$\n{part.latex} \\tag{{{part.number.strip('()')}}}\n$$"


@place.register
def _(part: Grid, flow: Flow) -> str:
    height = 18 + 13 * len(part.rows) + 12
    draw = draw_ruled if part.ruled else draw_booktabs
    flow.space(5)
    return markdown(part) if flow.whole(height, lambda sheet, x, y: draw(sheet, x, y, part)) else ""


def caption(sheet: Sheet, x: float, y: float, text: str) -> None:
    label, _, rest = text.partition(". ")
    sheet.text(x + sheet.text(x, y, f"{label}. ", SANS_BOLD, 7.8), y, rest, SANS, 7.8)


def draw_booktabs(sheet: Sheet, x: float, y: float, part: Grid) -> None:
    """Three rules, the first column to the left, the others to the right."""
    caption(sheet, x, y + 9, part.caption)
    right, top = x + MEASURE, y + 15
    edges = [x + 4, x + 104, x + 160, right - 4]
    for rule, thick in ((top, 0.9), (top + 14, 0.5), (top + 15 + 13 * (len(part.rows) - 1) + 2, 0.9)):
        sheet.line(x, rule, right, rule, thick)
    for i, row in enumerate(part.rows):
        base = top + 10.5 + 13 * i + (1 if i else 0)
        for j, (text, edge) in enumerate(zip(row, edges, strict=True)):
            sheet.text(edge, base, text, SERIF_BOLD if i == 0 else SERIF, 8.8, align="right" if j else "left")


def draw_ruled(sheet: Sheet, x: float, y: float, part: Grid) -> None:
    """Every cell framed; the two rows of the head with cells that span."""
    caption(sheet, x, y + 9, part.caption)
    top = y + 15
    edges = [x, x + 76, x + 116, x + 156, x + 196, x + MEASURE]
    sheet.area(x, top, MEASURE, 26, (0.91, 0.93, 0.95))
    bottom = top + 13 * len(part.rows)
    sheet.frame(x, top, MEASURE, bottom - top, 0.7)
    for i in range(1, len(part.rows)):
        sheet.line(x if i > 1 else edges[1], top + 13 * i, edges[-1], top + 13 * i, 0.5)
    for j, edge in enumerate(edges[1:-1], 1):
        sheet.line(edge, top if j % 2 else top + 13, edge, bottom, 0.5)
    for i, row in enumerate(part.rows):
        for j, text in enumerate(row):
            span = 2 if i == 0 and j else 1
            face = SERIF_BOLD if i < 2 else SERIF
            base = top + 9.5 + 13 * i + (6.5 if (i, j) == (0, 0) else 0)
            if not text:
                continue
            if j == 0:
                sheet.text(edges[0] + 4, base, text, face, 8.8)
            else:
                sheet.text((edges[j] + edges[j + span]) / 2, base, text, face, 8.8, align="centre")


@markdown.register
def _(part: Grid) -> str:
    return f"{part.caption}\n\n{html_table(part) if part.ruled else pipe_table(part.rows)}"


def pipe_table(rows: tuple[tuple[str, ...], ...]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "| " + " | ".join("---" for _ in rows[0]) + " |", *body])


def html_table(part: Grid) -> str:
    """The ruled table: a corner that spans two rows, heads that span two columns."""
    name, spring, _, neap, _ = part.rows[0]
    head = f'<tr><th rowspan="2">{name}</th><th colspan="2">{spring}</th><th colspan="2">{neap}</th></tr>'
    under = "".join(f"<th>{text}</th>" for text in part.rows[1][1:])
    body = ["<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in part.rows[2:]]
    return "\n".join(["<table>", head, f"<tr>{under}</tr>", *body, "</table>"])


@place.register
def _(part: Chart, flow: Flow) -> str:
    flow.space(5)
    return markdown(part) if flow.whole(136, lambda sheet, x, y: draw_chart(sheet, x, y, part)) else ""


def tide(day: float) -> float:
    return 3.1 + 2.3 * math.sin(2 * math.pi * day / 0.5175) * (0.8 + 0.2 * math.cos(day / 2.2))


def draw_chart(sheet: Sheet, x: float, y: float, part: Chart) -> None:
    """Axes, a curve and dots, all as vectors."""
    left, right, top, bottom = x + 18, x + MEASURE - 4, y + 4, y + 104

    def at(day: float, height: float) -> tuple[float, float]:
        return left + (right - left) * day / 7, bottom - (bottom - top) * height / 6

    for height in (0, 2, 4, 6):
        sheet.line(left, at(0, height)[1], right, at(0, height)[1], 0.3, (0.75, 0.75, 0.75))
        sheet.text(left - 4, at(0, height)[1] + 2.5, str(height), SANS, 6.5, align="right")
    for day in range(7):
        sheet.text(
            at(day + 0.5, 0)[0],
            bottom + 9,
            ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[day],
            SANS,
            6.5,
            align="centre",
        )
    sheet.curve([at(i / 60, tide(i / 60)) for i in range(421)], 0.8, TEAL)
    rng = np.random.default_rng(3)
    for day in np.arange(0.13, 7, 0.2587):
        px, py = at(day, tide(day) + rng.normal(0, 0.15))
        sheet.area(px - 1.3, py - 1.3, 2.6, 2.6, (0.75, 0.3, 0.1))
    sheet.line(left, top, left, bottom, 0.6)
    sheet.line(left, bottom, right, bottom, 0.6)
    caption(sheet, x, y + 127, part.caption)


@place.register
def _(part: Photo, flow: Flow) -> str:
    flow.space(5)
    return markdown(part) if flow.whole(140, lambda sheet, x, y: draw_photo(sheet, x, y, part)) else ""


def draw_photo(sheet: Sheet, x: float, y: float, part: Photo) -> None:
    out = io.BytesIO()
    picture = basin(560, 270)
    picture.save(out, "JPEG", quality=70)
    sheet.picture(x, y + 2, MEASURE, MEASURE * 270 / 560, out.getvalue(), picture.size)
    caption(sheet, x, y + 129, part.caption)


def basin(width: int, height: int) -> Image.Image:
    """A made-up photograph: sky, a far quay, water with ripples."""
    y, x = np.mgrid[0:height, 0:width] / height
    water = 0.42 + 0.05 * np.sin(90 * y**2 + 4 * np.sin(9 * x)) + 0.04 * np.sin(40 * x + 60 * y)
    shade = np.where(y < 0.45, 0.85 - 0.4 * y, water)
    quay = (y > 0.38 + 0.02 * np.sin(3 * x)) & (y < 0.5)
    shade = np.where(quay, 0.25 + 0.05 * np.sin(70 * x), shade)
    mast = (np.abs((x * 1.7) % 1 - 0.5) < 0.006) & (y > 0.12) & (y < 0.45)
    shade = np.where(mast, 0.2, shade) + np.random.default_rng(5).normal(0, 0.012, shade.shape)
    tint = np.array([0.92, 0.98, 1.06])
    return Image.fromarray((np.clip(shade[..., None] * tint, 0, 1) * 255).astype(np.uint8))


@markdown.register(Chart)
@markdown.register(Photo)
def _(part: Chart | Photo) -> str:
    return f"![]()\n\n{part.caption}"
