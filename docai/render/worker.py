"""The parent's side of the decoding process: starts it, watches it, replaces it."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docai import errors
from docai.errors import InputError, InternalError, LimitExceeded
from docai.render import wire

_RECYCLE = 2_000  # requests after which a fresh process takes over, so that native leaks do not add up
_PIPE = 1 << 20  # bytes that fit in a pipe at once: pages are megabytes
_LINGER = 1.0  # seconds that closing a document waits for a page that was read ahead and is not wanted
_PATIENCE = 0.3  # seconds that a call may go on for which nobody waits: a fresh process costs about as much
_LONGEST_MESSAGE = 500


class Forgotten(Exception):
    """The process does not know the document (any more): it has to be opened again."""


Answer = tuple[dict[str, Any], list[memoryview]]


@dataclass(slots=True)
class _Ahead:
    """A request that was sent before anybody waits for it, and its answer, if another call had to take that in."""

    request: dict[str, Any]
    answer: Answer | None = None


class Worker:
    """One decoding process. Calls are serialised; a process that crashes or hangs is replaced at the next call."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ahead: _Ahead | None = None
        self._calls = 0
        self._calm = threading.Condition()  # for what is worked on
        self._document: int | None = None  # the one that a call is about
        self._caller = 0  # the thread that calls
        self.generation = 0  # changes whenever a new process starts

    @property
    def alone(self) -> threading.RLock:
        """To be held over calls between which no other may come."""
        return self._lock

    def call(self, request: dict[str, Any], parts: wire.Parts = (), *, seconds: float) -> Answer:
        """Send a request and wait for its answer.

        Raises the error that the process reports, LimitExceeded where `seconds` pass, InputError where it crashes,
        Forgotten where it does not know the document.
        """
        with self._lock, self._working(request.get("document")):
            ahead = self._ahead
            if ahead is not None and ahead.request == request:
                self._ahead = None
                header, out = ahead.answer or self._due(seconds)
            else:
                self._make_way(request, seconds)
                process = self._running()
                with self._talking(process, seconds) as (sending, receiving, deadline):
                    wire.send(sending, request, parts, deadline)
                    header, out = wire.receive(receiving, deadline)
        return _checked(header), out

    @contextlib.contextmanager
    def _working(self, document: int | None) -> Iterator[None]:
        """Say which document a call is about. Calls within calls are about the same one."""
        with self._calm:
            before, self._document = self._document, document
            self._caller = threading.get_ident()
        try:
            yield
        finally:
            with self._calm:
                self._document = before
                self._calm.notify_all()

    def document_of(self, thread: int) -> int | None:
        """The document that a call of a thread (by `threading.get_ident`) is about; None where it calls nothing."""
        with self._calm:
            return self._document if self._caller == thread else None

    def interrupt(self, document: int) -> None:
        """Kill the process where a call of another thread about a document goes on for longer than a moment.

        That call raises InputError; the next one has a fresh process. No call about another document is hit.
        """
        with self._calm:
            calm = self._calm.wait_for(lambda: self._document != document, _PATIENCE)
            process = self._process
            if not calm and process is not None:
                process.kill()

    def call_ahead(self, request: dict[str, Any], *, seconds: float) -> None:
        """Send a request that is likely to be called next, so that it is worked on meanwhile. Tells of no trouble."""
        with self._lock, contextlib.suppress(InputError):
            self._make_way(request, seconds)
            with self._talking(self._running(), seconds) as (sending, _, deadline):
                wire.send(sending, request, deadline=deadline)
            self._ahead = _Ahead(request)

    def _make_way(self, request: dict[str, Any], seconds: float) -> None:
        """Take in the answer that is due before `request` can be sent.

        A process that fails at it is replaced, and whoever needs the answer will call again; only the page that it
        failed at is told at once.
        """
        ahead = self._ahead
        if ahead is None or ahead.answer is not None:
            return
        try:
            ahead.answer = self._due(seconds)
        except InputError:
            if _page(ahead.request) == _page(request):
                raise

    def _due(self, seconds: float) -> Answer:
        """The answer to a request that has been sent."""
        assert self._process is not None
        with self._talking(self._process, seconds) as (_, receiving, deadline):
            return wire.receive(receiving, deadline)

    @contextlib.contextmanager
    def _talking(self, process: subprocess.Popen[bytes], seconds: float) -> Iterator[tuple[int, int, float]]:
        """The pipes to and from a process, and until when they may be used; it ends where they fail."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdin.fileno(), process.stdout.fileno(), time.monotonic() + seconds
        except wire.TimedOut:
            self.stop()
            raise LimitExceeded(
                f"decoding took longer than {seconds:g} s and was stopped; allow more with --page-seconds"
            ) from None
        except (wire.Closed, wire.Malformed) as error:
            raise InputError(self._how_it_ended()) from error
        except BaseException:  # interrupted between request and answer: the pipe holds half a message
            self.stop()
            raise

    def forget(self, document: int, generation: int, *, seconds: float) -> None:
        """Close a document if the process that opened it still lives. Trouble is left to the next call to tell."""
        with self._lock, contextlib.suppress(InputError, InternalError):
            self._make_way({}, min(seconds, _LINGER))
            if generation == self.generation and self._process is not None and self._process.poll() is None:
                self.call({"do": "close", "document": document}, seconds=seconds)
                self._ahead = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None and self._calls < _RECYCLE:
            self._calls += 1
            return self._process
        self.stop()
        self._process = _start()
        self._calls = 1
        self.generation += 1
        return self._process

    def _how_it_ended(self) -> str:
        """What to tell the user of a process that went away within a call."""
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(1)
        self.stop()
        if code is None or code >= 0:
            return "cannot be read: the decoder ended unexpectedly; the file is corrupt or exceeds the memory limit"
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        return f"cannot be read: it crashed the decoder ({name}); the file is corrupt or exceeds the memory limit"

    def stop(self) -> None:
        """End the process, at once."""
        process, self._process, self._ahead = self._process, None, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


def _start() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "docai.render.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        process_group=0,  # Ctrl-C is the parent's to handle
        pipesize=_PIPE,
    )
    os.set_blocking(process.stdin.fileno(), False)  # type: ignore[union-attr]
    return process


def _page(request: dict[str, Any]) -> tuple[Any, Any]:
    """The document and the page that a request is about."""
    return request.get("document"), request.get("index")


def _checked(header: dict[str, Any]) -> dict[str, Any]:
    name = header.get("error")
    if name is None:
        return header
    if name == "Unknown":
        raise Forgotten
    kind = getattr(errors, str(name), None)
    if isinstance(kind, type) and issubclass(kind, errors.DocaiError):
        raise kind(_printable(str(header.get("message", ""))))
    raise InternalError(f"the decoder reported {name!r}")


def _printable(message: str) -> str:
    """What may go to a terminal: decoders quote the files that they complain of."""
    return "".join(c if c.isprintable() else " " for c in message[:_LONGEST_MESSAGE])


_numbers = itertools.count(1)
_shared: Worker | None = None


def shared_worker() -> Worker:
    """The process that all documents of this program share."""
    global _shared
    if _shared is None:
        _shared = Worker()
        atexit.register(_shared.stop)
    return _shared


def _leave_to_parent() -> None:
    """A forked program must not talk through the pipes of the one it came from."""
    global _shared
    _shared = None


os.register_at_fork(after_in_child=_leave_to_parent)


def new_number() -> int:
    """A number for a document, unique in this program."""
    return next(_numbers)
