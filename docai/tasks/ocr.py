"""`docai ocr`: documents to text and structure.

A page pass reads page after page; a document pass then settles what all pages together tell. A page that fails is
recorded with its error, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from docai.errors import DocaiError, InputError
from docai.tasks.options import InputOptions, OcrOptions, ReadingOptions, parse_pages
from docai.types import Document, Page, PageContent, PageOutcome, PageResult, Status
from docai.writing import counted

if TYPE_CHECKING:
    from docai.layout.detections import PageDetections
    from docai.layout.detector import Detector
    from docai.ocr.reading import Reading, ReadOptions
    from docai.render.document import Source
    from docai.tasks.prompted import PromptedPages

AnyInput = TypeVar("AnyInput", bound=InputOptions)

_ASKED_FROM = 0.3  # score from which a region is asked about, as in Falcon-OCR's pipeline: rather one too many
# Layouts that a detector made elsewhere: 0-based page index -> its regions.
Layout = Mapping[int, "PageDetections"]


def ocr(source: str | Path | bytes, **options: Any) -> Document:
    """Read a document: a path, or its bytes. Options are those of `docai ocr` (see `OcrOptions`).

    Raises InputError where the document cannot be opened; a page that fails is in the result, with its outcome.
    """
    from docai.render.document import open_document

    chosen = OcrOptions(**options)
    opened = open_document(source, password=chosen.password, limits=chosen.limits)
    return finish(opened, read_pages(opened, chosen, layout_of(chosen)), chosen)


def layout_of(options: OcrOptions) -> Layout | None:
    """The detections that `options.layout` names, where it is a file."""

    if options.layout is None or names_detector(options.layout):
        return None
    try:
        data = Path(options.layout).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the layout {options.layout}: {error.strerror or error}") from error
    return layout_from(data)


def names_detector(layout: str) -> bool:
    """Whether `--layout` names a detector, and not a file of detections."""
    from docai.layout.detector import is_detector

    return layout == "auto" or is_detector(layout)


def layout_from(data: bytes) -> Layout:
    """Detections as `docai detect` prints them, by page index. Raises InputError naming the entry that is wrong."""
    from docai.layout.given import read_detections

    return {page.index: page for page in read_detections(data)}


def read_pages(
    source: Source, options: OcrOptions, layout: Layout | None = None, skip: Iterable[int] = ()
) -> Iterator[PageResult]:
    """The page pass: the results of the chosen pages, each as it is done. Pages in `skip` (indices) are left out."""
    done = frozenset(skip)
    left = [index for index in chosen_pages(source, options, layout) if index not in done]
    return pages_reader(options).results(source, left, layout)


def chosen_pages(source: Source, options: ReadingOptions, layout: Layout | None = None) -> Sequence[int]:
    """0-based indices of the pages to read: those of `--pages`, or those that a given layout covers, if any."""
    if options.pages is not None:
        return parse_pages(options.pages, source.page_count)
    if not layout:
        return range(source.page_count)
    missing = [index + 1 for index in layout if index >= source.page_count]
    if missing:
        pages = counted(source.page_count, "page")
        raise InputError(f"the layout has page {missing[0]}, but {source.name} has {pages}")
    return sorted(layout)


def finish(source: Source, results: Iterable[PageResult], options: OcrOptions) -> Document:
    """The document pass over all page results."""
    from docai.ocr.document import settle

    ordered = sorted(results, key=lambda result: result.page.index)
    return Document(source.name, settle(ordered), source.metadata, source.outline, options.model)


@lru_cache(maxsize=2)
def reader_for(options: ReadingOptions, layout: str = "embedded") -> PageReader:
    """The reader of an engine; it and the detector are loaded once."""
    from docai.ocr.engines import get_engine
    from docai.ocr.reading import ReadOptions

    engine = get_engine(options.model, lang=options.lang, threads=options.threads)
    return PageReader(ReadOptions(ocr=options.ocr, engine=engine, dpi=options.dpi), detector_for(layout))


def pages_reader(options: OcrOptions) -> PageReader | PromptedPages:
    """The reader of these options: an engine's, or a model's."""
    return reader_as(without_input(options))


def without_input(options: AnyInput) -> AnyInput:
    """Options as a reader depends on them: how files are opened (pages, password, limits) makes no difference to it."""
    plain = InputOptions()
    return replace(options, **{field.name: getattr(plain, field.name) for field in fields(InputOptions)})


@lru_cache(maxsize=1)
def reader_as(options: OcrOptions) -> PageReader | PromptedPages:
    """The reader of options that open files as usual. Without pixels there is nothing to ask a model about."""
    if options.engine or options.ocr == "never":
        return reader_for(options if options.engine else options.without_model, options.layout or "embedded")
    from docai.tasks.prompted import prompted_reader

    return prompted_reader(options, None if options.layout is None else detector_for(options.layout, _ASKED_FROM))


def forget_readers() -> None:
    """Let go of the engines, detectors and models that are kept for the next document."""
    reader_as.cache_clear()
    reader_for.cache_clear()


def detector_for(layout: str, threshold: float | None = None) -> Detector:
    """The detector that `--layout` names. `auto`: the best one that is there; so for pages that a file leaves out.

    `threshold`: of a detector that is a model; None is its own.
    """
    from docai.layout.detector import EMBEDDED, get_detector
    from docai.layout.learned import Settings

    name = best_detector() if layout == "auto" else layout if names_detector(layout) else EMBEDDED
    return get_detector(name, Settings(threshold))


def best_detector() -> str:
    """What `--layout auto` takes: the best detector whose checkpoint is on this machine."""
    from docai.layout.detector import BEST, EMBEDDED

    return BEST if is_cached(BEST) else EMBEDDED


def is_cached(model: str) -> bool:
    """Whether a model is on this machine, and can be computed with."""
    from docai.checkpoint.backend import require_mlx
    from docai.checkpoint.hub import cached, locate
    from docai.errors import DependencyMissing

    try:
        require_mlx()
        place = locate(model)
        return (place.path or cached(place)) is not None
    except DependencyMissing:
        return False


class PageReader:
    """Reads pages of any document with one engine and one detector."""

    def __init__(self, reading: ReadOptions, detector: Detector) -> None:
        self.reading = reading
        self.detector = detector

    def results(self, source: Source, indices: Iterable[int], layout: Layout | None = None) -> Iterator[PageResult]:
        """Pages, each as it is done."""
        return (self.result(source, index, layout) for index in indices)

    def result(self, source: Source, index: int, layout: Layout | None = None) -> PageResult:
        """One page, whatever happens: an error becomes its outcome."""
        started = time.perf_counter()
        try:
            result = self.read(source, index, layout)
        except DocaiError as error:
            result = failed(source, index, error)
        return replace(result, seconds=round(time.perf_counter() - started, 3))

    def read(self, source: Source, index: int, layout: Layout | None = None) -> PageResult:
        """One page: its text, its regions, its blocks."""
        from docai.layout.rules import seen_rules
        from docai.layout.suppress import flowing
        from docai.ocr.assemble import assemble
        from docai.ocr.captions import with_captions

        page, content = source.page(index), source.content(index)
        given = layout.get(index) if layout else None
        if given is not None:
            given = given.fitted_to(page.turned(given.rotation, given.skew))
        reading = given_reading(page, content, given) if given and given.lines else self.text_of(page, content, given)
        seen = replace(reading.content, rules=seen_rules(reading.page, reading.lines, reading.content))
        regions = given.regions if given and given.regions else self.detector.detect(reading.page, reading.lines, seen)
        blocks = assemble(reading.page, reading.lines, seen, flowing(regions))
        reasons = (*content.notes, *reading.reasons)
        if content.damage and not reading.reasons and not any(block.text.strip() for block in blocks):
            text = "and no text was found in them; get a whole copy of the file"
            raise InputError(f"{source.name}, page {index + 1}: {content.damage}, {text}")
        outcome = PageOutcome(Status.DEGRADED, reasons) if reasons else PageOutcome()
        return PageResult(reading.page, tuple(with_captions(blocks)), outcome, links=reading.content.links)

    def text_of(self, page: Page, content: PageContent, given: PageDetections | None) -> Reading:
        """The page's lines; with a given layout, on the page as that layout has it turned."""
        from docai.ocr.reading import read_page

        if given is None:
            return read_page(page, content, self.reading)
        return read_page(page, content, replace(self.reading, turn=(given.rotation, given.skew)))


def given_reading(page: Page, content: PageContent, given: PageDetections) -> Reading:
    """The lines that a detections file brings along, instead of reading the page a second time."""
    from docai.ocr.reading import Reading, turn_content

    upright = page.turned(given.rotation, given.skew)
    return Reading(upright, given.lines, turn_content(page, content, given.rotation, given.skew))


def failed(source: Source, index: int, error: DocaiError) -> PageResult:
    """The result of a page that could not be read."""
    page = Page(index, (0.0, 0.0), "pt" if source.kind == "pdf" else "px", source.name)
    return PageResult(page, outcome=PageOutcome(Status.FAILED, (str(error),), int(error.exit_code)))
