"""A model for tasks that ask it one thing after the other: their questions are answered among those of all others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from docai.errors import InputError
from docai.serve.desk import Desk
from docai.serve.models import Offered
from docai.vlm.request import Answering, GenerationOptions

if TYPE_CHECKING:
    from docai.vlm.ticket import Ticket


class Among:
    """A model of the server, to such a task as if it were its own. `places`: how many questions may be open at once."""

    def __init__(self, offered: Offered, client: str, places: int = 1) -> None:
        assert offered.model is not None
        self.name, self.family, self.sees = offered.name, offered.model.family, offered.model.sees
        self.at_once = places - 1  # that are asked before the first answer is taken
        self._model, self._engine, self._client = offered.model, offered.engine, client
        self._tickets: list[Ticket] = []
        self._stopped = False

    def answer(self, messages: Any, images: Any, options: GenerationOptions, **how: Any) -> Answering:
        """As a model's own. Raises InputError where nobody waits any more."""
        self._check()
        if self._engine is None:
            return self._model.answer(messages, images, options, **how)
        request = self._model.request(messages, images, options, **how)
        ticket = self._engine.submit(request, client=self._client, tenant=(self._client, ""))
        self._tickets = [*(one for one in self._tickets if not one.over), ticket]
        if self._stopped:
            ticket.cancel()
        return ticket

    def _check(self) -> None:
        if self._stopped:
            raise InputError("asking about it was given up")

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopped = True
        for ticket in self._tickets:
            ticket.cancel()


@contextlib.contextmanager
def among(offered: Offered, client: str, pages: int) -> Iterator[Among]:
    """A model in use, for a task about so many pages, of which it takes as many at once as there is room for."""
    more = min(pages, offered.rows, 1 + offered.room.free) - 1
    with offered.room.held(max(0, more)):
        asked = Among(offered, client, 1 + max(0, more))
        try:
            yield asked
        finally:
            asked.stop()


async def told(desk: Desk, offered: Offered, asked: Among, work: Any) -> Any:
    """The result of a task: on the thread that computes where the model answers one by one, else beside it."""
    if offered.engine is None:
        return await desk.compute.do(work, stop=asked.stop)
    return await desk.told(work)
