"""How models of each family are asked to read: what about, in which words, and how their answers are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from docai.errors import UsageError
from docai.ocr.routes import CATEGORIES, PLAIN
from docai.vlm.controls import DEFAULT
from docai.vlm.got import check_task


@dataclass(frozen=True, slots=True)
class Manner:
    """`page` asks about a whole page, `regions` about one category each; the others are asked about as text.

    `parser` is one of `docai.ocr.parsers`, or of `docai.ocr.located`. `dpi`: resolution at which pages in points are
    rendered. `max_tokens` of one answer. `markers`: what is asked is a marker of the family's own, which it checks;
    `check` does so before anything is read.
    """

    page: str
    regions: Mapping[str, str] = field(default_factory=dict)
    parser: str = "markdown"
    dpi: int = 200
    max_tokens: int = 4096
    markers: bool = False
    check: Callable[[str], None] | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """What can be asked for everywhere, in place of what suits each region."""
        return () if self.markers else (PLAIN, *self.regions)

    def asked(self, category: str, task: str | None = None) -> str:
        """The words for a category, or for the task that is asked for instead of it."""
        return task if task and self.markers else self.prompt(task or category)

    def prompt(self, category: str) -> str:
        """The words for a category."""
        if category == PLAIN:
            return self.page
        return self.regions.get(category) or self.regions.get("text") or self.page


_ONLY = "Answer with nothing else."
ANY = Manner(
    "Read this page as Markdown: all text in reading order, headings with #, tables as HTML, formulas as LaTeX between "
    f"$$. {_ONLY}",
    {
        "text": f"Read all text in this image. {_ONLY}",
        "table": f"Write the table in this image as an HTML table. {_ONLY}",
        "formula": f"Write the formula in this image as LaTeX. {_ONLY}",
    },
)
_FORMATTED = "OCR with format:"  # as LaTeX and markdown
_GOT = Manner(
    _FORMATTED,
    {"text": "OCR:", "table": _FORMATTED, "formula": _FORMATTED},
    parser="mathpix",
    markers=True,  # box, colour, format
    check=check_task,
)


def _check_marker(task: str) -> None:
    """Raise UsageError for a task that begins with none of Florence-2's markers."""
    from docai.vlm.markers import MARKERS, marked

    if marked(task) is None:
        raise UsageError(f"task: expected one of {', '.join(MARKERS)}; got {task[:80]!r}")


MANNERS: dict[str, Manner] = {
    "falcon_ocr": Manner(PLAIN, {category: category for category in CATEGORIES}),
    "florence2": Manner(
        "<OCR_WITH_REGION>",
        {"text": "<OCR>"},
        parser="florence",
        max_tokens=1024,
        markers=True,
        check=_check_marker,
    ),
    "got": _GOT,
    "got_ocr2": _GOT,
    # A4 is 2046 pixels high at 175 dpi
    "nemotron_parse": Manner(DEFAULT, parser="nemotron", dpi=175, max_tokens=9000, markers=True),
}


FINDERS = ("locateanything",)  # say where things are, and read nothing


def manner_of(family: str) -> Manner:
    """How a family is asked; one that is not named, in plain words. Raises UsageError for one that reads nothing."""
    if family in FINDERS:
        raise UsageError(f"models of the family {family} say where things are, but read nothing; see docai ground")
    return MANNERS.get(family, ANY)
