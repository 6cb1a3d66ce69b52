"""Documents are read page by page on the thread for pages, so that none keeps others waiting longer than a page."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from docai.errors import UsageError
from docai.render.inputs import InputFile
from docai.serve.desk import Desk
from docai.serve.errors import ApiError
from docai.serve.lane import Lane
from docai.serve.media import Content
from docai.serve.models import Offered
from docai.tasks.ocr import chosen_pages, finish, pages_reader, without_input
from docai.tasks.options import ENGINES, OcrOptions
from docai.types import Document, PageResult

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.tasks.ocr import Layout

JOB, NOW = 1, 0  # ranks: who waits for an answer comes before jobs


@contextlib.asynccontextmanager
async def opened(desk: Desk, content: Content, password: str | None = None) -> AsyncIterator[Source]:
    """A document, open until it is left. Raises the errors of `open_document`."""
    from docai.render.document import open_document

    file = InputFile(None, None, content.name, content.data)
    source = await desk.by_hand(partial(open_document, file, password=password, limits=desk.options.limits))
    try:
        yield source
    finally:
        await desk.by_hand(source.close)


def check_engine(desk: Desk, name: str) -> None:
    """Raise ApiError for what is neither an engine nor a model of this server."""
    known = (*ENGINES, *desk.models.offered)
    if name not in known:
        raise ApiError(
            404, f"there is nothing called {name[:100]!r} to read with; there are {', '.join(known)}",
            code="model_not_found", param="model",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """What reads pages, and the thread that it does it on."""

    lane: Lane
    read: Callable[[Source, int, Layout | None], PageResult]


@contextlib.asynccontextmanager
async def reading(desk: Desk, options: OcrOptions) -> AsyncIterator[Reading]:
    """An engine, or a model that stays loaded meanwhile. Raises ApiError."""
    check_engine(desk, options.model)
    if options.engine or options.ocr == "never":
        yield Reading(desk.pages, lambda *page: pages_reader(options).result(*page))
        return
    async with desk.models.use(options.model) as offered:
        lane = desk.compute if offered.engine is None else desk.sight
        yield Reading(lane, partial(_by_model, offered, without_input(options)))


def _by_model(offered: Offered, options: OcrOptions, source: Source, index: int, layout: Layout | None) -> PageResult:
    from docai.ocr.located import LOCATED
    from docai.ocr.manners import manner_of
    from docai.tasks.ocr import detector_for
    from docai.tasks.prompted import prompted_reader

    assert offered.model is not None
    if options not in offered.readers:
        whole = manner_of(offered.model.family.name).parser in LOCATED
        detector = None if options.layout is None or whole else detector_for(options.layout)
        offered.readers[options] = prompted_reader(options, detector, offered.model)
    result: PageResult = offered.readers[options].result(source, index, layout)
    return result


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
    if rank == NOW:
        reads.lane.check()
    for index in indices:
        if index not in skip:
            work = partial(_read, desk, source, reads, index, layout, keep)
            yield await reads.lane.do(work, rank=rank, bounded=False)


def _read(
    desk: Desk,
    source: Source,
    reads: Reading,
    index: int,
    layout: Layout | None,
    keep: Callable[[PageResult], None] | None,
) -> PageResult:
    result = reads.read(source, index, layout)
    if keep is not None:
        keep(result)
    desk.metrics.count("pages_total", status=result.outcome.status.value)
    desk.metrics.count("regions_total", len(result.blocks))
    desk.metrics.observe("page_seconds", result.seconds)
    return result


async def document(
    desk: Desk, content: Content, options: OcrOptions, layout: Layout | None = None
) -> tuple[Document, Source]:
    """A whole document, and its source, closed: it opens again where pictures are wanted of it."""
    async with opened(desk, content, options.password) as source, reading(desk, options) as reads:
        indices = pages_of(source, options, layout)
        read = [result async for result in results(desk, source, reads, indices, layout=layout)]
        return await desk.pages.do(partial(finish, source, read, options), bounded=False), source


async def exported(desk: Desk, read: Document, format: str, source: Source, **options: Any) -> str | bytes:
    """A document in a format; its source is closed afterwards."""
    from docai.export.formats import ExportOptions, export

    def made() -> str | bytes:
        try:
            return export(read, format, ExportOptions(**options), source)
        finally:
            source.close()

    return await desk.by_hand(made)
