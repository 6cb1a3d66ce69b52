"""JSON, written and read back."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
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


# --- the published schema


def schema() -> dict[str, Any]:
    said: dict[str, Any] = orjson.loads(resources.files("docai.export").joinpath("document.schema.json").read_bytes())
    return said


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def check(value: Any, rule: dict[str, Any], root: dict[str, Any], at: str = "$") -> None:
    """The part of JSON Schema that ours uses."""
    if "$ref" in rule:
        check(value, root["$defs"][rule["$ref"].rpartition("/")[2]], root, at)
        return
    kinds = [rule["type"]] if isinstance(rule.get("type"), str) else rule.get("type", [])
    assert not kinds or any(isinstance(value, TYPES[kind]) for kind in kinds), f"{at}: {value!r} is no {kinds}"
    assert value in rule.get("enum", [value]), f"{at}: {value!r}"
    assert value == rule.get("const", value), f"{at}: {value!r}"
    if isinstance(value, dict):
        check_object(value, rule, root, at)
    if isinstance(value, list):
        assert rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)), at
        for n, item in enumerate(value):
            check(item, rule["items"], root, f"{at}[{n}]")


def check_object(value: dict[str, Any], rule: dict[str, Any], root: dict[str, Any], at: str) -> None:
    assert set(rule.get("required", ())) <= set(value), f"{at}: lacks {set(rule['required']) - set(value)}"
    for key, item in value.items():
        inner = rule.get("properties", {}).get(key, rule.get("additionalProperties", False))
        assert inner is not False, f"{at}: unknown {key}"
        check(item, inner, root, f"{at}.{key}")


def test_the_output_keeps_to_its_schema() -> None:
    check(orjson.loads(export(rich(), "json")), schema(), schema())


@given(blocks)
@settings(max_examples=50)
def test_any_block_keeps_to_the_schema(block: Block) -> None:
    check(block_json(block), schema()["$defs"]["block"], schema())


def test_the_schema_knows_every_label() -> None:
    assert schema()["$defs"]["label"]["enum"] == [label.value for label in Label]
    assert schema()["$id"] == SCHEMA
