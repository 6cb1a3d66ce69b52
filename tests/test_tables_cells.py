"""Tables found on a page, and the cells made of them, from lines set by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.layout.grid import is_number
from docai.layout.tables import find_tables
from docai.ocr.tables import build_table
from docai.types import Box, Line, Page, Rule, Table, Word

PAGE = Page(0, (600.0, 800.0), "pt", "made here")


def line(x: float, y: float, text: str, *, size: float = 10.0, bold: bool = False, angle: int = 0) -> Line:
    """A line whose top left corner is (x, y); characters are half as wide as high."""
    words, at = [], x
    for part in text.split(" "):
        width = len(part) * size / 2
        words.append(Word(part, Box(at, y, at + width, y + size)))
        at += width + size / 4
    return Line(text, Box(x, y, words[-1].box.r, y + size), tuple(words), size, bold=bold, angle=angle)


def rows(texts: Sequence[Sequence[str]], xs: Sequence[float], top: float = 100, step: float = 14) -> list[Line]:
    """Lines of a table, cells flush left at `xs`; an empty text makes no line."""
    return [
        line(x, top + i * step, text) for i, row in enumerate(texts) for x, text in zip(xs, row, strict=True) if text
    ]


def flat(y: float, left: float, right: float) -> Rule:
    return Rule(Box(left, y, right, y), 0.5)


def upright(x: float, top: float, bottom: float) -> Rule:
    return Rule(Box(x, top, x, bottom), 0.5)


def around(lines: Sequence[Line]) -> Box:
    boxes = [item.box for item in lines]
    return Box(min(b.l for b in boxes), min(b.t for b in boxes), max(b.r for b in boxes), max(b.b for b in boxes))


def built(lines: Sequence[Line], rules: Sequence[Rule] = (), fills: Sequence[Box] = ()) -> Table:
    table = build_table(around(lines), lines, rules, fills)
    assert table is not None
    return table


def grid(table: Table) -> list[list[str]]:
    """Texts by row and column; places of a cell that spans repeat it."""
    found = [[""] * table.cols for _ in range(table.rows)]
    for cell in table.cells:
        for r in range(cell.row, cell.row + cell.rowspan):
            for c in range(cell.col, cell.col + cell.colspan):
                found[r][c] = cell.text
    return found


NUMBERS = [
    ["Country", "2009", "2010", "Change"],
    ["Austria", "60,400", "62,000", "2.6%"],
    ["Brazil", "50,000", "48,100", "(3.8%)"],
    ["China", "700,000", "712,500", "1.8%"],
    ["India", "40,000", "—", "n/a"],
]
XS = (50, 160, 240, 320)


def test_unruled_numbers_are_found_and_built() -> None:
    lines = rows(NUMBERS, XS)
    regions = find_tables(PAGE, lines, (), ())
    assert len(regions) == 1
    assert grid(built(lines)) == NUMBERS
    assert built(lines).header_rows == 1


def test_caption_and_notes_stay_outside() -> None:
    lines = [
        line(50, 70, "Table 3. Production of these goods by country and year, in tonnes"),
        *rows(NUMBERS, XS),
        line(50, 172, "Source: a survey of all producers in these countries"),
    ]
    (region,) = find_tables(PAGE, lines, [flat(y, 45, 380) for y in (65, 84, 112, 171, 185)], ())
    assert 80 < region.box.t < 101
    assert 165 < region.box.b < 173


def test_headings_over_one_row_of_values_are_a_table() -> None:
    page = [line(50, 60, PROSE), line(50, 160, PROSE), line(50, 174, PROSE)]
    dates = [["Invoice Date:", "Due Date:", "Reference:"], ["03/20/2023", "04/04/2023", "CUSTREF"]]
    lines = rows(dates, XS[:3])
    (region,) = find_tables(PAGE, [*page, *lines], (), ())
    assert region.box == around(lines)
    assert grid(built(lines)) == dates
    others = (
        [["Ada Byron", "Karl Marx", "Max Weber"], ["London", "Trier", "Erfurt"]],  # nothing counted
        [["Ada 1", "Karl 2", "Max 3"], ["1815", "1818", "1864"]],  # no headings
        [["Invoice Date:", "Due Date:", ""], ["03/20/2023", "04/04/2023", ""]],  # a form
        [["Invoice Date:", "Due Date:", "Reference:"], ["03/20/2023", "", "04/04/2023"]],
    )
    for texts in others:
        assert find_tables(PAGE, [*page, *rows(texts, XS[:3])], (), ()) == []
    shifted = [*rows(dates[:1], XS[:3]), *rows(dates[1:], [x + 30 for x in XS[:3]], top=114)]
    assert find_tables(PAGE, [*page, *shifted], (), ()) == []


PROSE = "The quick brown fox jumps over the lazy dog and runs"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([line(x, 100 + 12 * i, PROSE, size=9) for i in range(20) for x in (40, 310)], id="two columns"),
        pytest.param([line(50, 100 + 14 * i, f"{i}. An item of a list") for i in range(8)], id="list"),
        pytest.param(
            [
                item
                for i in range(9)
                for item in (
                    line(50, 100 + 14 * i, f"{i + 1}"),
                    line(80, 100 + 14 * i, "A chapter " + ". " * 30),
                    line(520, 100 + 14 * i, str(3 + 7 * i)),
                )
            ],
            id="contents",
        ),
        pytest.param(
            [item for i in range(6) for item in (line(50, 100 + 14 * i, f"[{i}]"), line(75, 100 + 14 * i, PROSE))],
            id="references",
        ),
    ],
)
def test_running_text_is_no_table(lines: list[Line]) -> None:
    assert find_tables(PAGE, lines, (), ()) == []


def test_columns_of_text_between_the_rules_of_a_page_are_no_table() -> None:
    lines = [line(x, 100 + 12 * i, PROSE, size=9) for i in range(30) for x in (40, 310)]
    assert find_tables(PAGE, lines, [flat(90, 40, 560), flat(470, 40, 560)], ()) == []


def test_a_diagram_is_no_table() -> None:
    rules = [flat(200, 100, 400), flat(300, 100, 400), upright(150, 150, 350), upright(300, 150, 350)]
    lines = [line(x, y, text) for x, y, text in ((110, 180, "A"), (200, 220, "B"), (320, 310, "C"), (330, 170, "D"))]
    assert find_tables(PAGE, lines, rules, ()) == []


def test_a_grid_of_rules_gives_rows_whatever_wraps_in_them() -> None:
    texts = [
        ["Source", "Definition"],
        ["Major", "Emissions of ten tons or"],
        ["", "more of any one toxic"],
        ["Area", "All the others"],
    ]
    lines = rows(texts, (50, 120))
    rules = [flat(y, 45, 260) for y in (97, 112, 140, 154)] + [upright(x, 97, 154) for x in (45, 115, 260)]
    (region,) = find_tables(PAGE, lines, rules, ())
    assert abs(region.box.l - 45) < 2
    assert grid(built(lines, rules)) == [
        ["Source", "Definition"],
        ["Major", "Emissions of ten tons or more of any one toxic"],
        ["Area", "All the others"],
    ]


def test_a_missing_rule_joins_cells() -> None:
    texts = [["", "A title over all", ""], ["Name", "2007", "2008"], ["Closets", "1,505", "1,580"], ["Rooms", "1", "2"]]
    lines = rows(texts, (50, 120, 220))
    rules = [flat(y, 45, 300) for y in (97, 112, 126, 140, 154)]
    rules += [upright(45, 97, 154), upright(300, 97, 154), upright(115, 112, 154), upright(215, 112, 154)]
    table = built(lines, rules)
    assert (table.cells[0].text, table.cells[0].colspan) == ("A title over all", 3)
    assert (table.rows, table.cols) == (4, 3)


def test_headings_span_the_columns_they_are_centred_over() -> None:
    lines = [
        line(177, 100, "Fused oxide"),
        line(330, 100, "Silicon"),
        *rows([["", "2009", "2010", "2009", "2010"]], (50, 150, 230, 300, 380), top=114),
        *rows([[f"Place {i}", f"{i}0,400", f"{i}1,300", f"{i},100", f"{i},20"] for i in range(1, 6)],
              (50, 150, 230, 300, 380), top=128),
    ]  # fmt: skip
    table = built(lines)
    spans = {cell.text: (cell.col, cell.colspan) for cell in table.cells if cell.row == 0}
    assert spans == {"Fused oxide": (1, 2), "Silicon": (3, 2)}
    assert table.header_rows == 2


def test_a_rule_under_a_heading_says_what_it_heads() -> None:
    lines = rows(
        [["", "", "Year ended", "", ""], ["", "2023", "2024", "2025", "Note"]]
        + [[f"Cost {i}", f"{i}78", f"{i}41", f"{i}38", "a"] for i in range(1, 5)],
        (50, 150, 200, 250, 330),
    )
    table = built(lines, [flat(111, 145, 275), flat(126, 45, 360)])
    heading = next(cell for cell in table.cells if cell.text == "Year ended")
    assert (heading.col, heading.colspan) == (1, 3)


def test_wrapped_first_column_is_one_row_and_a_section_title_is_its_own() -> None:
    texts = [
        ["Statement", "Yes", "No"],
        ["Section one", "", ""],
        ["Treatment is the most", "7.1", "33"],
        ["effective way", "", ""],
        ["Short", "45", "12"],
        ["Treatment far outweighs", "1", "13"],
        ["the risk", "", ""],
    ]
    table = built(rows(texts, (50, 200, 260)))
    assert [row[0] for row in grid(table)] == [
        "Statement",
        "Section one",
        "Treatment is the most effective way",
        "Short",
        "Treatment far outweighs the risk",
    ]


def test_text_beside_two_rows_spans_them() -> None:
    lines = rows([["380", "No"], ["412", "No"], ["1401", "Yes"], ["1410", "Yes"]], (50, 120), step=20)
    notes = (
        (100, "Had been captive for a"),
        (111, "long time"),
        (142, "Captured in the field"),
        (153, "with no pathology"),
    )
    lines += [line(200, y, text) for y, text in notes]
    table = built(lines)
    spans = {cell.text: (cell.row, cell.rowspan) for cell in table.cells if cell.col == 2}
    assert spans == {"Had been captive for a long time": (0, 2), "Captured in the field with no pathology": (2, 2)}


def test_currency_signs_and_leaders_join_or_go() -> None:
    lines = rows([["", "2024", "2025"]] + [[f"Item {i} . . . . . .", "", ""] for i in range(1, 5)], (50, 200, 300))
    for i in range(1, 5):
        lines += [line(190, 100 + 14 * i, "$"), line(215, 100 + 14 * i, f"{i}23")]
        lines += [line(290, 100 + 14 * i, "$"), line(315, 100 + 14 * i, f"{i}45")]
    table = built(lines)
    assert grid(table)[1] == ["Item 1", "$ 123", "$ 145"]


def test_slanted_heads_stand_in_their_columns() -> None:
    body = rows([[f"Task {i}", f"0.{i}1", f"0.{i}2", f"0.{i}3"] for i in range(1, 6)], (50, 150, 190, 230), top=160)
    heads = ((150, "Procedure"), (190, "Completion"), (230, "Knowledge"))
    turned = [
        Line(text, Box(x, 120, x + 34, 154), (Word(text, Box(x, 120, x + 34, 154)),), 10, angle=270)
        for x, text in heads
    ]
    rules = [flat(115, 45, 270), flat(157, 45, 270), flat(235, 45, 270)]
    table = built([*turned, line(50, 144, "Task"), *body], rules)
    assert grid(table)[0] == ["Task", "Procedure", "Completion", "Knowledge"]


def test_lines_of_recognition_that_run_over_cells_are_cut() -> None:
    texts = [["Name", "Min", "Max"], ["Alpha", "1.5", "2.5"], ["Beta", "3.5", "4.5"], ["Gamma", "5.5", "6.5"]]
    whole = []
    for i, row in enumerate(texts):
        words = [item.words[0] for item in rows([row], (50, 120, 180), top=100 + 14 * i)]
        whole.append(Line(" ".join(row), Box(50, 100 + 14 * i, words[-1].box.r, 110 + 14 * i), tuple(words), 10))
    assert grid(built(whole)) == texts


def test_no_grid_no_table() -> None:
    assert build_table(Box(0, 0, 100, 100), [], (), ()) is None
    assert build_table(Box(0, 0, 600, 800), [line(50, 100, PROSE), line(50, 112, PROSE)], (), ()) is None


@pytest.mark.parametrize(
    "text", ["12", "-3.5", "(1,234)", "45 %", "$ 1.2", "—", "n/a", "1.2–3.4", "0.3 ± 0.1", "5e-3", "***"]
)
def test_numbers(text: str) -> None:
    assert is_number(text)


@pytest.mark.parametrize("text", ["", "two", "Q1 total", "3 apples", "A1", "see 4"])
def test_other_texts(text: str) -> None:
    assert not is_number(text)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 500), st.floats(0, 700), st.text("ab1,.$% ", min_size=1, max_size=12), st.sampled_from([0, 90])
        ),
        max_size=30,
    ),
    st.lists(st.tuples(st.floats(0, 500), st.floats(0, 700), st.booleans()), max_size=12),
)
def test_any_page_gives_tables_whose_cells_do_not_overlap(
    texts: list[tuple[float, float, str, int]], rules: list[tuple[float, float, bool]]
) -> None:
    lines = [line(x, y, text.strip() or "x", angle=angle) for x, y, text, angle in texts]
    drawn = [flat(y, x, x + 200) if level else upright(x, y, y + 100) for x, y, level in rules]
    find_tables(PAGE, lines, drawn, ())
    table = build_table(PAGE.box, lines, drawn, ())
    if table is None:
        return
    places = [
        (r, c)
        for cell in table.cells
        for r in range(cell.row, cell.row + cell.rowspan)
        for c in range(cell.col, cell.col + cell.colspan)
    ]
    assert len(places) == len(set(places))
    assert all(0 <= r < table.rows and 0 <= c < table.cols for r, c in places)
    said = "".join(sorted("".join(cell.text for cell in table.cells).replace(" ", "")))
    assert len(said) <= len("".join(item.text for item in lines).replace(" ", ""))
