"""Detectors: what each of them does, how one is found by its name, and what foreign labels mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from docai.types import Label, Line, Page, PageContent, Region

if TYPE_CHECKING:
    from docai.layout.learned import Settings


@dataclass(frozen=True, slots=True)
class Sheet:
    """An upright page, with what is known of it."""

    page: Page
    lines: Sequence[Line] = ()
    content: PageContent = PageContent()  # noqa: RUF009 - it is frozen


class Detector(Protocol):
    """Finds the regions of an upright page.

    `threshold`: the score from which on it gives regions. `reads`: whether it needs a page's lines. `batch`: how many
    pages it likes to see at once.
    """

    name: str
    threshold: float
    reads: bool
    batch: int

    def detect(self, page: Page, lines: Sequence[Line], content: PageContent) -> list[Region]:
        """Regions in reading order, `order` counted from 0. Lines may be empty; content may know nothing."""
        ...

    def detect_all(self, sheets: Sequence[Sheet]) -> list[list[Region]]:
        """The same for several pages."""
        ...


EMBEDDED = "embedded"
# Short names of the models that are detectors; any other is a folder or a repo.
MODELS = ("pp-doclayout-v3", "rt-detr-v2")
BEST = MODELS[0]  # what `auto` takes where it is in the cache


def get_detector(name: str, settings: Settings | None = None) -> Detector:
    """The detector of that name. `settings` are for those that are models.

    Raises UsageError for an unknown one, DependencyMissing where MLX or its checkpoint is missing.
    """
    if name == EMBEDDED:
        from docai.layout.embedded import EmbeddedDetector

        return EmbeddedDetector()
    from docai.layout.learned import open_detector

    return open_detector(name, settings)


def is_detector(name: str) -> bool:
    """Whether a word names a detector, and not a file of detections."""
    path = Path(name)
    if name == EMBEDDED or name in MODELS or path.is_dir():
        return True
    return not path.exists() and name.count("/") == 1 and not path.suffix and not name.startswith((".", "/", "~"))


# Names of PP-DocLayout (all versions), DocLayNet (Docling's heron), PubLayNet and DocStructBench.
FOREIGN_LABELS: dict[str, Label] = {
    **dict.fromkeys(("doctitle", "title"), Label.TITLE),
    **dict.fromkeys(("paragraphtitle", "sectionheader", "heading", "subtitle"), Label.HEADING),
    **dict.fromkeys(
        ("text", "plaintext", "paragraph", "abstract", "content", "reference", "referencecontent"), Label.TEXT
    ),
    **dict.fromkeys(("verticaltext", "documentindex", "form", "keyvalueregion", "formulanumber"), Label.TEXT),
    **dict.fromkeys(("checkboxselected", "checkboxunselected"), Label.TEXT),
    **dict.fromkeys(("list", "listitem"), Label.LIST_ITEM),
    "table": Label.TABLE,
    **dict.fromkeys(("figure", "image", "picture", "chart", "seal"), Label.FIGURE),
    **dict.fromkeys(("formula", "displayformula", "inlineformula", "isolateformula", "equation"), Label.FORMULA),
    **dict.fromkeys(("code", "algorithm"), Label.CODE),
    **dict.fromkeys(
        ("caption", "figuretitle", "figurecaption", "tablecaption", "tabletitle", "charttitle"), Label.CAPTION
    ),
    **dict.fromkeys(("footnote", "visionfootnote", "tablefootnote"), Label.FOOTNOTE),
    **dict.fromkeys(("aside", "asidetext"), Label.ASIDE),
    **dict.fromkeys(("pageheader", "header", "headerimage"), Label.PAGE_HEADER),
    **dict.fromkeys(("pagefooter", "footer", "footerimage"), Label.PAGE_FOOTER),
    **dict.fromkeys(("pagenumber", "number"), Label.PAGE_NUMBER),
    **dict.fromkeys(("stamp", "abandon"), Label.STAMP),
}


def label_named(name: str) -> Label | None:
    """The label that a detector's name stands for; None for an unknown one."""
    return FOREIGN_LABELS.get(plain_name(name))


def plain_name(name: str) -> str:
    """A label's name without case and signs: `Section-header` is `section_header`."""
    return "".join(c for c in name.lower() if c.isalnum())
