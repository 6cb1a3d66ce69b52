"""`docai detect`: the regions of pages, with their labels and reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from docai.errors import DocaiError, UsageError
from docai.tasks.ocr import chosen_pages, without_input
from docai.tasks.options import DetectOptions
from docai.types import Label, Region

if TYPE_CHECKING:
    from docai.layout.detections import PageDetections
    from docai.layout.detector import Detector, Sheet
    from docai.layout.learned import Settings
    from docai.ocr.reading import ReadOptions
    from docai.render.document import Source

T = TypeVar("T")


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
    finder = finder_for(options)
    labels = wanted_labels(options.labels)
    chosen = chosen_pages(source, options)
    for start in range(0, len(chosen), finder.detector.batch):
        looks = (partial(finder.look, source, index) for index in chosen[start : start + finder.detector.batch])
        for found, reasons in finder.found([look for each in looks for look in heard(each, on_error)], on_error):
            for reason in reasons:
                if on_note is not None:
                    on_note(f"{source.name}, page {found.index + 1}: {reason}")
            yield replace(found, regions=tuple(kept(found.regions, labels, options.threshold or 0.0)))


def heard(run: Callable[[], T], on_error: Callable[[DocaiError], None] | None) -> Iterator[T]:
    """What `run` gives, once; nothing where it fails and `on_error` hears of it."""
    try:
        result = run()
    except DocaiError as error:
        if on_error is None:
            raise
        on_error(error)
    else:
        yield result


def finder_for(options: DetectOptions) -> Finder:
    """What finds regions with these options; its engine and detector are loaded once."""
    return _finder_for(without_input(options))


@lru_cache(maxsize=2)
def _finder_for(options: DetectOptions) -> Finder:
    from docai.layout.detector import get_detector
    from docai.ocr.engines import get_engine
    from docai.ocr.reading import ReadOptions

    engine = get_engine(options.engine, lang=options.lang, threads=options.threads)
    detector = get_detector(options.model, settings_of(options))
    return Finder(ReadOptions(ocr=options.ocr, engine=engine, dpi=options.dpi), detector, options)


def forget_finders() -> None:
    """Let go of the engines and detectors that are kept for the next document."""
    from docai.layout.learned import forget_networks

    _finder_for.cache_clear()
    forget_networks()


@dataclass(frozen=True, slots=True)
class Look:
    """A page as its detector sees it, and what is wrong with it."""

    sheet: Sheet
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the regions of pages of any document, with one engine and one detector."""

    reading: ReadOptions
    detector: Detector
    options: DetectOptions

    def look(self, source: Source, index: int) -> Look:
        """A page before its regions are found.

        Pixels are read where the detector needs lines or they are asked for. Else the text layer alone tells which
        way a page stands, and where its lines are.
        """
        from docai.layout.detector import Sheet
        from docai.ocr.reading import read_page

        page, content = source.page(index), source.content(index)
        reads = self.detector.reads or self.options.with_lines
        reading = read_page(page, content, self.reading if reads else replace(self.reading, ocr="never"))
        reasons = reading.reasons if reads else ()
        return Look(Sheet(reading.page, reading.lines, reading.content), (*content.notes, *reasons))

    def found(
        self, looks: Sequence[Look], on_error: Callable[[DocaiError], None] | None
    ) -> Iterator[tuple[PageDetections, tuple[str, ...]]]:
        """All regions of some pages, each with what is wrong with it. Where one fails they are taken one by one."""
        if len(looks) > 1:
            try:
                regions = self.detector.detect_all([look.sheet for look in looks])
            except DocaiError:
                for look in looks:
                    yield from self.found([look], on_error)
                return
        else:
            regions = [r for look in looks for r in heard(partial(self._alone, look), on_error)]
        for look, each in zip(looks, regions, strict=False):
            yield self._detections(look.sheet, each), look.reasons

    def _alone(self, look: Look) -> list[Region]:
        sheet = look.sheet
        return self.detector.detect(sheet.page, sheet.lines, sheet.content)

    def _detections(self, sheet: Sheet, regions: Sequence[Region]) -> PageDetections:
        from docai.layout.detections import PageDetections

        lines = tuple(sheet.lines) if self.options.with_lines else ()
        asked = self.options.threshold
        threshold = self.detector.threshold if asked is None else asked
        return PageDetections(sheet.page, self.detector.name, threshold, tuple(regions), lines)


def settings_of(options: DetectOptions) -> Settings:
    """What the options say to a detector that is a model. Raises UsageError."""
    from docai.layout.learned import Settings
    from docai.layout.suppress import Suppression

    chosen = Suppression() if options.suppress == "none" else None
    return Settings(
        options.threshold,
        label_thresholds(options.label_thresholds),
        chosen,
        options.overlap,
        options.nested,
        options.order,
        options.batch,
        options.dpi,
    )


def label_thresholds(text: str | None) -> dict[str, float]:
    """`table=0.6,figure=0.3` as scores by label. Raises UsageError."""
    found = {}
    for part in (part.strip() for part in (text or "").split(",")):
        name, _, score = part.partition("=")
        try:
            found[name.strip()] = float(score)
        except ValueError:
            score = ""
        if part and not (score and name.strip() and 0 <= found[name.strip()] <= 1):
            raise UsageError(f"label_thresholds: expected scores from 0 to 1, as in table=0.6,figure=0.3; got {part!r}")
    return found


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
