"""Whether what an engine reads is still wanted: whoever has asked for it may have left meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from docai.errors import InputError

_WANTED: ContextVar[Callable[[], bool]] = ContextVar("wanted", default=lambda: True)


@contextlib.contextmanager
def while_wanted(wanted: Callable[[], bool]) -> Iterator[None]:
    """Engines that read on this thread end early once it is not `wanted` any more, which another thread may tell."""
    token = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(token)


def check_wanted() -> None:
    """Between two steps of an engine. Raises InputError where nobody wants the rest."""
    if not _WANTED.get()():
        raise InputError("reading it was given up")
