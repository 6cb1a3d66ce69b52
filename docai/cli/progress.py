"""What a run says on standard error: progress, warnings, the summary."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from docai.cli.output import say
from docai.types import Document, PageResult, Status
from docai.writing import counted

if TYPE_CHECKING:
    from docai.batch.runner import Row, Summary

_MOST_REASONS = 5  # of one document, unless -v asks for all
_LONGEST_CELL = 500  # characters of reasons in the summary, unless -v asks for all


class Reporter:
    """Writes to standard error: bars on a terminal, JSON lines only with `jsonl`, warnings unless `quiet`."""

    def __init__(self, progress: str, *, quiet: bool = False, verbose: int = 0) -> None:
        self.jsonl = progress == "jsonl"
        self.bar = progress == "auto" and not quiet and sys.stderr.isatty()
        self.quiet, self.verbose = quiet, verbose

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Warnings of docai are told as the rest is; those of libraries are for -vv."""
        handler = _Heard(self)
        root, own = logging.getLogger(), logging.getLogger("docai")
        own.addHandler(handler)
        own.propagate = False
        if self.verbose < 2:
            root.addHandler(_SILENCE)
        with warnings.catch_warnings():
            warnings.simplefilter("default" if self.verbose > 1 else "ignore")
            warnings.filterwarnings("always", module=r"docai\.", category=UserWarning)
            warnings.showwarning = lambda message, *_: self.warn(str(message))
            try:
                yield
            finally:
                own.removeHandler(handler)
                own.propagate = True
                root.removeHandler(_SILENCE)

    def error(self, text: str) -> None:
        """A failure that does not end the run."""
        self._say("error", f"error: {text}", text)

    def warn(self, text: str) -> None:
        """Something worth knowing that is no failure."""
        if not self.quiet:
            self._say("warning", text, text)

    def _say(self, kind: str, line: str, text: str) -> None:
        if self.jsonl:
            self.event({"event": kind, "message": text})
        else:
            say(f"docai: {line}")

    def event(self, event: dict[str, Any]) -> None:
        """One JSON line, where they are asked for."""
        if self.jsonl:
            say(json.dumps(event, ensure_ascii=False))

    def notes(self, name: str, notes: Sequence[str]) -> None:
        """What a file as a whole is worth telling for."""
        for note in notes:
            self.warn(f"{name}: {note}")

    def outcome(self, document: Document) -> None:
        """Failed pages always, other reasons unless quiet."""
        for reason in _reasons(document, Status.FAILED):
            self.error(reason)
        said = [
            f"page {page.page.index + 1}: {page.outcome.status.value}: {reason}"
            for page in document.pages
            if page.outcome.status in (Status.DEGRADED, Status.FALLBACK)
            for reason in page.outcome.reasons
        ]
        shown = said if self.verbose or self.jsonl else said[:_MOST_REASONS]
        for text in shown:
            self.warn(text)
        if len(said) > len(shown):
            self.warn(f"and {len(said) - len(shown)} more; -v shows all")
        self.event({"event": "summary", "status": document.outcome.status.value, "pages": len(document.pages)})

    @contextlib.contextmanager
    def pages(self, name: str, total: int) -> Iterator[Callable[[PageResult], None]]:
        """Progress over the pages of one document."""
        from docai.batch.work import page_event

        with self._bar(total, name, "pages") as advance:

            def tell(page: PageResult) -> None:
                self.event({**page_event(page, total), "file": name})
                advance(1)

            yield tell

    @contextlib.contextmanager
    def files(self, total: int) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Progress over the files of a run."""
        counts, started = Counter[str](), time.monotonic()
        with self._bar(total, "files", "files") as advance:

            def tell(event: dict[str, Any]) -> None:
                self.event(event)
                counts[event["event"]] += 1
                rate = counts["page"] / max(time.monotonic() - started, 0.001)
                total = event["files"] if event["event"] == "start" else None
                advance(int(event["event"] == "file"), f"{counted(counts['page'], 'page')}, {rate:.1f}/s", total)

            yield tell

    @contextlib.contextmanager
    def _bar(self, total: int, name: str, unit: str) -> Iterator[Callable[..., None]]:
        if not self.bar:
            yield lambda *_: None
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        more = TextColumn("{task.fields[more]}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), more)
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(escape(name), total=total, more="")
            yield lambda step, more="", total=None: progress.update(task, advance=step, more=more, total=total)

    def summary(self, summary: Summary) -> None:
        """Counts, and a row (off a terminal, a line) for every file that did not end well."""
        rows = summary.rows
        counts, pages = Counter(row.status for row in rows), sum(row.pages for row in rows)
        self.event({"event": "summary", "files": len(rows), "pages": pages, "seconds": summary.seconds, **counts})
        if self.jsonl:
            return
        bad = [row for row in rows if row.outcome == "failed" or (row.outcome != "ok" and not self.quiet)]
        if bad and sys.stderr.isatty():
            self._table(bad)
        elif bad:
            for row in bad:
                why = self._why(row).replace("\n", "; ")
                say(f"docai: {row.name}: {_ended(row)}" + (f": {why}" if why else ""))
        for row in bad:
            if row.trace and self.verbose > 1:
                self._say("trace", f"{row.name}: {row.trace}", row.trace)
        ended = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        read = f"{counted(len(rows), 'file')}, {counted(pages, 'page')}"
        self.warn(f"{read} in {summary.seconds:.1f} s: {ended}")

    def _table(self, rows: Sequence[Row]) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table("file", "outcome", "why")
        for row in rows:
            table.add_row(escape(row.name), _ended(row), escape(self._why(row)))
        Console(stderr=True).print(table)

    def _why(self, row: Row) -> str:
        reasons = [_without_name(reason, row.name) for reason in row.reasons]
        if self.verbose:
            return "\n".join(reasons)
        text = "; ".join(reasons[:_MOST_REASONS])
        text = text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "…"
        left = len(row.reasons) - _MOST_REASONS
        return text + (f"; and {left} more" if left > 0 else "")


_SILENCE = logging.NullHandler()


class _Heard(logging.Handler):
    def __init__(self, reporter: Reporter) -> None:
        super().__init__(logging.WARNING)
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        self._reporter.warn(record.getMessage())


def _ended(row: Row) -> str:
    return f"{row.outcome}, skipped" if row.earlier else row.status


def _without_name(reason: str, name: str) -> str:
    """A reason of a file that is named beside it; "page 3:" is not said twice either."""
    bare = reason.removeprefix(f"{name}: ").replace(f"{name}, page ", "page ")
    return re.sub(r"^(page \d+: )\1", r"\1", bare)


def _reasons(document: Document, status: Status) -> list[str]:
    return [reason for page in document.pages if page.outcome.status is status for reason in page.outcome.reasons]
