"""A server on loopback for tests: in this process, on a thread of its own, at a free port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import uvicorn

from docai.serve.app import make_app
from docai.serve.desk import Desk
from docai.serve.options import ServeOptions
from docai.serve.run import config_of, listen


class Served:
    """A running server."""

    def __init__(self, port: int, desk: Desk, server: uvicorn.Server, loop: asyncio.AbstractEventLoop) -> None:
        self.port, self.desk, self.server, self.loop = port, desk, server, loop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connection(self, timeout: float = 60) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[HTTPResponse, bytes]:
        """One request; a body that is not bytes goes as JSON."""
        connection = self.connection()
        with contextlib.closing(connection):
            head = dict(headers or {})
            data = body
            if body is not None and not isinstance(body, bytes):
                data = json.dumps(body).encode()
                head = {"content-type": "application/json", **head}
            connection.request(method, path, data, head)
            response = connection.getresponse()
            return response, response.read()

    def json(self, method: str, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """The JSON of an answer, which has to have this status."""
        response, data = self.ask(method, path, body, **more)
        assert response.status == status, data
        return json.loads(data)


@contextlib.contextmanager
def served(state: Path, **options: Any) -> Iterator[Served]:
    """A server, until it is left."""
    chosen = ServeOptions(**{"port": 0, "state": str(state), "grace": 1.0, **options})
    listening = listen(chosen)
    app = make_app(chosen)
    server = uvicorn.Server(config_of(app, chosen))
    loops: list[asyncio.AbstractEventLoop] = []
    began = threading.Event()

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        began.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="server")
    thread.start()
    began.wait(20)
    try:
        yield Served(listening.getsockname()[1], app.state.desk, server, loops[0])
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive(), "the server does not end"
