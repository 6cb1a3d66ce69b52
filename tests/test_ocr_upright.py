"""Quads of lines: their lean, their turns, their repeats; and the scale at which lines are looked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from docai.ocr.crops import laid_down
from docai.ocr.finding import find_lines, viewing
from docai.ocr.ppocr import Text, lines_in, spelled
from docai.ocr.quads import box_of, clockwise, standing, straightened, turned, without_repeats
from docai.ocr.upright import is_sideways, lean_of, mean_score, sideways_turn, upside_down
from docai.types import Box
from tests.type_setting import LINES, page_of


def quad(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def leaning(degrees: float, count: int = 6, size: tuple[int, int] = (1000, 800)) -> np.ndarray:
    """Lines below each other, all turned clockwise around the middle of the page."""
    straight = np.stack([quad(100, 100 + 80 * i, 900, 130 + 80 * i) for i in range(count)])
    return straightened(straight, -degrees, size)


@pytest.mark.parametrize("degrees", [-14.0, -3.3, -0.4, 0.4, 1.5, 12.0])
def test_the_lean_of_lines(degrees: float) -> None:
    quads = leaning(degrees)
    assert lean_of(quads) == pytest.approx(degrees, abs=0.05)
    flat = straightened(quads, lean_of(quads), (1000, 800))
    assert np.ptp(flat[0, :2, 1]) < 2


@pytest.mark.parametrize("quads", [leaning(0.1), leaning(5, count=2), np.concatenate([leaning(9), leaning(-9)])])
def test_no_lean_where_it_cannot_be_told(quads: np.ndarray) -> None:
    assert lean_of(quads) == 0.0


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_turned_quads_match_turned_pixels(rotation: int) -> None:
    image = np.zeros((60, 100), np.uint8)
    image[10:20, 30:80] = 1
    moved = np.rot90(image, -rotation // 90)
    (found,) = turned(quad(30, 10, 80, 20)[None], rotation, (100, 60))
    ys, xs = np.nonzero(moved)
    assert box_of(found) == Box(xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
    assert math.dist(found[0], found[1]) == (50 if rotation % 180 == 0 else 10)
    assert np.array_equal(clockwise(found), found)


def test_repeats_go_the_larger_stays() -> None:
    quads = np.stack([quad(0, 0, 100, 10), quad(0, 1, 60, 10), quad(0, 40, 100, 50)])
    assert [box_of(q).t for q in without_repeats(quads)] == [0, 40]


class Reader:
    """Reads images that are lighter on their left (or, as columns, upper) half well, all others badly."""

    def __call__(self, lines):  # type: ignore[no-untyped-def]
        return [Text("text", (0.95 if self.good(line) else 0.3,) * 4, (0.1, 0.3, 0.5, 0.7)) for line in lines]

    @staticmethod
    def good(line: np.ndarray) -> bool:
        half = line.shape[1] // 2
        return line.shape[1] > line.shape[0] and bool(line[:, :half].mean() > line[:, half:].mean() + 20)


def shaded(degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """A page that has to be turned clockwise by `degrees`, and its lines; see `Reader`."""
    page = np.full((200, 300, 3), 255, np.uint8)
    for top in (20, 80, 140):
        page[top : top + 20, 30:150], page[top : top + 20, 150:270] = 150, 60
    quads = np.stack([quad(30, top, 270, top + 20) for top in (20, 80, 140)])
    return np.ascontiguousarray(np.rot90(page, degrees // 90)), turned(quads, -degrees % 360, (300, 200))


@pytest.mark.parametrize("degrees", [90, 270])
def test_pages_on_their_side(degrees: int) -> None:
    page, quads = shaded(degrees)
    assert standing(quads).all()
    assert is_sideways(quads)
    assert sideways_turn(page, quads, Reader()) == degrees


@pytest.mark.parametrize(("degrees", "down"), [(0, False), (180, True)])
def test_pages_upside_down(degrees: int, down: bool) -> None:
    page, quads = shaded(degrees)
    assert not is_sideways(quads)
    assert upside_down(page, quads, Reader()) == down


def test_the_mean_score_counts_unread_lines() -> None:
    assert mean_score([Text("ab", (1.0, 1.0), (0.2, 0.6)), Text()]) == pytest.approx(2 / 3)
    assert mean_score([]) == 0.0


@pytest.mark.parametrize(("size", "expected"), [(12, 1.6), (24, 0.8), (96, 0.2)])
def test_type_of_any_size_is_looked_at_alike(size: int, expected: float) -> None:
    scale, banded = viewing(page_of(LINES * 3, size=size))
    assert scale == pytest.approx(expected, rel=0.5)
    assert not banded


def test_a_large_page_of_small_print_is_looked_at_in_bands() -> None:
    page = np.tile(page_of(LINES * 6, size=14), (14, 16, 1))
    assert viewing(page)[1]
    calls: list[tuple[int, ...]] = []

    def find(band: np.ndarray) -> np.ndarray:
        calls.append(band.shape[:2])
        return np.stack([quad(10, 20, 90, 30), quad(10, 1060, 90, 1070)])

    quads = find_lines(page, find)
    assert all(height <= 1200 for height, _ in calls)
    assert len(quads) == len(calls) + 1  # the lines in the overlaps were found twice


def test_a_column_is_laid_down_with_marks_at_the_foot() -> None:
    column = np.full((200, 50, 3), 255, np.uint8)
    column[5:45, 5:45] = 0
    column[55:65, 35:45] = 0  # a comma in its square's upper right
    column[105:145, 5:45] = 0
    column[155:195, 5:45] = 0
    row = laid_down(column) < 128
    assert row.shape[1] == pytest.approx(4 * 52, abs=60)
    mark = row[:, 52:104].any(axis=2)
    assert mark.any()
    assert np.flatnonzero(mark.any(axis=1))[0] > row.shape[0] / 2
    assert np.flatnonzero(mark.any(axis=0))[-1] < 26


def test_lines_of_a_probability_map() -> None:
    chances = np.zeros((100, 200), np.float32)
    chances[20:30, 20:180] = 0.9
    chances[60:70, 20:180] = 0.35  # too unlikely on the whole
    chances[90:92, 50:52] = 0.9  # a speck
    (found,) = lines_in(chances)
    box = box_of(found)
    assert (box.l, box.r) == pytest.approx((12.5, 187.5), abs=2)
    assert (box.t, box.b) == pytest.approx((12.5, 37.5), abs=2)


def test_characters_from_columns() -> None:
    best = np.array([0, 1, 1, 0, 1, 2, 0, 0])
    sure = np.linspace(0.1, 0.8, 8).astype(np.float32)
    text = spelled(best, sure, ["", "a", "b"], 8)
    assert text.text == "aab"
    assert text.scores == pytest.approx((0.3, 0.5, 0.6))
    assert text.places == pytest.approx((2 / 8, 4.5 / 8, 5.5 / 8))
    assert spelled(best[:1], sure[:1], ["", "a", "b"], 1) == Text()
