"""Settings of the command line: the environment, docai.toml, and which of them wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docai.cli import app as app_module
from docai.cli.options import settings
from docai.errors import ExitCode, UsageError
from docai.tasks.options import OutputOptions
from tests.commands import run


def test_top_level_settings_are_for_the_commands_that_share_them(
    pdfs: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("docai.toml").write_text('format = ["text"]\npages = "1"\n\n[detect]\nformat = "json"\n')
    assert run("ocr", "in/a.pdf") == ExitCode.OK
    assert capsysbinary.readouterr().out.split() == [b"Hello", b"world"]
    assert run("detect", "in/a.pdf") == ExitCode.OK
    assert len(capsysbinary.readouterr().out.splitlines()) == 1


def test_a_format_in_the_environment_is_for_ocr(
    pdfs: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("DOCAI_FORMAT", "text")
    assert run("detect", "in/b.pdf") == ExitCode.OK
    assert json.loads(capsysbinary.readouterr().out)["page"] == 1


def test_the_environment_wins_over_the_settings(
    pdfs: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("docai.toml").write_text('pages = "1"\n')
    monkeypatch.setenv("DOCAI_PAGES", "2")
    assert run("ocr", "in/a.pdf") == ExitCode.OK
    assert capsysbinary.readouterr().out.split() == [b"Second", b"page"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[orc]\n", "got [orc]"),
        ("[ocr]\nfromat = 'text'\n", "no option 'fromat'"),
        ("jbos = 2\n", "no command has an option 'jbos'"),
    ],
)
def test_a_slip_in_the_settings_is_told(pdfs: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    Path("docai.toml").write_text(text)
    assert run("ocr", "in/a.pdf") == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_settings_are_found_upwards(pdfs: Path) -> None:
    from typer.main import get_command

    (pdfs / "docai.toml").write_text("[ocr]\npage-seconds = 5\n")
    (pdfs / "x" / "y").mkdir(parents=True)
    assert settings(get_command(app_module.app), pdfs / "x" / "y")["ocr"] == {"page_seconds": 5}


def test_options_are_checked_in_python_too() -> None:
    with pytest.raises(UsageError, match="jobs: expected 1 or more; got 0"):
        OutputOptions(jobs=0)
