"""Every option of `docai serve` by its flag, its variable and its line in docai.toml; what they stand for."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from docai.cli.app import main
from docai.errors import UsageError
from docai.serve import run
from docai.serve.options import ServeOptions

SAID: dict[str, Any] = {
    "host": "0.0.0.0",
    "keep_alive": "5m",
    "keep_jobs": "7d",
    "keep_responses": "2h",
    "thinking": "off",
    "log_format": "json",
    "dtype": "float16",
    "allow_host": ["docs.example.org", "ocr.lan"],
}
FIELDS = {field.name: field for field in fields(ServeOptions)}
HINTS = get_type_hints(ServeOptions)


def value(name: str) -> Any:
    """Something that an option may be, and is not by itself."""
    default, kind = FIELDS[name].default, str(HINTS[name])
    if name in SAID:
        return SAID[name]
    if "list" in kind:
        return ["one", "two"]
    if "bool" in kind:
        return not default
    if "float" in kind:
        return (default or 0.0) + 1.5
    if "int" in kind:
        return (default or 0) + 1
    return "somewhere"


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ServeOptions]:
    """The options that the server was begun with."""
    found: list[ServeOptions] = []
    monkeypatch.setattr(run, "serve", lambda options, **_: (found.append(options), 0)[1])
    monkeypatch.chdir(tmp_path)
    return found


def serve(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *words])
    assert not ended.value.code


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_can_be_said_in_each_way(
    began: list[ServeOptions], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = value(name)
    flag = f"--{name.replace('_', '-')}"
    if isinstance(wanted, bool):
        serve(flag if wanted else f"--no-{flag[2:]}")
    elif isinstance(wanted, list):
        serve(*(word for one in wanted for word in (flag, one)))
    else:
        serve(flag, str(wanted))
    variable = FIELDS[name].metadata["variable"] or f"DOCAI_{name.upper()}"
    with monkeypatch.context() as patch:
        patch.setenv(variable, " ".join(wanted) if isinstance(wanted, list) else str(wanted))
        serve()
    (tmp_path / "docai.toml").write_text(f"[serve]\n{name.replace('_', '-')} = {json.dumps(wanted)}\n")
    serve()
    assert [getattr(options, name) for options in began] == [wanted] * 3
    assert getattr(ServeOptions(), name) != wanted


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("max_queue_depth", 0),
        ("max_queue_depth", 1001),
        ("port", 70000),
        ("keep_alive", "soon"),
        ("keep_responses", "-1h"),
        ("api_key", [""]),
        ("api_key", ["ä"]),
        ("thinking", "maybe"),
        ("page_seconds", float("nan")),
    ],
)
def test_what_an_option_cannot_be(name: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=name):
        ServeOptions(**{name: wrong})


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("ocr.lan", False)],
)
def test_who_can_reach_it(host: str, local: bool) -> None:
    assert ServeOptions(host=host).local == local


def test_roots_with_commas(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    options = ServeOptions(media_root=[f"{tmp_path}/a,{tmp_path}/b", f"{tmp_path}/c"])
    assert options.roots == tuple(tmp_path / name for name in "abc")
    with pytest.raises(UsageError, match="is no folder"):
        _ = ServeOptions(media_root=[str(tmp_path / "none")]).roots
