"""Several pages are read as one text by a model that takes them together: what it says stands on the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from docai.errors import InputError
from docai.ocr.asking import Question
from docai.ocr.captions import with_captions
from docai.ocr.guard import Finding, Verdict, instead, judge, summary
from docai.ocr.ink import Ink, ink_of
from docai.ocr.placing import assemble_by_place
from docai.ocr.reading import read_part
from docai.ocr.routed import blocks_of, whole_page
from docai.ocr.routes import PLAIN
from docai.types import Page, PageOutcome, PageResult, Status

if TYPE_CHECKING:
    from docai.ocr.prompted import Leaf, PromptedReader
    from docai.types import RGB


def read_as_one(reader: PromptedReader, leaves: Sequence[Leaf]) -> list[PageResult]:
    """The results of pages, blank ones left out of the question.

    Where the answer cannot be used, each page has the text that its text layer has, or that the embedded engine reads.
    Raises InputError for pages that the model does not take, LimitExceeded for more than it can read at once.
    """
    pages = [leaf.page for leaf in leaves]
    seen = [reader.pixels(page) for page in pages]
    inks = [ink_of(pixels) for pixels in seen]
    inked = [n for n, ink in enumerate(inks) if not ink.blank]
    if not inked:
        return [PageResult(page) for page in pages]
    first, *others = inked
    further = tuple(seen[n] for n in others)
    question = Question(reader.words(PLAIN), seen[first], reader.manner.max_tokens, further)
    ((_, answer),) = reader.asker.ask([question])
    if isinstance(answer, InputError):
        raise answer
    ink = _all([inks[n] for n in inked])
    verdict = Verdict(Finding.OK, answer.text) if reader.guard == "off" else judge(answer, ink)
    if not verdict.usable and reader.guard == "fallback":
        return [
            PageResult(leaf.page) if inks[n].blank else _instead(reader, leaf, seen[n], verdict)
            for n, leaf in enumerate(leaves)
        ]
    result = _result(reader, pages[first], verdict)
    said = f"read as one text with page {pages[first].index + 1}"
    return [result if n == first else PageResult(page, outcome=_beside(said)) for n, page in enumerate(pages)]


def _beside(said: str) -> PageOutcome:
    return PageOutcome(Status.OK, (said,))


def _all(inks: Sequence[Ink]) -> Ink:
    share = sum(ink.share for ink in inks) / len(inks)
    return Ink(
        blank=False, share=share, characters=sum(ink.characters for ink in inks), most=sum(ink.most for ink in inks)
    )


def _result(reader: PromptedReader, page: Page, verdict: Verdict) -> PageResult:
    route = whole_page(page)
    blocks = blocks_of(route, verdict.text, page, parser=reader.manner.parser, source=reader.source)
    if reader.guard != "off":
        blocks = [replace(b, verdict=verdict.finding.value, confidence=verdict.confidence) for b in blocks]
    numbered = [replace(b, id=f"p{page.index + 1}-b{n}") for n, b in enumerate(blocks, 1)]
    reasons = summary([(0, verdict)])
    return PageResult(page, tuple(numbered), PageOutcome(Status.DEGRADED, reasons) if reasons else PageOutcome())


def _instead(reader: PromptedReader, leaf: Leaf, pixels: RGB, verdict: Verdict) -> PageResult:
    """A page with another's text."""
    lines = leaf.lines or read_part(leaf.page, pixels, leaf.page.box, reader.second).lines
    blocks = [replace(b, verdict=verdict.finding.value) for b in assemble_by_place(leaf.page, lines, leaf.content)]
    outcome = PageOutcome(Status.FALLBACK, (*summary([(0, verdict)]), instead([0])))
    return PageResult(leaf.page, tuple(with_captions(blocks)), outcome, links=leaf.content.links)
