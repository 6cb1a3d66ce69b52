"""Clients of a server on loopback that do all kinds of things to it, for tests and benchmarks."""

from __future__ import annotations

import base64
import json
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

from tests.conftest import make_pdf
from tests.serving import Served

PDF = make_pdf(["BT /F 12 Tf 20 160 Td (Hello world) Tj ET"])
URI = "data:application/pdf;base64," + base64.b64encode(PDF).decode()
LONG = {"model": "sees", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3000, "loop_guard": False}
SHORT = {**LONG, "max_tokens": 4}


def raw(server: Served, data: bytes, *, close: bool = False, seconds: float = 5) -> bytes:
    """What the server says to bytes, until it has said a whole head or closed."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        connection.sendall(data)
        if close:
            return b""
        said = b""
        while b"\r\n\r\n" not in said and (more := connection.recv(65536)):
            said += more
        return said


def head(path: str, **headers: str) -> bytes:
    lines = {"host": "localhost", "content-type": "application/json", **headers}
    said = "".join("{}: {}\r\n".format(name.replace("_", "-"), value) for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{said}\r\n".encode()


def idle(server: Served, seconds: float = 5) -> None:
    """Wait until nothing runs; nothing may run on for long."""
    deadline = time.monotonic() + seconds
    desk = server.desk
    while desk.models.running or desk.models.waiting or any(one.users for one in desk.models.offered.values()):
        assert time.monotonic() < deadline, "an answer goes on that nobody waits for"
        time.sleep(0.01)


class Crowd:
    """Clients that do all kinds of things for a while; the statuses that they were given."""

    def __init__(self, server: Served) -> None:
        self.server, self.statuses, self.jobs = server, [], []
        self._lock = threading.Lock()

    def client(self, number: int, until: float) -> None:
        chance = random.Random(number)
        deeds = [self.chat, self.stream, self.leave, self.parse, self.garbage, self.job, self.health]
        while time.monotonic() < until:
            chance.choice(deeds)(chance)

    def took(self, status: int, data: bytes = b"") -> None:
        with self._lock:
            self.statuses.append(status)
        assert status < 500 or status == 503, data

    def ask(self, path: str, body: Any) -> tuple[int, bytes]:
        response, data = self.server.ask("POST", path, body)
        self.took(response.status, data)
        return response.status, data

    def chat(self, chance: random.Random) -> None:
        self.ask("/v1/chat/completions", {**SHORT, "max_tokens": chance.randrange(1, 30)})

    def stream(self, chance: random.Random) -> None:
        status, data = self.ask("/v1/chat/completions", {**SHORT, "stream": True, "n": 2})
        assert status != 200 or data.endswith(b"data: [DONE]\n\n")

    def leave(self, chance: random.Random) -> None:
        data = json.dumps({**LONG, "stream": chance.random() < 0.5}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.sendall(
                head("/v1/chat/completions", content_length=str(len(data))) + data[: chance.randrange(99)]
            )
            time.sleep(chance.random() / 20)

    def parse(self, chance: random.Random) -> None:
        self.ask(chance.choice(["/v1/parse", "/v1/ocr", "/v1/detect"]), {"document": URI})

    def garbage(self, chance: random.Random) -> None:
        self.ask("/v1/chat/completions", bytes(chance.randrange(256) for _ in range(200)))

    def job(self, chance: random.Random) -> None:
        status, data = self.ask("/v1/jobs", {"document": URI})
        if status == 202:
            with self._lock:
                self.jobs.append(json.loads(data)["id"])

    def health(self, _: random.Random) -> None:
        response, data = self.server.ask("GET", "/health")
        assert response.status == 200, data


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0
