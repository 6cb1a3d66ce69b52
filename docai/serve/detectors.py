"""The learned detectors of a server: which there are, and letting go of those that nobody asks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from docai.layout.detector import EMBEDDED, MODELS
from docai.serve.errors import ApiError, known
from docai.serve.lane import Lane
from docai.serve.models import collect, name_of
from docai.serve.options import ServeOptions

if TYPE_CHECKING:
    from docai.serve.desk import Desk

_SWEEP = 1.0  # seconds between two looks for detectors that nobody asks


class Detectors:
    """Notes who uses learned detectors. They are loaded by the tasks that need them, and kept by these."""

    def __init__(self, options: ServeOptions, lane: Lane) -> None:
        self._options, self._lane = options, lane
        self._users = 0
        self._used: float | None = None  # when somebody left last; None where none can be in memory

    @contextlib.contextmanager
    def use(self, name: str | None) -> Iterator[None]:
        """Keep detectors in memory meanwhile, where `name` is one that is learned."""
        if name in (None, EMBEDDED):
            yield
            return
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used = time.monotonic()

    async def sweep(self) -> None:
        """Let go of detectors that nobody asks, from time to time, for ever."""
        while True:
            keep = self._options.keep_alive_s
            await asyncio.sleep(min(_SWEEP, keep or _SWEEP))
            if keep and not self._users and self._used is not None and time.monotonic() - self._used > keep:
                self._used = None
                await self._lane.do(self._forget)

    def _forget(self) -> None:
        from docai.tasks.detect import forget_finders
        from docai.tasks.ocr import forget_readers

        if not self._users:  # somebody may have come meanwhile
            forget_finders()
            forget_readers()
            collect()


def detectors(desk: Desk) -> tuple[str, ...]:
    """The learned detectors that requests may name. It looks at files: not for the event loop."""
    from docai.tasks.ocr import is_cached

    named = tuple(map(name_of, desk.options.detector or ()))
    return (*named, *(name for name in MODELS if name not in named and is_cached(name)))


def detector_of(desk: Desk, name: str | None, param: str = "model") -> str:
    """What the detector of a request is for `docai.layout`: a path only where the server was started with it.

    None is the embedded one. Raises ApiError for one that is not there. It looks at files: not for the event loop.
    """
    from docai.tasks.ocr import is_cached

    named = {name_of(source): source for source in desk.options.detector or ()}
    name = EMBEDDED if name is None else name
    known(name, (EMBEDDED, *MODELS, *named), "to find regions with", param)
    if name in MODELS and name not in named and not is_cached(name):
        raise ApiError(404, f"{name} is not here: docai models pull {name}", code="model_not_found", param=param)
    return named.get(name, name)
