"""Output formats by name, and `export`: a Document as any of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from docai.errors import UsageError
from docai.export.figures import attached
from docai.export.options import ExportOptions as ExportOptions
from docai.types import Document
from docai.writing import storable

if TYPE_CHECKING:
    from docai.render.document import Source


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the module that writes it (by `render(document, options)`), file suffix and media type."""

    module: str
    suffix: str
    media_type: str
    needs_source: bool = False  # `render(document, options, source)`: it copies from the original file


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "markdown": Format("docai.export.markdown", ".md", "text/markdown"),
        "text": Format("docai.export.text", ".txt", "text/plain"),
        "json": Format("docai.export.json", ".json", "application/json"),
        "jsonl": Format("docai.export.jsonl", ".jsonl", "application/x-ndjson"),
        "html": Format("docai.export.html", ".html", "text/html"),
        "hocr": Format("docai.export.hocr", ".hocr", "text/html"),
        "alto": Format("docai.export.alto", ".alto.xml", "application/xml"),
        "csv": Format("docai.export.csv", ".csv", "text/csv"),
        "chunks": Format("docai.export.chunks", ".chunks.jsonl", "application/x-ndjson"),
        "pdf": Format("docai.export.pdf", ".ocr.pdf", "application/pdf", needs_source=True),
        "png": Format("docai.export.overlay", ".png", "image/png"),
    }
)


def format_of(name: str) -> Format:
    """The format of that name. Raises UsageError listing them all."""
    if name not in FORMATS:
        raise UsageError(f"format: expected one of {', '.join(FORMATS)}; got {name!r}")
    return FORMATS[name]


def suffix(name: str) -> str:
    """The file suffix of a format, with its dot."""
    return format_of(name).suffix


def export(
    document: Document, format: str = "markdown", options: ExportOptions | None = None, source: Source | None = None
) -> str | bytes:
    """A Document in a format of `FORMATS`: str for text formats, bytes for pdf and png.

    `source` is the open document that the pages come from: formats that show pages take their pixels from it, where
    the pages (read back from JSON, say) have none of their own. Raises UsageError for an unknown format.
    """
    chosen = format_of(format)
    document = attached(document, source)
    module: Any = importlib.import_module(chosen.module)
    extra = (source,) if chosen.needs_source else ()
    result: str | bytes = module.render(document, options or ExportOptions(), *extra)
    return storable(result) if isinstance(result, str) else result
