"""How much may wait: places that requests take before anything is done for them, so that no queue grows beyond them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from docai.serve.errors import ApiError, busy


class Room:
    """Places for requests: those that are being answered and those that wait. Threads share it."""

    def __init__(self, what: str, most: Callable[[], int]) -> None:
        """`what` waits, in words; `most` says how many places there are at the moment."""
        self._what, self._most = what, most
        self._lock = threading.Lock()
        self.taken = 0

    @property
    def free(self) -> int:
        """How many places are left."""
        return max(0, self._most() - self.taken)

    def take(self, count: int = 1) -> None:
        """Take places. Raises ApiError: 503 where there are too few, 400 where there will never be so many."""
        most = self._most()
        if count > most:
            raise ApiError(400, f"{count} answers at once are more than the {most} allowed (--max-queue-depth)")
        with self._lock:
            if self.taken + count > most:
                raise busy(f"{self.taken} {self._what} already")
            self.taken += count

    def give(self, count: int = 1) -> None:
        """Give places back."""
        with self._lock:
            self.taken -= count

    @contextlib.contextmanager
    def held(self, count: int = 1) -> Iterator[None]:
        """Places for as long as it takes. Raises ApiError, see `take`."""
        self.take(count)
        try:
            yield
        finally:
            self.give(count)
