"""Servers on loopback for tests, at free ports: in this process, on a thread of its own, or as processes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from docai.serve.app import make_app
from docai.serve.desk import Desk
from docai.serve.options import ServeOptions
from docai.serve.run import Server, config_of, listen


class Served:
    """A running server."""

    def __init__(
        self, port: int, desk: Desk, server: Server, loop: asyncio.AbstractEventLoop, thread: threading.Thread
    ) -> None:
        self.port, self.desk, self.server, self.loop, self._thread = port, desk, server, loop, thread

    def stop(self) -> None:
        """End it, as a signal would."""
        self.server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server does not end"

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


class Process:
    """The server as a process of its own, until it is ended or left."""

    def __init__(self, state: Path, *words: str) -> None:
        code = "from docai.cli.app import main; main()"
        command = [sys.executable, "-c", code, "serve", "--port", "0", "--state", str(state), *words]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"})
        assert self._process.stderr is not None
        said = self._process.stderr.readline().decode()
        assert "listening at" in said, said + self._process.stderr.read().decode()
        self._port = int(re.findall(r":(\d+)", said)[-1])

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self.end(signal.SIGKILL)

    def ask(self, method: str, path: str, body: Any = None) -> bytes:
        with contextlib.closing(HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"content-type": "application/json"})
            return connection.getresponse().read()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.ask(method, path, body))

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """The exit code after a signal, and what it has said on standard error."""
        self._process.send_signal(how)
        _, said = self._process.communicate(timeout=60)
        return self._process.returncode, said.decode()


def scan(lines: int = 2) -> bytes:
    """A picture with a few lines of text, as PNG: quickly read."""
    page = Image.new("RGB", (600, 60 + 45 * lines), "white")
    for line in range(lines):
        ImageDraw.Draw(page).text((20, 20 + 45 * line), f"Line number {line} of the page", "black", font_size=24)
    made = io.BytesIO()
    page.save(made, "PNG")
    return made.getvalue()


@contextlib.contextmanager
def served(state: Path, **options: Any) -> Iterator[Served]:
    """A server, until it is left."""
    chosen = ServeOptions(**{"port": 0, "state": str(state), "grace": 1.0, **options})
    listening = listen(chosen)
    app = make_app(chosen)
    server = Server(config_of(app, chosen))
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
    assert began.wait(60)
    running = Served(listening.getsockname()[1], app.state.desk, server, loops[0], thread)
    with contextlib.closing(listening):
        try:
            yield running
        finally:
            running.stop()
