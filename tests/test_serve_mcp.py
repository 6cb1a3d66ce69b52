"""`docai mcp`, as a client starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docai.serve.mcp import TOOLS, Mcp, Settled
from tests.tiny_encdec import tiny_florence2


def call(settled: Settled, name: str, **arguments: Any) -> tuple[str, bool]:
    said = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    answer = Mcp(settled).answer(json.dumps(said).encode())
    assert answer is not None
    (content,) = answer["result"]["content"]
    return content["text"], answer["result"]["isError"]


@pytest.fixture
def settled(tmp_path: Path, tiny_pdf: bytes) -> Settled:
    (tmp_path / "a.pdf").write_bytes(tiny_pdf)
    return Settled(None, True, tmp_path.resolve(), {})


def test_a_client_on_the_command_line(tmp_path: Path, tiny_pdf: bytes) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(tiny_pdf)
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-03-26", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": "two", "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "ocr", "arguments": {"path": str(path), "pages": "2"}}},
        {"id": 4, "method": "ping"},
        {"id": 5, "method": "resources/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages) + "{broken\n"
    command = [sys.executable, "-c", "from docai.cli.app import main; main()", "mcp"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, "two", 3, 4, 5, None]
    assert answers[0]["result"]["protocolVersion"] == "2025-03-26"
    assert {tool["name"] for tool in answers[1]["result"]["tools"]} == set(TOOLS)
    assert all("path" in tool["inputSchema"]["required"] for tool in answers[1]["result"]["tools"])
    assert answers[2]["result"]["content"][0]["text"].strip() == "Second page"
    assert [answer["error"]["code"] for answer in answers[4:]] == [-32601, -32700]


def test_the_tools(settled: Settled, tmp_path: Path) -> None:
    path = str(tmp_path / "a.pdf")
    text, wrong = call(settled, "parse", path="a.pdf")  # below the root
    assert not wrong
    assert len(json.loads(text)["pages"]) == 2
    text, wrong = call(settled, "detect", path=path, pages="1")
    assert not wrong
    assert json.loads(text)["detections"]


def test_tools_of_a_model(settled: Settled, tmp_path: Path) -> None:
    pytest.importorskip("mlx.core")
    model = str(tiny_florence2(tmp_path / "model"))
    for name, more in {"caption": {}, "ground": {"phrases": ["a cat"]}}.items():
        text, wrong = call(settled, name, path=str(tmp_path / "a.pdf"), model=model, pages="1", **more)
        assert not wrong, text
    assert list(settled.loaded) == [model]


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("ocr", {}, "path"),
        ("ocr", {"path": "/etc/passwd"}, "under"),
        ("ocr", {"path": "{root}/none.pdf"}, "none.pdf"),
        ("ocr", {"path": "{root}/a.pdf", "pages": "9"}, "last page"),
        ("caption", {"path": "{root}/a.pdf"}, "needs a model"),
        ("detect", {"path": "{root}/a.pdf", "labels": "unicorn"}, "labels"),
        ("detect", {"path": "{root}/a.pdf", "page": "1"}, "page: there is no such field; near it: pages"),
    ],
)
def test_what_goes_wrong_is_told(
    settled: Settled, tmp_path: Path, name: str, arguments: dict[str, str], says: str
) -> None:
    named = {key: value.replace("{root}", str(tmp_path)) for key, value in arguments.items()}
    text, wrong = call(settled, name, **named)
    assert wrong
    assert says in text
