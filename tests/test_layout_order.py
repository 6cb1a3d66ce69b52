"""Reading order of synthetic pages."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.layout.order import Flow, columns, reading_order
from docai.types import Box

Named = dict[str, Box]


def lines(name: str, left: float, right: float, top: float, count: int, pitch: float = 12) -> Named:
    """A column of `count` lines of 10 units' height: name0, name1, ..."""
    return {f"{name}{n}": Box(left, top + n * pitch, right, top + n * pitch + 10) for n in range(count)}


def mirrored(page: Named, width: float = 500) -> Named:
    return {name: Box(width - box.r, box.t, width - box.l, box.b) for name, box in page.items()}


def order_of(page: Named, flow: Flow = Flow.LEFT_TO_RIGHT, heads: str = "", separators: list[Box] | None = None) -> str:
    """The names in reading order; runs of one name, as a0 a1 a2, are shortened to a."""
    names = list(page)
    random.Random(7).shuffle(names)
    first = [n for n, name in enumerate(names) if name in heads.split()]
    found = [names[i] for i in reading_order([page[n] for n in names], flow, heads=first, separators=separators or [])]
    return " ".join(dict.fromkeys(name.rstrip("0123456789") for name in found))


TITLE = {"title": Box(100, 20, 400, 40)}
LEFT, RIGHT = lines("left", 50, 240, 60, 12), lines("right", 260, 450, 60, 12)
OFFSET_RIGHT = lines("right", 260, 450, 66, 11)

PAGES: list[tuple[str, Named, str]] = [
    ("one column", {**TITLE, **lines("text", 50, 450, 60, 9)}, "title text"),
    ("two columns under a title", {**TITLE, **LEFT, **RIGHT}, "title left right"),
    ("columns whose lines do not stand level", {**TITLE, **LEFT, **OFFSET_RIGHT}, "title left right"),
    (
        "three columns",
        {**lines("a", 40, 170, 60, 9), **lines("b", 185, 315, 60, 9), **lines("c", 330, 460, 60, 9)},
        "a b c",
    ),
    (
        "a narrow gutter, where columns are tall",
        {**lines("a", 50, 247, 60, 20), **lines("b", 252, 450, 60, 20)},
        "a b",
    ),
    (
        "a figure over both columns parts two sections",
        {**LEFT, **RIGHT, "figure": Box(50, 220, 450, 320), **lines("c", 50, 240, 340, 5), **lines("d", 260, 450, 340, 5)},  # noqa: E501
        "left right figure c d",
    ),
    (
        "a spanning line set close, with columns that do not stand level",
        {**LEFT, **OFFSET_RIGHT, "across": Box(60, 203, 440, 213), **lines("c", 50, 240, 215, 9), **lines("d", 260, 450, 221, 9)},  # noqa: E501
        "left right across c d",
    ),
    (
        "columns of other widths below",
        {**LEFT, **RIGHT, "head": Box(50, 225, 450, 240), **lines("c", 50, 150, 250, 6), **lines("d", 170, 450, 250, 6)},  # noqa: E501
        "left right head c d",
    ),
    (
        "the left column is longer, and a head spans below",
        {**LEFT, **lines("right", 260, 450, 60, 6), "note": Box(50, 240, 130, 250), "head": Box(50, 255, 450, 270)},
        "left right note head",
    ),
    (
        "an inset that both columns run around",
        {
            **LEFT, **RIGHT, "inset": Box(190, 206, 310, 300), **lines("left1", 50, 180, 206, 8),
            **lines("right1", 320, 450, 206, 8), **lines("left2", 50, 240, 302, 8), **lines("right2", 260, 450, 302, 8),
        },
        "left right inset",
    ),
    (
        "keys and values are read row by row",
        {f"row{2 * n + m}": Box(50 + 150 * m, 60 + 20 * n, 90 + 150 * m + 7 * n, 70 + 20 * n) for n in range(5) for m in (0, 1)},  # noqa: E501
        "row",
    ),
    (
        "bullets belong to the lines beside them",
        {**{f"a{2 * n}": Box(50, 60 + 12 * n, 56, 70 + 12 * n) for n in range(4)}, **{f"a{2 * n + 1}": Box(80, 60 + 12 * n, 400, 70 + 12 * n) for n in range(4)}},  # noqa: E501
        "a",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), [p[1:] for p in PAGES], ids=[p[0] for p in PAGES])
def test_pages(page: Named, expected: str) -> None:
    assert order_of(page) == expected


@pytest.mark.parametrize(("page", "expected"), [p[1:] for p in PAGES[:8]], ids=[p[0] for p in PAGES[:8]])
def test_right_to_left_pages_are_read_the_other_way_round(page: Named, expected: str) -> None:
    assert order_of(mirrored(page), Flow.RIGHT_TO_LEFT) == expected


def test_rows_keep_their_cells_in_order() -> None:
    page = dict(PAGES[10][1])
    names = list(page)
    assert reading_order([page[name] for name in names]) == list(range(len(names)))


def test_vertical_lines_are_read_from_right_to_left() -> None:
    boxes = [Box(400 - 20 * n, 50, 415 - 20 * n, 300) for n in range(6)]
    assert reading_order(boxes, Flow.VERTICAL) == list(range(6))


def test_two_tiers_of_vertical_text_are_read_one_after_the_other() -> None:
    tiers = [Box(400 - 20 * n, 50 + 260 * tier, 415 - 20 * n, 290 + 260 * tier) for tier in (0, 1) for n in range(9)]
    assert reading_order(tiers, Flow.VERTICAL) == list(range(18))


def test_a_grid_of_sections_is_read_row_by_row() -> None:
    page: Named = {}
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        left, top = 50 + 210 * column, 60 + 140 * row
        page[f"head{row}{column}x"] = Box(left, top, left + 80, top + 12)
        page |= lines(f"text{row}{column}x", left, left + 190, top + 20, 6)
    heads = " ".join(name for name in page if name.startswith("head"))
    expected = "head00x text00x head01x text01x head10x text10x head11x text11x"
    assert order_of(page, heads=heads) == expected
    assert order_of(page) == "head00x text00x head10x text10x head01x text01x head11x text11x"


def test_a_rule_across_the_gutter_ends_the_columns() -> None:
    page = {**LEFT, **RIGHT, **lines("c", 50, 240, 215, 8), **lines("d", 260, 450, 215, 8)}
    assert order_of(page) == "left c right d"
    assert order_of(page, separators=[Box(50, 208, 450, 209)]) == "left right c d"


def test_leaves_are_columns() -> None:
    page = [*LEFT.values(), *RIGHT.values()]
    leaves = columns([Flow.LEFT_TO_RIGHT.rect(box) for box in page])
    assert [len(leaf) for leaf in leaves] == [12, 12]


def test_nothing_has_no_order() -> None:
    assert reading_order([]) == []


@pytest.mark.parametrize("flow", list(Flow))
def test_flow_coordinates_lead_back(flow: Flow) -> None:
    box = Box(10, 20, 110, 50)
    assert flow.box(flow.rect(box)) == box


BOXES = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 700), st.integers(1, 200), st.integers(1, 60)).map(
        lambda v: Box(v[0], v[1], v[0] + v[2], v[1] + v[3])
    ),
    max_size=40,
)


@given(BOXES, st.sampled_from(list(Flow)))
def test_every_box_comes_once(boxes: list[Box], flow: Flow) -> None:
    assert sorted(reading_order(boxes, flow)) == list(range(len(boxes)))


@given(BOXES)
def test_where_the_page_lies_makes_no_difference(boxes: list[Box]) -> None:
    moved = [Box(b.l + 64, b.t + 128, b.r + 64, b.b + 128) for b in boxes]
    assert reading_order(boxes) == reading_order(moved)
