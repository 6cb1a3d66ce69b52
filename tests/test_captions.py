"""Captions belong to their figures and tables, and every format prints them once, where they were printed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from docai.export.flow import flat
from docai.export.formats import ExportOptions, export
from docai.export.json import load
from docai.export.jsonl import load as load_lines
from docai.export.overlay import regions_of
from docai.export.text_layer import all_lines
from docai.layout.captions import caption_of
from docai.ocr.captions import with_captions
from docai.types import Block, Box, Document, Label, Line, PageResult, Region
from tests.export_samples import page, table

FIGURE, TABLE, CAPTION, TEXT, ITEM = Label.FIGURE, Label.TABLE, Label.CAPTION, Label.TEXT, Label.LIST_ITEM


def block(n: int, label: Label, text: str, top: float, height: float, left: float = 50, right: float = 300) -> Block:
    box = Box(left, top, right, top + height)
    lines = (Line(text, replace(box, b=top + 10), size=10),) if text else ()
    cells = table([["Name", "Sum"], ["a", "1"]]) if label is TABLE else None
    return Block(f"p1-b{n}", 0, Region(box, label, order=n), text, lines, table=cells)


Row = tuple[Label, str, float, float]  # label, text, top, height


def blocks(*rows: Row) -> list[Block]:
    return [block(n, *row) for n, row in enumerate(rows)]


def figure(top: float) -> Row:
    return FIGURE, "", top, 80


def grid(top: float) -> Row:
    return TABLE, "", top, 60


def caption(text: str, top: float) -> Row:
    return CAPTION, text, top, 10


BELOW = (figure(100), caption("Figure 1. A cat", 190))
ABOVE = (caption("Table 1. Sums", 300), grid(315))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Table 3. Sums", TABLE), ("TABLE II", TABLE), ("Tab. 2", TABLE), ("Tabelle 1: Summen", TABLE), ("表 1", TABLE),
        ("[표 1] 비교", TABLE), ("Figure 1. A cat", FIGURE), ("Fig. 3: Flow", FIGURE), ("Chart 5", FIGURE),
        ("Abbildung 0.1: Formen", FIGURE), ("Abb. 2 Haus", FIGURE), ("図1 猫", FIGURE), ("图6-3-1 面积", FIGURE),
        ("Exhibit 2", None), ("Listing 1: A function", None), ("A cat", None),
    ],
)  # fmt: skip
def test_what_captions_are_about(text: str, label: Label | None) -> None:
    assert caption_of(text) is label


@pytest.mark.parametrize(
    ("rows", "owners"),
    [
        (BELOW, {1: 0}),
        (ABOVE, {0: 1}),
        ((*BELOW, *ABOVE), {1: 0, 2: 3}),
        # close to each other, captions stay on the side where they stand all over the page
        ((figure(100), caption("Figure 1", 195), figure(210), caption("Figure 2", 305)), {1: 0, 3: 2}),
        ((caption("Figure 1", 85), figure(100), caption("Figure 2", 185), figure(200)), {0: 1, 2: 3}),
        # a lone caption between two figures is of the one above, one between two tables of the one below
        ((figure(100), caption("Figure 1", 195), figure(210)), {1: 0}),
        ((grid(100), caption("Table 1", 170), grid(185)), {1: 2}),
        # a figure printed as a table, a table printed as a picture
        ((grid(100), caption("Figure 1", 165)), {1: 0}),
        ((caption("Table 1", 85), figure(100)), {0: 1}),
        ((figure(100), caption("Table 1", 195), (TEXT, "not found to be one", 210, 80)), {}),
        # names of a figure's parts come along
        ((figure(100), (ITEM, "(a) One day (b) One week", 190, 10), caption("Figure 1", 205)), {1: 0, 2: 0}),
        ((figure(100), (TEXT, "Some text", 190, 10), caption("Figure 1", 205)), {}),
        # too far, or of what is not there
        ((figure(100), caption("Figure 1", 250)), {}),
        (((TEXT, "text", 100, 80), caption("Listing 1", 190), (TEXT, "code", 205, 10)), {}),
        # a second caption has no figure left
        ((figure(100), caption("Figure 1", 185), caption("Figure 2", 196)), {1: 0}),
    ],
)  # fmt: skip
def test_captions_find_what_they_are_about(rows: tuple[Row, ...], owners: dict[int, int]) -> None:
    before = blocks(*rows)
    after = with_captions(before)
    assert {int(c.id[4:]): int(b.id[4:]) for b in after for c in b.children} == owners
    assert [replace(b, children=()) for b in flat(after)] == before, "each is there once, in the order as before"


def test_figures_side_by_side_with_their_captions_below() -> None:
    left, right = (40.0, 290.0), (310.0, 560.0)
    figures = [block(n, FIGURE, "", 100, 80, *edges) for n, edges in enumerate((left, right))]
    captions = [block(n, CAPTION, f"Figure {n}", 190, 10, *edges) for n, edges in ((2, left), (3, right))]
    after = with_captions([*figures, *captions])
    assert [[c.id for c in b.children] for b in after] == [["p1-b2"], ["p1-b3"]]


def test_a_caption_beside_its_figure() -> None:
    after = with_captions([block(0, FIGURE, "", 100, 80), block(1, CAPTION, "Fig. 1", 120, 40, 310, 400)])
    assert [len(b.children) for b in after] == [1]


# --- formats

ROWS = (*BELOW, *ABOVE, (TEXT, "The end.", 400, 10), grid(420), caption("Table 2. Below it", 490))


def documents() -> tuple[Document, Document]:
    """One with captions as blocks of their own, one with captions as children."""
    loose = blocks(*ROWS)
    pages = (PageResult(page(), tuple(some)) for some in (loose, with_captions(loose)))
    first, second = (Document("doc.pdf", (result,)) for result in pages)
    return first, second


@pytest.mark.parametrize("form", ["markdown", "text", "hocr", "alto", "csv"])
def test_captions_are_printed_where_they_were(form: str) -> None:
    loose, owned = documents()
    assert sum(len(b.children) for b in owned.blocks) == 3
    assert export(owned, form) == export(loose, form)


@pytest.mark.parametrize("form", ["markdown", "text", "chunks", "html"])
def test_captions_are_printed_once(form: str) -> None:
    said = re.sub('alt="[^"]*"', "", str(export(documents()[1], form)))
    assert [said.count(text) for text in ("Figure 1. A cat", "Table 1. Sums", "Table 2. Below it")] == [1, 1, 1]


def test_pictures_are_called_by_their_caption() -> None:
    owned = documents()[1]
    assert "![Figure 1. A cat](" in str(export(owned, "markdown", ExportOptions(images="ref")))
    assert 'alt="Figure 1. A cat"' in str(export(owned, "html"))


def test_html_has_figures_with_captions_and_tables_with_captions() -> None:
    said = str(export(documents()[1], "html"))
    (whole,) = re.findall("<figure>.*?</figure>", said, re.DOTALL)
    assert whole.index("<img") < whole.index('<figcaption class="block is-caption" id="p1-b1"')
    first, second = said.split("<table>")[1:]
    assert first.startswith('<caption class="block is-caption" id="p1-b2"')
    assert second.startswith('<caption class="block is-caption" id="p1-b6"')
    assert ("caption-side: bottom" in first, "caption-side: bottom" in second) == (False, True)
    assert all(f'id="box-p1-b{n}"' in said for n in (1, 2, 6))


def test_places_of_captions_are_kept() -> None:
    loose, owned = (document.pages[0] for document in documents())
    assert regions_of(owned) == regions_of(loose)
    assert all_lines(owned) == all_lines(loose)
    chunks = str(export(documents()[1], "chunks", ExportOptions(max_chars=40)))
    assert all(f'"p1-b{n}"' in chunks for n in range(len(ROWS)))


def test_long_tables_keep_their_captions_in_chunks() -> None:
    chunks = str(export(documents()[1], "chunks", ExportOptions(max_chars=30))).splitlines()
    at = {text: n for n, chunk in enumerate(chunks) for text in ("Table 1.", "Table 2.", "| Name") if text in chunk}
    assert at["Table 1."] < at["| Name"] < at["Table 2."]


def test_json_brings_captions_back() -> None:
    owned = documents()[1]
    again = load(export(owned, "json"))
    assert [b.children for b in again.blocks] == [b.children for b in owned.blocks]
    assert [b.children for b in load_lines(export(owned, "jsonl")).blocks] == [b.children for b in owned.blocks]
