"""Many files over worker processes: resumable, and no file can stop the others."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from docai.batch.journal import Journal, key_of
from docai.batch.outputs import Target, check_writable, targets
from docai.batch.work import Done, Job
from docai.errors import DocaiError, ExitCode
from docai.export.formats import ExportOptions
from docai.render.inputs import InputFile
from docai.tasks.options import OcrOptions

_RECYCLE_PAGES = 400  # pages after which a worker is replaced, so that memory stays flat
_GRACE = 60.0  # seconds on top of what a page may take, for models to load and outputs to be written

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


@dataclass(slots=True)
class Row:
    """How a file ended, for the summary."""

    name: str
    status: str  # ok | degraded | fallback | failed | skipped
    pages: int = 0
    reasons: tuple[str, ...] = ()
    exit_code: int = 0


@dataclass(slots=True)
class Summary:
    """All rows of a run."""

    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def exit_code(self, *, strict: bool) -> ExitCode:
        """0 where all went well, 1 where something failed or, with `strict`, is degraded."""
        bad = {"failed"} | ({"degraded", "fallback"} if strict else set())
        partly = any(row.exit_code for row in self.rows)
        return ExitCode.PARTIAL if partly or any(row.status in bad for row in self.rows) else ExitCode.OK


def run_batch(
    files: Sequence[InputFile],
    out: Path,
    formats: Sequence[str],
    options: OcrOptions,
    export: ExportOptions,
    *,
    jobs: int,
    on_event: OnEvent,
) -> Summary:
    """Read `files` into `out`. Raises OutputError where `out` cannot be written to; all else is a row."""
    check_writable(out)
    started = time.monotonic()
    journal = Journal(out)
    try:
        run = _Run(journal, formats, _with_threads(options, jobs), export, on_event)
        run.all(list(zip(files, targets(files, out), strict=True)), jobs)
    finally:
        journal.close()
    run.summary.seconds = round(time.monotonic() - started, 2)
    return run.summary


def _with_threads(options: OcrOptions, jobs: int) -> OcrOptions:
    """Jobs share the cores."""
    if options.threads is not None or jobs == 1:
        return options
    return replace(options, threads=max(1, (os.cpu_count() or 1) // jobs))


class _Run:
    def __init__(
        self, journal: Journal, formats: Sequence[str], options: OcrOptions, export: ExportOptions, on_event: OnEvent
    ) -> None:
        self.journal, self.formats, self.options, self.export = journal, tuple(formats), options, export
        self._tell, self._lock = on_event, threading.Lock()
        self.summary = Summary()

    def all(self, work: Sequence[tuple[InputFile, Target]], jobs: int) -> None:
        """Hand the files to `jobs` workers and wait for all of them."""
        waiting: queue.SimpleQueue[tuple[InputFile, Target]] = queue.SimpleQueue()
        for item in work:
            waiting.put(item)
        self.tell({"event": "start", "files": len(work)})
        workers = [_Worker() for _ in range(min(jobs, len(work)))]
        threads = [threading.Thread(target=self._drain, args=(waiting, worker), daemon=True) for worker in workers]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():  # a plain join() would not let Ctrl-C through
                    thread.join(0.2)
        finally:
            for worker in workers:
                worker.stop()

    def tell(self, event: Event) -> None:
        with self._lock:
            self._tell(event)

    def _drain(self, waiting: queue.SimpleQueue[tuple[InputFile, Target]], worker: _Worker) -> None:
        while True:
            try:
                file, target = waiting.get_nowait()
            except queue.Empty:
                return
            row = self._file(file, target, worker)
            with self._lock:
                self.summary.rows.append(row)
                self._tell({"event": "file", "file": row.name, "status": row.status, "pages": row.pages,
                            "reasons": list(row.reasons), "exit_code": row.exit_code})  # fmt: skip

    def _file(self, file: InputFile, target: Target, worker: _Worker) -> Row:
        try:
            key = key_of(
                file.read(), (replace(self.options, threads=None), self.export, self.formats, str(target.stem))
            )
        except DocaiError as error:
            return Row(file.name, "failed", 0, (str(error),), int(error.exit_code))
        earlier = self.journal.finished(key)
        if earlier is not None:
            return Row(file.name, "skipped", earlier.get("pages", 0), ("finished by an earlier run",))
        job = Job(
            str(file.path), str(file.root) if file.root else None, file.name, str(target.stem), self.formats,
            self.options, self.export, str(self.journal.folder), key,
        )  # fmt: skip
        return self._outcome(file, key, worker.do(job, lambda event: self.tell({**event, "file": file.name})))

    def _outcome(self, file: InputFile, key: str, event: Event) -> Row:
        if event["event"] == "failed":
            return Row(file.name, "failed", 0, (event["message"],), event["exit_code"])
        done = Done(event["outputs"], event["statuses"], tuple(event["reasons"]), event["exit_code"])
        pages = sum(done.statuses.values())
        if done.status != "failed":
            out = self.journal.folder.parent
            outputs = {os.path.relpath(path, out): size for path, size in done.outputs.items()}
            self.journal.finish(key, outputs, pages=pages)
        return Row(file.name, done.status, pages, done.reasons, done.exit_code)


class _Worker:
    """A worker process, started when needed, replaced after a crash, a hang or many pages."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pages = 0

    def do(self, job: Job, on_page: OnEvent) -> Event:
        """Let the process do a job; its closing event, or one that says how it died."""
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(orjson.dumps(job.to_json()) + b"\n")
            process.stdin.flush()
        except OSError:
            return self._died("cannot be started")
        for event in _events(process, job.options.page_seconds * 3 + _GRACE):
            if event["event"] == "page":
                self._pages += 1
                on_page(event)
            elif event["event"] == "hang":
                return self._died("made no progress and was stopped")
            else:
                return event
        return self._died("crashed")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None or self._pages >= _RECYCLE_PAGES:
            self.stop()
            self._pages = 0
            self._process = subprocess.Popen(
                [sys.executable, "-m", "docai.batch.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # select() must see every event that has come
                start_new_session=True,
            )
        return self._process

    def _died(self, how: str) -> Event:
        self.stop()
        text = f"the worker {how}; its finished pages are kept, the other files go on"
        return {"event": "failed", "message": text, "exit_code": int(ExitCode.INTERNAL)}

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _events(process: subprocess.Popen[bytes], seconds: float) -> Iterator[Event]:
    """The events of a process, until it ends; a `hang` where none comes for `seconds`."""
    assert process.stdout is not None
    while True:
        if not select.select([process.stdout], [], [], seconds)[0]:
            yield {"event": "hang"}
            return
        line = process.stdout.readline()
        if not line:
            return
        yield orjson.loads(line)
