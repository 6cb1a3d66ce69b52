"""The decoding process: messages, crashes, hangs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from PIL import Image

from docai.errors import InputError, LimitExceeded
from docai.render import wire
from docai.render.document import Source, open_document
from docai.render.worker import _RECYCLE, Forgotten, Worker, _printable, shared_worker
from docai.types import Limits


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


@pytest.mark.parametrize("array", [np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((0, 4), np.uint8)])
def test_an_array_comes_through_whole(pipe: tuple[int, int], array: np.ndarray) -> None:
    described, part = wire.pack_array(array)
    wire.send(pipe[1], {"array": described}, [b"odd", part])
    header, parts = wire.receive(pipe[0])
    assert bytes(parts[0]) == b"odd"
    np.testing.assert_array_equal(wire.unpack_array(header["array"], parts[1]), array)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", wire.Closed),
        (b"\x01\x00", wire.Closed),
        (b"\xff\xff\xff\xff\x00\x00\x00\x00", wire.Malformed),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00[]", wire.Malformed),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{{", wire.Malformed),
        (b"\x02\x00\x00\x00\x01\x00\x00\x00" + b"\xff" * 8 + b"{}", wire.Malformed),
    ],
)
def test_what_is_no_message_is_refused(pipe: tuple[int, int], data: bytes, error: type[Exception]) -> None:
    os.write(pipe[1], data)
    os.close(pipe[1])
    with pytest.raises(error):
        wire.receive(pipe[0])


@pytest.mark.parametrize(
    "said", [{"dtype": "object", "shape": [1]}, {"dtype": "uint8", "shape": [9]}, {"dtype": "uint8"}]
)
def test_an_array_that_does_not_fit_its_bytes_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(wire.Malformed):
        wire.unpack_array(said, bytearray(1))


def test_a_hang_is_stopped_and_the_next_call_has_a_new_process(tiny_pdf: bytes) -> None:
    worker = Worker()
    with pytest.raises(Forgotten):
        worker.call({"do": "size", "document": 1, "index": 0}, seconds=30)
    assert worker._process is not None
    os.kill(worker._process.pid, signal.SIGSTOP)
    with pytest.raises(LimitExceeded, match="--page-seconds"):
        worker.call({"do": "size", "document": 1, "index": 0}, seconds=0.2)
    with pytest.raises(Forgotten):
        worker.call({"do": "size", "document": 1, "index": 0}, seconds=30)
    worker.stop()


def test_a_crash_costs_one_call_and_the_document_opens_again(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf) as source:
        worker = shared_worker()
        assert worker._process is not None
        worker._process.send_signal(signal.SIGSEGV)
        worker._process.wait()
        assert source.page(0).size == (300.0, 200.0)


def test_a_crash_within_a_call_is_an_input_error(tiny_pdf: bytes) -> None:
    worker = Worker()
    with pytest.raises(Forgotten):
        worker.call({"do": "size", "document": 1, "index": 0}, seconds=30)
    process = worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGSEGV)
    os.kill(process.pid, signal.SIGCONT)
    with pytest.raises((InputError, Forgotten)):  # Forgotten where it was gone before the call began
        worker.call({"do": "size", "document": 1, "index": 0}, seconds=30)
    worker.stop()


def ahead(source: Source, index: int) -> dict[str, object]:
    return {"do": "content", "index": index, "document": source._number}


def test_a_page_that_is_read_ahead_reads_the_same(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf) as source, open_document(tiny_pdf) as other:
        shared_worker().call_ahead(ahead(source, 1), seconds=30)
        assert source.page(0).size == (300.0, 200.0)
        found, expected = source.content(1).glyphs, other.content(1).glyphs
        assert found is not None
        assert expected is not None
        np.testing.assert_array_equal(found.codepoints, expected.codepoints)
        np.testing.assert_array_equal(found.boxes, expected.boxes)


def test_a_hang_while_a_page_is_read_ahead_costs_that_page_only(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf), open_document(tiny_pdf, limits=Limits(page_seconds=1)) as source:  # once it runs
        worker = shared_worker()
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGSTOP)
        worker.call_ahead(ahead(source, 1), seconds=30)
        with pytest.raises(LimitExceeded, match="page 2"):
            source.page(1)


def test_a_crash_while_a_page_is_read_ahead_is_told_once(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf) as source:
        worker = shared_worker()
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGSTOP)
        worker.call_ahead(ahead(source, 1), seconds=30)
        os.kill(worker._process.pid, signal.SIGKILL)
        with pytest.raises(InputError, match="page 2"):
            source.content(1)
        assert source.content(1).glyphs is not None


def test_a_page_that_is_read_ahead_does_not_hold_up_the_end(tiny_pdf: bytes) -> None:
    source, worker = open_document(tiny_pdf, limits=Limits(page_seconds=60)), shared_worker()
    assert worker._process is not None
    os.kill(worker._process.pid, signal.SIGSTOP)
    worker.call_ahead(ahead(source, 1), seconds=30)
    start = time.monotonic()
    source.close()
    assert time.monotonic() - start < 30
    assert source.page(0).size == (300.0, 200.0)


def test_a_hang_while_a_page_is_read_ahead_is_no_other_page_s(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf, limits=Limits(page_seconds=5)) as source:
        worker = shared_worker()
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGSTOP)
        worker.call_ahead(ahead(source, 1), seconds=30)
        assert source.page(0).size == (300.0, 200.0)
        assert source.content(1).glyphs is not None


@pytest.mark.parametrize(
    ("limits", "option"),
    [(Limits(max_bytes=10), "--max-bytes"), (Limits(max_pages=1), "--max-pages")],
)
def test_a_limit_names_its_option(tiny_pdf: bytes, limits: Limits, option: str) -> None:
    with pytest.raises(LimitExceeded, match=option):
        open_document(tiny_pdf, limits=limits)


def test_a_process_that_reads_nothing_is_stopped_while_a_document_is_sent() -> None:
    worker = Worker()
    with pytest.raises(Forgotten):
        worker.call({"do": "size", "document": 1, "index": 0}, seconds=30)
    assert worker._process is not None
    os.kill(worker._process.pid, signal.SIGSTOP)
    with pytest.raises(LimitExceeded, match="--page-seconds"):
        worker.call({"do": "open"}, [bytes(8 << 20)], seconds=0.3)
    worker.stop()


def test_a_closed_document_starts_no_process(tiny_pdf: bytes) -> None:
    source = open_document(tiny_pdf)
    worker = shared_worker()
    worker.stop()
    generation = worker.generation
    source.close()
    assert worker.generation == generation
    assert source.page(1).size == (300.0, 200.0)  # and opens again on use


def test_what_a_decoder_quotes_is_fit_for_a_terminal() -> None:
    assert _printable("bad \x1b[31mtag\n") == "bad  [31mtag "


def test_the_process_ends_with_its_parent() -> None:
    code = (
        "import os, signal; from docai.render.worker import shared_worker, Forgotten\n"
        "w = shared_worker()\n"
        "try: w.call({'do': 'size', 'document': 1, 'index': 0}, seconds=30)\n"
        "except Forgotten: print(w._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the decoding process outlived its parent")


def test_a_process_that_grows_beyond_its_memory_ends() -> None:
    code = (
        "import threading; from docai.render.child import end_when_larger_than as end\n"
        "threading.Thread(target=end, args=[200 << 20], daemon=True).start()\n"
        "block = bytearray(300 << 20)\n"
        "threading.Event().wait(20)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1


def test_a_decoder_that_wants_too_much_memory_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCAI_CHILD_MEMORY", str(300 << 20))
    shared_worker().stop()
    image = io.BytesIO()
    Image.new("RGB", (8000, 8000)).save(image, "PNG", compress_level=1)
    with open_document(image.getvalue()) as source:
        with pytest.raises(LimitExceeded, match="DOCAI_CHILD_MEMORY"):
            source.page(0).pixels()
        assert source.page_count == 1
    shared_worker().stop()


def test_a_fresh_process_while_a_forgotten_document_is_opened_again(tiny_pdf: bytes) -> None:
    first = open_document(tiny_pdf)
    others = [open_document(tiny_pdf) for _ in range(4)]  # as many as the process keeps open
    worker = shared_worker()
    worker._calls = _RECYCLE - 2  # one call tells that it is forgotten, one opens it, then it is replaced
    before = worker.generation
    assert first.page(1).size == (300, 200)
    assert worker.generation == before + 1
    for source in (first, *others):
        source.close()


def test_an_interrupted_call_ends_and_others_do_not(tiny_pdf: bytes) -> None:
    """A process that hangs at a document is killed for that document alone; the source then refuses all else."""
    with open_document(tiny_pdf) as source, open_document(tiny_pdf) as other:
        worker = shared_worker()
        process = worker._process
        assert process is not None
        worker.interrupt(source._number)  # nothing is called: nothing happens
        assert process.poll() is None
        os.kill(process.pid, signal.SIGSTOP)
        errors: list[Exception] = []

        def reads() -> None:
            try:
                source.content(0)
            except InputError as error:
                errors.append(error)

        thread = threading.Thread(target=reads)
        thread.start()
        while worker.document_of(thread.ident or 0) is None:
            time.sleep(0.001)
        worker.interrupt(other._number)
        assert process.poll() is None
        source.interrupt()
        thread.join(5)
        assert len(errors) == 1
        with pytest.raises(InputError, match="given up"):
            source.content(1)
        assert other.content(1).glyphs is not None
