"""What a user can choose about outputs, whatever their format."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal
from urllib.parse import quote

from docai.types import Document


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOptions:
    """Choices for every format; a format ignores those that mean nothing to it.

    `images`: figures left out, referenced as files (see `docai.export.figures.assets`), or embedded as data URIs.
    `furniture`: running headers, footers, page numbers and stamps left out or kept.
    `image_dir`: folder of referenced figures, relative to the output; default: named after the document.
    `dpi`: resolution of page images and of pixel coordinates for pages in points.
    `max_chars`: length of a chunk for retrieval.
    `structure`: JSON has tables as HTML, too, and says which picture a figure is (see `images`).
    """

    images: Literal["none", "ref", "embed"] = "none"
    furniture: Literal["drop", "keep"] = "drop"
    page_breaks: bool = False
    image_dir: str | None = None
    dpi: int = 150
    max_chars: int = 1500
    structure: bool = False

    def shows_pictures(self, formats: Collection[str]) -> bool:
        """Whether an output in one of these formats refers to files with pictures."""
        return self.images == "ref" and ("markdown" in formats or (self.structure and "json" in formats))


def image_folder(document: Document, options: ExportOptions) -> str:
    """The folder of referenced figures, relative to the output."""
    if options.image_dir is not None:
        return options.image_dir.rstrip("/")
    return f"{PurePath(document.source).stem or 'document'}_images"


def as_url(path: str) -> str:
    """A relative path as it stands in a link."""
    return quote(path, safe="/-_.~", errors="surrogateescape")
