"""Requests come and go: cancelling, waiting, turns of clients, asyncio, the end of an engine."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

from docai.errors import LimitExceeded, UsageError  # noqa: E402
from docai.vlm.prefix import BlockStore  # noqa: E402
from docai.vlm.request import Generation  # noqa: E402
from docai.vlm.ticket import Ticket  # noqa: E402
from tests.engine_texts import Texts, same, tiny_models  # noqa: E402


@pytest.fixture(scope="module")
def llama(folder: Path) -> Iterator[Texts]:
    texts = Texts(folder / "llama")
    yield texts
    texts.engine.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(tmp_path_factory.mktemp("models"))


def test_cancelling_ends_one_and_no_other(llama: Texts) -> None:
    tickets = [llama.engine.submit(llama.request("Hello", max_tokens=most)) for most in (100, 3000, 100)]
    for ticket in tickets[:2]:
        next(ticket)
    tickets[1].close()
    assert tickets[1].over
    assert tickets[1].result.finish_reason == "cancelled"
    assert 0 < len(tickets[1].result.tokens) < 3000
    rest = tickets[0].whole(), tickets[2].whole()
    assert rest[0].tokens == rest[1].tokens
    assert len(rest[0].tokens) == 100


def test_a_ticket_that_is_let_go_of_cancels(llama: Texts) -> None:
    outlet = llama.engine.submit(llama.request("Hello", max_tokens=3000))._outlet
    gc.collect()
    outlet.wait()
    assert outlet.over


def test_cancelling_in_the_queue_is_at_once(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=1)
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))
    next(running)
    waiting = texts.engine.submit(texts.request("Hello"))
    assert texts.engine.waiting == 1
    waiting.cancel()
    assert waiting.over
    assert texts.engine.waiting == 0
    assert (waiting.result.finish_reason, waiting.result.tokens) == ("cancelled", ())
    running.close()
    texts.engine.close()


def test_the_queue_is_bounded_and_clients_take_turns(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=1, waiting=5)
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))
    next(running)
    order: list[str] = []
    tickets = []
    for client in ("a", "a", "a", "b", "c"):
        ticket = texts.engine.submit(texts.request("Hello", max_tokens=2), client=client)
        tickets.append((client, ticket))
    with pytest.raises(LimitExceeded, match="5 requests are waiting"):
        texts.engine.submit(texts.request("Hello"))
    running.close()
    ends = sorted((ticket.whole(), ticket._result.__self__.clock._last, client)[1:] for client, ticket in tickets)
    order = [client for _, client in ends]
    assert order == ["a", "b", "c", "a", "a"]
    texts.engine.close()


def test_asyncio(llama: Texts) -> None:
    expected = llama.alone("Hello", max_tokens=30)

    async def read(ticket: Ticket) -> str:
        return "".join([piece.text async for piece in ticket])

    async def cancelled(ticket: Ticket) -> Generation:
        task = asyncio.ensure_future(read(ticket))
        await asyncio.sleep(0.02)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        while not ticket.over:
            await asyncio.sleep(0.01)
        return ticket.result

    async def every() -> tuple[list[str], Generation, Generation]:
        tickets = [llama.engine.submit(llama.request("Hello", max_tokens=30)) for _ in range(3)]
        long = llama.engine.submit(llama.request("Hello", max_tokens=3000))
        texts = await asyncio.gather(*map(read, tickets[:2]))
        return list(texts), await tickets[2].whole_async(), await cancelled(long)

    texts, whole, ended = asyncio.run(every())
    assert texts == [expected.text] * 2
    same([whole], [expected])
    assert ended.finish_reason == "cancelled"


def test_closing_ends_what_runs_and_waits(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=1)
    tickets = [texts.engine.submit(texts.request("Hello", max_tokens=3000)) for _ in range(2)]
    next(tickets[0])
    texts.engine.close()
    assert [ticket.whole().finish_reason for ticket in tickets] == ["cancelled", "cancelled"]
    with pytest.raises(UsageError, match="closed"):
        texts.engine.submit(texts.request("Hello"))


def test_an_engine_that_nobody_holds_ends_its_thread(folder: Path) -> None:
    texts = Texts(folder / "llama")
    texts.engine.answers([texts.request("Hello")])
    thread = texts.engine._worker._thread
    assert thread is not None
    del texts
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_tickets_may_come_and_go_at_any_time(folder: Path) -> None:
    """Threads that submit, read, cancel and let go, all at once: every answer that is taken is the right one."""
    texts = Texts(folder / "llama", rows=4, store=BlockStore(1 << 18))
    expected = {n: texts.alone("word " * n, max_tokens=4).tokens for n in range(1, 9)}
    wrong: list[Any] = []

    def client(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(25):
            n = chance.randrange(1, 9)
            ticket = texts.engine.submit(texts.request("word " * n, max_tokens=4), client=str(seed))
            match chance.randrange(4):
                case 0:
                    ticket.cancel()
                case 1:
                    del ticket
                case 2:
                    next(ticket)
                    ticket.close()
                case _:
                    wrong.extend([n] if ticket.whole().tokens != expected[n] else [])

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert not texts.engine.closed
    assert texts.engine.answers([texts.request("word " * 3, max_tokens=4)])[0].tokens == expected[3]
    texts.engine.close()
