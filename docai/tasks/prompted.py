"""`docai ocr` with a model: pages are asked about, whole or by the regions of a layout, several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from docai.errors import DocaiError, UsageError
from docai.tasks.groups import PageGroup, Wanted, in_groups, in_order_by
from docai.tasks.load import load
from docai.tasks.options import OcrOptions
from docai.types import PageResult

if TYPE_CHECKING:
    from docai.layout.detector import Detector
    from docai.ocr.manners import Manner
    from docai.ocr.prompted import Leaf, PromptedReader
    from docai.ocr.reading import Reading
    from docai.render.document import Source
    from docai.tasks.ocr import Layout
    from docai.types import Line, Page, PageContent
    from docai.vlm.model import Model


@lru_cache(maxsize=1)
def _loaded(name: str, dtype: str | None, revision: str | None, offline: bool) -> Model:
    """A model, kept as long as no other is asked for."""
    return load(name, dtype=dtype, revision=revision, offline=offline, feature_cache=0, prefix_cache=0)


def prompted_reader(options: OcrOptions, detector: Detector | None, loaded: Model | None = None) -> PromptedPages:
    """The reader of a model: of one that is `loaded`, or of the one that options name.

    Raises DependencyMissing without MLX or the model, UsageError for a task it has not.
    """
    from docai.ocr.asking import asker_of
    from docai.ocr.engines import LazyEngine
    from docai.ocr.manners import manner_of
    from docai.ocr.prompted import PromptedReader
    from docai.vlm.request import GenerationOptions

    if options.multi_page and (detector is not None or options.layout is not None):
        raise UsageError("multi_page: reads whole pages; leave --layout out")
    model = seeing_model(options, loaded)
    manner = manner_of(model.family.name)
    # log probabilities of the chosen tokens tell how sure the model is
    chosen = GenerationOptions(
        max_tokens=options.max_tokens,
        thinking="off",  # what stands there is to be read, not thought about
        logprobs=None if options.guard == "off" else 0,
        multi_page=options.multi_page,
        crop_to_patches=options.crop_to_patches,
    )
    reader = PromptedReader(
        asker_of(model, chosen),
        manner,
        LazyEngine(options.threads),
        prompt=options.prompt,
        category=_task(options, manner),
        guard=options.guard,
        verify=options.verify,
        dpi=options.dpi,
        canvas=canvas_of(model),
    )
    return PromptedPages(reader, detector, as_one=options.multi_page)


def seeing_model(options: OcrOptions, loaded: Model | None = None) -> Model:
    """The model that options name, unless it is `loaded`. Raises UsageError for one that takes no images."""
    from docai.checkpoint.hub import locate

    if loaded is None:
        locate(options.model)  # a name that is none is told even where MLX is missing
    model = loaded or _loaded(options.model, options.dtype, options.revision, options.offline)
    if not model.sees:
        raise UsageError(f"model {options.model} reads text only; expected one that takes images")
    return model


def canvas_of(model: Model) -> tuple[int, int]:
    """Where a model that says where everything lies puts a page: the size, in pixels, that its checkpoint has."""
    from docai.ocr.located import CANVAS
    from docai.vlm.encdec_model import EncDecModel

    return (isinstance(model, EncDecModel) and model.canvas) or CANVAS


def page_prompt(options: OcrOptions, manner: Manner) -> str:
    """What is asked about a whole page."""
    from docai.ocr.routes import PLAIN

    return options.prompt or manner.asked(PLAIN, _task(options, manner))


def _task(options: OcrOptions, manner: Manner) -> str | None:
    """The task that is asked for everywhere. Raises UsageError for one that the model does not know."""
    if options.task is None:
        return None
    known = manner.tasks
    task = options.task.strip().lower()
    if known and task not in known:
        raise UsageError(f"task: {options.model} knows {', '.join(known)}; got {options.task!r}")
    if manner.check is not None:
        manner.check(options.task)
    return task if known else options.task


class PromptedPages:
    """Reads pages of any document by asking one model. `detector` finds what to ask about; None: the whole page.

    `as_one`: all pages are one text.
    """

    def __init__(self, reader: PromptedReader, detector: Detector | None, *, as_one: bool = False) -> None:
        self.reader, self.detector, self.as_one = reader, detector, as_one

    def results(self, source: Source, indices: Iterable[int], layout: Layout | None = None) -> Iterator[PageResult]:
        """Pages, each as it is done."""
        if self.as_one:
            return self._as_one(source, list(indices))
        return (result for _, result in self.results_of(Wanted(source, index, layout) for index in indices))

    def result(self, source: Source, index: int, layout: Layout | None = None) -> PageResult:
        """One page."""
        return next(result for _, result in self.results_of([Wanted(source, index, layout)]))

    def results_of(
        self, wanted: Iterable[Wanted], *, threads: int = 1, on_progress: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[Wanted, PageResult]]:
        """Pages of any documents in their order, in groups whose questions are asked together.

        While an engine answers those about one group, the next is prepared, by so many threads. An error becomes its
        page's outcome. `on_progress` is called as answers grow.
        """
        asked: PageGroup | None = None
        for pages in in_groups(in_order_by(wanted, self._prepared, threads), self.reader.asker.together):
            group = PageGroup(self, pages)
            if asked is not None:
                yield from asked.results(on_progress)
            asked = group
        if asked is not None:
            yield from asked.results(on_progress)

    def _as_one(self, source: Source, indices: Sequence[int]) -> Iterator[PageResult]:
        """All pages by one question. Raises UsageError where the model does not read them so."""
        from docai.ocr.as_one import read_as_one
        from docai.tasks.ocr import failed

        started = time.perf_counter()
        try:
            results = read_as_one(self.reader, [self._leaf(source, index, None) for index in indices])
        except UsageError:
            raise
        except DocaiError as error:
            results = [failed(source, index, error) for index in indices]
        seconds = round((time.perf_counter() - started) / max(1, len(indices)), 3)
        yield from (replace(result, seconds=seconds) for result in results)

    def _prepared(self, page: Wanted) -> Leaf | DocaiError:
        """What is known of a page before the model sees it, and its pixels."""
        try:
            leaf = self._leaf(page.source, page.index, page.layout)
            return replace(leaf, pixels=self.reader.pixels(leaf.page))
        except DocaiError as error:
            return error

    def _leaf(self, source: Source, index: int, layout: Layout | None) -> Leaf:
        """A page with what is known of it before the model sees it."""
        from docai.ocr.prompted import Leaf

        page, content = source.page(index), source.content(index)
        given = layout.get(index) if layout else None
        if given is not None:
            given = given.fitted_to(page.turned(given.rotation, given.skew))
            read = self._layer(page, content, (given.rotation, given.skew))
            return Leaf(read.page, given.regions, read.lines, read.content, _recognised(given.lines))
        if self.detector is None or not self.detector.reads or layout == {}:
            read = self._layer(page, content, (0, 0.0))
            return Leaf(read.page, None, read.lines, read.content)
        seen = self._seen(page, content)
        regions, recognised = self.detector.detect(seen.page, seen.lines, seen.content), _recognised(seen.lines)
        trusted = [line for line in seen.lines if line not in recognised]
        return Leaf(seen.page, regions, trusted, seen.content, recognised)

    def with_regions(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        """Pages with their regions: a detector that looks at pixels looks at several pages at once."""
        from docai.layout.detector import Sheet

        if self.detector is None or self.detector.reads:
            return list(leaves)
        bare = [leaf for leaf in leaves if leaf.regions is None]
        found = self.detector.detect_all([Sheet(leaf.page, (), leaf.content) for leaf in bare])
        regions = {id(leaf): each for leaf, each in zip(bare, found, strict=True)}
        return [replace(leaf, regions=regions.get(id(leaf), leaf.regions)) for leaf in leaves]

    def _layer(self, page: Page, content: PageContent, turn: tuple[int, float]) -> Reading:
        """The text layer, as far as it can be trusted, on the page as it is turned."""
        from docai.ocr.reading import ReadOptions, read_page

        read = read_page(page, content, ReadOptions("never", self.reader.second, turn=turn))
        return _ruled(read)

    def _seen(self, page: Page, content: PageContent) -> Reading:
        """The lines that a detector needs, by the embedded engine where there is no text layer."""
        from docai.ocr.reading import ReadOptions, read_page

        return _ruled(read_page(page, content, ReadOptions("auto", self.reader.second)))


def _recognised(lines: Sequence[Line]) -> list[Line]:
    """Those that an engine read."""
    return [line for line in lines if line.source.startswith("ocr:")]


def _ruled(read: Reading) -> Reading:
    from docai.layout.rules import seen_rules

    return replace(read, content=replace(read.content, rules=seen_rules(read.page, read.lines, read.content)))
