"""Strangers, crowds and broken clients: nothing of it makes the server fail, and each is told what is wrong."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from docai.serve import front, run
from docai.serve.options import ServeOptions
from tests.conftest import make_pdf
from tests.serving import Served, served
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl

PDF = make_pdf(["BT /F 12 Tf 20 160 Td (Hello world) Tj ET"])
URI = "data:application/pdf;base64," + base64.b64encode(PDF).decode()
LONG = {"model": "sees", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3000, "loop_guard": False}
SHORT = {**LONG, "max_tokens": 4}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    tiny_llama(folder / "text")
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Served]:
    with served(models / "state", model=[str(models / "sees")], max_body=1 << 20, max_queue_depth=4) as running:
        yield running


def key(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


# --- who may ask


def test_keys(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state", model=[str(models / "sees")], api_key=["one", "two"]) as server:
        for path in ("/health", "/livez", "/readyz", "/", "/web/app.js"):
            assert server.ask("GET", path)[0].status == 200, path
        paths = ("/v1/models", "/metrics", "/props", "/openapi.json", "/v1/files", "/v1/files/x/content", "/nothing")
        for headers in ({}, key("three"), key(""), {"authorization": "one"}, {"authorization": "Basic one"}, key("ö")):
            for path in paths:
                response, data = server.ask("GET", path, headers=headers)
                assert response.status == 401, path
                assert json.loads(data)["error"]["type"] == "authentication_error"
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 401
        assert server.ask("GET", "/v1/models", headers={"x-api-key": "two"})[0].status == 200
        edge = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n' + PDF + b"\r\n--x--\r\n"
        head = {**key("one"), "content-type": "multipart/form-data; boundary=x"}
        file = server.json("POST", "/v1/files", edge, headers=head)["id"]
        job = server.json("POST", "/v1/jobs", {"document": URI}, 202, headers=key("one"))["id"]
        for path in (f"/v1/files/{file}", f"/v1/files/{file}/content", f"/v1/jobs/{job}", f"/v1/jobs/{job}/events"):
            assert server.ask("GET", path, headers=key("one"))[0].status == 200, path
            assert server.ask("GET", path, headers=key("two"))[0].status == 404, path
        url = server.json("GET", f"/v1/files/{file}/url", headers=key("one"))["url"]
        path = url.partition(str(server.port))[2]
        assert server.ask("GET", path)[0].status == 401
        assert server.ask("GET", path, headers=key("two"))[1] == PDF
        tokens = {}
        for name, headers in {
            "first": key("one"),
            "again": key("one"),
            "other": key("two"),
            "tenant": {**key("one"), "x-apc-tenant": "t"},
        }.items():
            usage = server.json("POST", "/v1/chat/completions", SHORT, headers=headers)["usage"]
            tokens[name] = usage["prompt_tokens_details"]["cached_tokens"]
        assert tokens["again"] > 0
        assert (tokens["first"], tokens["other"], tokens["tenant"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "localhost"}, 200),
    ],
)
def test_web_pages_of_others(server: Served, headers: dict[str, str], status: int) -> None:
    assert server.ask("GET", "/v1/models", headers=headers)[0].status == status


def test_the_own_page_may_ask(server: Served) -> None:
    response, _ = server.ask("POST", "/v1/chat/completions", SHORT, {"origin": server.url})
    assert response.status == 200
    assert "access-control-allow-origin" not in response.headers


def test_the_page_loads_nothing_from_elsewhere(server: Served) -> None:
    policy = server.ask("GET", "/")[0].headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for name in ("index.html", "app.js", "chat.js", "style.css", "icon.svg"):
        response, data = server.ask("GET", f"/web/{name}")
        assert response.status == 200
        assert b"//cdn" not in data
        assert b" style=" not in data
        assert not any(b"https://" in line for line in data.splitlines() if b"xmlns" not in line), name
    for name in ("__init__.py", "..%2fapp.py", "x"):
        assert server.ask("GET", f"/web/{name}")[0].status == 404


# --- bodies


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


def test_a_body_that_is_too_large_is_not_read(server: Served) -> None:
    assert b" 413 " in raw(server, head("/v1/chat/completions", content_length="99999999"))
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    assert b" 413 " in raw(server, head("/v1/chat/completions", transfer_encoding="chunked") + chunk * 18)
    assert b" 400 " in raw(server, head("/v1/chat/completions", content_length="x"))


def test_slow_clients(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_BODY_SILENCE", 0.2)
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.2)
    assert b" 408 " in raw(server, head("/v1/chat/completions", content_length="10") + b"{")
    began = time.monotonic()
    assert raw(server, b"") == b""
    assert raw(server, b"POST /v1/chat/comp") == b""
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{}", "application/x-www-form-urlencoded", 415),
        (b"{", "application/json", 400),
        (b"", "application/json", 422),
        (b"[" * 100_000, "application/json", 400),
        (b'{"temperature": NaN}', "application/json", 400),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"messages": ' + b"9" * 5000 + b"}", "application/json", 400),
        (b"null", "application/json", 422),
        (b"x", "multipart/form-data", 422),
    ],
)
def test_bodies_that_are_none(server: Served, body: bytes, kind: str, status: int) -> None:
    response, data = server.ask("POST", "/v1/chat/completions", body, {"content-type": kind})
    assert response.status == status, data
    assert json.loads(data)["error"]["message"]
    assert response.headers["x-request-id"]
    for path in ("/v1/ocr", "/v1/parse", "/v1/files"):
        assert server.ask("POST", path, body, {"content-type": kind})[0].status in (400, 415, 422)


def test_answers_are_sent_at_once() -> None:
    """asyncio switches Nagle's algorithm off only where a socket says that it is TCP: else answers wait 40 ms."""
    with contextlib.closing(run.listen(ServeOptions(port=0))) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_request_ids(server: Served) -> None:
    assert server.ask("GET", "/livez", headers={"x-request-id": "mine-1"})[0].headers["x-request-id"] == "mine-1"
    assert (
        server.ask("GET", "/livez", headers={"x-request-id": "a b\x01"})[0].headers["x-request-id"].startswith("req-")
    )


NUMBERS = [None, True, -1, 0, 1, 2**53, 1e308]
TEXTS = ["", "x", "\0", "é👩‍👩‍👧", "9" * 50, URI, "file:///etc/passwd"]
SCALARS: list[Any] = [*NUMBERS, *TEXTS, [], {}, [[]], {"a": None}]
FIELDS = {
    "/v1/chat/completions": (
        "messages model temperature top_p top_k seed n stop stream stream_options logprobs top_logprobs logit_bias "
        "tools tool_choice response_format max_tokens max_completion_tokens thinking thinking_budget "
        "chat_template_kwargs reasoning_effort image_tokens repetition_penalty presence_penalty"
    ),
    "/v1/completions": "prompt model temperature n stop stream logprobs echo logit_bias max_tokens seed",
    "/v1/responses": "input model instructions text tools tool_choice reasoning stream max_output_tokens metadata",
    "/v1/ocr": "document pages image_limit image_min_size include_image_base64 table_format model extract_header",
    "/v1/parse": "document pages format layout images furniture ocr dpi model password lang engine",
    "/v1/detect": "document pages labels threshold label_thresholds order model with_lines",
    "/v1/caption": "document detail prompt model max_tokens temperature pages logit_bias stop",
    "/v1/ground": "document phrases shape model max_tokens",
    "/v1/jobs": "document pages layout ocr model dpi",
}
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": SHORT,
    "/v1/completions": {"prompt": "a", "max_tokens": 3},
    "/v1/responses": {"input": "a", "max_output_tokens": 3},
    "/v1/ocr": {"document": URI},
    "/v1/parse": {"document": URI},
    "/v1/detect": {"document": URI},
    "/v1/caption": {"document": URI, "max_tokens": 3},
    "/v1/ground": {"document": URI, "phrases": ["a"], "max_tokens": 3},
    "/v1/jobs": {"document": URI},
}


def value(chance: random.Random, depth: int = 0) -> Any:
    """Something that JSON can hold, often of the kinds that requests have."""
    kinds = ["text", "image_url", "file", "function", "message", "document_url", "json_schema", "user", "input_image"]
    match chance.randrange(6 if depth < 3 else 2):
        case 0 | 1:
            return chance.choice(SCALARS)
        case 2:
            return [value(chance, depth + 1) for _ in range(chance.randrange(3))]
        case 3:
            return {"type": chance.choice(kinds), **{k: value(chance, depth + 1) for k in chance.sample(kinds, 2)}}
        case 4:
            return {"role": chance.choice(["user", "assistant", "tool"]), "content": value(chance, depth + 1)}
        case _:
            names = ["url", "function", "name", "schema", "arguments", "content", "parameters", "file_id", "tool_calls"]
            return {k: value(chance, depth + 1) for k in chance.sample(names, 2)}


@pytest.mark.parametrize("path", FIELDS)
def test_senseless_fields_never_break_it(server: Served, path: str) -> None:
    chance = random.Random(path)
    names = FIELDS[path].split()
    with contextlib.closing(server.connection()) as connection:
        for _ in range(60):
            body = {**GOOD[path], **{name: value(chance) for name in chance.sample(names, chance.choice((1, 1, 2, 3)))}}
            for cap in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
                if isinstance(body.get(cap), int | float) and body[cap] > 50:
                    body[cap] = 50
            connection.request("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
            response = connection.getresponse()
            data = response.read()
            assert response.status < 500 or response.status == 503, (response.status, data, body)
            if response.status >= 400:
                assert json.loads(data)["error"]["message"], body
            assert b"internal error" not in data, body


def test_the_description_of_the_interface(server: Served) -> None:
    said = server.json("GET", "/openapi.json")
    for path in FIELDS:
        assert said["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"], path


# --- crowds


def test_a_full_queue_says_when_to_come_back(server: Served) -> None:
    """More than run (8) and wait (4): the others are told so at once."""
    body = {**LONG, "max_tokens": 300}
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: server.ask("POST", "/v1/chat/completions", body), range(40)))
    statuses = [response.status for response, _ in answers]
    assert set(statuses) == {200, 503}
    for response, data in answers:
        if response.status == 503:
            assert int(response.headers["retry-after"]) > 0
            assert json.loads(data)["error"]["code"] == "overloaded"
        else:
            assert json.loads(data)["usage"]["completion_tokens"] == 300


def idle(server: Served, seconds: float = 5) -> None:
    """Wait until nothing runs; nothing may run on for long."""
    deadline = time.monotonic() + seconds
    desk = server.desk
    while desk.models.running or desk.models.waiting or any(one.users for one in desk.models.offered.values()):
        assert time.monotonic() < deadline, "an answer goes on that nobody waits for"
        time.sleep(0.01)


@pytest.mark.parametrize("stream", [True, False])
def test_who_leaves_ends_the_answer(server: Served, stream: bool) -> None:
    server.ask("POST", "/v1/chat/completions", SHORT)
    data = json.dumps({**LONG, "stream": stream}).encode()
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head("/v1/chat/completions", content_length=str(len(data))) + data)
        while not server.desk.models.running:
            assert time.monotonic() - began < 5
            time.sleep(0.001)
        if stream:
            connection.recv(100)
    idle(server, 3)


def test_a_reader_that_does_not_read(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_SEND_SECONDS", 0.3)
    data = json.dumps({**LONG, "stream": True, "logprobs": True, "top_logprobs": 20}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(head("/v1/chat/completions", content_length=str(len(data))) + data)
        while not server.desk.models.running:
            time.sleep(0.001)
        idle(server, 15)


def unloaded(server: Served) -> None:
    """Wait until no model is in memory."""
    deadline = time.monotonic() + 5
    while server.desk.models.loaded:
        assert time.monotonic() < deadline, "it stays in memory"
        time.sleep(0.05)


def test_models_make_room_for_each_other(models: Path, tmp_path: Path) -> None:
    names = [str(models / "sees"), str(models / "text")]
    with served(tmp_path / "state", model=names, keep_alive="0.3s") as server:
        for name in ("sees", "text", "sees"):
            assert server.json("POST", "/v1/chat/completions", {**SHORT, "model": name})["model"] == name
            loaded = [one["id"] for one in server.json("GET", "/v1/models")["data"] if one["loaded"] and one["created"]]
            assert loaded == [name]
        unloaded(server)
        assert server.json("GET", "/health")["status"] == "ok"


def test_a_broken_engine_is_told_and_replaced(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state", model=[str(models / "sees")]) as server:
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        (offered,) = server.desk.models.loaded
        assert offered.engine is not None
        offered.engine.close()
        assert server.json("GET", "/health", status=503)["broken"] == ["sees"]
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        assert server.json("GET", "/health")["broken"] == []


def test_metrics_tell_what_happened(server: Served) -> None:
    def number(name: str) -> float:
        text = server.ask("GET", "/metrics")[1].decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"docai_{name}"))

    before = number("generation_tokens_total"), number("pages_total"), number("time_to_first_token_seconds_count")
    server.ask("POST", "/v1/chat/completions", SHORT)
    server.ask("POST", "/v1/parse", {"document": URI})
    after = number("generation_tokens_total"), number("pages_total"), number("time_to_first_token_seconds_count")
    assert [b - a for a, b in zip(before, after, strict=True)] == [4, 1, 1]
    assert number("num_requests_running") == 0


def test_settings_change_while_it_runs(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state", model=[str(models / "sees")]) as server:

        def change(values: Any, status: int = 200) -> Any:
            return server.json("PATCH", "/v1/settings", values, status)

        def tokens() -> int:
            body = {"messages": LONG["messages"], "loop_guard": False}
            return int(server.json("POST", "/v1/chat/completions", body)["usage"]["completion_tokens"])

        first = server.json("GET", "/v1/settings")
        assert {knob["name"] for knob in first["schema"]} == set(first["current"])
        said = change({"max_tokens": 5, "max_images": 0, "nonsense": 1, "vision_cache_size": "x", "thinking": "maybe"})
        assert said["applied"] == {"max_tokens": 5}
        assert {one["name"] for one in said["rejected"]} == {"max_images", "nonsense", "vision_cache_size", "thinking"}
        assert (said["reload_kinds"], said["fingerprint"]) == ([], first["fingerprint"])
        assert tokens() == 5
        (offered,) = server.desk.models.loaded
        model = offered.model
        assert change({"vision_cache_size": 3, "prefix_cache": 0, "dtype": None})["reload_kinds"] == []
        assert tokens() == 5
        assert offered.model is model
        assert model is not None
        assert (model.feature_size, model.engine.store.budget) == (3, 0)
        said = change({"dtype": "bfloat16"})
        assert said["reload_kinds"] == ["text_generation", "vision"]
        assert said["fingerprint"] != first["fingerprint"]
        assert tokens() == 5
        assert offered.model is not model
        said = change({"op": "replace", "values": {"max_tokens": 2}})
        assert said["current"] == {**first["current"], "max_tokens": 2}
        assert change({"max_tokens": None})["current"]["max_tokens"] is None
        change({"op": "delete", "values": {}}, 400)
        change([], 422)
        assert change({"keep_alive": "0.2s"})["applied"] == {"keep_alive": "0.2s"}
        unloaded(server)


def test_what_models_keep(server: Served) -> None:
    for _ in range(2):
        server.json("POST", "/v1/chat/completions", SHORT)
    kept = server.json("GET", "/v1/cache/stats")["models"]["sees"]
    assert kept["prefix"]["lookups_hit"] > 0
    assert kept["prefix"]["resident_bytes"] > 0
    assert server.json("POST", "/v1/cache/reset")["status"] == "cleared"
    assert server.json("GET", "/v1/cache/stats")["models"]["sees"]["prefix"]["resident_bytes"] == 0


# --- all at once


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


def test_a_crowd(server: Served) -> None:
    crowd = Crowd(server)
    crowd.client(0, time.monotonic() + 1)
    before = descriptors()
    until = time.monotonic() + 20
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for future in [pool.submit(crowd.client, number, until) for number in range(1, 65)]:
            future.result()
    idle(server)
    assert {200, 202, 422} <= set(crowd.statuses)
    for number in crowd.jobs:
        deadline = time.monotonic() + 20
        while server.json("GET", f"/v1/jobs/{number}")["status"] in ("queued", "running"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.json("GET", f"/v1/jobs/{number}")["status"] == "done"
    assert descriptors() <= before + 8
    assert len(server.desk._tasks) < 8
