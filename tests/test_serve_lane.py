"""The threads that compute: in turn, by rank, whoever leaves, whatever fails."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from docai.serve.errors import ApiError
from docai.serve.lane import Lane
from docai.serve.options import ServeOptions


@pytest.fixture
def lane() -> Iterator[Lane]:
    with contextlib.closing(Lane("test", ServeOptions())) as lane:
        yield lane


def test_by_rank_and_then_by_time(lane: Lane) -> None:
    done: list[str] = []
    held = threading.Event()

    async def run() -> None:
        first = asyncio.ensure_future(lane.do(held.wait))
        work = [lane.do(lambda name=name: done.append(name), rank=rank) for rank, name in enumerate("cab")]
        others = [asyncio.ensure_future(one) for one in (*reversed(work), lane.do(lambda: done.append("d"), rank=0))]
        await asyncio.sleep(0)
        held.set()
        await asyncio.gather(first, *others)

    asyncio.run(run())
    assert done == ["c", "d", "a", "b"]


def test_what_waits_is_dropped_and_what_runs_is_stopped(lane: Lane) -> None:
    begun, over = threading.Event(), threading.Event()
    stopped: list[str] = []

    def work() -> str:
        begun.set()
        over.wait(10)
        return "whole"

    async def run() -> None:
        running = asyncio.ensure_future(lane.do(work, stop=lambda: (stopped.append("running"), over.set())))
        waiting = asyncio.ensure_future(lane.do(lambda: stopped.append("it ran"), stop=lambda: stopped.append("waits")))
        await asyncio.to_thread(begun.wait, 10)
        assert (lane.running, lane.waiting) == (True, 1)
        waiting.cancel()
        running.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        assert await lane.do(lambda: "next") == "next"

    asyncio.run(run())
    assert stopped == ["running"]


def test_errors_go_to_whoever_asked(lane: Lane) -> None:
    def fails() -> None:
        raise KeyError("x")

    async def run() -> None:
        with pytest.raises(KeyError):
            await lane.do(fails)
        with pytest.raises(SystemExit):
            await lane.do(lambda: (_ for _ in ()).throw(SystemExit(3)))
        assert await lane.do(lambda: 1) == 1
        assert not lane.broken

    asyncio.run(run())


def test_a_loop_that_was_closed_does_not_end_it(lane: Lane) -> None:
    """Whoever asked is gone with the loop; others are answered on theirs."""
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        over.wait(10)

    loop = asyncio.new_event_loop()
    asked = loop.create_task(lane.do(work))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert begun.wait(10)
    asked._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio tells of tasks that a loop leaves behind
    loop.close()
    over.set()
    assert asyncio.run(lane.do(lambda: "next")) == "next"
    assert not lane.broken


def test_a_closed_lane_says_so() -> None:
    lane = Lane("test", ServeOptions())

    async def run() -> None:
        begun, over = threading.Event(), threading.Event()
        running = asyncio.ensure_future(lane.do(lambda: (begun.set(), over.wait(10), "whole")[2]))
        waiting = asyncio.ensure_future(lane.do(lambda: None))
        await asyncio.to_thread(begun.wait, 10)
        asyncio.get_running_loop().call_later(0.05, over.set)
        await asyncio.to_thread(lane.close)
        assert await running == "whole"
        for one in (waiting, lane.do(lambda: None)):
            with pytest.raises(ApiError) as caught:
                await one
            assert caught.value.status == 503

    asyncio.run(run())
