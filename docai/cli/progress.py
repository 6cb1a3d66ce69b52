"""What a run says on standard error: progress, warnings, the summary."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from docai.types import Document, PageResult, Status

if TYPE_CHECKING:
    from docai.batch.runner import Summary

_MOST_REASONS = 5  # of one document, unless -v asks for all


class Reporter:
    """Writes to standard error: bars on a terminal, JSON lines with `jsonl`, warnings unless `quiet`."""

    def __init__(self, progress: str, *, quiet: bool, verbose: int) -> None:
        self.jsonl = progress == "jsonl"
        self.bar = progress == "auto" and not quiet and sys.stderr.isatty()
        self.quiet, self.verbose = quiet, verbose

    def error(self, text: str) -> None:
        """A failure that does not end the run."""
        print(f"docai: error: {text}", file=sys.stderr)  # noqa: T201

    def warn(self, text: str) -> None:
        """Something worth knowing that is no failure."""
        if not self.quiet:
            print(f"docai: {text}", file=sys.stderr)  # noqa: T201

    def event(self, event: dict[str, Any]) -> None:
        """One JSON line, where they are asked for."""
        if self.jsonl:
            print(json.dumps(event, ensure_ascii=False), file=sys.stderr, flush=True)  # noqa: T201

    def notes(self, name: str, notes: tuple[str, ...]) -> None:
        for note in notes:
            self.warn(f"{name}: {note}")

    def outcome(self, document: Document) -> None:
        """Failed pages always, other reasons unless quiet."""
        for page in document.pages:
            if page.outcome.status is Status.FAILED:
                for reason in page.outcome.reasons:
                    self.error(reason)
        said = [
            f"page {page.page.index + 1}: {page.outcome.status.value}: {reason}"
            for page in document.pages
            if page.outcome.status in (Status.DEGRADED, Status.FALLBACK)
            for reason in page.outcome.reasons
        ]
        shown = said if self.verbose else said[:_MOST_REASONS]
        for text in shown:
            self.warn(text)
        if len(said) > len(shown):
            self.warn(f"and {len(said) - len(shown)} more; -v shows all")
        self.event({"event": "summary", "status": document.outcome.status.value, "pages": len(document.pages)})

    @contextlib.contextmanager
    def pages(self, name: str, total: int) -> Iterator[Callable[[PageResult], None]]:
        """Progress over the pages of one document."""
        from docai.batch.worker import page_event

        with self._bar(total, name) as advance:

            def tell(page: PageResult) -> None:
                self.event({**page_event(page, total), "file": name})
                advance(1)

            yield tell

    @contextlib.contextmanager
    def files(self, total: int) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Progress over the files of a run."""
        counts, started = Counter[str](), time.monotonic()
        with self._bar(total, "files") as advance:

            def tell(event: dict[str, Any]) -> None:
                self.event(event)
                counts[event["event"]] += 1
                rate = counts["page"] / max(time.monotonic() - started, 0.001)
                advance(int(event["event"] == "file"), f"{counts['page']} pages, {rate:.1f}/s")

            yield tell

    @contextlib.contextmanager
    def _bar(self, total: int, name: str) -> Iterator[Callable[..., None]]:
        if not self.bar:
            yield lambda *_: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
        )
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(name, total=total, more="")
            yield lambda step, more="": progress.update(task, advance=step, more=more)

    def summary(self, summary: Summary) -> None:
        """Counts, and a row for every file that did not end well."""
        counts = Counter(row.status for row in summary.rows)
        pages = sum(row.pages for row in summary.rows)
        self.event(
            {"event": "summary", "files": len(summary.rows), "pages": pages, "seconds": summary.seconds, **counts}
        )
        if self.jsonl:
            return
        bad = [row for row in summary.rows if row.status in ("failed", "degraded", "fallback")]
        if bad and not (self.quiet and not counts["failed"]):
            self._table([(row.name, row.status, "; ".join(row.reasons[:_MOST_REASONS])) for row in bad])
        counted = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        self.warn(f"{len(summary.rows)} files, {pages} pages in {summary.seconds:.1f} s: {counted}")

    def _table(self, rows: list[tuple[str, str, str]]) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table("file", "outcome", "why")
        for row in rows:
            table.add_row(*map(escape, row))
        Console(stderr=True).print(table)
