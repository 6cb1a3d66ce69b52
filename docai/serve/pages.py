"""Documents are read page by page on the thread for pages, so that none keeps others waiting longer than a page."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from docai.errors import UsageError
from docai.ocr.wanted import while_wanted
from docai.render.inputs import InputFile
from docai.serve.desk import Desk
from docai.serve.errors import ApiError, known
from docai.serve.lane import Lane
from docai.serve.media import Content
from docai.serve.models import Offered
from docai.tasks.ocr import chosen_pages, finish, pages_reader, without_input
from docai.tasks.options import ENGINES, OcrOptions
from docai.types import Document, Limits, PageResult

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.tasks.ocr import Layout
    from docai.tasks.prompted import PromptedPages

T = TypeVar("T")

JOB, NOW = 1, 0  # ranks: who waits for an answer comes before jobs
_READERS = 4  # that are kept of a model; each has an engine's thread of its own


@contextlib.asynccontextmanager
async def opened(desk: Desk, content: Content, password: str | None = None) -> AsyncIterator[Source]:
    """A document, open until it is left. Raises the errors of `open_document`."""
    opening = _Opening(InputFile(None, None, content.name, content.data), password, desk.options.limits)
    try:
        source = await desk.by_hand(opening.run)
    except asyncio.CancelledError:
        desk.hands.submit(opening.give_up)
        raise
    try:
        yield source
    finally:
        await desk.by_hand(source.close)


class _Opening:
    """A document that is being opened on a thread, for somebody who may leave meanwhile."""

    def __init__(self, file: InputFile, password: str | None, limits: Limits) -> None:
        self._file, self._password, self._limits = file, password, limits
        self._thread = 0
        self._over = self._left = False

    def run(self) -> Source:
        from docai.render.document import open_document

        self._thread = threading.get_ident()
        try:
            source = open_document(self._file, password=self._password, limits=self._limits)
        finally:
            self._over = True
        if self._left:
            source.close()
        return source

    def give_up(self) -> None:
        """Nobody waits: end the decoding process where it goes on opening this document for a while."""
        from docai.render.worker import shared_worker

        self._left = True
        number = shared_worker().document_of(self._thread)
        if number is not None and not self._over:  # then the call is one of this document's
            shared_worker().interrupt(number)


def engines() -> tuple[str, ...]:
    """The engines that are there."""
    return tuple(name for name in ENGINES if name != "tesseract" or shutil.which(name))


def check_engine(desk: Desk, name: str) -> None:
    """Raise ApiError for what is neither an engine nor a model of this server."""
    known(name, (*engines(), *desk.models.offered), "to read with", "model")


@dataclass(frozen=True, slots=True)
class Reading:
    """What reads pages, and the thread that it does it on.

    `as_one`: all pages are one text, which is read at once. `stop`: ends what is being read, from another thread.
    """

    lane: Lane
    read: Callable[[Source, Sequence[int], Layout | None], Iterable[PageResult]]
    as_one: bool = False
    stop: Callable[[], None] = lambda: None


@contextlib.asynccontextmanager
async def reading(desk: Desk, options: OcrOptions, places: int = 1) -> AsyncIterator[Reading]:
    """An engine, or a model that stays loaded meanwhile.

    `places`: how many it takes among those that wait; jobs take none. Raises ApiError, 503 where too many wait.
    """
    check_engine(desk, options.model)
    if options.engine or options.ocr == "never":
        with desk.pages.room.held(places), desk.detectors.use(options.layout):
            yield Reading(desk.pages, lambda *pages: pages_reader(options).results(*pages))
        return
    async with desk.models.use(options.model, places) as offered:
        lane = desk.compute if offered.engine is None else desk.sight
        readers = Readers(offered, without_input(options))
        with lane.room.held(places):
            yield Reading(lane, readers.read, options.multi_page, readers.stop)


class Readers:
    """The readers of a model, by options: a few are kept with it."""

    def __init__(self, offered: Offered, options: OcrOptions) -> None:
        self._offered, self._options = offered, options

    def read(self, source: Source, indices: Sequence[int], layout: Layout | None) -> Iterable[PageResult]:
        """The results of pages, on the thread that computes."""
        kept = self._offered.readers
        reader = kept.pop(self._options, None) or self._made()
        kept[self._options] = reader
        for options in list(kept)[:-_READERS]:
            kept.pop(options, None)  # which may have been stopped meanwhile
        return reader.results(source, indices, layout)

    def _made(self) -> PromptedPages:
        from docai.ocr.located import LOCATED
        from docai.ocr.manners import manner_of
        from docai.tasks.ocr import detector_for
        from docai.tasks.prompted import prompted_reader

        model, options = self._offered.model, self._options
        assert model is not None
        whole = manner_of(model.family.name).parser in LOCATED
        detector = None if options.layout is None or whole else detector_for(options.layout)
        return prompted_reader(options, detector, model)

    def stop(self) -> None:
        """Nobody waits for what the reader is asking. It is not used again."""
        reader = self._offered.readers.pop(self._options, None)
        if reader is not None:
            reader.reader.asker.stop()


def pages_of(source: Source, options: OcrOptions, layout: Layout | None = None) -> Sequence[int]:
    """The indices of the pages to read. Raises ApiError."""
    try:
        return chosen_pages(source, options, layout)
    except UsageError as error:
        raise ApiError(400, str(error), code="invalid_value", param="pages") from error


async def results(
    desk: Desk,
    source: Source,
    reads: Reading,
    indices: Sequence[int],
    *,
    layout: Layout | None = None,
    skip: Collection[int] = (),
    rank: int = NOW,
    keep: Callable[[PageResult], None] | None = None,
) -> AsyncGenerator[PageResult]:
    """The results of pages, each as it is done. `keep` hears of each on the thread that has read it."""
    left = [index for index in indices if index not in skip]
    if reads.as_one:  # what some of them say cannot be had without the others
        left = list(indices) if left else []
    for group in [left] if reads.as_one else [[index] for index in left]:
        work = partial(_read, desk, source, reads, group, layout, keep)
        for result in await watched(desk, reads.lane, source, work, rank=rank, stop=reads.stop):
            yield result


async def watched(
    desk: Desk,
    lane: Lane,
    source: Source,
    work: Callable[[], T],
    *,
    rank: int = NOW,
    stop: Callable[[], None] = lambda: None,
) -> T:
    """The result of work on a document, which ends early where nobody waits for it any more."""

    def end() -> None:
        source.interrupted = True
        desk.hands.submit(source.interrupt)  # which may take a moment
        stop()

    return await lane.do(work, rank=rank, stop=end)


def _read(
    desk: Desk,
    source: Source,
    reads: Reading,
    indices: Sequence[int],
    layout: Layout | None,
    keep: Callable[[PageResult], None] | None,
) -> list[PageResult]:
    with while_wanted(lambda: not source.interrupted):
        results = list(reads.read(source, indices, layout))
    if source.interrupted:  # whatever it is, it is not what is on the pages
        return []
    for result in results:
        if keep is not None:
            keep(result)
        desk.metrics.count("pages_total", status=result.outcome.status.value)
        desk.metrics.count("regions_total", len(result.blocks))
        desk.metrics.count("loops_total", sum(block.verdict == "loop" for block in result.blocks))
        desk.metrics.observe("page_seconds", result.seconds)
    return results


async def document(
    desk: Desk, content: Content, options: OcrOptions, layout: Layout | None = None
) -> tuple[Document, Source]:
    """A whole document, and its source, closed: it opens again where pictures are wanted of it."""
    async with reading(desk, options) as reads, opened(desk, content, options.password) as source:
        indices = pages_of(source, options, layout)
        read = [result async for result in results(desk, source, reads, indices, layout=layout)]
        return await desk.pages.do(partial(finish, source, read, options)), source


async def exported(desk: Desk, read: Document, format: str, source: Source, **options: Any) -> str | bytes:
    """A document in a format; its source is closed afterwards."""
    from docai.export.formats import ExportOptions, export

    def made() -> str | bytes:
        try:
            return export(read, format, ExportOptions(**options), source)
        finally:
            source.close()

    return await desk.by_hand(made)
