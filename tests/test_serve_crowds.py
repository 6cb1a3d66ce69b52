"""Crowds: queues have an end, who leaves ends what was done for them, and nothing is left behind."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from docai.ocr.ppocr import PPOCR
from docai.render.document import Source
from docai.render.worker import shared_worker
from docai.serve import front, run
from docai.serve import models as serve_models
from docai.serve.errors import ApiError
from docai.serve.room import Room
from docai.vlm.scheduler import Scheduler
from tests.conftest import make_pdf
from tests.crowd import LONG, SHORT, SMALL, URI, Crowd, descriptors, head, idle, left_over, resident
from tests.serving import Served, scan, served
from tests.tiny_encdec import tiny_florence2


def test_a_full_queue_says_when_to_come_back(server: Served) -> None:
    """More than run (8) and wait (4): the others are told so at once."""
    body = {**LONG, "max_tokens": 300}
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: server.ask("POST", "/v1/chat/completions", body), range(40)))
    statuses = [response.status for response, _ in answers]
    assert set(statuses) == {200, 503}
    for response, data in answers:
        if response.status == 503:
            assert int(response.headers["retry-after"]) > 0
            assert json.loads(data)["error"]["code"] == "overloaded"
        else:
            assert json.loads(data)["usage"]["completion_tokens"] == 300


def test_places_are_never_more_than_there_are() -> None:
    room, most, lock = Room("things wait", lambda: 7), [0], threading.Lock()

    def take(_: int) -> int:
        try:
            with room.held():
                with lock:
                    most[0] = max(most[0], room.taken)
                time.sleep(0.001)
        except ApiError as error:
            return error.status
        return 200

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        took = Counter(pool.map(take, range(500)))
    assert set(took) == {200, 503}
    assert (most[0], room.taken) == (7, 0)
    with pytest.raises(ApiError) as caught:
        room.take(8)
    assert caught.value.status == 400


@contextlib.contextmanager
def busy(server: Served) -> Iterator[None]:
    """The thread for pages has something else to do meanwhile."""
    over = threading.Event()
    waiting = asyncio.run_coroutine_threadsafe(server.desk.pages.do(over.wait), server.loop)
    try:
        yield
    finally:
        over.set()
        waiting.result(30)


def test_exactly_as_many_wait_as_may(models: Path, tmp_path: Path) -> None:
    """Of 30 documents at once one is read and 4 wait, also where jobs wait; of 30 jobs at once 4 run and 4 wait."""
    asked = [(path, {"document": URI}) for path in ("/v1/parse", "/v1/detect", "/v1/ocr") for _ in range(10)]
    with served(tmp_path / "state", max_queue_depth=4) as server, concurrent.futures.ThreadPoolExecutor(30) as pool:
        with busy(server):
            jobs = list(pool.map(lambda _: server.ask("POST", "/v1/jobs", {"document": URI}), range(30)))
            sent = [pool.submit(server.ask, "POST", *one) for one in asked]
            until = time.monotonic() + 60
            while sum(one.done() for one in sent) < 25:
                assert time.monotonic() < until
                time.sleep(0.01)
            assert server.desk.pages.room.taken == 5
        answers = [one.result() for one in sent]
        for found, most in ((jobs, 8), (answers, 5)):
            statuses = Counter(response.status for response, _ in found)
            assert statuses == {202 if found is jobs else 200: most, 503: 30 - most}
            refused = [response for response, _ in found if response.status == 503]
            assert all(int(response.headers["retry-after"]) > 0 for response in refused)
        assert server.desk.pages.room.taken == 0
        for _, data in jobs:
            if b'"id"' in data:
                until = time.monotonic() + 60
                while server.json("GET", f"/v1/jobs/{json.loads(data)['id']}")["status"] != "done":
                    assert time.monotonic() < until
                    time.sleep(0.02)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many steps engines have taken so far; each is a token of every answer."""
    taken, tick = [0], Scheduler.tick

    def counted(scheduler: Scheduler) -> None:
        taken[0] += 1
        tick(scheduler)

    monkeypatch.setattr(Scheduler, "tick", counted)
    return lambda: taken[0]


@pytest.mark.parametrize("stream", [True, False])
def test_who_leaves_ends_the_answer(server: Served, stream: bool, steps: Callable[[], int]) -> None:
    server.ask("POST", "/v1/chat/completions", SHORT)
    data = json.dumps({**LONG, "stream": stream}).encode()
    began, before = time.monotonic(), steps()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head("/v1/chat/completions", content_length=str(len(data))) + data)
        while not server.desk.models.running:
            assert time.monotonic() - began < 30
            time.sleep(0.001)
        if stream:
            connection.recv(100)
    idle(server)
    assert 0 < steps() - before < LONG["max_tokens"]


def leave_while(server: Served, path: str, body: Any, begun: Callable[[], bool]) -> float:
    """Ask, leave once it has begun, and wait until nothing of it goes on: the seconds that this took."""
    data = json.dumps(body).encode()
    until = time.monotonic() + 40
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head(path, content_length=str(len(data))) + data)
        while not begun():
            assert time.monotonic() < until
            time.sleep(0.001)
    left = time.monotonic()
    while any(lane.running for lane in server.desk.lanes) or server.desk.pages.room.taken:
        assert time.monotonic() - left < 40, "a page goes on that nobody waits for"
        time.sleep(0.01)
    return time.monotonic() - left


@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped by signals")
@pytest.mark.parametrize("path", ["/v1/parse", "/v1/detect", "/v1/ocr"])
def test_who_leaves_ends_a_page_that_hangs(server: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoding process is killed that works for nobody; others have a fresh one."""
    assert server.ask("POST", path, {"document": URI})[0].status == 200
    hung: list[int] = []
    content = Source.content

    def hangs(source: Source, index: int) -> Any:
        process = shared_worker()._process
        assert process is not None
        hung.append(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        return content(source, index)

    monkeypatch.setattr(Source, "content", hangs)
    assert leave_while(server, path, {"document": URI}, lambda: bool(hung)) < 30  # --page-seconds is 60
    monkeypatch.undo()
    assert server.ask("POST", path, {"document": URI})[0].status == 200
    fresh = shared_worker()._process
    assert fresh is not None
    assert fresh.pid != hung[0]


@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped by signals")
def test_who_leaves_ends_a_document_that_does_not_open(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask("POST", "/v1/parse", {"document": URI})[0].status == 200
    hung: list[int] = []
    opens = Source._open

    def hangs(source: Source) -> Any:
        process = shared_worker()._process
        assert process is not None
        hung.append(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        return opens(source)

    monkeypatch.setattr(Source, "_open", hangs)
    leave_while(server, "/v1/parse", {"document": URI}, lambda: bool(hung))
    monkeypatch.undo()
    began = time.monotonic()
    assert server.ask("POST", "/v1/parse", {"document": URI})[0].status == 200
    assert time.monotonic() - began < 30  # --page-seconds is 60


def test_who_leaves_ends_a_document(server: Served) -> None:
    """Of many pages no other is read."""
    many = make_pdf([f"BT /F 12 Tf 20 160 Td (Page {n}) Tj ET" for n in range(300)])
    body = {"document": "data:application/pdf;base64," + base64.b64encode(many).decode()}
    before = server.desk.metrics.total("pages_total")
    leave_while(server, "/v1/parse", body, lambda: server.desk.metrics.total("pages_total") > before)
    assert server.desk.metrics.total("pages_total") - before < 300


@pytest.mark.parametrize("path", ["/v1/parse", "/v1/detect"])
def test_who_leaves_ends_what_an_engine_reads(server: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are read a few at a time: of 12, no others after those that were being read."""
    body = {"document": "data:image/png;base64," + base64.b64encode(scan(12)).decode()}
    begun, left, reads = threading.Event(), threading.Event(), list[int]()
    read, interrupt = PPOCR._read_batch, Source.interrupt

    def slowly(net: PPOCR, lines: Any) -> Any:
        reads.append(len(lines))
        begun.set()
        assert left.wait(20)
        return read(net, lines)

    monkeypatch.setattr(PPOCR, "_read_batch", slowly)
    monkeypatch.setattr(Source, "interrupt", lambda source: (interrupt(source), left.set())[0])
    leave_while(server, path, body, begun.is_set)
    assert len(reads) == 1
    monkeypatch.undo()
    assert "number 11" in server.ask("POST", "/v1/parse", {**body, "format": "text"})[1].decode()


def test_who_leaves_ends_what_a_model_reads(server: Served, steps: Callable[[], int]) -> None:
    body = {"document": URI, "model": "sees", "ocr": "force", "guard": "off", "max_tokens": 3000}
    assert server.ask("POST", "/v1/parse", {**body, "max_tokens": 4})[0].status == 200
    before = steps()
    assert server.ask("POST", "/v1/parse", body)[0].status == 200
    whole = steps() - before
    leave_while(server, "/v1/parse", body, lambda: steps() > before + whole)
    idle(server)
    assert steps() - before - whole < whole / 2
    assert server.ask("POST", "/v1/parse", {**body, "max_tokens": 4})[0].status == 200


def test_a_reader_that_does_not_read(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(front, "_SEND_SECONDS", 0.3)
    monkeypatch.setattr(run, "TAKE_SECONDS", 0.3)
    data = json.dumps({**LONG, "stream": True, "logprobs": True, "top_logprobs": 20}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(head("/v1/chat/completions", content_length=str(len(data))) + data)
        while not server.desk.models.running:
            time.sleep(0.001)
        idle(server)
        nobody(server)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def nobody(server: Served) -> None:
    """Wait until no connection is open."""
    until = time.monotonic() + 30
    while server.server.server_state.connections:
        assert time.monotonic() < until, "a connection stays open"
        time.sleep(0.01)


def test_a_reader_that_does_not_read_a_whole_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is larger than what systems take for a reader; one that reads slowly gets it all."""
    monkeypatch.setattr(run, "TAKE_SECONDS", 1.0)
    with served(tmp_path / "state") as server:
        file = server.desk.store.add_file("", "a", "ocr", bytes(40_000_000))
        request = f"GET /v1/files/{file.id}/content HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
        for reads in (False, True):
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                connection.settimeout(60)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(request)
                assert connection.recv(15) == b"HTTP/1.1 200 OK"
                if not reads:
                    nobody(server)
                    continue
                time.sleep(0.3)
                size = 0
                while data := connection.recv(1 << 20):
                    size += len(data)
                assert size > 40_000_000


def test_a_crowd(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Everybody is answered, all jobs come to their end, nothing is left behind, and no mistake of ours is logged."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    crowd = Crowd(server)
    crowd.client(0, time.monotonic() + 2)
    idle(server)
    before, memory = descriptors(), resident()
    until = time.monotonic() + 8
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for future in [pool.submit(crowd.client, number, until) for number in range(1, 65)]:
            future.result()
    idle(server)
    assert {200, 202, 413, 422} <= set(crowd.statuses)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    counted = server.ask("GET", "/metrics")[1].decode()
    assert 'status="499"' in counted
    assert 'status="500"' not in counted
    for number in crowd.jobs:
        deadline = time.monotonic() + 60
        while server.json("GET", f"/v1/jobs/{number}")["status"] in ("queued", "running"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.json("GET", f"/v1/jobs/{number}")["status"] == "done"
    desk = server.desk
    assert [room.taken for room in (desk.pages.room, *(one.room for one in desk.models.offered.values()))] == [0, 0]
    assert descriptors() <= before + 8
    assert resident() < memory + 400  # megabytes: caches fill, and the engine that reads pages is loaded
    assert len(desk._tasks) < 8
    assert left_over(server) == set()
    assert list(tmp_path.iterdir()) == []


def test_who_waits_for_news_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Neither for `grace` seconds nor until it would have been told again that there is none."""
    with served(tmp_path / "state", grace=60.0) as server:
        job = server.desk.store.add_job("", "a.pdf", {}, b"x")  # nobody does it
        connection = server.connection()
        connection.request("GET", f"/v1/jobs/{job.id}/events")
        events = connection.getresponse()
        began = time.monotonic()
    assert time.monotonic() - began < 10
    with contextlib.closing(connection), events:
        assert events.read() == b""


def test_who_takes_nothing_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Nor is its connection left to the collector, who would warn of it."""
    with served(tmp_path / "state", grace=1.0) as server, socket.socket() as connection:
        file = server.desk.store.add_file("", "a", "ocr", bytes(40_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(f"GET /v1/files/{file.id}/content HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        began, state = time.monotonic(), server.server.server_state
        server.stop()
        assert time.monotonic() - began < 10
        assert not state.connections


def test_a_model_that_is_being_loaded_at_the_end(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded, and ended like others; who asked for it is told."""
    begun, over, loaded = threading.Event(), threading.Event(), list[Any]()
    loads = serve_models.load

    def slowly(*given: Any, **how: Any) -> Any:
        begun.set()
        assert over.wait(30)
        loaded.append(loads(*given, **how))
        return loaded[0]

    monkeypatch.setattr(serve_models, "load", slowly)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with served(tmp_path / "state", model=[str(models / "sees")], grace=0.0) as server:
            answer = pool.submit(server.ask, "POST", "/v1/chat/completions", SHORT)
            assert begun.wait(30)
            threading.Timer(1.0, over.set).start()
        assert loaded[0].engine.closed
        with contextlib.suppress(OSError, HTTPException):  # the connection may have been closed
            assert answer.result(30)[0].status >= 500


def test_models_that_answer_one_by_one_have_as_long_a_queue(tmp_path: Path) -> None:
    tiny_florence2(tmp_path / "florence")
    parts = [{"type": "image_url", "image_url": {"url": SMALL}}, {"type": "text", "text": "<CAPTION>"}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 4}
    with served(tmp_path / "state", model=[str(tmp_path / "florence")], max_queue_depth=2) as server:
        assert server.ask("POST", "/v1/chat/completions", body)[0].status == 200
        over = threading.Event()
        held = asyncio.run_coroutine_threadsafe(server.desk.compute.do(over.wait), server.loop)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            sent = [pool.submit(server.ask, "POST", "/v1/chat/completions", body) for _ in range(12)]
            until = time.monotonic() + 60
            while sum(one.done() for one in sent) < 9:
                assert time.monotonic() < until
                time.sleep(0.01)
            over.set()
            held.result(30)
            assert Counter(one.result()[0].status for one in sent) == {200: 3, 503: 9}
