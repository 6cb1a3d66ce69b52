"""Lines of a column to blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docai.layout.blocks import CAPTION, blocks_of, is_separator, starts_item
from docai.layout.body import Body, body_of, usual
from docai.types import Line
from tests.layout_pages import line, paragraph

BODY = Body(10.0, leading=1.2)


def sizes(lines: list[Line], body: Body = BODY) -> list[int]:
    """How many lines each block has."""
    return [len(block.lines) for block in blocks_of(lines, body)]


def test_paragraphs_part_at_indents() -> None:
    text = [*paragraph(50, 100, 290, 5, indent=12), *paragraph(50, 160, 290, 4, indent=12)]
    assert sizes(text) == [5, 4]


def test_paragraphs_part_at_an_indent_behind_a_full_line() -> None:
    text = [*paragraph(50, 100, 290, 4)[:3], *paragraph(50, 136, 290, 4, indent=12)]
    assert sizes(text) == [3, 4]


def test_paragraphs_part_at_short_lines_that_end_a_sentence() -> None:
    assert sizes([*paragraph(50, 100, 290, 4), *paragraph(50, 148, 290, 4)]) == [4, 4]


def test_paragraphs_part_at_white_space() -> None:
    text = [*paragraph(50, 100, 290, 6)[:5], *paragraph(50, 168, 290, 5)]
    assert sizes(text) == [5, 5]


def test_wide_leading_of_a_whole_page_parts_nothing() -> None:
    assert sizes(paragraph(50, 100, 290, 8, pitch=24), Body(10.0, leading=2.4)) == [8]


def test_a_heading_stands_alone() -> None:
    text = [line("A heading", 50, 100, 14), *paragraph(50, 120, 290, 4)]
    assert sizes(text) == [1, 4]


def test_bold_words_within_a_paragraph_part_nothing() -> None:
    text = paragraph(50, 100, 290, 5)
    text[2] = line(text[2].text, 50, 124, 10, 290, bold=True)
    assert sizes(text) == [5]


def test_a_bold_line_above_text_is_a_block() -> None:
    assert sizes([line("Run and hide", 50, 100, bold=True), *paragraph(50, 112, 290, 4)]) == [1, 4]


def test_list_items_part() -> None:
    text = [
        line("• first of the items", 50, 100),
        line("• second of the items", 50, 112),
        line("that goes on", 58, 124),
    ]
    assert sizes(text) == [1, 2]


def test_hanging_references_part() -> None:
    long = "Miller A, Smith B. A study of things that are"
    text = [
        line(long, 50, 100, right=290), line("found in books.", 62, 112),
        line(long, 50, 124, right=290), line("seen in nature. Oxford. And what", 62, 136, right=290),
        line("else.", 62, 148),
    ]  # fmt: skip
    assert sizes(text) == [2, 3]


def test_marks_that_stand_apart_begin_items() -> None:
    text = [line("[1]", 50, 100), line("A book. Press.", 70, 100, right=290), line("Oxford 1999.", 70, 112)]
    assert sizes(
        [*text, *(replace(item, box=replace(item.box, t=item.box.t + 24, b=item.box.b + 24)) for item in text)]
    ) == [3, 3]


def test_code_keeps_together() -> None:
    code = [
        line("def f(x):", 50, 100, mono=True),
        line("return x", 70, 112, mono=True),
        line("f(1)", 50, 136, mono=True),
    ]
    assert sizes(code[:2]) == [2]


def test_lines_beside_each_other_make_one_row() -> None:
    assert sizes(
        [line("Key:", 50, 100), line("value", 150, 100), line("Other:", 50, 112), line("thing", 150, 112)]
    ) == [4]


def test_nothing_makes_no_block() -> None:
    assert blocks_of([], BODY) == []


@pytest.mark.parametrize(
    ("text", "is_item"),
    [
        ("• bullet", True), ("- dash", True), ("– dash", True), ("1. first", True), ("(a) letter", True),
        ("[12] reference", True), ("iv) roman", True), ("① circled", True), ("12 apples", False), ("2.5 kg", False),
        ("-----", False), ("- - - - x", False), ("e.g. this", False), ("*", False),
    ],
)  # fmt: skip
def test_what_starts_a_list_item(text: str, is_item: bool) -> None:
    assert starts_item(text) is is_item


@pytest.mark.parametrize(
    ("text", "is_caption"),
    [
        ("Figure 1. A cat", True), ("Fig. 3: Flow", True), ("TABLE II", True), ("Table 4", True), ("Abb. 2 Haus", True),
        ("図3 猫", True), ("表 6-3-2", True), ("[표 1] 비교", True), ("Tables are set", False), ("Figures show", False),
    ],
)  # fmt: skip
def test_what_starts_a_caption(text: str, is_caption: bool) -> None:
    assert bool(CAPTION.match(text)) is is_caption


@pytest.mark.parametrize(
    ("text", "drawn"), [("-----", True), ("=====", True), ("- - - - x", True), ("--", False), ("a-b-c", False)]
)
def test_what_is_drawn_with_characters(text: str, drawn: bool) -> None:
    assert is_separator(text) is drawn


def test_body_is_what_most_characters_have() -> None:
    text = [line("A heading", 50, 80, 18, bold=True, font="Head"), *paragraph(50, 120, 290, 6)]
    body = body_of(text)
    assert (body.size, body.bold, body.recognised, body.mono) == (10, False, False, False)
    assert body.leading == pytest.approx(1.2)
    assert "Body" in body.fonts
    assert "Head" not in body.fonts


def test_a_page_without_text_has_a_body_size() -> None:
    assert body_of([]).size > 0


def test_usual_is_the_weighted_median() -> None:
    assert usual([(1, 1), (2, 5), (9, 2)]) == 2
    assert usual([]) == 0


def test_a_note_in_small_type_far_beside_a_text_is_no_part_of_it() -> None:
    note = [line("Ada Byron,", 10, 100, 7), line("member of the", 10, 109, 7), line("Society of Ink", 10, 118, 7)]
    beside = line("* More in a nutshell", 150, 114, 12)
    assert sizes([*note, beside]) == [3, 1]
    assert sizes([*note, line("(7)", 150, 114, 12)]) == [4]  # as parts of formulas are
    assert sizes([*note, line("* More in a nutshell", 150, 117, 7)]) == [4]
    assert sizes([*note, beside], replace(BODY, recognised=True)) == [4]  # heights tell less there
