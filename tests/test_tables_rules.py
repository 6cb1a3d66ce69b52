"""Ruling lines in images."""

from __future__ import annotations

import numpy as np
import pytest

from docai.layout.rules import pixel_rules
from docai.types import Rule


def _paper(height: int = 300, width: int = 400) -> np.ndarray:
    return np.full((height, width, 3), 255, np.uint8)


def _spans(rules: list[Rule]) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    flat = [(round(r.box.cy), round(r.box.l), round(r.box.r)) for r in rules if r.horizontal]
    upright = [(round(r.box.cx), round(r.box.t), round(r.box.b)) for r in rules if not r.horizontal]
    return sorted(flat), sorted(upright)


def test_a_grid_is_found_whole_although_its_lines_cross() -> None:
    pixels = _paper()
    for y in (20, 60, 100):
        pixels[y : y + 2, 30:331] = 0
    for x in (30, 130, 230, 330):
        pixels[20:102, x : x + 1] = 0
    flat, upright = _spans(pixel_rules(pixels))
    assert [y for y, _, _ in flat] == [21, 61, 101]
    assert all(abs(left - 30) < 3 and abs(right - 331) < 3 for _, left, right in flat)
    assert len(upright) == 4
    assert all(top < 24 and bottom > 98 for _, top, bottom in upright)


@pytest.mark.parametrize("colour", [(0, 0, 0), (150, 190, 255), (200, 200, 200)])
def test_thin_coloured_lines_count(colour: tuple[int, int, int]) -> None:
    pixels = _paper()
    pixels[50, 40:360] = colour
    flat, upright = _spans(pixel_rules(pixels))
    assert flat == [(50, 40, 360)] or flat == [(51, 40, 360)]
    assert not upright


def test_a_leaning_line_is_one_line() -> None:
    pixels = _paper(400, 1200)
    for x in range(100, 1100):
        y = 200 + round(0.006 * x)
        pixels[y : y + 3, x] = 0
    rules = pixel_rules(pixels)
    assert len(rules) == 1
    assert rules[0].box.width > 980


def test_filled_areas_pictures_and_letters_are_no_rules() -> None:
    pixels = _paper()
    pixels[20:80, 20:200] = (220, 235, 250)  # a coloured cell
    pixels[100:160, 20:200] = np.random.default_rng(5).integers(0, 255, (60, 180, 3))  # a photo
    for x in range(220, 380, 9):  # letters: stems with bars on a common line
        pixels[200:212, x : x + 2] = 0
        pixels[210:212, x : x + 6] = 0
    assert pixel_rules(pixels) == []


def test_a_tiny_image_has_none() -> None:
    assert pixel_rules(_paper(6, 6)) == []
