"""JSON, written and read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docai.errors import InputError, UsageError
from docai.export.formats import FORMATS, export, suffix
from docai.export.json import SCHEMA, block_from, block_json, load, number
from docai.types import Block, Box, Cell, Label, Line, Region, Span, Table, Word
from tests.export_samples import Blocks, document, rich

sizes = st.floats(-1e5, 1e5).map(number)
texts = st.text(max_size=8)
boxes = st.builds(Box, sizes, sizes, sizes, sizes)
shares = st.none() | st.floats(0, 1).map(number)
words = st.builds(Word, texts, boxes, st.frozensets(st.sampled_from(["bold", "italic", "code"])))
lines = st.builds(
    Line,
    texts,
    boxes,
    st.lists(words, max_size=2).map(tuple),
    size=sizes,
    confidence=shares,
    bold=st.booleans(),
    angle=st.sampled_from([0, 90, 270]),
    vertical=st.booleans(),
)
cells = st.builds(Cell, st.just(0), st.just(0), texts, boxes, header=st.booleans())
tables = st.builds(Table, st.just(1), st.just(1), cells.map(lambda cell: (cell,)))
regions = st.builds(
    Region, boxes, st.sampled_from(Label), shares, st.none() | st.integers(0, 9), st.none() | st.just(((1.0, 2.0),) * 3)
)
blocks = st.builds(
    Block,
    texts,
    st.integers(0, 5),
    regions,
    texts,
    st.lists(lines, max_size=2).map(tuple),
    st.lists(st.builds(Span, st.just(0), st.just(2), st.none() | st.just("bold"), st.none() | texts.filter(bool))).map(
        tuple
    ),
    st.none() | tables,
    level=st.none() | st.integers(0, 6),
    marker=texts,
    confidence=shares,
    continues=st.booleans(),
)


@given(blocks)
@settings(max_examples=50)
def test_blocks_come_back_as_they_were(block: Block) -> None:
    assert block_from(orjson.loads(orjson.dumps(block_json(block)))) == block


def test_a_document_comes_back() -> None:
    said = export(rich(), "json")
    assert load(said) == rich()
    assert export(load(said), "json") == said


def test_what_a_page_says() -> None:
    said: Any = orjson.loads(export(rich(), "json"))
    assert said["schema"] == SCHEMA
    page = said["pages"][1]
    assert page["number"] == 2
    assert page["outcome"]["reasons"] == ["script not covered (Arabic)"]
    assert said["outcome"]["status"] == "degraded"
    arabic = page["blocks"][1]
    assert (arabic["page"], arabic["source"], arabic["confidence"]) == (2, "ocr:embedded", 0.9)
    assert arabic["lines"][0]["words"][0]["box"] == {"l": 50.0, "t": 90.0, "r": 80.0, "b": 100.0}


def test_what_no_file_can_hold_is_replaced() -> None:
    make = Blocks()
    block = replace(
        make("a"), text="lone \ud800 surrogate", region=Region(Box(float("nan"), 0, float("inf"), 1), Label.TEXT)
    )
    said: Any = orjson.loads(export(document([block]), "json"))
    assert said["pages"][0]["blocks"][0]["text"] == "lone ? surrogate"
    assert said["pages"][0]["blocks"][0]["box"] == {"l": 0.0, "t": 0.0, "r": 0.0, "b": 1.0}
    assert "lone ? surrogate" in export(document([block]), "markdown")  # type: ignore[operator]


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"schema": "docai.document/9"}', '{"schema": "docai.document/1"}'])
def test_other_json_is_refused(data: str) -> None:
    with pytest.raises(InputError, match=r"expected JSON|does not keep"):
        load(data)


def test_formats_by_name() -> None:
    assert suffix("markdown") == ".md"
    with pytest.raises(UsageError, match=r"one of markdown, text, json.*'docx'"):
        export(document(), "docx")
    assert all(f.suffix.startswith(".") and "/" in f.media_type for f in FORMATS.values())
