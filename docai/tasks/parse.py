"""`docai parse`: the full structure of documents: every block with its box, class, order and confidence."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from docai.tasks.ocr import ocr
from docai.tasks.options import OcrOptions, ParseOptions
from docai.types import Document


def parse(source: str | Path | bytes, **options: Any) -> Document:
    """The structure of a document: a path, or its bytes. Options are those of `docai parse` (see `ParseOptions`).

    Raises InputError where the document cannot be opened; a page that fails is in the result, with its outcome.
    """
    settled = as_ocr(ParseOptions(**options))
    return ocr(source, **{field.name: getattr(settled, field.name) for field in fields(settled)})


def as_ocr(options: ParseOptions) -> OcrOptions:
    """The same as `docai ocr` takes it.

    Where no layout is named, it is the best one that is there; but a model that says itself where everything lies is
    shown whole pages.
    """
    values = {field.name: getattr(options, field.name) for field in fields(OcrOptions)}
    if options.layout is None and not reads_whole_pages(options):
        values["layout"] = "auto"
    return OcrOptions(**values)


def reads_whole_pages(options: OcrOptions) -> bool:
    """Whether a model reads, and gives the boxes of what it reads."""
    if options.engine or options.ocr == "never":
        return False
    from docai.checkpoint.hub import open_checkpoint
    from docai.ocr.located import LOCATED
    from docai.ocr.manners import manner_of
    from docai.vlm.families import family_of

    checkpoint = open_checkpoint(options.model, revision=options.revision, offline=options.offline)
    return manner_of(family_of(checkpoint.config).name).parser in LOCATED
