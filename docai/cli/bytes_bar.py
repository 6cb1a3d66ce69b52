"""A bar over bytes, on a terminal: weights that are loaded or written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bytes_bar(what: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that is told bytes done and bytes in all; it draws on standard error if `shown`."""
    if not shown:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
