"""Folder runs: mirrored output, resuming, faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docai.batch.journal import Journal, key_of, page_store
from docai.batch.outputs import targets, write_whole
from docai.batch.runner import Summary, run_batch
from docai.errors import ExitCode, OutputError
from docai.export.formats import ExportOptions
from docai.render.inputs import InputFile, expand
from docai.tasks.options import OcrOptions
from docai.types import Page, PageResult
from tests.conftest import make_pdf

OPTIONS = OcrOptions(ocr="never")


def inbox(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def batch(folder: Path, out: Path, *, jobs: int = 1, events: list[dict] | None = None) -> Summary:
    heard = events if events is not None else []
    files = expand([str(folder)])
    return run_batch(files, out, ["markdown"], OPTIONS, ExportOptions(), jobs=jobs, on_event=heard.append)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_folder_is_mirrored_and_bad_files_are_rows(tmp_path: Path, tiny_pdf: bytes, jobs: int) -> None:
    files = {"a.pdf": tiny_pdf, "deep/b.pdf": tiny_pdf, "empty.pdf": b"", "broken.pdf": b"%PDF-1.4\nnonsense"}
    summary = batch(inbox(tmp_path / "in", files), tmp_path / "out", jobs=jobs)
    assert {Path(row.name).name: row.status for row in summary.rows} == {
        "a.pdf": "ok",
        "b.pdf": "ok",
        "empty.pdf": "failed",
        "broken.pdf": "failed",
    }
    assert summary.exit_code(strict=False) == ExitCode.PARTIAL
    assert "Hello world" in (tmp_path / "out" / "deep" / "b.md").read_text()
    assert not list((tmp_path / "out").rglob(".*.md.*")), "no temporary files are left"


def test_a_second_run_skips_what_is_finished_and_redoes_what_changed(tmp_path: Path, tiny_pdf: bytes) -> None:
    folder = inbox(tmp_path / "in", {"a.pdf": tiny_pdf, "b.pdf": tiny_pdf})
    batch(folder, tmp_path / "out")
    (tmp_path / "out" / "a.md").unlink()
    (folder / "b.pdf").write_bytes(make_pdf(["BT /F 12 Tf 20 160 Td (Changed) Tj ET"]))
    events: list[dict] = []
    summary = batch(folder, tmp_path / "out", events=events)
    assert {row.status for row in summary.rows} == {"ok"}
    assert "Changed" in (tmp_path / "out" / "b.md").read_text()
    assert {row.status for row in batch(folder, tmp_path / "out").rows} == {"skipped"}


def test_finished_pages_are_kept_over_a_kill(tmp_path: Path) -> None:
    pages = [f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in range(400)]
    folder = inbox(tmp_path / "in", {"long.pdf": make_pdf(pages)})
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "docai",
        "ocr",
        str(folder),
        "-o",
        str(out),
        "--ocr",
        "never",
        "--progress",
        "jsonl",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("page") == 20:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    (store,) = (out / ".docai" / "pages").iterdir()
    time.sleep(1.5)  # the orphaned worker notices and ends
    kept = len(page_store(out / ".docai", store.stem).pages())
    assert kept >= 20
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Page number 399" in (out / "long.md").read_text()
    assert json.loads(done.stderr.splitlines()[-1])["event"] == "summary"
    assert not store.exists()


def test_a_worker_that_dies_costs_one_file(tmp_path: Path, tiny_pdf: bytes) -> None:
    folder = inbox(tmp_path / "in", {f"{n}.pdf": tiny_pdf + b"%%%d" % n for n in range(3)})
    killed: list[int] = []

    def kill_once(event: dict) -> None:
        if event["event"] == "page" and not killed:
            (pid,) = _children("docai.batch.worker")
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    files = expand([str(folder)])
    summary = run_batch(files, tmp_path / "out", ["markdown"], OPTIONS, ExportOptions(), jobs=1, on_event=kill_once)
    statuses = sorted(row.status for row in summary.rows)
    assert statuses in (["failed", "ok", "ok"], ["ok", "ok", "ok"])  # the last page may have been written in time
    assert killed


def _children(module: str) -> list[int]:
    out = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in out.splitlines()[1:]]
    return [int(pid) for pid, parent, args in rows if int(parent) == os.getpid() and module in args]


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(OutputError, match="another run"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_a_cut_line_of_the_journal_counts_as_not_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for index in range(3):
        page_store(journal.folder, "key").keep(PageResult(Page(index, (10.0, 10.0), "pt", "x.pdf")))
    store = page_store(journal.folder, "key").path
    store.write_bytes(store.read_bytes()[:-20])
    assert sorted(page_store(journal.folder, "key").pages()) == [0, 1]
    page_store(journal.folder, "key").keep(PageResult(Page(7, (10.0, 10.0), "pt", "x.pdf")))
    assert sorted(page_store(journal.folder, "key").pages()) == [0, 1, 7]
    (tmp_path / "a.md").write_text("text")
    journal.finish("key", {"a.md": 4})
    journal.close()
    again = Journal(tmp_path)
    assert again.finished("key") is not None
    (tmp_path / "a.md").write_text("other text")
    assert again.finished("key") is None
    again.close()


def test_the_key_depends_on_content_and_options() -> None:
    assert len({key_of(b"a", 1), key_of(b"b", 1), key_of(b"a", 2)}) == 3
    assert key_of(b"a", 1) == key_of(b"a", 1)


def test_targets_never_meet(tmp_path: Path) -> None:
    names = ["in/a.pdf", "in/a.png", "other/a.pdf", "in/b.pdf"]
    made = targets([InputFile(Path(n), None, n) for n in names], tmp_path)
    assert len({t.path("markdown") for t in made}) == 4
    assert made[3].path("markdown") == tmp_path / "b.md"


def test_an_output_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write_whole(tmp_path / "file" / "x.md", "text")
    with pytest.raises(OutputError):
        batch(inbox(tmp_path / "in", {"a.pdf": b"x"}), tmp_path / "file" / "out")
