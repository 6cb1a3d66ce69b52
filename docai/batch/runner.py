"""Many files over worker processes: resumable, and no file can stop the others."""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from docai.batch.journal import Journal, key_of
from docai.batch.outputs import Target, check_writable, spare_inputs, targets
from docai.batch.process import RECYCLE_PAGES, Event, Process, Worker
from docai.batch.together import Together
from docai.batch.work import Done, Job
from docai.errors import DocaiError, ExitCode, InputError
from docai.export.formats import ExportOptions
from docai.render.inputs import InputFile
from docai.tasks.options import OcrOptions

_MODEL_GRACE = 3600.0  # seconds for a page that a model reads, which takes minutes where there is no GPU
_MODEL_LASTS = 10  # times as many pages as an engine's process: a model takes longer to load
_GRACE = 60.0  # seconds on top of what decoding a page may take, for models to load and text to be recognised

OnEvent = Callable[[Event], None]
Work = Sequence[tuple[InputFile, Target]]


@dataclass(slots=True)
class Row:
    """How a file ended, for the summary. One that an earlier run finished is `skipped` and ended as `earlier` there."""

    name: str
    status: str  # ok | degraded | fallback | failed | skipped
    pages: int = 0
    reasons: tuple[str, ...] = ()
    exit_code: int = 0
    earlier: str = ""
    trace: str = ""  # of a mistake of ours

    @property
    def outcome(self) -> str:
        """The status that counts."""
        return self.earlier or self.status


@dataclass(slots=True)
class Summary:
    """All rows of a run."""

    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def exit_code(self, *, strict: bool) -> ExitCode:
        """0 where all went well, 1 where something failed or, with `strict`, is degraded."""
        bad = {"failed"} | ({"degraded", "fallback"} if strict else set())
        partly = any(row.exit_code or row.outcome in bad for row in self.rows)
        return ExitCode.PARTIAL if partly else ExitCode.OK


def run_batch(
    files: Sequence[InputFile],
    out: Path,
    formats: Sequence[str],
    options: OcrOptions,
    export: ExportOptions,
    *,
    jobs: int,
    on_event: OnEvent,
    quiet: float | None = None,
    recycle: int = RECYCLE_PAGES,
) -> Summary:
    """Read `files` into `out`. What earlier runs wrote there is no input.

    Raises OutputError where `out` cannot be written to, UsageError where an output would replace an input, the error of
    a model that cannot be had; all else is a row. Engines read with so many processes as `jobs`; a model is in one,
    where so many threads open files and prepare their pages. `quiet`: seconds without an event after which a process is
    given up; `recycle`: pages after which one with an engine is replaced, one with a model after ten times as many.
    """
    check_writable(out)
    started = time.monotonic()
    journal = Journal(out)
    try:
        files = _not_written_here(files, out, journal)
        places = targets(files, out)
        spare_inputs(files, places, formats)
        jobs = min(jobs, len(files))
        grace = _GRACE if options.engine else _MODEL_GRACE
        quiet = options.page_seconds * 3 + grace if quiet is None else quiet
        run = _Run(journal, formats, _with_threads(options, jobs), export, on_event)
        work = list(zip(files, places, strict=True))
        if options.reads_together:
            run.together(work, Together(quiet, jobs, recycle * _MODEL_LASTS), Worker(quiet, recycle=recycle))
        else:
            run.all(work, [Worker(quiet, recycle=recycle) for _ in range(1 if options.multi_page else jobs)])
    finally:
        journal.close()
    place = {file.name: number for number, file in enumerate(files)}
    run.summary.rows.sort(key=lambda row: place[row.name])
    run.summary.seconds = round(time.monotonic() - started, 2)
    return run.summary


def _not_written_here(files: Sequence[InputFile], out: Path, journal: Journal) -> list[InputFile]:
    """The files without pictures and PDFs of an earlier run, where the output folder is or lies in the input folder."""
    top = out.resolve()
    written = {top / name for name in journal.outputs()}

    def is_output(file: InputFile) -> bool:
        if file.path is None:
            return False
        path = file.path.resolve()
        root = file.root.resolve() if file.root is not None else path
        return path in written or (root in top.parents and top in path.parents)

    return [file for file in files if not is_output(file)]


def _with_threads(options: OcrOptions, jobs: int) -> OcrOptions:
    """Jobs share the cores."""
    if options.threads is not None or jobs <= 1:
        return options
    return replace(options, threads=max(1, (os.cpu_count() or 1) // jobs))


class _Run:
    def __init__(
        self, journal: Journal, formats: Sequence[str], options: OcrOptions, export: ExportOptions, on_event: OnEvent
    ) -> None:
        self.journal, self.formats, self.options, self.export = journal, tuple(formats), options, export
        self._tell, self._lock = on_event, threading.Lock()
        self._stopped: BaseException | None = None
        self.summary = Summary()

    def all(self, work: Work, workers: Sequence[Worker]) -> None:
        """Hand the files to the workers and wait for all of them. A mistake of ours in a thread ends the run."""
        waiting: queue.SimpleQueue[tuple[InputFile, Target]] = queue.SimpleQueue()
        for item in _largest_first(work) if len(workers) > 1 else work:
            waiting.put(item)
        threads = [threading.Thread(target=self._drain, args=(waiting, worker), daemon=True) for worker in workers]
        self._wait(len(work), threads, workers)

    def together(self, work: Work, together: Together, worker: Worker) -> None:
        """Have all files read by one process; the files at which it died, one by one by the worker."""
        thread = threading.Thread(target=self._share, args=(work, together, worker), daemon=True)
        self._wait(len(work), [thread], [together, worker])

    def _wait(self, files: int, threads: Sequence[threading.Thread], workers: Sequence[Process]) -> None:
        self.tell({"event": "start", "files": files})
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():  # a plain join() would not let Ctrl-C through
                    thread.join(0.2)
        except BaseException as error:
            self._stopped = error
            raise
        finally:
            self._end(threads, workers)
        if self._stopped is not None:
            raise self._stopped

    def _end(self, threads: Sequence[threading.Thread], workers: Sequence[Process]) -> None:
        for worker in workers:
            worker.end()
        for thread in threads:
            thread.join(5)
        for worker in workers:
            worker.stop()

    def tell(self, event: Event) -> None:
        with self._lock:
            self._tell(event)

    def _drain(self, waiting: queue.SimpleQueue[tuple[InputFile, Target]], worker: Worker) -> None:
        try:
            while self._stopped is None:
                try:
                    file, target = waiting.get_nowait()
                except queue.Empty:
                    return
                row = self._file(file, target, worker)
                if self._stopped is None:
                    self._record(row)
        except BaseException as error:  # noqa: BLE001 - `all` raises it in the main thread
            self._stopped = error

    def _share(self, work: Work, together: Together, worker: Worker) -> None:
        try:
            jobs, told = self._jobs(work), set[tuple[str, int]]()

            def on_page(job: Job, event: Event) -> None:
                if (job.key, event["page"]) not in told:
                    told.add((job.key, event["page"]))
                    self.tell({**event, "file": job.name})

            def tell(job: Job, event: Event) -> None:
                if event["event"] == "page":
                    on_page(job, event)
                else:
                    self._record(self._outcome(job.name, job.key, event))

            while self._stopped is None and (left := together.do(jobs, tell)) is not None:
                for job in left if self._stopped is None else ():
                    tell(job, worker.do(job, partial(on_page, job)))
                worker.stop()  # the other one needs the memory for the model
        except BaseException as error:  # noqa: BLE001 - `together` raises it in the main thread
            self._stopped = error

    def _jobs(self, work: Work) -> Iterator[Job]:
        """The files that are to be read; those that are finished or cannot be are rows."""
        for file, target in work:
            try:
                job = self._job(file, target)
            except DocaiError as error:
                job = _failed(file, error)
            if isinstance(job, Job):
                yield job
            else:
                self._record(job)

    def _record(self, row: Row) -> None:
        with self._lock:
            self.summary.rows.append(row)
            said = {"event": "file", "file": row.name, "status": row.status, "pages": row.pages}
            self._tell({**said, "reasons": list(row.reasons), "exit_code": row.exit_code})

    def _file(self, file: InputFile, target: Target, worker: Worker) -> Row:
        try:
            job = self._job(file, target)
        except DocaiError as error:
            return _failed(file, error)
        if isinstance(job, Row):
            return job
        return self._outcome(file.name, job.key, worker.do(job, lambda e: self.tell({**e, "file": file.name})))

    def _job(self, file: InputFile, target: Target) -> Job | Row:
        """What is to be done with a file; how it ended, where an earlier run has finished it. Raises InputError."""
        place = str(target.stem.relative_to(self.journal.folder.parent))
        key = file_key(file, self.options, (self.export, self.formats, place))
        earlier = self.journal.finished(key)
        if earlier is not None:
            return _skipped(file, earlier)
        self.tell({"event": "file_start", "file": file.name})
        return Job(
            str(file.path), str(file.root) if file.root else None, file.name, str(target.stem), self.formats,
            self.options, self.export, str(self.journal.folder), key,
        )  # fmt: skip

    def _outcome(self, name: str, key: str, event: Event) -> Row:
        if event["event"] == "failed":
            return Row(name, "failed", 0, (event["message"],), event["exit_code"], trace=event.get("trace", ""))
        done = Done(event["outputs"], event["statuses"], tuple(event["reasons"]), event["exit_code"])
        pages = sum(done.statuses.values())
        if done.status != "failed":
            out = self.journal.folder.parent
            outputs = {os.path.relpath(path, out): size for path, size in done.outputs.items()}
            self.journal.finish(key, outputs, pages=pages, status=done.status, reasons=list(done.reasons))
        return Row(name, done.status, pages, done.reasons, done.exit_code)


def _failed(file: InputFile, error: DocaiError) -> Row:
    return Row(file.name, "failed", 0, (str(error),), int(error.exit_code))


def _skipped(file: InputFile, earlier: Event) -> Row:
    reasons = tuple(earlier.get("reasons", ()))
    return Row(file.name, "skipped", earlier.get("pages", 0), reasons, earlier=earlier.get("status", "ok"))


def _largest_first(work: Work) -> Work:
    """The order in which several workers end at about the same time: no long file begins last (Graham's LPT rule)."""

    def size(item: tuple[InputFile, Target]) -> int:
        try:
            return item[0].path.stat().st_size if item[0].path is not None else 0
        except OSError:  # told when the file is opened
            return 0

    return sorted(work, key=size, reverse=True)


def file_key(file: InputFile, options: OcrOptions, more: object = None) -> str:
    """A name for a file's content and all that shapes its pages, and `more`. Raises InputError."""
    return key_of(_digest(file, options.max_bytes), (replace(options, threads=None), more))


def _digest(file: InputFile, most: int | None) -> bytes:
    """SHA-256 of a file; of one with more than `most` bytes, which is refused when it is opened, of its beginning."""
    if file.path is None or file.data is not None:
        raise InputError(f"{file.name}: a pipe can be read only on its own, not along with other files")
    digest, read = hashlib.sha256(), 0
    try:
        with file.path.open("rb") as content:
            while (most is None or read <= most) and (chunk := content.read(1 << 20)):
                digest.update(chunk)
                read += len(chunk)
    except OSError as error:
        raise InputError(f"{file.name}: cannot be read: {error.strerror or error}") from error
    return digest.digest()
