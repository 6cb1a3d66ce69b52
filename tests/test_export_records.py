"""JSON lines, chunks for retrieval, CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.errors import InputError
from docai.export import jsonl
from docai.export.chunks import chunks
from docai.export.formats import ExportOptions, export
from docai.export.markdown import table_markdown
from docai.export.split_table import table_parts
from docai.types import Box, Cell, Document, Label, Table
from tests.export_samples import Blocks, document, rich, spanned, table


def records(doc: Document, format: str, **options: Any) -> list[Any]:
    said = export(doc, format, ExportOptions(**options))
    assert isinstance(said, str)
    return [orjson.loads(line) for line in said.splitlines()]


def test_json_lines_come_back() -> None:
    said = export(rich(), "jsonl")
    assert isinstance(said, str)
    assert jsonl.load(said) == rich()
    kinds = [(record["type"], record.get("number")) for record in records(rich(), "jsonl")]
    assert kinds == [("page", 1), ("page", 2), ("document", None)]


def test_pages_streamed_before_the_document_pass_come_back_settled() -> None:
    done = rich()
    unsettled = [
        replace(
            page,
            blocks=tuple(
                replace(
                    b,
                    level=b.level if b.label is Label.LIST_ITEM else None,
                    continues=False,
                    region=replace(b.region, label=Label.TEXT if b.furniture else b.label),
                )
                for b in page.blocks
            ),
        )
        for page in done.pages
    ]
    streamed = b"".join(map(jsonl.page_line, unsettled)) + jsonl.document_line(done)
    assert jsonl.load(streamed) == done


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"type": "page"}', jsonl.page_line(rich().pages[0])])
def test_lines_that_are_cut_off_are_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="expected JSON lines"):
        jsonl.load(data)


def test_chunks_follow_headings() -> None:
    first, *_ = records(rich(), "chunks")
    assert first["headings"] == ["A Title", "1 Introduction"]
    assert first["text"].startswith("# A Title\n\n## 1 Introduction\n\n**Bold** word")
    assert "- first\n  - inner\n- second\n\n```" in first["text"]
    assert "| Name | Sum |\n| --- | --- |\n| a\\|b | 1 |" in first["text"]
    assert first["pages"] == [1, 2]
    assert first["source"] == "dir/doc.pdf"
    assert {"page": 2, "unit": "pt", "box": {"l": 50.0, "t": 70.0, "r": 158.0, "b": 80.0}} in first["boxes"]
    assert first["blocks"][:2] == ["p1-b2", "p1-b3"]


def test_a_new_heading_starts_a_new_chunk() -> None:
    b = Blocks()
    blocks = [
        b("before"),
        b("One", Label.HEADING, level=1),
        b("Deep", Label.HEADING, level=3),
        b("text"),
        b("Two", Label.HEADING, level=2),
        b("more"),
        b("Last", Label.HEADING, level=1),
    ]
    said = [(r["headings"], r["text"]) for r in records(document(blocks), "chunks")]
    assert said == [
        ([], "before"),
        (["One", "Deep"], "# One\n\n### Deep\n\ntext"),
        (["One", "Two"], "## Two\n\nmore"),
        (["Last"], "# Last"),
    ]


@given(st.lists(st.text(alphabet="ab. ", min_size=1, max_size=60), min_size=1, max_size=6), st.integers(10, 50))
def test_chunks_keep_to_their_length_and_lose_nothing(texts: list[str], most: int) -> None:
    make = Blocks()
    doc = document([make(text) for text in texts])
    said = list(chunks(doc, ExportOptions(max_chars=most)))
    assert all(len(chunk.text) <= most for chunk in said)
    assert "".join("".join(c.text for c in said).split()) == "".join("".join(texts).split())


@given(st.integers(0, 2), st.integers(1, 8), st.integers(20, 200))
def test_tables_are_cut_between_rows_with_their_header(header: int, rows: int, most: int) -> None:
    whole = table([[f"r{r}c{c}" for c in range(3)] for r in range(header + rows)], header)
    parts = list(table_parts(whole, most))
    heads = [cell.text for cell in whole.cells if cell.row < max(header, 1)]
    body = [cell.text for cell in whole.cells if cell.row >= max(header, 1)]
    assert [cell.text for part in parts for cell in part.cells][: len(heads)] == heads
    assert [cell.text for part in parts for cell in part.cells if cell.row >= max(header, 1)] == body
    assert all(len(table_markdown(part)) <= most or part.rows <= max(header, 1) + 1 for part in parts)


def test_rows_that_a_cell_joins_stay_together() -> None:
    box = Box(0, 0, 1, 1)
    cells = (
        Cell(0, 0, "h", box, header=True),
        Cell(1, 0, "a", box),
        Cell(2, 0, "b", box, rowspan=2),
        Cell(4, 0, "c", box),
    )
    assert [part.rows for part in table_parts(Table(5, 1, cells), 1)] == [2, 3, 2]


def test_long_code_is_cut_between_lines() -> None:
    code = Blocks()("\n".join(f"line {n}" for n in range(20)), Label.CODE)
    texts = [r["text"] for r in records(document([code]), "chunks", max_chars=60)]
    assert all(text.startswith("```\nline") and text.endswith("\n```") for text in texts)
    assert sum(text.count("line") for text in texts) == 20


def test_csv() -> None:
    b = Blocks()
    blocks = [
        b("", Label.TABLE, table=table([["a", 'say "x"'], ["1,5", "two\nlines"]])),
        b("between"),
        b("", Label.TABLE, table=spanned()),
    ]
    said = export(document(blocks), "csv")
    assert isinstance(said, str)
    first, second = (list(csv.reader(io.StringIO(part))) for part in said.split("\n\n"))
    assert first == [["a", 'say "x"'], ["1,5", "two\nlines"]]
    assert second[0] == ["Item", "Price <EUR>", ""]
    assert export(document([b("no table")]), "csv") == ""
