"""Standard output and standard error, and what to do when they cannot take any more."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from docai.errors import OutputError


class ReaderGone(Exception):
    """Whoever read our standard output has gone, as `head` does. That is no error."""


def put(data: str | bytes) -> None:
    """Data to standard output, at once. Raises ReaderGone or OutputError."""
    if sys.stdout is None:
        raise OutputError("standard output is closed; name a file with -o")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data.encode("utf-8", "replace") if isinstance(data, str) else data)
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        _mute(sys.stdout)
        raise ReaderGone from error
    except OSError as error:
        _mute(sys.stdout)
        raise OutputError(f"cannot write to standard output: {error.strerror or error}") from error


def always_stderr() -> None:
    """Where we were started with standard error closed, what is said there goes nowhere."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process


def say(line: str) -> None:
    """A line on standard error, at once. Where nobody reads it any more, the work goes on unheard."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        _mute(sys.stderr)


def _mute(stream: TextIO) -> None:
    """What is left in the buffer must not fail a second time when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()
