"""`docai detect`: the regions of pages, with their labels and reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docai.errors import DocaiError, UsageError
from docai.tasks.ocr import PageReader, chosen_pages, reader_for
from docai.tasks.options import DetectOptions
from docai.types import Label, Region

if TYPE_CHECKING:
    from docai.layout.detections import PageDetections
    from docai.render.document import Source


def detect(source: str | Path | bytes, **options: Any) -> list[PageDetections]:
    """The regions of each page of a document. Options are those of `docai detect` (see `DetectOptions`)."""
    from docai.render.document import open_document

    chosen = DetectOptions(**options)
    opened = open_document(source, password=chosen.password, limits=chosen.limits)
    return list(detect_pages(opened, chosen))


def detect_pages(
    source: Source,
    options: DetectOptions,
    *,
    on_error: Callable[[DocaiError], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[PageDetections]:
    """The regions of the chosen pages, page by page.

    `on_error` hears of a page that cannot be read, and the others go on; without it the error is raised. `on_note`
    hears why a page's regions should not be relied on.
    """
    reader = reader_for(options)
    labels = wanted_labels(options.labels)
    for index in chosen_pages(source, options):
        try:
            found, reasons = _detected(source, index, reader, options)
        except DocaiError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        if on_note is not None:
            for reason in reasons:
                on_note(f"{source.name}, page {index + 1}: {reason}")
        yield replace(found, regions=tuple(kept(found.regions, labels, options.threshold)))


def _detected(
    source: Source, index: int, reader: PageReader, options: DetectOptions
) -> tuple[PageDetections, tuple[str, ...]]:
    """All regions of a page, and what is wrong with it."""
    from docai.layout.detections import PageDetections

    page, content = source.page(index), source.content(index)
    reading = reader.text_of(page, content, None)
    regions = reader.detector.detect(reading.page, reading.lines, reading.content)
    lines = tuple(reading.lines) if options.with_lines else ()
    found = PageDetections(reading.page, reader.detector.name, options.threshold, tuple(regions), lines)
    return found, (*content.notes, *reading.reasons)


def wanted_labels(text: str | None) -> frozenset[Label]:
    """`table,figure` as labels; nothing means all. Raises UsageError for a word that is no label."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in list(Label)]
    if unknown:
        raise UsageError(f"labels: expected some of {', '.join(Label)}; got {unknown[0]!r}")
    return frozenset(Label(word) for word in words) or frozenset(Label)


def kept(regions: Iterable[Region], labels: frozenset[Label], threshold: float) -> Iterator[Region]:
    """Regions with one of `labels` that score at least `threshold`; a region without a score stays."""
    return (r for r in regions if r.label in labels and (r.score is None or r.score >= threshold))
