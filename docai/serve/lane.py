"""A lane: one thread that lives as long as the server and does one thing after the other.

What computes with MLX has to keep to one thread: streams cannot be used from another one, and the interpreter cannot
end after threads that computed and are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from docai.serve.errors import busy
from docai.serve.options import ServeOptions
from docai.serve.room import Room

T = TypeVar("T")


class _Item:
    __slots__ = ("future", "loop", "number", "rank", "stop", "work")

    def __init__(self, rank: int, number: int, work: Callable[[], Any], stop: Callable[[], None] | None) -> None:
        self.rank, self.number, self.work, self.stop = rank, number, work, stop
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def __lt__(self, other: _Item) -> bool:
        return (self.rank, self.number) < (other.rank, other.number)


class Lane:
    """Does what is asked of it in turn. What has a lower `rank` comes first.

    `room` is for requests, each of which holds a place while its parts are done one by one: one runs, the others wait.
    """

    def __init__(self, name: str, options: ServeOptions) -> None:
        self.name = name
        self.room = Room(f"requests are waiting for {name}", lambda: 1 + options.max_queue_depth)
        self._items: list[_Item] = []
        self._current: _Item | None = None
        self._began: float | None = None
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"docai-{name}", daemon=True)
        self._started = False

    @property
    def waiting(self) -> int:
        return len(self._items)

    @property
    def running(self) -> bool:
        return self._current is not None

    @property
    def silent_s(self) -> float:
        """For how many seconds it has been at what it does; 0 where there is nothing to do."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    @property
    def broken(self) -> bool:
        """Whether its thread has ended before its time."""
        return self._started and not self._closing and not self._thread.is_alive()

    async def do(self, work: Callable[[], T], *, rank: int = 0, stop: Callable[[], None] | None = None) -> T:
        """The result of `work`. Whoever stops waiting takes it out of the queue.

        What runs already goes on to its end, unless `stop` can have it end earlier; it is called while the work runs,
        on the thread of whoever stops waiting, and must not wait for anything. Raises ApiError 503 where the lane is
        closed.
        """
        item = _Item(rank, next(self._numbers), work, stop)
        with self._changed:
            if self._closing:
                raise busy("the server is being stopped")
            if not self._started:
                self._started = True
                self._thread.start()
            heapq.heappush(self._items, item)
            self._changed.notify()
        try:
            result: T = await item.future
        except asyncio.CancelledError:
            self._drop(item)
            raise
        return result

    def _drop(self, item: _Item) -> None:
        with self._changed:
            if item in self._items:
                self._items.remove(item)
                heapq.heapify(self._items)
            elif item is self._current and item.stop is not None:
                item.stop()

    def close(self) -> None:
        """End the thread, once what runs is done; what waits is given up."""
        with self._changed:
            self._closing = True
            for item in self._items:
                _tell(item, None, busy("the server is being stopped"))
            self._items.clear()
            self._changed.notify()
        if self._started:
            self._thread.join()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = item.work()
            except BaseException as raised:  # noqa: BLE001 - whoever asked gets it
                error = raised
            with self._changed:
                self._current = self._began = None
            _tell(item, result, error)
            del item, result, error
        _let_go()

    def _next(self) -> _Item | None:
        with self._changed:
            while not self._items and not self._closing:
                self._changed.wait()
            self._current = None if self._closing else heapq.heappop(self._items)
            self._began = time.monotonic()
            return self._current


def _tell(item: _Item, result: Any, error: BaseException | None) -> None:
    def settle() -> None:
        if item.future.done():
            return
        if error is None:
            item.future.set_result(result)
        else:
            item.future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        item.loop.call_soon_threadsafe(settle)


def _let_go() -> None:
    """What MLX keeps for a thread has to go with it."""
    mx = sys.modules.get("mlx.core")
    if mx is not None:
        mx.synchronize()
        mx.clear_streams()
