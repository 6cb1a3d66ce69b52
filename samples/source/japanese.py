"""Sets the Japanese sample: a page written across, and one written down, its columns running from right to left."""

from __future__ import annotations

from source.article import pipe_table
from source.fonts import MINCHO, MINCHO_BOLD, Face
from source.pdf import Pdf, Sheet

LEFT, RIGHT = 62.0, 534.0
A5 = (419.53, 595.28)
CLOSERS = "、。」』）"  # may not start a line; they hang behind its end

TITLE = "港の古い日誌"
ACROSS: tuple[tuple[str, str], ...] = (
    (
        "text",
        "港の番人は、朝と夕の二回、どんな天気の日でも、潮の高さを大きな帳面に書きとめていた。その帳面は今も二百十二冊が"
        "残り、綱倉の上の乾いた部屋にしまわれている。",
    ),
    ("heading", "余白が語ること"),
    (
        "text",
        "自動の検潮儀が記すのは数字だけである。番人は数字のほかに、迷いも記した。夜が暗ければ「手さぐりで測る」と書き、"
        "あとで直したときは、その理由も書いている。こうした書きこみは全部で2417か所あり、その多くは冬の月に書かれた。",
    ),
    ("heading", "読み方"),
    ("item", "各ページを、光を変えて二度撮影する。"),
    ("item", "二人の読み手が、別々に数字を写す。"),
    ("item", "食いちがう箇所は、三人目の読み手が決める。"),
    ("heading", "潮の高さの平均"),
    ("table", ""),
)
ROWS = (
    ("港", "満潮 (m)", "干潮 (m)"),
    ("北の港", "5.82", "0.64"),
    ("南の港", "6.10", "1.02"),
    ("島の港", "4.95", "0.41"),
)
DOWN_TITLE = "嵐の夜"
DOWN = (
    "その夜、風は北から吹き、港の灯はつぎつぎに消えた。番人は石段を下り、ひざまで水につかりながら、目盛りを読もうとした。"
    "しかし波は高く、板は見えない。彼は手をのばし、ぬれた目盛りを指でたどった。",
    "朝になって、彼は帳面にこう書いた。「灯なし。高さは手で知る。おそらく一尺ほど低い。」数字の横には小さな丸がつけてある。"
    "丸は、信じるな、というしるしである。",
    "百年のちの読み手は、ノートを広げてその丸を見つけ、少し笑い、それから、ていねいに写しとった。",
)


def make() -> tuple[bytes, str]:
    """The PDF and its expected markdown."""
    pdf = Pdf(TITLE, "ja")
    across(pdf.sheet())
    down(pdf.sheet(A5))
    return pdf.save(), markdown()


def broken(text: str, count: int) -> list[str]:
    """Lines of `count` characters; closing marks hang."""
    lines = []
    while text:
        end = count
        while end < len(text) and text[end] in CLOSERS:
            end += 1
        lines.append(text[:end])
        text = text[end:]
    return lines


def line(sheet: Sheet, x: float, y: float, text: str, face: Face, size: float, align: str = "left") -> None:
    sheet.text(x, y, text, face, size, align=align)


def across(sheet: Sheet) -> None:
    line(sheet, 297.6, 84, TITLE, MINCHO_BOLD, 22, "centre")
    y, number, size = 104.0, 0, 11.5
    for kind, text in ACROSS:
        if kind == "heading":
            y += 34
            line(sheet, LEFT, y, text, MINCHO_BOLD, 14)
            y += 4
        elif kind == "item":
            number += 1
            y += 20
            line(sheet, LEFT + 8, y, f"{number}.", MINCHO, size)
            line(sheet, LEFT + 26, y, text, MINCHO, size)
        elif kind == "table":
            table(sheet, y + 12)
        else:
            for row in broken(f"\u3000{text}", int((RIGHT - LEFT) / size)):
                y += 20
                line(sheet, LEFT, y, row, MINCHO, size)
    line(sheet, 297.6, 806, "1", MINCHO, 9, "centre")


def table(sheet: Sheet, top: float) -> None:
    edges, high = (LEFT, LEFT + 120, LEFT + 220, LEFT + 320), 24.0
    sheet.area(edges[0], top, edges[-1] - edges[0], high, (0.93, 0.93, 0.93))
    for i, row in enumerate(ROWS):
        for j, text in enumerate(row):
            middle = (edges[j] + edges[j + 1]) / 2
            line(sheet, middle, top + high * i + 16, text, MINCHO if i else MINCHO_BOLD, 11, "centre")
    for i in range(len(ROWS) + 1):
        sheet.line(edges[0], top + high * i, edges[-1], top + high * i, 0.6)
    for x in edges:
        sheet.line(x, top, x, top + high * len(ROWS), 0.6)


def down(sheet: Sheet) -> None:
    x, top, size = A5[0] - 66, 66.0, 13.0
    sheet.vertical(x, top + 2 * size, DOWN_TITLE, MINCHO_BOLD, 18)
    x -= 38
    for text in DOWN:
        for column in broken(f"\u3000{text}", 34):
            sheet.vertical(x, top, column, MINCHO, size)
            x -= 24
    line(sheet, A5[0] / 2, A5[1] - 28, "2", MINCHO, 9, "centre")


def markdown() -> str:
    parts, number = [f"# {TITLE}"], 0
    for kind, text in ACROSS:
        number += kind == "item"
        made = {"heading": f"## {text}", "item": f"{number}. {text}", "table": pipe_table(ROWS)}.get(kind, text)
        parts.append(made)
    whole = "\n\n".join([*parts, f"## {DOWN_TITLE}", *DOWN])
    return whole.replace("。\n\n2. ", "。\n2. ").replace("。\n\n3. ", "。\n3. ") + "\n"
