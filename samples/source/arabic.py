"""Sets the Arabic sample: a right-to-left page with headings, a list, a table, and numbers and Latin words in between.

The glyphs are shaped and drawn in visual order, as most programs write them; each maps to its plain letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from source.article import pipe_table
from source.fonts import NASKH, NASKH_BOLD, SERIF, SERIF_BOLD, Face, Glyph
from source.pdf import Pdf, Sheet, width

LEFT, RIGHT = 70.0, 525.0
TITLE = "دفتر الميناء القديم"
BODY: tuple[tuple[str, str], ...] = (
    (
        "text",
        "كان حراس الميناء يكتبون ارتفاع الماء في دفاتر كبيرة مرتين كل يوم، في الصباح وفي المساء، مهما كان حال الطقس. "
        "وقد بقي من هذه الدفاتر 212 مجلدا محفوظة في غرفة جافة فوق مخزن الحبال.",
    ),
    ("heading", "ما تقوله الهوامش"),
    (
        "text",
        "لا يذكر المقياس الآلي إلا رقما واحدا، أما الحارس فيذكر شكه أيضا. فإذا كان الليل مظلما كتب في الهامش أن "
        "الارتفاع مقدر باليد. وقد وجدنا 2417 ملاحظة من هذا النوع، كتب معظمها في أشهر الشتاء.",
    ),
    ("text", "أرسلت نسخة من كل صفحة إلى مكتب Port Example لحفظها هناك."),
    ("heading", "كيف قرأنا الدفاتر"),
    ("item", "صورنا كل صفحة مرتين في ضوء مختلف."),
    ("item", "نقل قارئان الأرقام كل على حدة."),
    ("item", "راجع قارئ ثالث كل ما اختلفا فيه."),
    ("heading", "متوسط ارتفاع الماء"),
    ("table", ""),
)
ROWS = (
    ("المرفأ", "أعلى ماء", "أدنى ماء"),
    ("المرفأ الشمالي", "5.82", "0.64"),
    ("المرفأ الجنوبي", "6.10", "1.02"),
    ("مرفأ الجزيرة", "4.95", "0.41"),
)
LATIN = {NASKH: SERIF, NASKH_BOLD: SERIF_BOLD}
Run = tuple[Face, list[Glyph]]


def make() -> tuple[bytes, str]:
    """The PDF and its expected markdown."""
    pdf = Pdf(TITLE, "ar")
    sheet = pdf.sheet()
    draw(sheet, (LEFT + RIGHT) / 2, 92, TITLE, NASKH_BOLD, 24, align="centre")
    y, number = 130.0, 0
    for kind, text in BODY:
        if kind == "heading":
            y += 40
            draw(sheet, RIGHT, y, text, NASKH_BOLD, 16)
        elif kind == "item":
            number += 1
            y += 25
            sheet.text(RIGHT - 6, y, str(number), SERIF, 13, align="right")
            sheet.text(RIGHT - 13, y, ".", SERIF, 13, align="right")
            draw(sheet, RIGHT - 26, y, text, NASKH, 13)
        elif kind == "table":
            table(sheet, y + 14)
        else:
            y = paragraph(sheet, y + 6, text)
    return pdf.save(), markdown()


def runs(text: str, face: Face) -> Iterator[Run]:
    """The runs of a line from left to right: Latin words and numbers keep their direction among right-to-left words."""
    grouped = [(latin, " ".join(words)) for latin, words in groupby(text.split(" "), lambda w: w[0] < "\u0590")]
    for i, (latin, part) in reversed(list(enumerate(grouped))):
        if i + 1 < len(grouped):
            yield face, face.shape(" ", direction="rtl", script="Arab", language="ar")
        if latin:
            yield LATIN[face], LATIN[face].shape(part)
        else:
            yield face, face.shape(part, direction="rtl", script="Arab", language="ar")


def draw(sheet: Sheet, x: float, y: float, text: str, face: Face, size: float, *, align: str = "right") -> None:
    """One line; `x` is its right edge, or its middle."""
    line = list(runs(text, face))
    long = sum(width(glyphs, size) for _, glyphs in line)
    x -= long if align == "right" else long / 2
    for used, glyphs in line:
        sheet.glyphs(x, y, glyphs, used, size)
        x += width(glyphs, size)


def paragraph(sheet: Sheet, y: float, text: str, size: float = 13) -> float:
    """A paragraph aligned to the right; returns its last baseline."""
    line: list[str] = []
    for word in text.split(" "):
        long = sum(width(glyphs, size) for _, glyphs in runs(" ".join([*line, word]), NASKH))
        if long > RIGHT - LEFT:
            y += 25
            draw(sheet, RIGHT, y, " ".join(line), NASKH, size)
            line = []
        line.append(word)
    draw(sheet, RIGHT, y + 25, " ".join(line), NASKH, size)
    return y + 25


def table(sheet: Sheet, top: float) -> None:
    """A ruled table whose first column is the rightmost."""
    edges, high = (RIGHT, RIGHT - 170, RIGHT - 280, RIGHT - 390), 28.0
    sheet.area(edges[-1], top, edges[0] - edges[-1], high, (0.92, 0.92, 0.88))
    for i, row in enumerate(ROWS):
        for j, text in enumerate(row):
            middle = (edges[j] + edges[j + 1]) / 2
            draw(sheet, middle, top + high * i + 18, text, NASKH if i else NASKH_BOLD, 12.5, align="centre")
    for i in range(len(ROWS) + 1):
        sheet.line(edges[-1], top + high * i, edges[0], top + high * i, 0.6)
    for x in edges:
        sheet.line(x, top, x, top + high * len(ROWS), 0.6)


def markdown() -> str:
    parts, number = [f"# {TITLE}"], 0
    for kind, text in BODY:
        number += kind == "item"
        made = {"heading": f"## {text}", "item": f"{number}. {text}", "table": pipe_table(ROWS)}.get(kind, text)
        parts.append(made)
    return "\n\n".join(parts).replace(".\n\n2. ", ".\n2. ").replace(".\n\n3. ", ".\n3. ") + "\n"
