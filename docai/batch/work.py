"""One file of a run: read its pages, keep them in the journal, write its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docai.batch.journal import PageStore, page_store
from docai.batch.outputs import Target, write_outputs
from docai.errors import ExitCode, InternalError
from docai.export.formats import ExportOptions
from docai.render.document import open_document
from docai.render.inputs import InputFile
from docai.tasks.ocr import chosen_pages, failed, finish, pages_reader
from docai.tasks.options import OcrOptions
from docai.types import Document, PageResult, Status

if TYPE_CHECKING:
    from docai.render.document import Source

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One file to read and what to write of it. `journal` is the folder that keeps its pages, under `key`.

    `most` is the number of pages after which the process asks for a fresh one to go on. `told`: numbers of the pages
    that this run has read before; those of them that failed are not tried another time. `lost`: numbers of pages on
    which processes died, and how.
    """

    path: str
    root: str | None
    name: str
    stem: str
    formats: tuple[str, ...]
    options: OcrOptions
    export: ExportOptions
    journal: str
    key: str
    most: int = 1_000_000
    told: tuple[int, ...] = ()
    lost: tuple[tuple[int, str], ...] = ()

    def file(self) -> InputFile:
        return InputFile(Path(self.path), Path(self.root) if self.root else None, self.name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Job:
        """The job that `to_json` described."""
        lost = tuple((page, how) for page, how in said["lost"])
        made = {**said, "formats": tuple(said["formats"]), "told": tuple(said["told"]), "lost": lost}
        return cls(**{**made, "options": OcrOptions(**said["options"]), "export": ExportOptions(**said["export"])})


@dataclass(frozen=True, slots=True)
class Done:
    """How a file ended: its outputs (path -> bytes written), pages by status, and what went wrong."""

    outputs: dict[str, int]
    statuses: dict[str, int]
    reasons: tuple[str, ...]
    exit_code: int

    @property
    def status(self) -> str:
        return max(
            (s for s in self.statuses if self.statuses[s]), key=lambda s: list(Status).index(Status(s)), default="ok"
        )


def run_job(job: Job, tell: Tell) -> Done | None:
    """Read the pages that the journal does not have yet, then write every output.

    None where `job.most` pages were read and others remain: a fresh process can go on. Raises the file's error.
    """
    limits, password = job.options.limits, job.options.password
    # not ahead: a job keeps to one core, so that as many jobs as cores are the fastest
    opened = open_document(
        job.file(), password=password, limits=limits, ahead=False, on_look=lambda: tell({"event": "looking"})
    )
    with opened as source:
        results = _read(job, source, tell)
        if results is None:
            return None
        return written(job, source, results, tell)


def written(job: Job, source: Source, results: Iterable[PageResult], tell: Tell) -> Done:
    """Write every output of a file whose pages have been read. Raises OutputError."""
    document = finish(source, results, job.options)
    tell({"event": "writing", "pages": len(document.pages)})
    outputs = write_outputs(document, source, Target(Path(job.stem)), job.formats, job.export)
    return done(document, outputs, source.notes)


def _read(job: Job, source: Source, tell: Tell) -> list[PageResult] | None:
    """The results of all pages, those of the journal first; None where there are more than `job.most` to read."""
    store = page_store(Path(job.journal), job.key)
    chosen = chosen_pages(source, job.options)
    results = kept_pages(job, store, len(chosen), tell)
    left = [index for index in chosen if index not in results]
    for read, page in enumerate(_fresh(job, source, left, tell), 1):
        store.keep(page)
        tell(page_event(page, len(chosen)))
        results[page.page.index] = page
        if read == job.most and len(results) < len(chosen) and not job.options.multi_page:
            return None
    return list(results.values())


def kept_pages(job: Job, store: PageStore, total: int, tell: Tell) -> dict[int, PageResult]:
    """The pages of a file that need not be read again, by index; they are told."""
    results = {
        index: page
        for index, page in store.pages().items()
        if page.outcome.status is not Status.FAILED or index + 1 in job.told
    }
    for page in results.values():
        tell({**page_event(page, total), "kept": True})
    return results


def _fresh(job: Job, source: Source, indices: Iterable[int], tell: Tell) -> Iterator[PageResult]:
    """The results of pages: those on which processes died have failed, the others are read."""
    lost, reader = dict(job.lost), pages_reader(job.options)
    if job.options.multi_page:
        yield from reader.results(source, [index for index in indices if index + 1 not in lost])
        indices = [index for index in indices if index + 1 in lost]
    for index in indices:
        if index + 1 in lost:
            yield failed(source, index, InternalError(lost[index + 1]))
        else:
            tell({"event": "reading", "page": index + 1})
            yield reader.result(source, index)


def page_event(page: PageResult, total: int) -> dict[str, Any]:
    """A finished page, as an event."""
    return {
        "event": "page",
        "page": page.page.index + 1,
        "pages": total,
        "status": page.outcome.status.value,
        "reasons": list(page.outcome.reasons),
        "seconds": page.seconds,
    }


def done(document: Document, outputs: dict[str, int], notes: tuple[str, ...] = ()) -> Done:
    """The outcome of a document that was read."""
    statuses: dict[str, int] = {}
    for page in document.pages:
        statuses[page.outcome.status.value] = statuses.get(page.outcome.status.value, 0) + 1
    return Done(outputs, statuses, (*notes, *document.outcome.reasons), exit_code_of(document))


def exit_code_of(document: Document) -> int:
    """The exit code of one document: that of the failure where every page failed, 1 where some did."""
    codes = [p.outcome.exit_code for p in document.pages if p.outcome.status is Status.FAILED]
    if not codes:
        return ExitCode.OK
    return codes[0] if len(codes) == len(document.pages) else ExitCode.PARTIAL
