"""Headers, footers, page numbers and line numbers of a single page; lines cut at a gutter."""

from __future__ import annotations

import pytest

from docai.layout.body import body_of
from docai.layout.furniture import edge_lines
from docai.layout.gutters import parted
from docai.layout.margins import line_numbers
from docai.types import Box, Label, Line, Rule
from tests.layout_pages import line, page, paragraph, texts

TEXT = paragraph(50, 90, 550, 52)


def found(extra: list[Line], rules: list[Rule] | None = None, text: list[Line] = TEXT) -> dict[str, Label]:
    lines = [*extra, *text]
    return {item.text: label for item, label in edge_lines(lines, page(), body_of(lines), rules or [])}


def test_page_numbers_at_either_edge() -> None:
    assert found([line("12", 300, 770)]) == {"12": Label.PAGE_NUMBER}
    assert found([line("- 7 -", 300, 40)]) == {"- 7 -": Label.PAGE_NUMBER}
    assert found([line("Page 3 of 10", 280, 770)]) == {"Page 3 of 10": Label.PAGE_NUMBER}


def test_a_header_with_its_page_number() -> None:
    header = [line("Advocacy in Action", 50, 40), line("447", 530, 40)]
    assert found(header) == {"Advocacy in Action": Label.PAGE_HEADER, "447": Label.PAGE_NUMBER}


def test_a_header_above_a_rule_but_not_an_underlined_title() -> None:
    header = line("Journal of Things", 50, 60)
    assert found([header], [Rule(Box(50, 75, 550, 75.5), 0.5)]) == {"Journal of Things": Label.PAGE_HEADER}
    wide = line("A title that is underlined over all of the words in it", 50, 60)
    assert found([wide], [Rule(Box(50, 72, wide.box.r, 72.5), 0.5)]) == {}


@pytest.mark.parametrize(
    "text", ["© 2020 The Authors", "www.example.org", "https://doi.org/10.1/x", "CONFIDENTIAL draft"]
)
def test_footers_that_say_so(text: str) -> None:
    assert found([line(text, 50, 770)]) == {text: Label.PAGE_FOOTER}


def test_small_rows_apart_are_furniture_and_text_is_not() -> None:
    assert found([line("Annual report of the society", 50, 770, 7)]) == {
        "Annual report of the society": Label.PAGE_FOOTER
    }
    assert found([line("The last line of the text stands here", 50, 715)]) == {}


def test_a_last_line_that_ends_in_a_year_is_text() -> None:
    spaced = paragraph(50, 90, 550, 25, pitch=26)
    assert found([line("and so it was again in 2009", 50, 90 + 25 * 26)], text=spaced) == {}


def test_titles_are_no_headers() -> None:
    assert found([line("A Large Title", 50, 40, 24)]) == {}


def test_a_cutting_has_no_furniture() -> None:
    lines = [line(str(n), 50, 40 * n) for n in range(1, 6)]
    assert edge_lines(lines, page(), body_of(lines), []) != []
    assert edge_lines(lines[:3], page(), body_of(lines), []) == []


def test_line_numbers_in_the_margin() -> None:
    text = [line("some words of a record of the court", 100, 90 + 24 * n) for n in range(10)]
    numbers = [line(str(n + 1), 60, 90 + 24 * n) for n in range(10)]
    assert texts(line_numbers([*text, *numbers])) == [str(n + 1) for n in range(10)]
    assert line_numbers(text) == []


def test_numbers_of_a_table_are_no_line_numbers() -> None:
    cells = [
        line(text, 60 + 80 * column, 90 + 24 * row)
        for row in range(8)
        for column, text in enumerate((f"{row * 7}", "9"))
    ]
    assert line_numbers(cells) == []


def joined(top: float, gap: float) -> Line:
    """A line over two columns, with that much white between its halves."""
    left, right = line("left words of it", 50, top, right=290), line("right words", 290 + gap, top, right=550)
    box = Box(50, top, 550, top + 10)
    return Line("left words of it right words", box, (*left.words, *right.words), 10)


COLUMNS = [line("x" * 40, left, 100 + 12 * n, right=left + 240) for left in (50, 310) for n in range(10)]


def test_lines_are_cut_at_the_gutter_of_the_page() -> None:
    assert texts(parted([*COLUMNS, joined(300, 20)]))[-2:] == ["left words of it", "right words"]


@pytest.mark.parametrize("lines", [[joined(300, 20)], [*COLUMNS, joined(300, 4)], [*COLUMNS[:10], joined(300, 20)]])
def test_other_lines_stay_whole(lines: list[Line]) -> None:
    assert len(parted(lines)) == len(lines)
