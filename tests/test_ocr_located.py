"""Answers that say where everything lies become blocks with boxes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.ocr.located import CANVAS, Shown, florence_blocks, nemotron_blocks
from docai.ocr.parsers.nemotron import Piece, pieces
from docai.preprocess.centred import Placement
from docai.types import Box, Label, Page, Region

PAGE = Page(0, (612.0, 792.0), "pt", "a.pdf")
SIZE = (1584, 1224)  # at 144 dpi: it fits the canvas as it is
SOMEWHERE = Box(61.2, 79.2, 306.0, 396.0)
SHOWN = Shown(PAGE, Region(PAGE.box, Label.TEXT), SIZE)


def block(text: str, name: str | None = "Text", box: Box = SOMEWHERE) -> str:
    """A block as the model writes it, of a box on the page."""
    placed = Placement.of(SIZE, CANVAS)
    corners = [placed.forth(x / 612, y / 792) for x, y in ((box.l, box.t), (box.r, box.b))]
    (x1, y1), (x2, y2) = corners
    ending = "" if name is None else f"<class_{name}>"
    return f"<x_{x1:.6f}><y_{y1:.6f}>{text}<x_{x2:.6f}><y_{y2:.6f}>{ending}"


def test_blocks_are_on_the_page_without_the_canvas() -> None:
    answer = "\n\n".join([block("# A title", "Title"), block("Some **bold** text.", "Text", Box(10, 500, 600, 700))])
    title, text = nemotron_blocks(f"</s><s>{answer}</s>", SHOWN, "vlm:n")
    assert (title.label, title.text, title.region.name, title.region.order) == (Label.TITLE, "A title", "Title", 0)
    assert title.box.as_tuple() == pytest.approx((61.2, 79.2, 306.0, 396.0), abs=0.01)
    assert (text.text, text.region.order, text.source) == ("Some bold text.", 1, "vlm:n")
    assert [(span.start, span.end, span.style) for span in text.spans] == [(5, 9, "bold")]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(40, 5000), st.integers(40, 5000))
def test_boxes_come_back_from_the_canvas(a: float, b: float, c: float, d: float, height: int, width: int) -> None:
    placed = Placement.of((height, width), CANVAS)
    (x1, y1), (x2, y2) = (placed.forth(*corner) for corner in ((a, b), (c, d)))
    page = Page(0, (float(width), float(height)), "px", "a.png")
    shown = Shown(page, Region(page.box, Label.TEXT), (height, width))
    (found,) = nemotron_blocks(f"<x_{x1:.9f}><y_{y1:.9f}>x<x_{x2:.9f}><y_{y2:.9f}><class_Text>", shown, "vlm:n")
    expected = (min(a, c) * width, min(b, d) * height, max(a, c) * width, max(b, d) * height)
    assert found.box.as_tuple() == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    "markup",
    [
        r"\begin{tabular}{cc} a & b \\ \multicolumn{2}{c}{c} \end{tabular}",
        "<table><tr><td>a</td><td>b</td></tr><tr><td colspan='2'>c</td></tr></table>",
    ],
)
def test_tables_are_cells(markup: str) -> None:
    (found,) = nemotron_blocks(block(markup, "Table"), SHOWN, "vlm:n")
    assert found.label is Label.TABLE
    assert found.table is not None
    assert [(c.row, c.col, c.colspan, c.text) for c in found.table.cells] == [
        (0, 0, 1, "a"),
        (0, 1, 1, "b"),
        (1, 0, 2, "c"),
    ]


def test_formulas_are_latex_and_pictures_are_there_without_text() -> None:
    answer = block(r"\[ E = mc^2 \]", "Formula") + block("$x$", "Inline-formula") + block("", "Picture")
    formula, inline, picture = nemotron_blocks(answer, SHOWN, "vlm:n")
    assert (formula.label, formula.text) == (Label.FORMULA, "E = mc^2")
    assert (inline.label, inline.text) == (Label.FORMULA, "x")
    assert (picture.label, picture.text) == (Label.FIGURE, "")


def test_a_chart_is_a_picture_and_its_numbers() -> None:
    chart, table = nemotron_blocks(block("| a | b |\n|---|---|\n| 1 | 2 |", "Chart"), SHOWN, "vlm:n")
    assert (chart.label, chart.text, chart.box == table.box) == (Label.FIGURE, "", True)
    assert table.table is not None
    assert [cell.text for cell in table.table.cells] == ["a", "b", "1", "2"]


def test_furniture_lists_and_classes_that_are_new() -> None:
    answer = block("7", "Page-footer") + block("- • first", "List-item") + block("odd", "Marginalia")
    footer, item, odd = nemotron_blocks(answer, SHOWN, "vlm:n")
    assert footer.furniture
    assert (item.label, item.text, item.marker) == (Label.LIST_ITEM, "first", "-")
    assert (odd.label, odd.region.name) == (Label.TEXT, "Marginalia")


def test_signs_of_what_a_model_does_not_know_are_left_out() -> None:
    assert [p.text for p in pieces(block(r"a<tbc> \<|unk|\> b\unknown"))] == ["a  b"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("plain text\n\nmore", [Piece("plain text\n\nmore")]),
        ("<output_plain>text</s>", [Piece("text")]),
        ("one<class_Text>\n\ntwo<class_Title>", [Piece("one", "Text"), Piece("two", "Title")]),
        ("<x_0.1><y_0.2>one<x_0.3><y_0.4>\n\n<x_0.5><y_0.6>two<x_0.7><y_0.8>", [
            Piece("one", None, (0.1, 0.2), (0.3, 0.4)), Piece("two", None, (0.5, 0.6), (0.7, 0.8)),
        ]),
        ("<x_0.1><y_0.2>one<x_0.3><y_0.4><class_Text><x_0.5><y_0.6>cut o", [
            Piece("one", "Text", (0.1, 0.2), (0.3, 0.4)), Piece("cut o", None, (0.5, 0.6)),
        ]),
        ("<x_0.1><y_0.2>one<x_0.3><y_0.4>stray", [Piece("one", None, (0.1, 0.2), (0.3, 0.4)), Piece("stray")]),
        ("stray<x_0.1><y_0.2>one<x_0.3><y_0.4><class_Text>", [
            Piece("stray"), Piece("one", "Text", (0.1, 0.2), (0.3, 0.4)),
        ]),
        ("<x_0.1><y_0.2><x_0.3><y_0.4><class_Text>", []),
        ("<x_.5><y_1>a<x_1><y_1.0><class_>", [Piece("a", "", (0.5, 1.0), (1.0, 1.0))]),
    ],
)  # fmt: skip
def test_answers_that_lack_something(answer: str, expected: list[Piece]) -> None:
    assert pieces(answer) == expected


@given(st.text(alphabet="<x_y0.15>class Ta/s\n", max_size=80))
def test_nothing_that_is_written_is_lost(answer: str) -> None:
    kept = "".join(piece.text for piece in pieces(answer))
    assert sum(c in "Ta" for c in kept) <= len(answer)
    nemotron_blocks(answer, SHOWN, "vlm:n")


def quad(text: str, left: float, top: float, right: float, bottom: float) -> str:
    places = (left / 612, top / 792, right / 612, top / 792, right / 612, bottom / 792, left / 612, bottom / 792)
    return text + "".join(f"<loc_{int(place * 1000)}>" for place in places)


def test_lines_of_florence_are_put_together() -> None:
    lines = [quad(f"line {n} of a paragraph of text", 72, 72 + 14 * n, 540, 84 + 14 * n) for n in range(4)]
    blocks = florence_blocks("</s><s>" + "".join(lines) + "</s>", SHOWN, "vlm:f")
    assert [b.text for b in blocks] == [" ".join(f"line {n} of a paragraph of text" for n in range(4))]
    assert blocks[0].source == "vlm:f"
    assert blocks[0].box.as_tuple() == pytest.approx((72, 72, 540, 126), abs=1)


def test_text_without_places_is_text() -> None:
    (found,) = florence_blocks("only words", SHOWN, "vlm:f")
    assert (found.text, found.box) == ("only words", PAGE.box)
