"""Which of overlapping regions stay."""

from __future__ import annotations

from docai.layout.suppress import PADDLE, Suppression, flowing, shared
from docai.types import Box, Label, Region

PAGE = Box(0, 0, 100, 140)


def _region(
    left: float,
    top: float,
    right: float,
    bottom: float,
    score: float = 0.9,
    name: str = "text",
    label: Label = Label.TEXT,
) -> Region:
    return Region(Box(left, top, right, bottom), label, score, name=name)


def test_nothing_is_left_out_unasked() -> None:
    regions = [_region(0, 0, 10, 10)] * 3
    assert Suppression()(regions, PAGE) == regions


def test_of_two_of_a_name_the_likelier_stays() -> None:
    low, high = _region(10, 10, 50, 50, 0.5), _region(12, 10, 50, 50, 0.8)
    other = _region(10, 10, 50, 50, 0.4, "table", Label.TABLE)
    assert Suppression(same=0.6)([low, high, other], PAGE) == [high, other]
    assert Suppression(same=0.6, other=0.9)([low, high, other], PAGE) == [high]


def test_order_is_kept() -> None:
    regions = [_region(0, 60, 40, 80, 0.5), _region(0, 0, 40, 20, 0.9), _region(0, 30, 40, 50, 0.7)]
    assert PADDLE(regions, PAGE) == regions


def test_pixels_count_whole() -> None:
    """PaddleX measures boxes of whole pixels, both edges included."""
    a, b = Box(0, 0, 9, 9), Box(5, 0, 14, 9)
    assert shared(a, b, 1.0) == 50 / 150
    assert shared(a, b) == 36 / 126


def test_a_figure_that_is_the_page_goes() -> None:
    page = _region(0, 0, 100, 139, name="image", label=Label.FIGURE)
    text = _region(10, 10, 90, 40)
    assert PADDLE([page, text], PAGE) == [text]
    assert PADDLE([page], PAGE) == [page]


def test_a_chart_stands_for_what_lies_in_it() -> None:
    chart = _region(10, 10, 90, 90, name="chart", label=Label.FIGURE)
    label, formula = _region(20, 20, 40, 30), _region(50, 50, 60, 60, name="inline_formula", label=Label.FORMULA)
    beside = _region(80, 80, 120, 120)
    assert PADDLE([chart, label, formula, beside], PAGE) == [chart, formula, beside]


def test_of_equal_holders_one_stays() -> None:
    first, second = (_region(10, 10, 90, 30, score, "doc_title", Label.TITLE) for score in (0.9, 0.7))
    assert Suppression(holders=PADDLE.holders)([first, second], PAGE) == [first]


def test_what_is_nested_goes_but_for_figures() -> None:
    outer, inner = _region(10, 10, 90, 90), _region(20, 20, 40, 30)
    picture = _region(50, 50, 60, 60, name="image", label=Label.FIGURE)
    assert Suppression(nested=0.8)([outer, inner, picture], PAGE) == [outer, picture]


def test_formulas_within_text_are_not_cut_out_of_it() -> None:
    text = _region(10, 10, 90, 40)
    inline = _region(20, 20, 30, 26, name="inline_formula", label=Label.FORMULA)
    display = _region(10, 50, 90, 60, name="display_formula", label=Label.FORMULA)
    assert flowing([text, inline, display]) == [text, display]
