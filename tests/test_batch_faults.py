"""Workers that crash, hang or say nonsense cost one file; long files go on in fresh processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from docai.batch import journal as journal_module
from docai.batch import process
from docai.batch.journal import Journal, page_store
from docai.batch.process import Worker
from docai.batch.runner import Summary, run_batch
from docai.batch.work import Done, Job, run_job
from docai.errors import ExitCode, OutputError
from docai.export.formats import ExportOptions
from docai.render.inputs import expand
from docai.tasks.options import OcrOptions
from docai.types import Page, PageOutcome, PageResult, Status
from tests.conftest import make_pdf

# A worker that does what the name of its file says, and keeps a diary of its jobs beside it.
FAKE = """
import json, os, sys, time
def tell(**event): os.write(1, json.dumps(event).encode() + b"\\n")
for line in sys.stdin:
    job = json.loads(line)
    name = os.path.basename(job["name"])
    with open(os.path.join(os.path.dirname(job["name"]), "..", "diary"), "a") as diary:
        print(json.dumps({"pid": os.getpid(), "name": name, "told": job["told"], "lost": job["lost"]}), file=diary)
    tell(event="page", page=1, pages=2, status="ok", reasons=[], seconds=0.0)
    if name in ("abort.pdf", "stall.pdf", "once.pdf", "mine.pdf"):
        for page in (2, 3) if name != "mine.pdf" else range(2, 99):
            how = dict(job["lost"]).get(page)
            if how is None:
                tell(event="reading", page=page)
                if (name, page) in (("abort.pdf", 2), ("mine.pdf", page)): os.abort()
                if (name, page) == ("stall.pdf", 2): time.sleep(60)
                if (name, page) == ("once.pdf", 3) and job["told"] == []: os.abort()
            tell(event="page", page=page, pages=3, status="failed" if how else "ok", reasons=[how], seconds=0.0)
        reasons = [f"page {page}: {how}" for page, how in job["lost"]]
        code = 1 if reasons else 0
        tell(event="done", outputs={}, statuses={"ok": 2, "failed": len(reasons)}, reasons=reasons, exit_code=code)
        continue
    if name == "crash.pdf": os.abort()
    if name == "leave.pdf": sys.exit(0)
    if name == "hang.pdf": time.sleep(60)
    if name == "nonsense.pdf": os.write(1, b"}{\\n"); time.sleep(60)
    if name == "long.pdf" and not job["told"]: tell(event="more"); continue
    if name == "ours.pdf": tell(event="failed", message="oh", exit_code=70, trace="where"); continue
    tell(event="page", page=2, pages=2, status="ok", reasons=[], seconds=0.0)
    status = "degraded" if name == "poor.pdf" else "ok"
    tell(event="done", outputs={}, statuses={status: 2}, reasons=["page 1: pale"], exit_code=0)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Summary, list[dict]]]:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-S", "-c", FAKE))

    def run(*names: str, jobs: int = 1) -> tuple[Summary, list[dict]]:
        (tmp_path / "in").mkdir(exist_ok=True)
        for name in names:
            (tmp_path / "in" / name).write_bytes(name.encode())
        events: list[dict] = []
        files = expand([str(tmp_path / "in")])
        options = OcrOptions()
        summary = run_batch(files, tmp_path / "out", ["text"], options, ExportOptions(), jobs=jobs,
                            on_event=events.append, quiet=2.5)  # fmt: skip
        return summary, events

    return run


def diary(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "diary").read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("crash.pdf", "crashed"),
        ("leave.pdf", "crashed"),
        ("hang.pdf", "no progress for 2.5 s"),
        ("nonsense.pdf", "crashed"),
        ("ours.pdf", "oh"),
    ],
)
def test_a_bad_worker_costs_one_file(run: Callable, name: str, says: str) -> None:
    summary, events = run("a.pdf", name, "z.pdf")
    assert {Path(row.name).name: row.status for row in summary.rows} == {"a.pdf": "ok", name: "failed", "z.pdf": "ok"}
    (row,) = (row for row in summary.rows if row.status == "failed")
    assert says in row.reasons[0]
    assert row.exit_code == ExitCode.INTERNAL
    assert summary.exit_code(strict=False) == ExitCode.PARTIAL
    assert [e["event"] for e in events].count("file") == 3


def test_a_long_file_goes_on_in_a_fresh_process(run: Callable, tmp_path: Path) -> None:
    summary, events = run("long.pdf")
    assert [row.status for row in summary.rows] == ["ok"]
    first, second = diary(tmp_path)
    assert (first["told"], second["told"]) == ([], [1])
    assert first["pid"] != second["pid"]
    assert [e["page"] for e in events if e["event"] == "page"] == [1, 2], "each page is told once"


@pytest.mark.parametrize(
    ("name", "lost", "tries"),
    [
        ("abort.pdf", [[2, "the process that read it crashed twice"]], 3),
        ("stall.pdf", [[2, "the process that read it told of no progress for 2.5 s and was stopped"]], 2),
        ("once.pdf", [], 2),
    ],
)
def test_a_page_on_which_processes_die_costs_itself(
    run: Callable, tmp_path: Path, name: str, lost: list, tries: int
) -> None:
    summary, events = run(name, "z.pdf")
    first, other = summary.rows
    assert (first.status, first.exit_code) == (("failed", ExitCode.PARTIAL) if lost else ("ok", ExitCode.OK))
    assert list(first.reasons) == [f"page {page}: {how}" for page, how in lost]
    assert other.status == "ok"
    jobs = [job for job in diary(tmp_path) if job["name"] == name]
    assert (len(jobs), jobs[-1]["lost"]) == (tries, lost)
    told = [e["page"] for e in events if e["event"] == "page" and e["file"].endswith(name)]
    assert told == [1, 2, 3], "each page is told once"
    assert "reading" not in {e["event"] for e in events}


def test_a_file_whose_pages_all_kill_is_given_up(run: Callable, tmp_path: Path) -> None:
    (row,) = run("mine.pdf")[0].rows
    assert (row.status, row.exit_code) == ("failed", ExitCode.INTERNAL)
    assert "crashed; its finished pages are kept" in row.reasons[0]
    assert len(diary(tmp_path)) == 6


def test_lost_pages_are_kept_as_failed_and_the_others_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out")
    pages = [f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in (1, 2, 3)]
    (tmp_path / "a.pdf").write_bytes(make_pdf(pages))
    lost = ((2, "the process that read it crashed twice"),)
    job = Job(
        str(tmp_path / "a.pdf"), None, "a.pdf", str(tmp_path / "out" / "a"), ("text",), OcrOptions(ocr="never"),
        ExportOptions(), str(journal.folder), "key", lost=lost,
    )  # fmt: skip
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    events: list[dict] = []
    done = run_job(job, events.append)
    assert done is not None
    assert (done.status, done.exit_code) == ("failed", ExitCode.PARTIAL)
    assert done.reasons == ("page 2: the process that read it crashed twice",)
    assert (tmp_path / "out" / "a.txt").read_text() == "Page number 1\n\nPage number 3\n"
    read = [e["page"] for e in events if e["event"] == "reading"]
    assert read == [1, 3]
    events.clear()
    run_job(replace(job, lost=(), told=(1,)), events.append)
    assert [e["page"] for e in events if e["event"] == "reading"] == [2], "a later run tries it again, and only it"
    journal.close()


def test_rows_come_in_the_order_of_the_files(run: Callable) -> None:
    names = [f"{n}.pdf" for n in range(8)]
    summary, _ = run(*names, jobs=3)
    assert [Path(row.name).name for row in summary.rows] == names


def test_a_skipped_file_keeps_its_outcome(run: Callable) -> None:
    assert run("poor.pdf")[0].exit_code(strict=True) == ExitCode.PARTIAL
    summary, events = run("poor.pdf")
    (row,) = summary.rows
    assert (row.status, row.outcome, row.reasons) == ("skipped", "degraded", ("page 1: pale",))
    assert summary.exit_code(strict=True) == ExitCode.PARTIAL
    assert summary.exit_code(strict=False) == ExitCode.OK
    assert [e["event"] for e in events] == ["start", "file"]


def test_an_error_of_the_listener_ends_the_run(run: Callable, tmp_path: Path) -> None:
    def deaf(event: dict) -> None:
        raise ValueError("deaf")

    run("a.pdf")
    files = expand([str(tmp_path / "in")])
    with pytest.raises(ValueError, match="deaf"):
        run_batch(files, tmp_path / "new", ["text"], OcrOptions(), ExportOptions(), jobs=1, on_event=deaf)


def test_pages_are_read_by_several_processes_and_come_out_in_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pages = [f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in range(1, 6)]
    (tmp_path / "in" / "long.pdf").write_bytes(make_pdf(pages))
    events: list[dict] = []
    files = expand([str(tmp_path / "in")])
    summary = run_batch(files, tmp_path / "out", ["text"], OcrOptions(ocr="never"), ExportOptions(), jobs=1,
                        on_event=events.append, recycle=3)  # fmt: skip
    assert [row.status for row in summary.rows] == ["ok"]
    assert [e["page"] for e in events if e["event"] == "page"] == [1, 2, 3, 4, 5]
    text = (tmp_path / "out" / "long.txt").read_text()
    assert [f"number {n}" in text for n in range(1, 6)] == [True] * 5
    assert text.index("number 1") < text.index("number 5")


def test_a_worker_that_is_ended_from_outside_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-S", "-c", FAKE))
    worker = Worker(quiet=30.0)
    job = Job("x", None, str(tmp_path / "in" / "hang.pdf"), "x", ("text",), OcrOptions(), ExportOptions(), "x", "key")
    (tmp_path / "in").mkdir()
    event = worker.do(job, lambda _: worker.end())
    assert event["event"] == "failed"


# --- the journal


def page(index: int, status: Status = Status.OK) -> PageResult:
    return PageResult(Page(index, (10.0, 10.0), "pt", "x.pdf"), outcome=PageOutcome(status))


def test_a_garbled_line_counts_as_not_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for index in range(3):
        page_store(journal.folder, "key").keep(page(index))
    store = page_store(journal.folder, "key").path
    data = store.read_bytes()
    at = data.index(b'"index":1')
    store.write_bytes(data[: at + 8] + b"7" + data[at + 9 :])  # still JSON, but not what was written
    assert sorted(page_store(journal.folder, "key").pages()) == [0, 2]
    store.write_bytes(b"\x00\xff" * 3000 + data)
    assert sorted(page_store(journal.folder, "key").pages()) == [0, 1, 2]
    journal.close()


def test_pages_wait_for_the_disk_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, now, synced = Journal(tmp_path), [0.0], list[int]()
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(journal_module.os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    store = page_store(journal.folder, "key")
    sizes = []
    for index, seconds in enumerate((0.0, 0.4, 0.9, 1.1, 1.5, 2.2)):
        now[0] = seconds
        store.keep(page(index))
        sizes.append(store.path.stat().st_size)
    held = [size for size in synced if size in sizes]  # of the file, not of its folder
    assert held == [sizes[0], sizes[3], sizes[5]]
    assert len(store.pages()) == 6
    store.drop()
    store.drop()
    assert store.pages() == {}
    journal.close()


def test_a_journal_of_nonsense_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / ".docai").mkdir()
    (tmp_path / ".docai" / "done.log").write_bytes(b"[1, 2]\n{}\n\xff\xfe\n00000000 {}\n")
    journal = Journal(tmp_path)
    assert journal.finished("key") is None
    journal.finish("key", {})
    journal.close()
    again = Journal(tmp_path)
    assert again.finished("key") == {"key": "key", "outputs": {}}
    again.close()


def test_a_journal_that_cannot_be_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / ".docai").write_text("a file")
    with pytest.raises(OutputError, match="cannot write to"):
        Journal(tmp_path)
    with pytest.raises(OutputError, match="journal"):
        page_store(tmp_path / "none", "key").keep(page(0))


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [({"ok": 3}, "ok"), ({"ok": 3, "degraded": 1}, "degraded"), ({"degraded": 1, "failed": 1}, "failed"), ({}, "ok")],
)
def test_the_worst_page_names_the_file(statuses: dict[str, int], worst: str) -> None:
    assert Done({}, statuses, (), 0).status == worst
