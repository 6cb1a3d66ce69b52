"""The parent's side of a worker process: starts it, listens to it, replaces it.

A page on which a process dies is tried once more in a fresh one; where that dies, too, the page has failed and the
others of its file go on.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from docai.batch.lines import line_of, value_of
from docai.batch.work import Job
from docai.errors import ExitCode

COMMAND = (sys.executable, "-m", "docai.batch.worker")
RECYCLE_PAGES = 400  # pages after which a process is replaced, so that what native libraries leak does not add up
_MOST_DEATHS = 6  # of processes over one file, which is then given up
_WRITING = 2.0  # seconds that writing a page in all formats may take

Event = dict[str, Any]


class Process:
    """A process of ours: JSON lines go in, events come out."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def _begin(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        if self._ended:  # while it was started
            self._process.kill()
        return self._process

    def _say(self, value: object) -> None:
        """A line for the process. Raises OSError where it is gone."""
        assert self._process is not None, "it has begun"
        assert self._process.stdin is not None, "it has a pipe"
        self._process.stdin.write(line_of(value) + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """From another thread: let no process live on. Who waits for it is told that it died."""
        self._ended = True
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()

    def stop(self) -> None:
        """End the process and forget it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Worker(Process):
    """A worker process, started when needed, replaced after a crash, after `quiet` seconds of silence or many pages."""

    def __init__(self, quiet: float, *, recycle: int = RECYCLE_PAGES) -> None:
        super().__init__()
        self._quiet, self._recycle = quiet, recycle
        self._pages = 0

    def do(self, job: Job, on_page: Callable[[Event], None]) -> Event:
        """Let the process do a job, and fresh ones go on where it is long or died: the closing event.

        That is `done`, or `failed` where processes died without telling on which page, or on too many. Each page is
        told once.
        """
        told: dict[int, None] = {}
        deaths: list[int | None] = []

        def tell(event: Event) -> None:
            if event["page"] not in told:
                told[event["page"]] = None
                on_page(event)

        while True:
            event = self._round(replace(job, told=tuple(told)), tell)
            match event["event"]:
                case "more":
                    self.stop()
                case "died":
                    page = event["page"]
                    deaths.append(page)
                    if page is None or self._ended or len(deaths) == _MOST_DEATHS:
                        return _failed(event["how"])
                    if event["hung"] or deaths.count(page) > 1:
                        how = event["how"] if event["hung"] else f"{event['how']} twice"
                        job = replace(job, lost=(*job.lost, (page, how)))
                case _:
                    return event

    def _round(self, job: Job, on_page: Callable[[Event], None]) -> Event:
        process, page = self._running(), None
        job = replace(job, most=self._recycle - self._pages)
        try:
            self._say(job.to_json())
        except OSError:
            return self._died(None, "could not be started")
        try:
            for event in events_of(process, self._quiet):
                match event["event"]:
                    case "reading":
                        page = event["page"]
                    case "page":
                        page = None
                        self._pages += not event.get("kept")
                        on_page(event)
                    case _:
                        return event
        except TimeoutError:
            return self._died(page, f"told of no progress for {self._quiet:g} s and was stopped", hung=True)
        return self._died(page, "crashed")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None or self._pages >= self._recycle:
            self.stop()
            self._pages = 0
            return self._begin(COMMAND)
        return self._process

    def _died(self, page: int | None, how: str, *, hung: bool = False) -> Event:
        self.stop()
        return {"event": "died", "page": page, "how": f"the process that read it {how}", "hung": hung}


def _failed(how: str) -> Event:
    text = f"{how}; its finished pages are kept, the other files go on"
    return {"event": "failed", "message": text, "exit_code": int(ExitCode.INTERNAL)}


def events_of(process: subprocess.Popen[bytes], quiet: float) -> Iterator[Event]:
    """The events of a process until it ends, not `writing` and `looking`. Raises TimeoutError where none comes."""
    assert process.stdout is not None
    pipe, buffer = process.stdout.fileno(), b""
    deadline = time.monotonic() + quiet
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(pipe, 1 << 16)
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            try:
                event = value_of(line)
            except ValueError:  # no event of ours: nothing else that it says can be trusted
                return
            deadline = time.monotonic() + quiet
            if event["event"] == "writing":
                deadline += event["pages"] * _WRITING
            elif event["event"] != "looking":
                yield event
                deadline = time.monotonic() + quiet  # what was done with the event is no silence
    raise TimeoutError
