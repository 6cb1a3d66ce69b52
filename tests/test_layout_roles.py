"""Labels of blocks: headings, lists, captions, footnotes, code; formulas among lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docai.layout.blocks import LineBlock, blocks_of
from docai.layout.body import Body
from docai.layout.formulas import split_formulas
from docai.layout.headings import is_heading
from docai.layout.roles import label_column
from docai.types import Box, Label, Line, Rule, Word
from tests.layout_pages import line, page, paragraph

BODY = Body(10.0, fonts=frozenset({"Body"}), leading=1.2)
SEEN = replace(BODY, recognised=True, fonts=frozenset({""}))


@pytest.mark.parametrize(
    ("item", "body", "apart", "expected"),
    [
        (line("Introduction", 50, 100, 14), BODY, True, True),
        (line("Introduction", 50, 100, bold=True), BODY, True, True),
        (line("INTRODUCTION", 50, 100), BODY, True, True),
        (line("Introduction", 50, 100), BODY, True, False),
        (line("3.1 Soxhlet extraction", 50, 100), BODY, True, True),
        (line("3.1 Soxhlet extraction", 50, 100), BODY, False, False),
        (line("3.1 kg of it were found.", 50, 100), BODY, True, True),  # no way to tell
        (line("Introduction", 50, 100, 11, font="Other"), BODY, True, True),
        (line("Introduction", 50, 100, 11), SEEN, True, False),  # sizes vary where they are seen
        (line("Introduction", 50, 100, 14), SEEN, True, True),
        (line("1. Introduction.", 50, 100, bold=True), BODY, True, True),
        (line("It was so bold.", 50, 100, bold=True), BODY, True, False),
        (line("and so on", 50, 100, bold=True), BODY, True, False),
        (line("Figure 3. A heading?", 50, 100, bold=True), BODY, True, False),
        (line("1,234.50 12", 50, 100, bold=True), BODY, True, False),
        (line("x" * 200, 50, 100, bold=True), BODY, True, False),
        (line("DOI", 50, 100), BODY, True, False),
        (line("Small print", 50, 100, 7, bold=True), BODY, True, False),
    ],
)
def test_headings(item: Line, body: Body, apart: bool, expected: bool) -> None:
    assert is_heading(LineBlock((item,)), body, apart=apart) is expected


def test_everything_bold_makes_no_headings() -> None:
    assert not is_heading(LineBlock((line("Introduction", 50, 100, bold=True),)), replace(BODY, bold=True), apart=True)


def test_a_heading_in_capitals_of_a_type_of_its_own_may_have_two_lines() -> None:
    def found(first: str, second: str, font: str) -> bool:
        block = LineBlock((line(first, 50, 100, font=font), line(second, 50, 112, font=font)))
        return is_heading(block, BODY, apart=True)

    assert found("THE CONTEXT OF ALL", "RESPONSIBILITIES", "Other")
    assert not found("THE CONTEXT OF ALL", "RESPONSIBILITIES", "Body")
    assert not found("The context of all", "responsibilities", "Other")


def test_a_row_with_a_wide_gap_is_no_heading() -> None:
    row = (line("Total revenue:", 50, 100, bold=True), line("$12,500", 300, 100, bold=True))
    assert not is_heading(LineBlock(row), BODY, apart=True)


def labels(lines: list[Line], rules: list[Rule] | None = None, body: Body = BODY) -> list[Label]:
    return label_column(blocks_of(lines, body), body, page(), rules or [])


def test_a_column_of_all_kinds() -> None:
    text = [
        line("2 Methods", 50, 100, 14), *paragraph(50, 125, 290, 5), line("• one thing", 50, 200),
        line("• another", 50, 212),
        line("Figure 2. What was seen.", 50, 240, 9), line("while True:", 50, 270, mono=True),
        line("pass", 70, 282, mono=True),
    ]  # fmt: skip
    heading, para, item, caption, code = Label.HEADING, Label.TEXT, Label.LIST_ITEM, Label.CAPTION, Label.CODE
    assert labels(text) == [heading, para, item, item, caption, code]


def test_footnotes_are_small_and_last() -> None:
    notes = [line("1 See the other book.", 50, 700, 8), line("2 Or this one.", 50, 720, 8)]
    assert labels([*paragraph(50, 600, 290, 6), *notes]) == [Label.TEXT, Label.FOOTNOTE, Label.FOOTNOTE]
    assert labels([*paragraph(50, 100, 290, 6), *[line("1 See the other book.", 50, 200, 8)]]) == [
        Label.TEXT,
        Label.TEXT,
    ]


def test_a_footnote_may_go_on_below_a_rule() -> None:
    note = line("of which no more is known", 50, 700, 8)
    rule = Rule(Box(50, 692, 150, 692.5), 0.5)
    assert labels([*paragraph(50, 600, 290, 6), note], [rule]) == [Label.TEXT, Label.FOOTNOTE]
    assert labels([*paragraph(50, 600, 290, 6), note]) == [Label.TEXT, Label.TEXT]


def test_a_raised_number_marks_a_footnote() -> None:
    note = line("ab and so on", 50, 700, 8)
    note = replace(note, words=(Word("ab", note.words[0].box, frozenset({"superscript"})), *note.words[1:]))
    assert labels([*paragraph(50, 600, 290, 6), note])[-1] is Label.FOOTNOTE


def test_a_sentence_that_looks_numbered_is_text() -> None:
    assert labels([line("2003). In that year all went well", 50, 100)]) == [Label.TEXT]


def test_page_numbers_stand_at_the_edge() -> None:
    assert labels([line("12", 290, 780)]) == [Label.PAGE_NUMBER]
    assert labels([line("12", 290, 400)]) == [Label.TEXT]


def runs(lines: list[Line]) -> list[tuple[bool, int]]:
    return [(formula, len(part)) for formula, part in split_formulas(lines)]


def test_display_formulas_come_apart_with_their_limits_and_number() -> None:
    text = [
        *paragraph(50, 100, 290, 3), line("n", 150, 141, 7), line("∑ xi = a² + β", 140, 150, font="XYZ+CMMI10"),
        line("(3.1)", 270, 150),
        *paragraph(50, 180, 290, 3),
    ]  # fmt: skip
    assert runs(text) == [(False, 3), (True, 3), (False, 3)]


@pytest.mark.parametrize(
    "text",
    ["Let x = 3 be the number", "x = y;", "=====", "价格 = 3 + β", "phone: 123-456", "10%", "if (a <= b) {"],
)
def test_what_is_no_formula(text: str) -> None:
    assert runs([line(text, 50, 100)]) == [(False, 1)]


def test_large_lines_that_only_count_are_a_list() -> None:
    def found(*texts: str) -> list[Label]:
        blocks = [LineBlock((line(text, 50, 100.0 + 40 * n, 20),)) for n, text in enumerate(texts)]
        return label_column(blocks, BODY, page(), [])

    topics = ["1. Advantages", "2. Future of it", "3. How to get it"]
    assert found("Topics", *topics) == [Label.HEADING] + [Label.LIST_ITEM] * 3
    assert found(*topics, "And more") == [Label.LIST_ITEM] * 3 + [Label.HEADING]
    assert found(*topics[:2]) == [Label.HEADING] * 2
    assert found("1. Advantages", "2. Future of it", "4. How to get it") == [Label.HEADING] * 3
