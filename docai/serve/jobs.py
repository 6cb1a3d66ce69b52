"""Jobs: documents that are read beside all requests. They are kept on the disk page by page, and survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.errors import DocaiError
from docai.export.formats import format_of
from docai.export.json import document_from, head_json, page_from, page_json
from docai.serve.asked import body_of, content_of, described, model_for, validated
from docai.serve.desk import Desk, desk_of, owner_of, while_there
from docai.serve.documents import in_format, parse_options
from docai.serve.errors import ApiError, busy, reply, translated
from docai.serve.events import Events, event
from docai.serve.media import Content
from docai.serve.pages import JOB, exported, opened, pages_of, reading, results
from docai.serve.route import Route
from docai.serve.store import Job
from docai.tasks.options import OcrOptions, ParseOptions
from docai.types import Document, PageResult

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.tasks.ocr import Layout

LOG = logging.getLogger("docai.serve")
router = APIRouter(route_class=Route, tags=["jobs"])

_AT_ONCE = 4  # jobs that take turns, page by page
_BUSY = 2.0  # seconds after which a job tries again that found no room for its model
_SILENCE = 15.0  # seconds after which a stream of events shows that it is still there
_PREVIEW = 110  # dpi of pages to look at
JobRequest = model_for("JobRequest", ParseOptions, layout=(Any, None), document=(Any, None))


class Runner:
    """Does the jobs of the store, several in turns, for as long as the server runs."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiting: list[str] = []
        self._coming = 0  # that are being taken in

    def resume(self) -> None:
        """Go on with what an earlier server has left."""
        self._waiting = [job.id for job in self._desk.store.unfinished()]
        self._next()

    @contextlib.contextmanager
    def coming(self) -> Iterator[None]:
        """A place for one more, before anything is done for it. Raises ApiError 503 where too many wait."""
        held = len(self._tasks) + len(self._waiting) + self._coming
        if held >= _AT_ONCE + self._desk.options.max_queue_depth:
            raise busy(f"{held} jobs are under way or waiting already")
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    def add(self, job: Job) -> None:
        """Do a job when it is its turn."""
        self._waiting.append(job.id)
        self._next()

    async def cancel(self, number: str) -> None:
        """End a job; its finished pages stay."""
        if number in self._waiting:
            self._waiting.remove(number)
        if await self._desk.by_hand(self._desk.store.end, number, "cancelled"):
            self._desk.bells.ring(number)
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    def _next(self) -> None:
        while self._waiting and len(self._tasks) < _AT_ONCE and not self._desk.closing:
            number = self._waiting.pop(0)
            task = self._desk.spawn(self._do(number))
            self._tasks[number] = task
            task.add_done_callback(partial(self._over, number))

    def _over(self, number: str, _: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)
        self._desk.bells.ring(number)
        self._next()

    async def _do(self, number: str) -> None:
        desk = self._desk
        try:
            while not await self._done(number):
                await asyncio.sleep(_BUSY)
        except (ApiError, DocaiError) as error:
            if desk.closing:  # it goes on with the next start
                return
            told = error if isinstance(error, ApiError) else translated(error)
            await desk.by_hand(desk.store.end, number, "failed", told.body()["error"])
        except Exception:
            LOG.exception("%s: internal error", number)
            ours = ApiError(500, f"internal error; the server's log has it as {number}")
            await desk.by_hand(desk.store.end, number, "failed", ours.body()["error"])

    async def _done(self, number: str) -> bool:
        """Do a job; False where it has to wait for a model whose place others have."""
        desk = self._desk
        job = await desk.by_hand(desk.store.job, number, None)
        if job is None or job.over:
            return True
        try:
            await self._read(job)
        except ApiError as error:
            if error.retry_after is None or desk.closing:
                raise
            return False
        await desk.by_hand(desk.store.end, number, "done")
        return True

    async def _read(self, job: Job) -> None:
        desk = self._desk
        options, layout = await desk.by_hand(settled, desk, job)
        content = await desk.by_hand(content_in, desk, job)
        async with reading(desk, options, places=0) as reads, opened(desk, content, options.password) as source:
            indices = pages_of(source, options, layout)
            done = {page["index"] for page in await desk.by_hand(desk.store.pages, job.id)}
            await desk.by_hand(desk.store.begin, job.id, _head(source, options), len(indices))
            desk.bells.ring(job.id)
            keep = partial(_keep, desk, job.id, len(indices))
            pages = results(desk, source, reads, indices, layout=layout, skip=done, rank=JOB, keep=keep)
            async with contextlib.aclosing(pages):
                async for _ in pages:
                    desk.bells.ring(job.id)


def settled(desk: Desk, job: Job) -> tuple[OcrOptions, Layout | None]:
    """How a job's document is to be read."""
    return parse_options(validated(JobRequest, job.options), desk)


def content_in(desk: Desk, job: Job) -> Content:
    """The document of a job. Raises ApiError where it is gone."""
    try:
        return Content(job.name, desk.store.path(job.id).read_bytes())
    except OSError:
        raise ApiError(404, f"the document of {job.id} is gone", code="job_not_found") from None


def _head(source: Source, options: OcrOptions) -> dict[str, Any]:
    return head_json(Document(source.name, (), source.metadata, source.outline, options.model))


def _keep(desk: Desk, number: str, total: int, result: PageResult) -> None:
    from docai.batch.work import page_event

    desk.store.keep_page(number, result.page.index, page_event(result, total), page_json(result))


def described_job(desk: Desk, job: Job) -> dict[str, Any]:
    """A job for its owner."""
    return {
        "id": job.id,
        "object": "job",
        "status": job.state,
        "name": job.name,
        "created_at": int(job.created),
        "ended_at": None if job.ended is None else int(job.ended),
        "pages": {"done": desk.store.page_count(job.id), "total": job.total},
        "error": job.error,
    }


# --- routes


def runner_of(request: Request) -> Runner:
    runner: Runner = request.app.state.runner
    return runner


async def _known(request: Request, number: str) -> Job:
    desk = desk_of(request)
    job = await desk.by_hand(desk.store.job, number, owner_of(request))
    if job is None:
        raise ApiError(404, f"there is no job {number[:80]!r}", code="job_not_found")
    return job


@router.post("/v1/jobs", openapi_extra=described(JobRequest), status_code=202)
async def submit(request: Request) -> Response:
    """Have a document read: the fields are those of `/v1/parse`, but for the format, which the result is asked in."""
    asked, file = await body_of(request, JobRequest)
    desk, runner = desk_of(request), runner_of(request)
    await desk.by_hand(parse_options, asked, desk)
    with runner.coming():
        content = await while_there(request, content_of(request, asked.document, file))
        said = asked.model_dump(exclude={"document"}, exclude_defaults=True)
        job = await desk.by_hand(desk.store.add_job, owner_of(request), content.name, said, content.data)
        runner.add(job)
    return reply(await desk.by_hand(described_job, desk, job), 202, {"location": f"/v1/jobs/{job.id}"})


@router.get("/v1/jobs")
async def jobs(request: Request) -> Response:
    """All jobs that are kept, the newest first."""
    desk = desk_of(request)

    def found() -> list[dict[str, Any]]:
        return [described_job(desk, job) for job in desk.store.jobs(owner_of(request))]

    return reply({"object": "list", "data": await desk.by_hand(found)})


@router.get("/v1/jobs/{number}")
async def job(number: str, request: Request) -> Response:
    """How far a job is."""
    desk = desk_of(request)
    return reply(await desk.by_hand(described_job, desk, await _known(request, number)))


@router.post("/v1/jobs/{number}/cancel")
async def cancel(number: str, request: Request) -> Response:
    """End a job. Its finished pages can still be had."""
    desk, known = desk_of(request), await _known(request, number)
    await runner_of(request).cancel(known.id)
    return reply(await desk.by_hand(described_job, desk, await _known(request, number)))


@router.delete("/v1/jobs/{number}")
async def delete(number: str, request: Request) -> Response:
    """Forget a job, its document and its pages."""
    desk, known = desk_of(request), await _known(request, number)
    await runner_of(request).cancel(known.id)
    await desk.by_hand(desk.store.drop_job, known.id)
    return reply({"id": known.id, "object": "job", "deleted": True})


@router.get("/v1/jobs/{number}/events")
async def events(number: str, request: Request) -> Response:
    """What happens to a job as server-sent events: each page as it is done, and the end. It can be taken up again."""
    known = await _known(request, number)
    last = request.headers.get("last-event-id", "")
    return Events(_news(request, known.id, int(last) if last.isascii() and last.isdecimal() else 0))


async def _news(request: Request, number: str, after: int) -> AsyncGenerator[bytes]:
    desk, owner = desk_of(request), owner_of(request)
    while not desk.closing:
        bell = desk.bells.of(number)  # before looking, so that nothing is missed
        job = await desk.by_hand(desk.store.job, number, owner)
        for at, told in await desk.by_hand(desk.store.told, number, after):
            after = at
            yield f"id: {at}\n".encode() + event(told, "page")
        if job is None or job.over:
            said = {"id": number, "status": "deleted"} if job is None else await desk.by_hand(described_job, desk, job)
            desk.bells.ring(number)  # no more news: the bell is not kept
            yield event(said, said["status"])
            return
        try:
            async with asyncio.timeout(_SILENCE):
                await bell.wait()
        except TimeoutError:
            yield b": waiting\n\n"


@router.get("/v1/jobs/{number}/result")
async def result(
    number: str,
    request: Request,
    format: str = "json",
    images: Literal["none", "embed"] = "none",
    furniture: Literal["drop", "keep"] = "drop",
    partial_result: bool = False,
) -> Response:
    """The document in any format; 409 as long as it is not read, unless `partial_result` is asked for."""
    format_of(format)
    desk, known = desk_of(request), await _known(request, number)
    if not known.over and not partial_result:
        raise ApiError(409, f"the job is {known.state}; ask again when it is done", code="not_done", retry_after=2)
    if known.state == "failed" and not partial_result:
        message = (known.error or {}).get("message", "the job has failed")
        raise ApiError(422, str(message), code=(known.error or {}).get("code"))
    return await while_there(request, _result(desk, known, format, images, furniture))


async def _result(desk: Desk, job: Job, format: str, images: str, furniture: str) -> Response:
    if job.head is None:
        raise ApiError(409, "nothing of the document has been read", code="not_done")
    pages = await desk.by_hand(desk.store.pages, job.id)
    with desk.pages.room.held():
        read = await desk.pages.do(partial(_settled_pages, job.head, pages))
    options, _ = await desk.by_hand(settled, desk, job)
    content = await desk.by_hand(content_in, desk, job)
    async with opened(desk, content, options.password) as source:
        data = await exported(desk, read, format, source, images=images, furniture=furniture)
    return in_format(data, format, read.outcome.status.value)


def _settled_pages(head: dict[str, Any], pages: list[dict[str, Any]]) -> Document:
    from docai.ocr.document import settle

    return document_from(head, settle([page_from(page) for page in pages]))


@router.get("/v1/jobs/{number}/pages/{page}")
async def page(number: str, page: int, request: Request) -> Response:
    """A finished page (counted from 1) with its blocks, before the document pass."""
    return reply(await _page(desk_of(request), await _known(request, number), page))


async def _page(desk: Desk, job: Job, page: int) -> dict[str, Any]:
    said = await desk.by_hand(desk.store.page, job.id, page - 1) if 0 < page <= 1_000_000 else None
    if said is None:
        raise ApiError(404, f"page {page} has not been read", code="page_not_found")
    return said


@router.get("/v1/jobs/{number}/pages/{page}/image")
async def image(number: str, page: int, request: Request) -> Response:
    """The picture of a page (counted from 1), upright, as its blocks have it."""
    desk, known = desk_of(request), await _known(request, number)
    data = await while_there(request, _image(desk, known, await _page(desk, known, page)))
    return Response(data, headers={"cache-control": "private, max-age=3600"}, media_type="image/jpeg")


async def _image(desk: Desk, job: Job, said: dict[str, Any]) -> bytes:
    options, _ = await desk.by_hand(settled, desk, job)
    content = await desk.by_hand(content_in, desk, job)
    async with opened(desk, content, options.password) as source:
        return await desk.by_hand(_drawn, source, said)


def _drawn(source: Source, said: dict[str, Any]) -> bytes:
    from docai.export.figures import jpeg_of, shrunk

    shown = source.page(said["index"]).turned(said["rotation"], said["skew"])
    return jpeg_of(shrunk(shown.pixels(_PREVIEW), 1400), 82)
