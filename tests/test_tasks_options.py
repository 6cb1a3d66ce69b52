"""Page lists and option classes."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.errors import UsageError
from docai.tasks.options import DetectOptions, DetectOutputOptions, OcrOptions, OutputOptions, parse_pages

CLASSES = [OcrOptions, DetectOptions, OutputOptions, DetectOutputOptions]


@pytest.mark.parametrize(
    ("text", "count", "pages"),
    [
        ("1", 3, [0]),
        ("1-3,7,10-,last", 12, [0, 1, 2, 6, 9, 10, 11]),
        ("last", 5, [4]),
        ("3-last", 5, [2, 3, 4]),
        ("-2", 5, [0, 1]),
        ("2,1,2", 5, [1, 0]),
        ("2-99", 3, [1, 2]),
        (" 1 - 2 , 3 ", 3, [0, 1, 2]),
    ],
)
def test_page_lists(text: str, count: int, pages: list[int]) -> None:
    assert parse_pages(text, count) == pages


@pytest.mark.parametrize("text", ["", ",", "-", "0", "x", "3-2", "1--2", "4", "4-", "1,,2", "last-1", "１x", "1-2-3"])
def test_what_is_no_page_list(text: str) -> None:
    with pytest.raises(UsageError, match="pages"):
        parse_pages(text, 3)


def test_it_is_told_what_is_wrong_with_a_page_list() -> None:
    for text, said in [("3-2", "runs backwards"), ("5-last", "lies behind the last page, 3"), ("0-2", "names no page")]:
        with pytest.raises(UsageError, match=said):
            parse_pages(text, 3)


@given(st.text(alphabet="0123456789,-last ", max_size=12), st.integers(1, 50))
def test_a_page_list_gives_pages_of_the_document_or_a_usage_error(text: str, count: int) -> None:
    try:
        pages = parse_pages(text, count)
    except UsageError:
        return
    assert pages
    assert len(set(pages)) == len(pages)
    assert all(0 <= page < count for page in pages)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_option_is_explained_and_its_default_allowed(cls: type) -> None:
    cls()
    for field in dataclasses.fields(cls):
        assert field.metadata["help"].endswith("."), field.name


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (OcrOptions, {"ocr": "maybe"}),
        (OcrOptions, {"guard": "none"}),
        (OcrOptions, {"prompt": "x" * 1025}),
        (OcrOptions, {"task": "a\x07b"}),
        (OcrOptions, {"dpi": 0}),
        (OcrOptions, {"dpi": "300"}),
        (OcrOptions, {"threads": 0}),
        (OcrOptions, {"page_seconds": math.nan}),
        (OcrOptions, {"max_pages": -1}),
        (DetectOptions, {"threshold": -0.1}),
        (OutputOptions, {"images": "some"}),
        (DetectOutputOptions, {"format": "pdf"}),
    ],
)
def test_values_that_are_not_allowed(cls: type, values: dict[str, object]) -> None:
    (name,) = values
    with pytest.raises(UsageError, match=rf"^{name}: expected .*; got"):
        cls(**values)


def test_a_password_is_shown_nowhere() -> None:
    assert "open sesame" not in repr(OcrOptions(password="open sesame"))


def test_languages_are_for_tesseract() -> None:
    assert OcrOptions(model="tesseract", lang="deu").lang == "deu"
    assert OcrOptions(model="some/model", lang="deu").without_model.lang is None
    with pytest.raises(UsageError, match="languages are for -m tesseract"):
        OcrOptions(lang="deu")
