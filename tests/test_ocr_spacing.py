"""Words by the gaps between their letters."""

from __future__ import annotations

import numpy as np
import pytest

from docai.ocr.spacing import pieces

HEIGHT = 40


def typed(line: str, *, letter: int = 16, between: int = 4, space: int = 16) -> tuple[list[float], np.ndarray]:
    """Where the characters of a line are, 0..1, and its ink; `_` is a space that only the ink has."""
    spans, x = [], 10
    for char in line:
        width = space - between if char in " _" else letter
        spans.append((x, x + width))
        x += width + between
    ink = np.zeros((HEIGHT, x + 10), bool)
    for char, (left, right) in zip(line, spans, strict=True):
        ink[8:32, left:right] = char not in " _"
    places = [(a + b) / 2 / ink.shape[1] for (a, b), char in zip(spans, line, strict=True) if char != "_"]
    return places, ink


def words(line: str, **kwargs: int) -> list[list[str]]:
    places, ink = typed(line, **kwargs)
    return [[piece.text for piece in part] for part in pieces(line.replace("_", ""), places, ink)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("one two", [["one", "two"]]),
        ("one two_three four", [["one", "two", "three", "four"]]),
        ("1_Down the hole", [["1", "Down", "the", "hole"]]),
        ("left ____right", [["left"], ["right"]]),
        ("漢_字 仮名", [["漢字", "仮名"]]),
        ("word", [["word"]]),
        (" ", []),
    ],
)
def test_words(line: str, expected: list[list[str]]) -> None:
    assert words(line) == expected


def test_spaced_out_letters_stay_together() -> None:
    assert words("SPACED", between=14) == [["SPACED"]]


def test_words_end_where_their_ink_ends() -> None:
    places, ink = typed("ab cd")
    (first, second), *_ = pieces("ab cd", places, ink)
    columns = np.flatnonzero(ink.any(axis=0))
    assert first.left == columns[0]
    assert second.right == columns[-1] + 1
    assert ink[:, int(second.left)].any()
    assert not ink[:, int(second.left) - 1].any()
