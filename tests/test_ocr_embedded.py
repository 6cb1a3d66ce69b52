"""The embedded engine on small pages that are set here: it needs nothing but its models."""

from __future__ import annotations

import numpy as np
import pytest

from docai.ocr.embedded import Embedded
from docai.ocr.engines import Recognised
from tests.type_setting import LINES, page_of


@pytest.fixture(scope="module")
def engine() -> Embedded:
    return Embedded()


def said(read: Recognised) -> list[str]:
    return [line.text for line in sorted(read.lines, key=lambda line: line.box.t)]


def test_lines_have_words_in_their_places(engine: Embedded) -> None:
    page = page_of(LINES[:2])
    read = engine.read(page)
    assert said(read) == list(LINES[:2])
    assert (read.rotation, read.skew, read.reasons) == (0, 0.0, ())
    for line in read.lines:
        assert [word.text for word in line.words] == line.text.split()
        assert line.confidence is not None
        assert line.confidence > 0.9
        for word in line.words:
            x = slice(round(word.box.l) + 1, round(word.box.r) - 1)
            assert (page[round(word.box.t) : round(word.box.b), x] < 128).any()


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turned_pages_stand_up(engine: Embedded, turns: int) -> None:
    read = engine.read(np.rot90(page_of(LINES[:2]), turns))  # counter-clockwise: to be turned clockwise
    assert read.rotation == 90 * turns
    assert said(read) == list(LINES[:2])


@pytest.mark.parametrize("lean", [-7.0, 2.0])
def test_leaning_pages_are_read_and_measured(engine: Embedded, lean: float) -> None:
    read = engine.read(page_of(LINES, lean=lean))
    assert read.skew == pytest.approx(lean, abs=0.3)
    assert said(read) == list(LINES)
    assert max(line.box.height for line in read.lines) < 60  # along the straightened page


@pytest.mark.parametrize(
    "change",
    [
        lambda page: 255 - page,
        lambda page: page // 4 + 120,
        lambda page: np.pad(page, ((900, 900), (600, 600), (0, 0)), constant_values=255),
    ],
    ids=["white on black", "pale", "alone on a large sheet"],
)
def test_what_a_page_may_look_like(engine: Embedded, change) -> None:  # type: ignore[no-untyped-def]
    assert said(engine.read(change(page_of(LINES[:1], size=24)))) == [LINES[0]]


@pytest.mark.parametrize("size", [12, 90])
def test_type_of_any_size(engine: Embedded, size: int) -> None:
    assert said(engine.read(page_of([LINES[3]], size=size))) == [LINES[3]]


def test_nothing_on_an_empty_page(engine: Embedded) -> None:
    assert engine.read(np.full((300, 200, 3), 255, np.uint8)) == Recognised(())


def test_columns_that_touch_the_same_line_come_apart(engine: Embedded) -> None:
    read = engine.read(page_of(["left column      " + " " * 6 + "right column"]))
    assert sorted(line.text for line in read.lines) == ["left column", "right column"]
