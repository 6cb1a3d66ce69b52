"""Standard output, and what to do when it cannot take any more."""

from __future__ import annotations

import contextlib
import os
import sys

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
        _mute()
        raise ReaderGone from error
    except OSError as error:
        _mute()
        raise OutputError(f"cannot write to standard output: {error.strerror or error}") from error


def _mute() -> None:
    """What is left in the buffer must not fail a second time when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()
