"""`docai detect`: the regions of pages, with their labels and reading order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docai.errors import UsageError
from docai.tasks.ocr import chosen_pages, reader_for
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


def detect_pages(source: Source, options: DetectOptions) -> Iterator[PageDetections]:
    """The regions of the chosen pages, page by page. Raises the page's error where one cannot be read."""
    from docai.layout.detections import PageDetections

    reader = reader_for(options)
    labels = wanted_labels(options.labels)
    for index in chosen_pages(source, options):
        page, content = source.page(index), source.content(index)
        reading = reader.text_of(page, content, None)
        regions = reader.detector.detect(reading.page, reading.lines, reading.content)
        yield PageDetections(
            page=reading.page,
            model=reader.detector.name,
            threshold=options.threshold,
            regions=tuple(kept(regions, labels, options.threshold)),
            lines=tuple(reading.lines) if options.with_lines else (),
        )


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
