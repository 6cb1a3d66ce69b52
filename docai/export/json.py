"""JSON: the whole Document, in a versioned schema (`document.schema.json` beside this file). Reads it back, too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from docai.errors import InputError
from docai.export.figures import pictures_in
from docai.export.grid import html_table
from docai.export.options import ExportOptions
from docai.types import (
    Block,
    Box,
    Cell,
    Document,
    Label,
    Line,
    Link,
    OutlineItem,
    Page,
    PageOutcome,
    PageResult,
    Region,
    Span,
    Status,
    Table,
    Word,
)

SCHEMA = "docai.document/1"
_PLACES = 3  # decimals of coordinates: a thousandth of a point


def render(document: Document, options: ExportOptions) -> str:
    """The document as one JSON object. Furniture is always in it: each block says what it is."""
    said = document_json(document)
    if options.structure:
        for result, page in zip(document.pages, said["pages"], strict=True):
            _detail(result.blocks, page["blocks"], pictures_in(result, document, options))
    return dumps(said).decode()


def _detail(blocks: Sequence[Block], said: Sequence[dict[str, Any]], pictures: Mapping[str, str]) -> None:
    """Add what other forms of blocks there are: tables as HTML, figures as pictures."""
    for block, values in zip(blocks, said, strict=True):
        if block.table is not None:
            values["table"]["html"] = html_table(block.table)
        if block.id in pictures:
            values["image"] = pictures[block.id]
        _detail(block.children, values.get("children", ()), pictures)


def dumps(value: Any) -> bytes:
    """JSON bytes; characters that UTF-8 cannot hold (lone surrogates) are replaced."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_storable(value))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


# --- writing


def document_json(document: Document) -> dict[str, Any]:
    """The Document as plain values."""
    return {
        "schema": SCHEMA,
        **head_json(document),
        "pages": [page_json(result) for result in document.pages],
    }


def head_json(document: Document) -> dict[str, Any]:
    """All of a Document but its pages."""
    return {
        "source": document.source,
        "engine": document.engine,
        "metadata": dict(document.metadata),
        "outline": [{"title": o.title, "level": o.level, "page": o.page} for o in document.outline],
        "outcome": _outcome(document.outcome),
    }


def page_json(result: PageResult) -> dict[str, Any]:
    """A page with its blocks. `index` counts from 0, `number` from 1."""
    page = result.page
    return {
        "index": page.index,
        "number": page.index + 1,
        "source": page.source,
        "unit": page.unit,
        "size": [number(page.width), number(page.height)],
        "rotation": page.rotation,
        "skew": number(page.skew),
        "seconds": number(result.seconds),
        **({} if page.time is None else {"time": number(page.time)}),
        "outcome": _outcome(result.outcome),
        "links": [{"box": box_json(link.box), "target": link.target} for link in result.links],
        "blocks": [block_json(block) for block in result.blocks],
    }


def block_json(block: Block) -> dict[str, Any]:
    """A block; what it does not have is left out."""
    region = block.region
    said: dict[str, Any] = {
        "id": block.id,
        "page": block.page + 1,
        "label": region.label.value,
        "kind": block.kind,
        "box": box_json(region.box),
        "text": block.text,
        "source": block.source,
        "confidence": maybe_number(block.confidence),
    }
    more = {
        "marker": block.marker,
        "level": block.level,
        "continues": block.continues,
        "verdict": block.verdict,
        "score": maybe_number(region.score),
        "order": region.order,
        "polygon": [[number(x), number(y)] for x, y in region.polygon or ()],
        "detector_label": region.name,
        "spans": [_span(span) for span in block.spans],
        "table": _table(block.table) if block.table else None,
        "lines": [_line(line) for line in block.lines],
        "children": [block_json(child) for child in block.children],
    }
    return said | _present(more)


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is there: neither None nor False nor empty."""
    return {
        key: value
        for key, value in values.items()
        if value is not None and value is not False and value not in ("", [])
    }


def _outcome(outcome: PageOutcome) -> dict[str, Any]:
    return {"status": outcome.status.value, "reasons": list(outcome.reasons), "exit_code": outcome.exit_code}


def _span(span: Span) -> dict[str, Any]:
    said: dict[str, Any] = {"start": span.start, "end": span.end}
    return said | ({"style": span.style} if span.style else {}) | ({"link": span.link} if span.link else {})


def _table(table: Table) -> dict[str, Any]:
    return {"rows": table.rows, "cols": table.cols, "cells": [_cell(cell) for cell in table.cells]}


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "row": cell.row,
        "col": cell.col,
        "rowspan": cell.rowspan,
        "colspan": cell.colspan,
        "header": cell.header,
        "text": cell.text,
        "box": box_json(cell.box),
    }


def _line(line: Line) -> dict[str, Any]:
    said: dict[str, Any] = {"text": line.text, "box": box_json(line.box), "source": line.source}
    more = {
        "confidence": maybe_number(line.confidence),
        "size": number(line.size) or None,
        "font": line.font,
        "bold": line.bold,
        "italic": line.italic,
        "mono": line.mono,
        "angle": line.angle or None,
        "vertical": line.vertical,
        "words": [_word(word) for word in line.words],
    }
    return said | _present(more)


def _word(word: Word) -> dict[str, Any]:
    said: dict[str, Any] = {"text": word.text, "box": box_json(word.box)}
    return said | {"styles": sorted(word.styles)} if word.styles else said


def box_json(box: Box) -> dict[str, float]:
    """A box as the object that every JSON of docai uses."""
    return {"l": number(box.l), "t": number(box.t), "r": number(box.r), "b": number(box.b)}


def number(value: float) -> float:
    """A coordinate, rounded; JSON has no infinity."""
    return round(float(value), _PLACES) if math.isfinite(value) else 0.0


def maybe_number(value: float | None) -> float | None:
    """A rounded number, or None."""
    return None if value is None else number(value)


# --- reading


def load(data: bytes | str) -> Document:
    """The Document in a JSON of this schema. Its pages have no pixels. Raises InputError where it is none."""
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected JSON of the schema {SCHEMA}; got something else: {error}") from error
    schema = said.get("schema") if isinstance(said, Mapping) else None
    if schema != SCHEMA:
        raise InputError(f"expected JSON of the schema {SCHEMA}; got {schema!r}; write it again with --format json")
    try:
        return document_from(said, tuple(page_from(page) for page in said["pages"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the JSON does not keep to the schema {SCHEMA}: {error!r}") from error


def document_from(said: Mapping[str, Any], pages: Sequence[PageResult]) -> Document:
    """A Document of the values that `head_json` gave, and its pages."""
    outline = tuple(OutlineItem(o["title"], o["level"], o["page"]) for o in said["outline"])
    return Document(said["source"], tuple(pages), dict(said["metadata"]), outline, said["engine"])


def page_from(said: Mapping[str, Any]) -> PageResult:
    """A page of the values that `page_json` gave."""
    width, height = said["size"]
    unit, source = said["unit"], said["source"]
    page = Page(said["index"], (width, height), unit, source, said["rotation"], said["skew"], said.get("time"))
    outcome = said["outcome"]
    return PageResult(
        page,
        tuple(block_from(block) for block in said["blocks"]),
        PageOutcome(Status(outcome["status"]), tuple(outcome["reasons"]), outcome["exit_code"]),
        said["seconds"],
        tuple(Link(box_from(link["box"]), link["target"]) for link in said["links"]),
    )


def block_from(said: Mapping[str, Any]) -> Block:
    """A block of the values that `block_json` gave."""
    polygon = tuple((x, y) for x, y in said.get("polygon", ())) or None
    region = Region(
        box_from(said["box"]),
        Label(said["label"]),
        said.get("score"),
        said.get("order"),
        polygon,
        said.get("detector_label", ""),
    )
    return Block(
        id=said["id"],
        page=said["page"] - 1,
        region=region,
        text=said["text"],
        lines=tuple(_line_from(line) for line in said.get("lines", ())),
        spans=tuple(Span(s["start"], s["end"], s.get("style"), s.get("link")) for s in said.get("spans", ())),
        table=_table_from(said["table"]) if "table" in said else None,
        level=said.get("level"),
        marker=said.get("marker", ""),
        confidence=said["confidence"],
        source=said["source"],
        continues=said.get("continues", False),
        verdict=said.get("verdict", ""),
        children=tuple(block_from(child) for child in said.get("children", ())),
    )


def _table_from(said: Mapping[str, Any]) -> Table:
    cells = tuple(
        Cell(c["row"], c["col"], c["text"], box_from(c["box"]), c["rowspan"], c["colspan"], c["header"])
        for c in said["cells"]
    )
    return Table(said["rows"], said["cols"], cells)


def _line_from(said: Mapping[str, Any]) -> Line:
    flags = {key: said[key] for key in ("size", "font", "bold", "italic", "mono", "angle", "vertical") if key in said}
    return Line(
        said["text"],
        box_from(said["box"]),
        tuple(Word(w["text"], box_from(w["box"]), frozenset(w.get("styles", ()))) for w in said.get("words", ())),
        confidence=said.get("confidence"),
        source=said["source"],
        **flags,
    )


def box_from(said: Mapping[str, float]) -> Box:
    """A box of the values that `box_json` gave."""
    return Box(said["l"], said["t"], said["r"], said["b"])
