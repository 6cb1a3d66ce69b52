"""The commands and programs of the documentation, as pasted, against a running server."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SAMPLES
from tests.serving import Served, served

ROOT = Path(__file__).parent.parent
PAGE, README = (ROOT / "docs" / "serve.md").read_text(), (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("state")) as running:
        yield running


def blocks(text: str, has: str) -> list[str]:
    """The code blocks that have something in them."""
    return [block for block in re.findall(r"(?ms)^```\w*\n(.*?)^```", text) if has in block]


def commands(text: str) -> list[list[str]]:
    """The words of each `curl`, also of those over several lines."""
    found = [words for block in blocks(text, "curl ") for words in _split(block)]
    assert len(found) >= 3
    return found


def _split(block: str) -> Iterator[list[str]]:
    for part in re.split(r"(?m)^(?=curl )", block):
        if part.startswith("curl "):
            yield shlex.split(part, comments=True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize("text", [README, PAGE], ids=["README.md", "docs/serve.md"])
def test_curl(server: Served, text: str, tmp_path: Path, tiny_pdf: bytes) -> None:
    (tmp_path / "samples").symlink_to(SAMPLES)
    (tmp_path / "long.pdf").write_bytes(tiny_pdf)
    number = ""
    for words in commands(text):
        if any("https://" in word for word in words):  # of somewhere else
            uri = "data:application/pdf;base64,JVBERi0xLjc="
            assert server.ask("POST", "/v1/ocr", {"document": uri})[0].status == 422
            continue
        asked = [word.replace("http://127.0.0.1:8080", server.url).replace("job-…", number) for word in words]
        done = subprocess.run([*asked, "--fail"], cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, (asked, done.stderr)
        if "/v1/jobs" in asked[-3] or asked[2].endswith("/v1/jobs"):
            number = json.loads(done.stdout)["id"] if b'"id"' in done.stdout[:8] else number
            assert done.stdout
        elif "markdown" in " ".join(asked):
            assert b"# " in done.stdout or b"Hello world" in done.stdout


def test_pages_for_others(server: Served) -> None:
    names: dict[str, object] = {}
    (code,) = blocks(PAGE, "def pages(")
    exec(code, names)
    found = names["pages"](SAMPLES / "article.pdf", server.url)  # type: ignore[operator]
    assert [page["index"] for page in found] == [0, 1]


def test_mistral(server: Served, tmp_path: Path, tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mistralai.client")
    monkeypatch.chdir(tmp_path)
    Path("a.pdf").write_bytes(tiny_pdf)
    (code,) = blocks(PAGE, "from mistralai")
    names: dict[str, object] = {}
    code = code.replace("http://127.0.0.1:8080", server.url)
    exec(code, names)
    names["client"].__exit__(None, None, None)  # type: ignore[attr-defined]  # else its connections stay open
    assert names["read"].pages[0].markdown.strip() == "Hello world"  # type: ignore[attr-defined]


def test_openai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlx.core")
    pytest.importorskip("openai")
    from tests.tiny_checkpoint import tiny_qwen2_vl

    tiny_qwen2_vl(tmp_path / "qwen2.5-vl", max_position_embeddings=8192)
    monkeypatch.chdir(ROOT)
    (code,) = blocks(README, "from openai")
    with served(tmp_path / "state", model=[str(tmp_path / "qwen2.5-vl")], max_tokens=8) as server:
        names: dict[str, object] = {}
        exec(code.replace("http://127.0.0.1:8080", server.url), names)
        assert names["answer"].usage.prompt_tokens_details.image_tokens > 100  # type: ignore[attr-defined]
        names["client"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.strip()
