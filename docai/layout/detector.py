"""Detectors: what each of them does, the table that finds one by name, and what foreign labels mean."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from docai.errors import UsageError
from docai.types import Label, Line, Page, PageContent, Region


class Detector(Protocol):
    """Finds the regions of an upright page."""

    name: str

    def detect(self, page: Page, lines: Sequence[Line], content: PageContent) -> list[Region]:
        """Regions in reading order, `order` counted from 0. Lines may be empty; content may know nothing."""
        ...


DETECTORS = {"embedded": "docai.layout.embedded:EmbeddedDetector"}


def get_detector(name: str) -> Detector:
    """The detector of that name. Raises UsageError for an unknown one."""
    if name not in DETECTORS:
        raise UsageError(f"layout: expected one of {', '.join(DETECTORS)}; got {name!r}")
    module, _, cls = DETECTORS[name].partition(":")
    detector: Detector = getattr(importlib.import_module(module), cls)()
    return detector


# Names of PP-DocLayout (all versions), DocLayNet (Docling's heron), PubLayNet and DocStructBench.
FOREIGN_LABELS: dict[str, Label] = {
    **dict.fromkeys(("doctitle", "title"), Label.TITLE),
    **dict.fromkeys(("paragraphtitle", "sectionheader", "heading", "subtitle"), Label.HEADING),
    **dict.fromkeys(
        ("text", "plaintext", "paragraph", "abstract", "content", "reference", "referencecontent"), Label.TEXT
    ),
    **dict.fromkeys(("verticaltext", "documentindex", "form", "keyvalueregion"), Label.TEXT),
    **dict.fromkeys(("list", "listitem"), Label.LIST_ITEM),
    "table": Label.TABLE,
    **dict.fromkeys(("figure", "image", "picture", "chart", "headerimage", "footerimage", "seal"), Label.FIGURE),
    **dict.fromkeys(("formula", "displayformula", "isolateformula", "equation"), Label.FORMULA),
    **dict.fromkeys(("code", "algorithm"), Label.CODE),
    **dict.fromkeys(
        ("caption", "figuretitle", "figurecaption", "tablecaption", "tabletitle", "charttitle"), Label.CAPTION
    ),
    **dict.fromkeys(("footnote", "visionfootnote", "tablefootnote"), Label.FOOTNOTE),
    **dict.fromkeys(("aside", "asidetext"), Label.ASIDE),
    **dict.fromkeys(("pageheader", "header"), Label.PAGE_HEADER),
    **dict.fromkeys(("pagefooter", "footer"), Label.PAGE_FOOTER),
    **dict.fromkeys(("pagenumber", "number"), Label.PAGE_NUMBER),
    **dict.fromkeys(("stamp", "abandon"), Label.STAMP),
}


def label_named(name: str) -> Label | None:
    """The label that a detector's name stands for; None for an unknown one."""
    return FOREIGN_LABELS.get("".join(c for c in name.lower() if c.isalnum()))
