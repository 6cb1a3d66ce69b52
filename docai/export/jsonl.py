"""JSON lines: a line for each page as it is done, then one for what only the whole document tells.

A page line is a page of the `json` format with `"type": "page"` and the source. The last line, `"type": "document"`,
holds the rest of the document and, under `settled`, the blocks whose label, level or join the document pass may have
changed since their page was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from docai.errors import InputError
from docai.export.json import SCHEMA, document_from, dumps, head_json, page_from, page_json
from docai.export.options import ExportOptions
from docai.types import Block, Document, Label, PageResult

_LEVELLED = frozenset({Label.TITLE, Label.HEADING})


def render(document: Document, options: ExportOptions) -> str:
    """All page lines, then the document line."""
    del options
    lines = [*(page_line(result) for result in document.pages), document_line(document)]
    return b"".join(lines).decode()


def page_line(result: PageResult) -> bytes:
    """The line of a page, before or after the document pass."""
    return dumps({"type": "page", **page_json(result)}) + b"\n"


def document_line(document: Document) -> bytes:
    """The last line."""
    settled = [_settled(block) for block in document.blocks if _matters(block)]
    head = {"type": "document", "schema": SCHEMA, **head_json(document), "page_count": len(document.pages)}
    return dumps({**head, "settled": settled}) + b"\n"


def _matters(block: Block) -> bool:
    return block.furniture or block.continues or block.label in _LEVELLED


def _settled(block: Block) -> dict[str, Any]:
    return {"id": block.id, "label": block.label.value, "level": block.level, "continues": block.continues}


def load(data: bytes | str) -> Document:
    """The Document in JSON lines, with the document pass applied. Raises InputError where they are none, or cut off."""
    try:
        records = [orjson.loads(line) for line in data.splitlines() if line.strip()]
        pages = [page_from(record) for record in records if record["type"] == "page"]
        last = next((record for record in records if record["type"] == "document"), None)
        if last is None:
            raise InputError("expected JSON lines that end with a document record; it is missing: the file was cut off")
        return document_from(last, tuple(settle(pages, last["settled"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"expected JSON lines of the schema {SCHEMA}; got something else: {error!r}") from error


def settle(pages: Iterable[PageResult], settled: Iterable[Mapping[str, Any]]) -> list[PageResult]:
    """Pages with the changes of a document line applied."""
    changes = {change["id"]: change for change in settled}
    return [
        replace(page, blocks=tuple(_changed(block, changes.get(block.id)) for block in page.blocks)) for page in pages
    ]


def _changed(block: Block, change: Mapping[str, Any] | None) -> Block:
    if change is None:
        return block
    region = replace(block.region, label=Label(change["label"]))
    return replace(block, region=region, level=change["level"], continues=change["continues"])
