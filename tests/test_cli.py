"""The command line: help, exit codes, outputs, settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from docai.cli.app import bare_layout
from docai.errors import ExitCode
from docai.export.formats import FORMATS
from tests.commands import run

HEAVY = ("numpy", "PIL", "cv2", "onnxruntime", "rapidocr", "pypdfium2", "mlx", "fastapi", "shapely")


@pytest.fixture
def pdf(tmp_path: Path, tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "in" / "tiny.pdf"
    path.parent.mkdir()
    path.write_bytes(tiny_pdf)
    monkeypatch.chdir(tmp_path)
    return path


def test_help_loads_no_heavy_library() -> None:
    code = f"import sys; from docai.cli.app import app; from typer.main import get_command; get_command(app);\
print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words", [["--help"], ["ocr", "--help"], ["detect", "--help"], ["eval", "--help"], ["--version"]]
)
def test_help_and_version(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    assert "docai" in capsys.readouterr().out.lower()


def test_text_goes_to_standard_output(pdf: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("ocr", str(pdf)) == 0
    assert capsysbinary.readouterr().out.decode().split("\n\n") == ["Hello world", "Second page\n"]


def test_pages_are_chosen(pdf: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("ocr", str(pdf), "--pages", "last") == 0
    assert capsysbinary.readouterr().out.decode().strip() == "Second page"


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_is_written(pdf: Path, tmp_path: Path, form: str) -> None:
    assert run("ocr", str(pdf), "--format", form, "-o", f"{tmp_path}/out/") == 0
    written = tmp_path / "out" / f"tiny{FORMATS[form].suffix}"
    assert written.exists()
    assert written.stat().st_size > 0 or form == "csv"


def test_several_formats_in_one_pass(pdf: Path, tmp_path: Path) -> None:
    assert run("ocr", str(pdf), "--format", "markdown,json", "-o", str(tmp_path / "out")) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"tiny.md", "tiny.json"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["ocr"], ExitCode.USAGE, "expected a file"),
        (["ocr", "none.pdf"], ExitCode.INPUT, "no such file"),
        (["ocr", "in/tiny.pdf", "--format", "docx"], ExitCode.USAGE, "markdown"),
        (["ocr", "in/tiny.pdf", "--pages", "9"], ExitCode.USAGE, "last page"),
        (["ocr", "in/tiny.pdf", "--pages", "x"], ExitCode.USAGE, "1-3"),
        (["ocr", "in/tiny.pdf", "--ocr", "maybe"], ExitCode.USAGE, "auto"),
        (["ocr", "in/tiny.pdf", "--model", "none"], ExitCode.USAGE, "short name"),
        (["ocr", "in/tiny.pdf", "--model", "tesserract"], ExitCode.USAGE, "tesseract"),
        (["ocr", "in/tiny.pdf", "--no-such-option"], ExitCode.USAGE, "--no-such-option"),
        (["ocr", "in/tiny.pdf", "--max-pages", "1"], ExitCode.LIMIT, "--max-pages"),
        (["ocr", "empty.pdf"], ExitCode.INPUT, "empty file"),
        (["ocr", "office.docx"], ExitCode.INPUT, "convert"),
        (["ocr", "locked.pdf"], ExitCode.PASSWORD, "--password"),
        (["ocr", "locked.pdf", "--password", "wrong"], ExitCode.PASSWORD, "wrong password"),
        (["ocr", "in/tiny.pdf", "-o", "empty.pdf/x.md"], ExitCode.OUTPUT, "cannot write"),
        (["detect", "in/tiny.pdf", "--labels", "nonsense"], ExitCode.USAGE, "table"),
        (["eval", "none", "none"], ExitCode.INPUT, "no such file"),
    ],
)
def test_exit_codes(
    pdf: Path,
    locked_pdf: tuple[bytes, str],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: ExitCode,
    says: str,
) -> None:
    Path("empty.pdf").write_bytes(b"")
    Path("office.docx").write_bytes(b"PK\x03\x04 rest")
    Path("locked.pdf").write_bytes(locked_pdf[0])
    assert run(*words) == code
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) <= 2
    assert "Traceback" not in error


def test_the_password_opens_the_file_also_from_the_environment(
    tmp_path: Path,
    locked_pdf: tuple[bytes, str],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    path = tmp_path / "locked.pdf"
    path.write_bytes(locked_pdf[0])
    monkeypatch.setenv("DOCAI_PASSWORD", locked_pdf[1])
    assert run("ocr", str(path)) == 0
    assert b"Locked text" in capsysbinary.readouterr().out


def test_settings_come_from_docai_toml_and_the_command_line_wins(
    pdf: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("docai.toml").write_text('[ocr]\nformat = "text"\npages = "1"\n')
    assert run("ocr", str(pdf)) == 0
    assert capsysbinary.readouterr().out.decode().split() == ["Hello", "world"]
    assert run("ocr", str(pdf), "--pages", "2") == 0
    assert capsysbinary.readouterr().out.decode().split() == ["Second", "page"]


def test_broken_settings_are_a_usage_error(pdf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("docai.toml").write_text("[ocr\n")
    assert run("ocr", str(pdf)) == ExitCode.USAGE
    assert "docai.toml" in capsys.readouterr().err


def test_detections_go_through_the_pipe(pdf: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("detect", str(pdf), "--with-lines") == 0
    lines = capsysbinary.readouterr().out
    page = json.loads(lines.splitlines()[0])
    assert {"source", "page", "unit", "size", "threshold", "model", "detections", "lines"} <= page.keys()
    layout = tmp_path / "layout.json"
    layout.write_bytes(lines)
    assert run("ocr", "--layout", str(layout)) == 0  # the document is the layout's own source
    assert b"Hello world" in capsysbinary.readouterr().out


def test_a_bare_layout_reads_standard_input(pdf: Path) -> None:
    detect = subprocess.run([sys.executable, "-m", "docai", "detect", str(pdf)], capture_output=True, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "docai", "ocr", "--layout"], input=detect.stdout, capture_output=True, check=True
    )
    assert done.stdout.decode().split("\n\n") == ["Hello world", "Second page\n"]
    assert bare_layout(["ocr", "--layout", "-f", "text"]) == ["ocr", "--layout=-", "-f", "text"]
    assert bare_layout(["ocr", "--layout", "x.json"]) == ["ocr", "--layout", "x.json"]


def test_standard_input_is_a_document(tiny_pdf: bytes) -> None:
    done = subprocess.run([sys.executable, "-m", "docai", "ocr", "-"], input=tiny_pdf, capture_output=True, check=True)
    assert b"Hello world" in done.stdout


def test_eval_measures_text_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rapidfuzz")
    gold = "# A title\n\nSome words stand here.\n\nThen some others follow.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    (tmp_path / "gold.md").write_text(gold)
    (tmp_path / "same.md").write_text(gold)
    (tmp_path / "worse.md").write_text(gold.replace("words", "word").replace("| 2 |", "| 3 |"))
    assert run("eval", str(tmp_path / "same.md"), str(tmp_path / "gold.md"), "--json") == 0
    same = json.loads(capsys.readouterr().out)["mean"]
    assert same == {"similarity": 1.0, "cer": 0.0, "wer": 0.0, "order": 0.0, "teds": 1.0}
    assert run("eval", str(tmp_path / "worse.md"), str(tmp_path / "gold.md"), "--json") == 0
    worse = json.loads(capsys.readouterr().out)["mean"]
    assert 0 < worse["cer"] < 0.1
    assert 0.8 < worse["teds"] < 1


def test_doctor_names_engines_and_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["engines"]["embedded"].startswith("ready")
    assert "max_pages" in told["limits"]
