"""Requests that are broken, too large, too slow or senseless: each is told what is wrong, and nothing fails."""

from __future__ import annotations

import contextlib
import io
import json
import random
import socket
import time
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from PIL import Image

from docai.serve import front, run
from docai.serve.options import ServeOptions
from tests.crowd import SHORT, URI, head, raw
from tests.serving import Served


def test_a_body_that_is_too_large_is_not_read(server: Served) -> None:
    assert b" 413 " in raw(server, head("/v1/chat/completions", content_length="99999999"))
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    assert b" 413 " in raw(server, head("/v1/chat/completions", transfer_encoding="chunked") + chunk * 18)
    assert b" 400 " in raw(server, head("/v1/chat/completions", content_length="x"))


def test_what_a_request_names_counts_like_its_body(server: Served) -> None:
    """However often: one file of 0.6 MB may be named where 1 MB is allowed, two may not."""
    noise = Image.frombytes("RGB", (450, 450), random.Random(1).randbytes(450 * 450 * 3))
    made = io.BytesIO()
    noise.save(made, "PNG")
    edge = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    body = edge + made.getvalue() + b"\r\n--x--\r\n"
    number = server.json("POST", "/v1/files", body, headers={"content-type": "multipart/form-data; boundary=x"})["id"]
    part = {"type": "file", "file": {"file_id": number}}
    for count, status in ((1, 200), (2, 413)):
        asked = {**SHORT, "messages": [{"role": "user", "content": [part] * count}]}
        response, data = server.ask("POST", "/v1/chat/completions", asked)
        assert response.status == status, data
    assert json.loads(data)["error"]["code"] == "too_large"


def test_slow_clients(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_BODY_SILENCE", 0.2)
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.2)
    assert b" 408 " in raw(server, head("/v1/chat/completions", content_length="10") + b"{")
    began = time.monotonic()
    assert raw(server, b"") == b""
    assert raw(server, b"POST /v1/chat/comp") == b""
    assert time.monotonic() - began < 10  # of 15 each


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
