"""Answers of models on the screen, as they come; and the loading of models."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from docai.checkpoint.backend import in_bytes
from docai.cli.output import is_terminal, put
from docai.cli.progress import Reporter
from docai.tasks.chat import remarks
from docai.tasks.load import load_chosen
from docai.tasks.options import ModelOptions
from docai.vlm.request import Generation, GenerationOptions, Piece
from docai.writing import counted

if TYPE_CHECKING:
    from rich.console import Console

    from docai.vlm.model import Model

# What a terminal would obey instead of show; a model may have read it in a document.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def loaded(options: ModelOptions, reporter: Reporter) -> Model:
    """The model, with a bar on a terminal while its weights are read; elsewhere --dtype and -v say what they take."""
    if not reporter.bar:

        def tell(done: int, total: int) -> None:
            if done == 0 and (options.dtype or reporter.verbose):
                reporter.warn(f"{options.chosen}: {in_bytes(total)} of memory for the weights")

        return load_chosen(options, tell)
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("loading", total=None)
        return load_chosen(options, lambda done, total: progress.update(task, completed=done, total=total))


def tell_answer(answer: Generation, options: GenerationOptions, reporter: Reporter) -> None:
    """How an answer ended, where that is worth telling, and with -v how long it took."""
    for remark in remarks(answer, options):
        reporter.warn(remark)
    if reporter.verbose:
        usage = answer.usage
        reporter.warn(
            f"{counted(usage.prompt, 'token')} read ({usage.images} of images, {usage.reused} known before) at "
            f"{answer.prefill_rate:.0f}/s, the first word after {answer.timings.first_token_s:.2f} s, "
            f"{counted(usage.generated, 'token')} written at {answer.decode_rate:.1f}/s"
        )


@contextlib.contextmanager
def view(*, thinking: bool) -> Iterator[Callable[[Piece], None]]:
    """Shows the pieces of one answer: as Markdown on a terminal, else as the model writes it, and a line break."""
    if is_terminal():
        with _markdown(thinking) as show:
            yield show
        return
    said = False

    def plain(piece: Piece) -> None:
        nonlocal said
        if not piece.thinking and piece.text:
            said = not piece.text.endswith("\n")
            put(piece.text)

    try:
        yield plain
    finally:
        if said:
            put("\n")


@contextlib.contextmanager
def _markdown(thinking: bool) -> Iterator[Callable[[Piece], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        shown = MarkdownView(console, lambda text: live.update(Text(text)), thinking=thinking)
        try:
            yield shown.add
        finally:
            live.update(Text(), refresh=True)
            shown.end()


class MarkdownView:
    """Blocks of Markdown: one that is complete is printed for good, the last one is shown as it grows."""

    def __init__(self, console: Console, update: Callable[[str], None], *, thinking: bool) -> None:
        self._console, self._update, self._thinking = console, update, thinking
        self._growing = ""
        self._thought = False  # whether what grows is thinking

    def add(self, piece: Piece) -> None:
        """Show a piece."""
        if piece.thinking and not self._thinking:
            return
        if piece.thinking != self._thought:
            self.end()
            self._thought = piece.thinking
        done, self._growing = complete_blocks(self._growing + _CONTROL.sub("", piece.text))
        self._print(done)
        self._update(self._growing)

    def end(self) -> None:
        """Print what is left."""
        done, self._growing = self._growing, ""
        self._print(done)

    def _print(self, text: str) -> None:
        from rich.markdown import Markdown
        from rich.text import Text

        if text.strip():
            self._console.print(Text(text.strip(), style="dim") if self._thought else Markdown(text))


def complete_blocks(text: str) -> tuple[str, str]:
    """Text up to the last empty line that is not within fenced code, and the rest."""
    end = text.rfind("\n\n")
    while end >= 0 and text.count("```", 0, end) % 2:
        end = text.rfind("\n\n", 0, end)
    return (text[: end + 2], text[end + 2 :]) if end >= 0 else ("", text)
