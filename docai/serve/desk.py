"""All that the server has: shared by its routes, made when it starts and let go of when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request

from docai.serve.detectors import Detectors
from docai.serve.front import ClientGone
from docai.serve.kept import Responses
from docai.serve.lane import Lane
from docai.serve.media import Media
from docai.serve.metrics import Metrics
from docai.serve.models import Models
from docai.serve.options import ServeOptions
from docai.serve.store import Store

T = TypeVar("T")
LOG = logging.getLogger("docai.serve")

_HANDS = 16  # threads that wait for files and decoders
_ERRANDS = 16  # threads that get what requests name, from other hosts too, which may be slow
_HANGS = 600.0  # seconds that no page and no step of an engine takes, be the machine as slow as it may
_ASKERS = 16  # threads of tasks that ask a model one thing after the other


class Bells:
    """Tells those that wait for news of something by its name. It belongs to the event loop."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}

    def ring(self, name: str) -> None:
        """There is news."""
        bell = self._bells.pop(name, None)
        if bell is not None:
            bell.set()

    def of(self, name: str) -> asyncio.Event:
        """Set with the next news."""
        return self._bells.setdefault(name, asyncio.Event())

    def ring_all(self) -> None:
        for name in list(self._bells):
            self.ring(name)


class Desk:
    """The parts of a running server."""

    def __init__(self, options: ServeOptions) -> None:
        self.options, self.metrics = options, Metrics()
        self.pages = Lane("pages", options)
        self.sight = Lane("pages that a model reads", options)
        self.compute = Lane("models", options)
        self.hands = ThreadPoolExecutor(_HANDS, "docai-hand")
        self.errands = ThreadPoolExecutor(_ERRANDS, "docai-errand")
        self.askers = ThreadPoolExecutor(_ASKERS, "docai-asker")
        self.store = Store(options.folder, options.keep_jobs_s, options.max_stored)
        self.media = Media(options, self.store)
        self.models = Models(options, self.compute, self.hands)
        self.detectors = Detectors(options, self.pages)
        self.responses = Responses(options.response_store << 20, options.keep_responses_s)
        self.bells = Bells()
        self.ready = self.closing = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def by_hand(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of something that waits more than it computes, and not for long, on another thread."""
        return await asyncio.get_running_loop().run_in_executor(self.hands, work, *arguments)

    async def got(self, work: Callable[..., T], *arguments: Any) -> T:
        """The same for what requests name: slow hosts keep only those waiting that fetch something, too."""
        return await asyncio.get_running_loop().run_in_executor(self.errands, work, *arguments)

    async def told(self, work: Callable[..., T], *arguments: Any) -> T:
        """The same for a task that asks a model one thing after the other."""
        return await asyncio.get_running_loop().run_in_executor(self.askers, work, *arguments)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Have something done beside all requests."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("internal error beside all requests", exc_info=error)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The threads that compute, beside those of engines."""
        return self.pages, self.sight, self.compute

    @property
    def running(self) -> int:
        """Answers and pages under way."""
        return self.models.running + sum(lane.running for lane in self.lanes)

    def broken(self) -> list[str]:
        """What ought to compute, and does not any more: it has ended, or nothing comes of it for too long.

        Loading a model may take as long as a download, and all pages of a document are one text to some models: the
        threads that do this are not timed.
        """
        lanes = [lane.name for lane in self.lanes if lane.broken]
        hangs = [self.pages.name] if self.pages.silent_s > max(_HANGS, 2 * self.options.page_seconds) else []
        return list(dict.fromkeys([*lanes, *hangs, *self.models.broken, *self.models.silent(_HANGS)]))

    async def close(self) -> None:
        """End everything. Jobs stay where they are, and go on with the next start."""
        self.closing, self.ready = True, False
        self.bells.ring_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.models.close()
        loop = asyncio.get_running_loop()
        for lane in self.lanes:
            await loop.run_in_executor(None, lane.close)
        for pool in (self.errands, self.askers, self.hands):
            pool.shutdown(wait=True, cancel_futures=True)
        self.store.close()


def desk_of(request: Request) -> Desk:
    """The server's parts, for a route."""
    desk: Desk = request.app.state.desk
    return desk


def owner_of(request: Request) -> str:
    """Who asks: a name made of the key."""
    return str(getattr(request.state, "owner", ""))


def tenant_of(request: Request) -> tuple[str, str]:
    """Among whom what was read or kept may be shared: who has sent the same key and, beside it, the same tenant."""
    return owner_of(request), request.headers.get("x-apc-tenant", "")


async def while_there(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is ended where the client goes away. Raises ClientGone."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
