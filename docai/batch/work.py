"""One file of a run: read its pages, keep them in the journal, write its outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docai.batch.journal import keep_page, kept_pages
from docai.batch.outputs import Target, write_whole
from docai.errors import ExitCode
from docai.export.figures import assets
from docai.export.formats import ExportOptions, export
from docai.render.document import open_document
from docai.render.inputs import InputFile
from docai.tasks.ocr import chosen_pages, finish, read_pages
from docai.tasks.options import OcrOptions
from docai.types import Document, PageResult, Status

OnPage = Callable[[PageResult, int], None]  # a page that is done, and the number of pages of its file


@dataclass(frozen=True, slots=True)
class Job:
    """One file to read and what to write of it. `journal` is the folder that keeps its pages, under `key`."""

    path: str
    root: str | None
    name: str
    stem: str
    formats: tuple[str, ...]
    options: OcrOptions
    export: ExportOptions
    journal: str
    key: str

    def file(self) -> InputFile:
        return InputFile(Path(self.path), Path(self.root) if self.root else None, self.name)

    def to_json(self) -> dict[str, Any]:
        """Plain values for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Job:
        """The job that `to_json` described."""
        made = {**said, "formats": tuple(said["formats"])}
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


def run_job(job: Job, on_page: OnPage) -> Done:
    """Read the pages that the journal does not have yet, then write every output. Raises the file's error."""
    folder = Path(job.journal)
    with open_document(job.file(), password=job.options.password, limits=job.options.limits) as source:
        kept = {i: page for i, page in kept_pages(folder, job.key).items() if page.outcome.status is not Status.FAILED}
        total = len(chosen_pages(source, job.options))
        for page in kept.values():
            on_page(page, total)
        results = list(kept.values())
        for page in read_pages(source, job.options, skip=kept):
            keep_page(folder, job.key, page)
            results.append(page)
            on_page(page, total)
        document = finish(source, results, job.options)
        outputs: dict[str, int] = {}
        for form in job.formats:
            path = Target(Path(job.stem)).path(form)
            outputs[str(path)] = write_whole(path, export(document, form, job.export, source))
        if job.export.images == "ref":
            for name, data in assets(document, job.export).items():
                path = Path(job.stem).parent / name
                outputs[str(path)] = write_whole(path, data)
        return done(document, outputs, source.notes)


def done(document: Document, outputs: dict[str, int], notes: tuple[str, ...] = ()) -> Done:
    """The outcome of a document that was read."""
    statuses: dict[str, int] = {}
    for page in document.pages:
        statuses[page.outcome.status.value] = statuses.get(page.outcome.status.value, 0) + 1
    return Done(outputs, statuses, (*notes, *document.outcome.reasons), exit_code_of(document))


def exit_code_of(document: Document) -> int:
    """The exit code of one document: that of the failure where every page failed, 1 where some did."""
    failed = [p.outcome.exit_code for p in document.pages if p.outcome.status is Status.FAILED]
    if not failed:
        return ExitCode.OK
    return failed[0] if len(failed) == len(document.pages) else ExitCode.PARTIAL
