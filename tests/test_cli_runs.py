"""The command line at its edges: streams that close, signals, several files, mistakes of ours."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docai.batch.journal import Journal
from docai.cli import app as app_module
from docai.cli import run as run_module
from docai.cli.run import _BEFORE
from docai.errors import ExitCode, InputError
from docai.export.formats import FORMATS
from docai.render.document import Source
from docai.tasks.ocr import PageReader
from docai.types import Page, PageResult
from tests.commands import run
from tests.conftest import make_pdf

DOCAI = [sys.executable, "-m", "docai"]


def shell(line: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line.replace("docai", f"{sys.executable} -m docai")], capture_output=True, text=True, **more
    )


# --- help


def test_help_is_quick() -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*DOCAI, "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.4


def test_help_names_the_commands_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == ExitCode.OK
    listed = re.search(r"Commands:\n((?:  \w+ .*\n)+)", capsys.readouterr().out)
    assert listed
    assert re.findall(r"^  (\w+) ", listed[1], re.MULTILINE) == [
        "ocr", "parse", "detect", "chat", "video", "caption", "ground", "serve", "mcp", "doctor", "eval", "models",
    ]  # fmt: skip


def test_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    run("ocr", "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert ", ".join(FORMATS) in said


def test_no_words_at_all_show_help_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


@pytest.mark.parametrize(("words", "offers"), [("docai det", "detect"), ("docai ocr --ocr ", "never")])
def test_the_shell_completes(words: str, offers: str) -> None:
    count = len(words.split()) - (not words.endswith(" "))
    env = {**os.environ, "_DOCAI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run(DOCAI, env=env, capture_output=True, text=True, check=False)
    assert offers in done.stdout.split()


# --- streams and signals


def test_a_reader_that_goes_away_is_no_error(pdfs: Path) -> None:
    done = shell("docai ocr in/a.pdf | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout.strip(), done.stderr) == ("0", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("line", ["docai ocr in/a.pdf >/dev/full", "docai ocr in/a.pdf >&-", "docai doctor >/dev/full"])
def test_an_output_that_takes_nothing_is_told_in_a_line(pdfs: Path, line: str) -> None:
    done = shell(line)
    assert done.returncode == ExitCode.OUTPUT
    assert len(done.stderr.strip().splitlines()) == 1
    assert "standard output" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_run_and_keep_its_journal(tmp_path: Path, number: signal.Signals) -> None:
    pages = [f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in range(600)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "long.pdf").write_bytes(make_pdf(pages))
    command = [*DOCAI, "ocr", "in", "-o", "out", "--ocr", "never", "--progress", "jsonl"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells have what runs behind them ignore it
    )
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("page") == 5:
            break
    process.send_signal(number)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(20) == ExitCode.INTERRUPTED
    assert rest.splitlines()[-1].startswith("docai: error: interrupted")
    assert "Traceback" not in rest
    assert len(list((tmp_path / "out" / ".docai" / "pages").iterdir())) == 1
    Journal(tmp_path / "out").close()  # nobody holds it any more


def test_a_long_document_goes_on_where_it_was_interrupted(pdfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(self: PageReader, source: Source, index: int, layout: object = None) -> PageResult:
        if index == 7 and len(read) == 7:
            raise KeyboardInterrupt
        read.append(index)
        return whole(self, source, index)

    pages = [f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in range(1, 13)]
    Path("in/long.pdf").write_bytes(make_pdf(pages))
    read, whole = list[int](), PageReader.result
    monkeypatch.setattr(PageReader, "result", stopping)
    words = ("ocr", "in/long.pdf", "-o", "out/", "--format", "text,pdf", "--ocr", "never")
    assert run(*words) == ExitCode.INTERRUPTED
    assert [path.suffix for path in Path("out").iterdir()] == [".docai"]
    assert run("ocr", "in/a.pdf", "-o", "out/") == ExitCode.OK  # has its own
    read.clear()
    assert run(*words) == ExitCode.OK
    assert read == [7, 8, 9, 10, 11]
    assert Path("out/long.txt").read_text().split("\n\n")[::11] == ["Page number 1", "Page number 12\n"]
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.md", "long.ocr.pdf", "long.txt"]


def test_pages_of_a_long_document_that_failed_are_read_again(pdfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(source: Source, index: int) -> Page:
        asked.append(index)
        if index == 3:
            raise InputError("out of order")
        return whole(source, index)

    Path("in/long.pdf").write_bytes(make_pdf(["BT /F 12 Tf 20 160 Td (Text) Tj ET"] * 10))
    asked, whole = list[int](), Source.page
    monkeypatch.setattr(Source, "page", failing)
    words = ("ocr", "in/long.pdf", "-o", "out/", "--format", "text", "--ocr", "never")
    assert run(*words) == ExitCode.PARTIAL
    monkeypatch.setattr(Source, "page", lambda source, index: (asked.append(index), whole(source, index))[1])
    asked.clear()
    assert run(*words) == ExitCode.OK
    assert 3 in asked
    assert [path.name for path in Path("out").iterdir()] == ["long.txt"]


def test_a_held_folder_is_told(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(pdfs / "out")
    assert run("ocr", "in", "-o", "out") == ExitCode.OUTPUT
    assert "another run" in capsys.readouterr().err
    journal.close()


# --- mistakes of ours


@pytest.mark.parametrize(("words", "traced"), [([], False), (["-v"], False), (["-vv"], True), (["-v", "-v"], True)])
def test_a_mistake_of_ours_is_a_line_and_a_traceback_only_with_vv(
    pdfs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    traced: bool,
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr(run_module, "run_ocr", broken)
    assert run("ocr", "in/a.pdf", *words) == ExitCode.INTERNAL
    error = capsys.readouterr().err
    assert "-vv" in error
    assert ("Traceback" in error) is traced
    assert len(error.strip().splitlines()) == 1 or traced


def test_the_environment_may_ask_for_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert app_module._verbosity(["ocr", "-qv", "--verbose"]) == 2
    assert app_module._verbosity(["ocr", "-f", "-vx"]) == 0
    monkeypatch.setenv("DOCAI_VERBOSE", "2")
    assert app_module._verbosity(["ocr"]) == 2


# --- several files


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_several_files_on_standard_output(pdfs: Path, capsysbinary: pytest.CaptureFixture[bytes], form: str) -> None:
    code = run("ocr", "in/a.pdf", "in/b.pdf", "-f", form)
    out = capsysbinary.readouterr().out.decode()
    if form not in _BEFORE:
        assert (code, out) == (ExitCode.USAGE, "")
        return
    assert code == ExitCode.OK
    if form in ("json", "jsonl", "chunks"):
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    if form != "csv":
        assert out.index("Hello world") < out.index("Other words")


def test_files_are_named_in_markdown_and_a_missing_one_costs_itself(
    pdfs: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("ocr", "in/a.pdf", "none.pdf", "in/b.pdf") == ExitCode.PARTIAL
    captured = capsysbinary.readouterr()
    assert captured.out.decode().count("<!-- file: in/") == 2
    assert b"none.pdf" in captured.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["in/a.pdf", "-f", "markdown,text"], "-o DIR/"),
        (["in", "-", "-o", "out"], "standard input"),
        (["in", "-o", "in/a.pdf"], "is a file"),
        (["in/a.pdf", "-o", "in/a.pdf"], "document itself"),
        (["in/a.pdf", "--images", "ref"], "-o"),
        (["in", "--layout", "layout.json"], "one document"),
        (["in", "-o", "out", "--jobs", "0"], "jobs: expected 1 or more"),
        (["in/a.pdf", "--dpi", "-5"], "dpi: expected 18 or more"),
        (["in/a.pdf", "--page-seconds", "nan"], "page_seconds"),
        (["-", "--layout", "-"], "both"),
    ],
)
def test_requests_that_make_no_sense(
    pdfs: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    Path("layout.json").write_text(
        '{"page": 1, "source": "in/a.pdf", "unit": "pt", "size": [300, 200], "detections": []}'
    )
    assert run("ocr", *words) == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_no_output_replaces_a_document(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ocr", "in/a.pdf", "-f", "png", "-o", "in/a.png") == ExitCode.OK
    before = Path("in/a.png").read_bytes()
    assert run("ocr", "in/a.png", "-f", "png", "-o", "in/", "--ocr", "never") == ExitCode.USAGE
    assert "replace" in capsys.readouterr().err
    assert Path("in/a.png").read_bytes() == before


def test_what_a_run_wrote_into_its_own_folder_is_not_read_by_the_next(pdfs: Path) -> None:
    assert run("ocr", "in", "-o", "in", "-f", "png,markdown", "--ocr", "never") == ExitCode.OK
    written = sorted(p.name for p in Path("in").iterdir() if not p.name.startswith("."))
    assert written == ["a.md", "a.pdf", "a.png", "b.md", "b.pdf", "b.png"]
    assert run("ocr", "in", "-o", str(pdfs / "in"), "-f", "png,markdown", "--ocr", "never") == ExitCode.OK
    assert sorted(p.name for p in Path("in").iterdir() if not p.name.startswith(".")) == written


def test_an_output_folder_among_the_inputs_is_no_input(pdfs: Path, tiny_pdf: bytes) -> None:
    (pdfs / "in" / "out").mkdir()
    (pdfs / "in" / "out" / "left-by-a-killed-run.pdf").write_bytes(tiny_pdf)
    assert run("ocr", "in", "-o", "in/out", "--ocr", "never") == ExitCode.OK
    assert sorted(p.name for p in Path("in/out").glob("**/*.md")) == ["a.md", "b.md"]


# --- what goes to standard error


def test_progress_lines_are_all_json(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pdfs / "in" / "c.pdf").write_bytes(b"%PDF-1.4\nnonsense")
    assert run("ocr", "in", "-o", "out", "--progress", "jsonl") == ExitCode.PARTIAL
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start"
    assert kinds[-1] == "summary"
    assert (kinds.count("file_start"), kinds.count("page"), kinds.count("file")) == (3, 3, 3)
    assert (events[-1]["files"], events[-1]["ok"], events[-1]["failed"]) == (3, 2, 1)
    assert run("ocr", "in/a.pdf", "--progress", "jsonl") == ExitCode.OK
    kinds = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert kinds == ["page", "page", "summary"]


def test_the_summary_shows_what_went_wrong(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pdfs / "in" / "c.pdf").write_bytes(b"")
    assert run("ocr", "in", "-o", "out") == ExitCode.PARTIAL
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "empty file" in captured.err
    assert "3 files, 3 pages" in captured.err
    assert run("ocr", "in", "-o", "out", "-q") == ExitCode.PARTIAL
    assert "empty file" in capsys.readouterr().err


def test_one_is_said_as_such(tiny_pdf: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.pdf").write_bytes(tiny_pdf)
    assert run("ocr", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--pages", "1") == ExitCode.OK
    assert "1 file, 1 page in " in capsys.readouterr().err


def test_quiet_says_nothing_where_all_is_well(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ocr", "in", "-o", "out", "-q") == ExitCode.OK
    assert capsys.readouterr().err == ""


def test_unknown_labels_of_a_layout_are_told_as_a_line(pdfs: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    entry = {"label": "marvel", "box": {"l": 0, "t": 0, "r": 300, "b": 100}}
    layout = {"page": 1, "source": "in/a.pdf", "unit": "pt", "size": [300, 200], "detections": [entry]}
    Path("layout.json").write_text(json.dumps(layout))
    assert run("ocr", "--layout", "layout.json") == ExitCode.OK
    captured = capsysbinary.readouterr()
    assert b"Hello world" in captured.out
    lines = captured.err.decode().splitlines()
    assert lines[0].startswith("docai: layout, page 1, entry 1: unknown label 'marvel'")
    assert "docai: reading in/a.pdf, which the layout names" in lines


# --- detect


def test_detect_goes_on_after_a_page_and_a_file_that_fail(
    pdfs: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("detect", "in/a.pdf", "none.pdf", "in/b.pdf") == ExitCode.PARTIAL
    captured = capsysbinary.readouterr()
    assert [json.loads(line)["page"] for line in captured.out.splitlines()] == [1, 2, 1]
    assert b"docai: error: none.pdf" in captured.err


def test_detect_writes_a_folder(pdfs: Path) -> None:
    assert run("detect", "in", "-o", "out") == ExitCode.OK
    assert sorted(p.name for p in Path("out").iterdir()) == ["a.json", "b.json"]
    assert run("detect", "in", "-f", "png", "-o", "pictures/") == ExitCode.OK
    assert sorted(p.name for p in Path("pictures").iterdir()) == ["a.png", "b.png"]
    assert run("detect", "in", "-f", "png") == ExitCode.USAGE


# --- nobody listens, or the name of a file is odd


def test_without_standard_error_the_work_is_done(pdfs: Path) -> None:
    done = shell("docai ocr in -o out 2>&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert (pdfs / "out" / "a.md").exists()
    assert shell("docai ocr no.pdf 2>&-").returncode == ExitCode.INPUT


def test_a_run_goes_on_where_nobody_reads_its_warnings(pdfs: Path) -> None:
    (pdfs / "in" / "0.pdf").write_bytes(b"")
    command = "docai ocr in -o out --progress jsonl 2> >(true)"
    assert shell(f"{command}; exit $?").returncode == ExitCode.PARTIAL
    assert {path.name for path in (pdfs / "out").glob("*.md")} == {"a.md", "b.md"}


def test_off_a_terminal_every_bad_file_is_a_line(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pdfs / "in" / "c.pdf").write_bytes(b"")
    (pdfs / "in" / "d.pdf").write_bytes(make_pdf([""], size=(595, 99_999)))
    assert run("ocr", "in", "-o", "out") == ExitCode.PARTIAL
    lines = capsys.readouterr().err.splitlines()
    assert "docai: in/c.pdf: failed: empty file (0 bytes)" in lines
    (line,) = (line for line in lines if "d.pdf" in line)
    assert line.startswith("docai: in/d.pdf: failed: page 1: the page measures ")


def test_a_name_that_is_no_utf8_is_read_and_found_again(pdfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9.pdf")
    try:
        (pdfs / "in" / "a.pdf").rename(pdfs / "in" / name)
    except OSError:
        pytest.skip("the file system takes no such names")
    assert run("ocr", "in", "-o", "out", "-f", "markdown,json") == ExitCode.OK
    assert (pdfs / "out" / os.fsdecode(b"caf\xe9.md")).read_text().startswith("Hello world")
    assert run("ocr", "in", "-o", "out", "-f", "markdown,json") == ExitCode.OK
    assert "2 skipped" in capsys.readouterr().err
    for form, suffix in [("json", "json"), ("csv", "csv"), ("coco", "coco.json")]:
        assert run("detect", "in", "-o", "found", "-f", form) == ExitCode.OK
        assert (pdfs / "found" / f"{name[:-4]}.{suffix}").exists()
