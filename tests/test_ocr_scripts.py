"""Text in scripts that the recogniser does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from docai.ocr.ppocr import Text
from docai.ocr.scripts import LANGUAGES, Look, look_of, reason, script_of, uncovered
from tests.type_setting import page_of

PLAIN = Look(length=10, beam=0.6, beam_at=0.5, stroke=0.5, letter=0.6, widest=0.9, uneven=0.15, dots=0.1, parts=20)


@pytest.fixture(scope="module")
def line() -> np.ndarray:
    return np.ascontiguousarray(page_of(["Nobody can read what stands here"])[70:130])


def read(text: str, score: float = 0.99) -> Text:
    return Text(text, (score,) * len(text), tuple((i + 0.5) / len(text) for i in range(len(text))))


def test_what_was_read_is_covered(line: np.ndarray) -> None:
    assert uncovered([(line, read("Nobody can read what stands here"))] * 3) == ([False] * 3, "")


def test_ink_without_characters_is_another_script(line: np.ndarray) -> None:
    which, name = uncovered([(line, read("    ")), (line, Text())])
    assert which == [True, True]
    assert name


def test_guesses_beside_unread_lines_are_not_printed(line: np.ndarray) -> None:
    lines = [(line, Text()), (line, read("ana in d ni tyy 7 dyn", 0.5)), (line, read("Nobody can read what this is"))]
    assert uncovered(lines)[0] == [True, True, False]


def test_poor_handwriting_stays(line: np.ndarray) -> None:
    assert uncovered([(line, read("dernt gni de chit eb cobireeps", 0.5))] * 3) == ([False] * 3, "")


@pytest.mark.parametrize("image", [np.full((40, 300, 3), 255, np.uint8), np.zeros((3, 3, 3), np.uint8)])
def test_no_ink_no_script(image: np.ndarray) -> None:
    assert uncovered([(image, Text())]) == ([False], "")
    assert uncovered([]) == ([], "")


@pytest.mark.parametrize(
    ("look", "name"),
    [
        ({"beam": 0.95, "stroke": 2.4, "beam_at": 0.27}, "Devanagari or Bengali"),
        ({"stroke": 1.4, "beam_at": 0.64, "widest": 1.5, "dots": 0.9}, "Arabic"),
        ({"stroke": 0.88, "beam_at": 0.13, "uneven": 0.23, "widest": 0.88}, "Korean"),
        ({"letter": 0.37, "beam": 0.8, "beam_at": 0.25, "dots": 0.0, "uneven": 0.12}, "Hebrew"),
        ({"letter": 0.52, "uneven": 0.08, "dots": 0.03}, "Cyrillic"),
        ({"letter": 0.36, "uneven": 0.04, "dots": 0.35}, "Thai"),
        ({}, ""),
    ],
)
def test_names_by_look(look: dict[str, float], name: str) -> None:
    assert script_of([replace(PLAIN, **look)] * 3) == name


def test_the_look_of_letters(line: np.ndarray) -> None:
    look = look_of((line < 128).all(axis=2))
    assert look is not None
    assert 5 < look.length < 25
    assert look.parts > 15


@pytest.mark.parametrize("name", [*LANGUAGES, "unknown"])
def test_the_reason_says_what_to_do(name: str) -> None:
    assert f"script not covered ({name})" in reason(name, 2, 3)
    assert "--model tesseract --lang" in reason(name, 2, 3)
