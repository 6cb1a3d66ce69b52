"""The process that reads all files of a run together: `python -m docai.batch.together_worker`.

It asks its parent for one file after the other, so that pages of several of them make a group about which the model is
asked at once. Each file has its own journal, outputs and outcome; what goes wrong with one does not touch the others.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docai.batch.journal import PageStore, page_store
from docai.batch.lines import value_of
from docai.batch.work import Job, Tell, kept_pages, page_event, written
from docai.batch.worker import failure, parent_told, success
from docai.errors import DocaiError
from docai.render.document import Source, open_document
from docai.render.worker import Worker
from docai.tasks.groups import Wanted
from docai.tasks.ocr import chosen_pages, pages_reader
from docai.tasks.prompted import PromptedPages
from docai.types import PageResult

Numbered = tuple[int, Job]
_LOOK = 1.0  # seconds between two events that only say that something goes on


def main() -> None:
    """Read what the parent gives."""
    tell = parent_told()
    threads = value_of(sys.stdin.buffer.readline())["threads"]
    try:
        read_together(_jobs(tell), tell, threads)
    except DocaiError as error:  # of the model, or of what is asked
        tell({"event": "unable", "error": type(error).__name__, "message": str(error)})
    else:
        tell({"event": "end"})


def _jobs(tell: Tell) -> Iterator[Numbered]:
    """The jobs that the parent has, asked for one by one."""
    while True:
        tell({"event": "next"})
        said = value_of(sys.stdin.buffer.readline())
        if said is None:
            return
        yield said["number"], Job.from_json(said["job"])


def read_together(jobs: Iterable[Numbered], tell: Tell, threads: int = 1) -> None:
    """Read files and write their outputs. Events have the `number` of their job.

    Raises the error of a model that cannot be loaded or asked.
    """
    rest = iter(jobs)
    first = next(rest, None)
    if first is None:
        return
    reader = pages_reader(first[1].options)
    assert isinstance(reader, PromptedPages), "engines read files one by one"
    run = _Run(tell, [Worker() if threads > 1 else None for _ in range(threads)])
    try:
        run.all(reader, [first], rest, threads)
    finally:
        run.close()


@dataclass(slots=True, eq=False)
class _File:
    """A file under way. `left`: how many of its pages are still to be read."""

    number: int
    job: Job
    source: Source
    store: PageStore
    total: int
    results: dict[int, PageResult]
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.total - len(self.results)


class _Run:
    def __init__(self, tell: Tell, decoders: Sequence[Worker | None]) -> None:
        self._tell, self._decoders = tell, decoders
        self._open: dict[Source, _File] = {}
        self._looked = -_LOOK

    def all(self, reader: PromptedPages, first: list[Numbered], rest: Iterator[Numbered], threads: int) -> None:
        def pages() -> Iterator[Wanted]:
            for jobs in (first, rest):
                for number, job in jobs:
                    yield from self._begun(number, job)

        for page, result in reader.results_of(pages(), threads=threads, on_progress=self._looking):
            file = self._open.get(page.source)
            if file is not None:  # one that failed meanwhile is not
                self._take(file, result)

    def close(self) -> None:
        """Let go of the processes that decode."""
        for worker in self._decoders:
            if worker is not None:
                worker.stop()

    def _looking(self) -> None:
        """Something goes on: told once a second, and asked far more often."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            self._tell({"event": "looking"})

    def _begun(self, number: int, job: Job) -> Iterator[Wanted]:
        """The pages of a file that are to be read; nothing where it cannot be opened, or has no page left."""

        def tell(event: dict[str, Any]) -> None:
            self._tell({**event, "number": number})

        source: Source | None = None
        try:
            source = open_document(
                job.file(), password=job.options.password, limits=job.options.limits, on_look=self._looking,
                worker=self._decoders[number % len(self._decoders)],
            )  # fmt: skip
            store, chosen = page_store(Path(job.journal), job.key), chosen_pages(source, job.options)
            file = _File(number, job, source, store, len(chosen), kept_pages(job, store, len(chosen), tell))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this file only
            tell(failure(error))
            if source is not None:
                source.close()
            return
        self._open[source] = file
        if not file.left:
            self._end(file)
            return
        yield from (Wanted(source, index) for index in chosen if index not in file.results)

    def _take(self, file: _File, result: PageResult) -> None:
        """A page that was read."""
        try:
            file.store.keep(result)
        except DocaiError as error:  # a full disk
            self._close(file, failure(error))
            return
        self._tell({**page_event(result, file.total), "number": file.number})
        file.results[result.page.index] = result
        file.left -= 1
        if not file.left:
            self._end(file)

    def _end(self, file: _File) -> None:
        """All pages of a file are there: its outputs."""
        try:
            event = success(written(file.job, file.source, file.results.values(), self._tell))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this file only
            event = failure(error)
        self._close(file, event)

    def _close(self, file: _File, event: dict[str, Any]) -> None:
        del self._open[file.source]
        file.source.close()
        self._tell({**event, "number": file.number})


if __name__ == "__main__":
    main()
