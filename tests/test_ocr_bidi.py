"""Right-to-left lines: from what is seen to what is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.ocr.bidi import faces_wrong, logical_order, mirror


def read(shown: str, rtl: bool = True) -> str:
    return "".join(shown[i] for i, _ in logical_order(list(shown), rtl))


@pytest.mark.parametrize(
    ("logical", "shown", "rtl"),
    [
        ("שלום עולם", "םלוע םולש", True),
        ("מחיר 12.50 שח", "חש 12.50 ריחמ", True),
        ("לפי Adobe Systems בלבד", "דבלב Adobe Systems יפל", True),
        ("בשנת 1948.", ".1948 תנשב", True),
        ("1. ראשון", "ןושאר .1", True),
        ("the word שלום means peace", "the word םולש means peace", False),
        ("צבע 50% אדום", "םודא 50% עבצ", True),
        ("نص 25 سطرا", "ارطس 25 صن", True),
        ("Python 3 و R", "R و Python 3", True),
        ("plain", "plain", False),
        ("", "", True),
    ],
)
def test_the_order_of_reading(logical: str, shown: str, rtl: bool) -> None:
    assert read(shown, rtl) == logical


@given(st.lists(st.sampled_from(["א", "ב", "a", "1", " ", ".", "(", ")"]), max_size=30), st.booleans())
def test_every_character_is_read_once(shown: list[str], rtl: bool) -> None:
    assert sorted(i for i, _ in logical_order(shown, rtl)) == list(range(len(shown)))


@given(st.text(alphabet="אבגד ", max_size=20))
def test_pure_right_to_left_text_is_reversed(text: str) -> None:
    assert read(text[::-1]) == text


def test_brackets_that_face_the_wrong_way_are_noticed() -> None:
    assert faces_wrong(")אבג( ]ד[")
    assert not faces_wrong("(אבג)")
    assert mirror(")אבג(") == "(אבג)"
