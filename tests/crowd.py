"""Clients of a server on loopback that do all kinds of things to it, for tests and benchmarks."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

from PIL import Image

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


def idle(server: Served, seconds: float = 30) -> None:
    """Wait until nothing runs; nothing may run on for long."""
    deadline = time.monotonic() + seconds
    desk = server.desk
    while desk.models.running or desk.models.waiting or any(one.users for one in desk.models.offered.values()):
        assert time.monotonic() < deadline, "an answer goes on that nobody waits for"
        time.sleep(0.01)


def png(image: Image.Image) -> str:
    """An image as an address."""
    made = io.BytesIO()
    image.save(made, "PNG")
    return "data:image/png;base64," + base64.b64encode(made.getvalue()).decode()


BOMB, SMALL = png(Image.new("1", (30_000, 30_000))), png(Image.new("RGB", (40, 30), "red"))


def picture(url: str) -> list[dict[str, Any]]:
    """A question about a picture."""
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


class Crowd:
    """Clients that do all kinds of things for a while; the statuses that they were given."""

    def __init__(self, server: Served) -> None:
        self.server, self.statuses, self.jobs = server, [], []
        self._lock = threading.Lock()

    def client(self, number: int, until: float) -> None:
        chance = random.Random(number)
        deeds = [self.chat, self.stream, self.leave, self.parse, self.garbage, self.job, self.health]
        deeds += [self.bomb, self.oversized, self.slow, self.look]
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
        """In the middle of a request, of an answer, of a stream or of a document."""
        path, body = chance.choice(
            [
                ("/v1/chat/completions", {**LONG, "stream": chance.random() < 0.5}),
                (chance.choice(["/v1/parse", "/v1/detect", "/v1/ocr"]), {"document": URI}),
            ]
        )
        data = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.sendall(head(path, content_length=str(len(data))) + data[: chance.choice([50, len(data)])])
            time.sleep(chance.random() / 20)

    def slow(self, chance: random.Random) -> None:
        """Take a stream a little at a time."""
        data = json.dumps({**SHORT, "max_tokens": 40, "stream": True, "logprobs": True, "top_logprobs": 20}).encode()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", self.server.port))
            connection.sendall(head("/v1/chat/completions", content_length=str(len(data)), connection="close") + data)
            said = b""
            while more := connection.recv(2048):
                said = said[:20] + more
                time.sleep(0.002)
        self.took(int(said.split()[1]))

    def bomb(self, _: random.Random) -> None:
        status, _ = self.ask("/v1/chat/completions", {**SHORT, "messages": picture(BOMB)})
        assert status in (413, 503)

    def look(self, _: random.Random) -> None:
        self.ask("/v1/chat/completions", {**SHORT, "messages": picture(SMALL)})

    def oversized(self, chance: random.Random) -> None:
        """More than is taken, said at once or found out on the way."""
        if chance.random() < 0.5:
            said = raw(self.server, head("/v1/parse", content_length=str(1 << 40)), seconds=60)
        else:
            chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
            try:
                said = raw(self.server, head("/v1/parse", transfer_encoding="chunked") + chunk * 18, seconds=60)
            except OSError:  # it has closed while there was more to send
                return
        if said:
            self.took(int(said.split()[1]))

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


def resident() -> float:
    """Memory of this process, in megabytes; 0 where it is not told."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if told.exists() else 0.0


def left_over(server: Served) -> set[str]:
    """Files in the server's folder that belong to no job and to no upload."""
    desk = server.desk
    known = {job.id for job in desk.store.jobs("")} | {file.id for file in desk.store.files("")}
    return {path.name for path in desk.store.path("x").parent.iterdir()} - known
