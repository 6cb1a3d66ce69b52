"""A request in the engine, seen from outside: its answer as it comes, to threads and asyncio, and a way to end it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

from docai.vlm.request import Generation, Piece


class Outlet:
    """Where the engine puts the pieces of an answer, and others take them. `over`: nothing comes any more."""

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._changed = threading.Condition()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._error: BaseException | None = None
        self.over = False

    def put(self, pieces: list[Piece]) -> None:
        """More of the answer."""
        if pieces:
            with self._changed:
                self._pieces.extend(pieces)
                self._tell()

    def end(self, error: BaseException | None = None) -> None:
        """The answer is over; `error` is raised to whoever takes the rest of it."""
        with self._changed:
            if not self.over:
                self.over, self._error = True, error
                self._tell()

    def _tell(self) -> None:
        self._changed.notify_all()
        for loop, future in self._waiting:
            with contextlib.suppress(RuntimeError):  # its loop was closed: nobody waits there
                loop.call_soon_threadsafe(_wake, future)
        self._waiting.clear()

    def take(self, *, wait: bool = True) -> Piece | None:
        """The next piece; None where there is none any more or, unless it is to `wait`, none yet."""
        with self._changed:
            while wait and not self._pieces and not self.over:
                self._changed.wait()
            if self._pieces:
                return self._pieces.popleft()
            if self._error is not None:
                raise self._error
            return None

    def wait(self) -> None:
        """Until the answer is over."""
        with self._changed:
            while not self.over:
                self._changed.wait()

    async def take_async(self) -> Piece | None:
        """As `take`, without holding up an event loop."""
        while True:
            with self._changed:
                if self._pieces or self.over:
                    return self.take(wait=False)
                loop = asyncio.get_running_loop()
                future: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, future))
            await future


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Ticket:
    """An answer as it comes: iterate over its pieces, by `for` or `async for`; `result` is what there is of it so far.

    An answer goes on whether it is looked at or not, until it is closed or its ticket is let go of.
    """

    def __init__(self, outlet: Outlet, result: Callable[[], Generation], cancel: Callable[[], None]) -> None:
        self._outlet, self._result = outlet, result
        self._cancel = weakref.finalize(self, cancel)
        self._cancel.atexit = False

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = self._outlet.take()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        try:
            piece = await self._outlet.take_async()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    def cancel(self) -> None:
        """Have the answer end; a request that waits leaves the queue at once, one that runs with its next token."""
        self._cancel()

    def close(self) -> None:
        """End the answer here, and wait until it has."""
        self._cancel()
        self._outlet.wait()

    @property
    def over(self) -> bool:
        """Whether nothing comes any more."""
        return self._outlet.over

    @property
    def result(self) -> Generation:
        """The answer so far. One that was not read to its end is `cancelled`."""
        return self._result()

    def whole(self) -> Generation:
        """Wait for the end."""
        for _ in self:
            pass
        return self.result

    async def whole_async(self) -> Generation:
        """As `whole`, without holding up an event loop."""
        async for _ in self:
            pass
        return self.result
