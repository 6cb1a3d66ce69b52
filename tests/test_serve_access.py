"""Who may ask the server, and from which pages and under which names."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from docai.errors import UsageError
from docai.serve import front
from docai.serve.options import ServeOptions
from tests.crowd import PDF, SHORT, URI
from tests.serving import Served, served


def key(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


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


@pytest.mark.parametrize(
    ("options", "host", "fits"),
    [
        ({}, "localhost:8080", True),
        ({}, "LocalHost.", True),
        ({}, "127.8.8.8:1", True),
        ({}, "[::1]:8080", True),
        ({}, "192.168.1.2:8080", False),
        ({}, "docs.example.org", False),
        ({}, "127.0.0.1.evil.example", False),
        ({}, "localhost@evil.example", False),
        ({}, "[::", False),
        ({"allow_host": ["docs.example.org"]}, "docs.example.org:443", True),
        ({"allow_host": ["docs.example.org"]}, "evil.docs.example.org", False),
        ({"host": "0.0.0.0"}, "192.168.1.2:8080", True),
        ({"host": "0.0.0.0"}, "[fe80::1]:8080", True),
        ({"host": "0.0.0.0"}, "localhost", True),
        ({"host": "0.0.0.0"}, "{machine}:8080", True),
        ({"host": "0.0.0.0"}, "evil.example", False),
        ({"host": "0.0.0.0"}, "1.2.3.4.evil.example", False),
        ({"host": "ocr.lan"}, "ocr.lan:8080", True),
        ({"host": "ocr.lan"}, "evil.example", False),
    ],
)
def test_names_of_this_server(options: dict[str, Any], host: str, fits: bool) -> None:
    """A name that somebody else has made to lead here (DNS rebinding) is none; addresses are not given by others."""
    known = front.Hosts(ServeOptions(**options))
    assert known.known(host.format(machine=socket.gethostname())) == fits


def test_names_that_were_allowed(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a", allow_host=["docs.example.org"]) as server:
        for headers, status in {
            ("docs.example.org", "https://docs.example.org"): 200,
            ("127.0.0.1", "https://docs.example.org"): 200,  # a proxy that asks under another name
            ("docs.example.org", "https://evil.example"): 403,
            ("evil.example", "http://evil.example"): 403,
        }.items():
            host, origin = headers
            said, _ = server.ask("GET", "/v1/models", headers={"host": host, "origin": origin})
            assert (said.status, "access-control-allow-origin" in said.headers) == (status, False), headers
    with served(tmp_path / "b", api_key=["one"]) as server:  # who has the key may come by any name
        assert server.ask("GET", "/v1/models", headers={"host": "evil.example", **key("one")})[0].status == 200
        assert server.ask("GET", "/v1/models", headers={"host": "evil.example"})[0].status == 401


def test_there_is_no_cors(server: Served) -> None:
    for headers in (
        {"origin": "https://evil.example", "access-control-request-method": "POST"},
        {"origin": server.url, "access-control-request-method": "POST"},
    ):
        response, _ = server.ask("OPTIONS", "/v1/chat/completions", headers=headers)
        assert response.status in (403, 405)
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("name", ["*", "Docs.example.org", "a b", "", "http://a", "a:80"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="allow_host"):
        ServeOptions(allow_host=[name])


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


def test_request_ids(server: Served) -> None:
    assert server.ask("GET", "/livez", headers={"x-request-id": "mine-1"})[0].headers["x-request-id"] == "mine-1"
    assert (
        server.ask("GET", "/livez", headers={"x-request-id": "a b\x01"})[0].headers["x-request-id"].startswith("req-")
    )
