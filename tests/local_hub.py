"""A hub on loopback: the few requests that huggingface_hub makes for a download, with faults on demand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_LARGE = (".safetensors", ".gguf", ".bin")


@dataclass
class Hub:
    """What the hub has, and how it behaves.

    `cut`: bytes after which the connection of a file breaks, once. `wrong`: files that come with another byte than
    their hash says. `gated`: repos whose terms nobody has accepted. `seen`: (method, path, Range) of every request,
    `tokens` what they showed.
    """

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    down: bool = False
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    url: str = ""

    def asked(self, name: str) -> list[str | None]:
        """The ranges that were asked for of a file; None is the whole."""
        return [part for method, path, part in self.seen if method == "GET" and path.endswith(f"/{name}")]


def entry(name: str, data: bytes) -> dict[str, Any]:
    """A file as the hub lists it: large ones by SHA-256, small ones by what git calls them."""
    git = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    out: dict[str, Any] = {"type": "file", "path": name, "rfilename": name, "size": len(data), "oid": git}
    out["blobId"] = git
    if name.endswith(_LARGE):
        digest = hashlib.sha256(data).hexdigest()
        out["lfs"] = {"oid": digest, "sha256": digest, "size": len(data), "pointerSize": 134}
    return out


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests look at `seen`."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        hub: Hub = self.server.hub
        path = unquote(urlsplit(self.path).path)
        hub.tokens.add(self.headers.get("Authorization"))
        hub.seen.append((self.command, path, self.headers.get("Range")))
        if hub.down:
            self._error(503, "down for maintenance")
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
            self._listing(hub, found[1], found[2], found[3])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(hub, found[1], found[3], body=body)
        else:
            self._error(404, "not found")

    def _listing(self, hub: Hub, repo: str, kind: str | None, revision: str | None) -> None:
        if repo not in hub.repos:
            self._error(401, "Invalid username or password.", "RepoNotFound")
        elif repo in hub.gated:
            self._error(403, "Access to model is restricted.", "GatedRepo")
        elif revision not in (None, "main", COMMIT):
            self._error(404, "Invalid rev id", "RevisionNotFound")
        else:
            files = [entry(name, data) for name, data in hub.repos[repo].items()]
            info = {"id": repo, "modelId": repo, "sha": COMMIT, "private": False, "tags": [], "siblings": files}
            self._json(files if kind == "tree" else info)

    def _file(self, hub: Hub, repo: str, name: str, *, body: bool) -> None:
        if name not in hub.repos.get(repo, {}):
            self._error(404, "Entry not found", "EntryNotFound")
            return
        data = hub.repos[repo][name]
        listed = entry(name, data)
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{listed.get("lfs", {}).get("sha256") or listed["oid"]}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if body:
            self._body(hub, name, data, start)

    def _body(self, hub: Hub, name: str, data: bytes, start: int) -> None:
        if name in hub.wrong:
            data = data[:-1] + bytes([data[-1] ^ 1])
        cut = hub.cut.pop(name, None)
        if cut is None:
            self.wfile.write(data[start:])
            return
        self.wfile.write(data[start:cut])
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: int, message: str, code: str = "") -> None:
        self.send_response(status)
        self.send_header("X-Error-Message", message)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """The hub at a free port of loopback; `hub.url` is its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = hub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
