"""Responses that are kept for a while, so that the next one can go on from them: in memory, and not beyond a size."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docai.export.json import dumps
from docai.serve.errors import ApiError

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """A response as it was sent, and what it added to the conversation of the one before it: its input and output."""

    said: dict[str, Any]
    items: tuple[Item, ...]
    tenant: Hashable
    previous: str | None
    size: int
    until: float  # on the clock of `time.monotonic`


class Responses:
    """The responses of all tenants, each of whom knows only their own. It belongs to the event loop."""

    def __init__(self, most: int, seconds: float) -> None:
        """`most`: bytes of all of them; `seconds`: for which one is kept after it was used last."""
        self._most, self._seconds = most, seconds
        self._kept: dict[str, Kept] = {}  # what is given up first stands first
        self.bytes = 0

    @property
    def on(self) -> bool:
        return self._most > 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, said: dict[str, Any], items: Sequence[Item], tenant: Hashable, previous: str | None) -> None:
        """Keep a response with what was said for it. Others go to make room; one that is too large is not kept."""
        added = tuple(items)
        size = len(dumps([said, added]))
        if size > self._most:
            return
        self._kept[said["id"]] = Kept(said, added, tenant, previous, size, 0.0)
        self.bytes += size
        self._use(said["id"])
        while self.bytes > self._most:
            self._drop(next(iter(self._kept)))

    def find(self, number: str, tenant: Hashable) -> Kept | None:
        """A response of a tenant; None where there is none (any more)."""
        self._expire()
        return self._own(number, tenant)

    def _own(self, number: str, tenant: Hashable) -> Kept | None:
        found = self._kept.get(number)
        return None if found is None or found.tenant != tenant else found

    def items(self, number: str, tenant: Hashable) -> list[Item]:
        """All that was said up to a response. Raises ApiError 400 where it, or one before it, is not kept."""
        self._expire()
        parts: list[Sequence[Item]] = []
        at: str | None = number
        while at is not None:
            found = self._own(at, tenant)
            if found is None:
                raise ApiError(
                    400, f"previous_response_id: there is no response {number[:80]!r} (any more); send what was said",
                    code="previous_response_not_found", param="previous_response_id",
                )  # fmt: skip
            parts.append(found.items)
            at = found.previous
        self._use(number)
        return [item for part in reversed(parts) for item in part]

    def asked(self, number: str, tenant: Hashable) -> list[Item] | None:
        """All that was said before a response answered it; None where there is none. Raises ApiError, see `items`."""
        found = self.find(number, tenant)
        if found is None:
            return None
        own = found.items[: len(found.items) - len(found.said["output"])]
        return [*(self.items(found.previous, tenant) if found.previous else ()), *own]

    def drop(self, number: str, tenant: Hashable) -> bool:
        """Forget a response; False where there is none."""
        if self.find(number, tenant) is None:
            return False
        self._drop(number)
        return True

    def _use(self, number: str) -> None:
        """Keep a response, and those before it, for longer. The first ones go last, as nothing holds without them."""
        at: str | None = number
        while at is not None and at in self._kept:
            kept = self._kept.pop(at)
            self._kept[at] = replace(kept, until=time.monotonic() + self._seconds)
            at = kept.previous

    def _expire(self) -> None:
        """They stand in the order in which their time ends: whatever is used goes to the end."""
        now = time.monotonic()
        while self._kept and self._kept[first := next(iter(self._kept))].until < now:
            self._drop(first)

    def _drop(self, number: str) -> None:
        self.bytes -= self._kept.pop(number).size
