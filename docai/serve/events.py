"""Server-sent events: what comes bit by bit, until it ends or nobody listens any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from docai.errors import DocaiError
from docai.export.json import dumps
from docai.serve.desk import while_there
from docai.serve.errors import ApiError, translated
from docai.serve.front import ClientGone

LOG = logging.getLogger("docai.serve")
DONE = b"data: [DONE]\n\n"


def event(value: Any, name: str | None = None) -> bytes:
    """One event."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + dumps(value) + b"\n\n"


class Events(Response):
    """A stream of events, behind the `first` of them. The iterator is closed where the client leaves, whenever that is;
    errors become a last event.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], first: bytes | None = None) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events, self._first = events, first

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            with contextlib.suppress(RuntimeError):
                await self._events.aclose()

    async def _send(self, send: Send) -> None:
        with contextlib.suppress(ClientGone):  # it does not take what it is sent: the connection is closed behind it
            await self._all(send)

    async def _all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            if self._first is not None:
                await send({"type": "http.response.body", "body": self._first, "more_body": True})
            async for data in self._events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except (ApiError, DocaiError) as error:
            await send({"type": "http.response.body", "body": _told(error), "more_body": True})
        except ClientGone:
            raise
        except Exception:
            LOG.exception("internal error within a stream")
            body = event(ApiError(500, "internal error; the server's log has it").body())
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def begun(request: Request, events: AsyncGenerator[bytes]) -> Events:
    """A stream whose first event is there: what goes wrong before it is a response of its own, with its status."""
    return Events(events, await while_there(request, anext(events)))


def _told(error: ApiError | DocaiError) -> bytes:
    return event((error if isinstance(error, ApiError) else translated(error)).body())


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
