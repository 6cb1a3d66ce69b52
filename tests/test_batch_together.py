"""Files of a run are read together where a model reads; each keeps its journal, outputs and outcome."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from docai.batch import process, runner, together, together_worker
from docai.batch.journal import page_store
from docai.batch.runner import Summary, run_batch
from docai.batch.together_worker import read_together
from docai.batch.work import Job
from docai.errors import DependencyMissing, ExitCode, InputError
from docai.export.formats import ExportOptions
from docai.ocr.asking import Answer, Question
from docai.ocr.engines import LazyEngine
from docai.ocr.manners import manner_of
from docai.ocr.prompted import PromptedReader
from docai.render.inputs import expand
from docai.tasks import groups
from docai.tasks.groups import Wanted
from docai.tasks.options import OcrOptions
from docai.tasks.prompted import PromptedPages
from docai.types import Status
from docai.vlm.request import Generation
from tests.conftest import make_pdf
from tests.test_batch_faults import FAKE

OPTIONS = OcrOptions(model="some/model", guard="off")

# A process that asks for files and does what their names say. It begins two of them before it ends one.
TOGETHER = """
import json, os, sys, time
def tell(**event): os.write(1, json.dumps(event).encode() + b"\\n")
def ask():
    tell(event="next")
    return json.loads(sys.stdin.readline())
threads = json.loads(sys.stdin.readline())["threads"]
given = ask()
while given:
    after = ask()
    number, name = given["number"], os.path.basename(given["job"]["name"])
    with open(os.path.join(os.path.dirname(given["job"]["name"]), "..", "diary"), "a") as diary:
        print(json.dumps({"pid": os.getpid(), "name": name, "threads": threads}), file=diary)
    if name == "none.pdf": tell(event="unable", error="DependencyMissing", message="no such model"); sys.exit()
    tell(event="page", number=number, page=1, pages=2, status="ok", reasons=[], seconds=0.0)
    if name == "crash.pdf": os.abort()
    if name == "hang.pdf": time.sleep(60)
    if name == "lost.pdf": given = after; continue
    if name == "ours.pdf": tell(event="failed", number=number, message="oh", exit_code=70, trace="where")
    else:
        tell(event="page", number=number, page=2, pages=2, status="ok", reasons=[], seconds=0.0)
        tell(event="done", number=number, outputs={}, statuses={"ok": 2}, reasons=[], exit_code=0)
    given = after
tell(event="end")
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Summary, list[dict]]]:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-S", "-c", FAKE))
    monkeypatch.setattr(together, "COMMAND", (sys.executable, "-S", "-c", TOGETHER))

    def run(*names: str, jobs: int = 1, recycle: int = 400) -> tuple[Summary, list[dict]]:
        (tmp_path / "in").mkdir(exist_ok=True)
        for name in names:
            (tmp_path / "in" / name).write_bytes(name.encode())
        events: list[dict] = []
        summary = run_batch(expand([str(tmp_path / "in")]), tmp_path / "out", ["text"], OPTIONS, ExportOptions(),
                            jobs=jobs, on_event=events.append, quiet=2.5, recycle=recycle)  # fmt: skip
        return summary, events

    return run


def diary(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "diary").read_text().splitlines()]


def test_one_process_reads_all_files(run: Callable, tmp_path: Path) -> None:
    summary, events = run("a.pdf", "b.pdf", "ours.pdf", "z.pdf", jobs=3)
    assert [row.status for row in summary.rows] == ["ok", "ok", "failed", "ok"]
    assert (summary.rows[2].reasons, summary.rows[2].exit_code, summary.rows[2].trace) == (("oh",), 70, "where")
    assert len({entry["pid"] for entry in diary(tmp_path)}) == 1
    assert {entry["threads"] for entry in diary(tmp_path)} == {3}
    assert [e["event"] for e in events].count("page") == 7
    again, _ = run("y.pdf")
    assert [row.status for row in again.rows] == ["skipped", "skipped", "failed", "ok", "skipped"]


@pytest.mark.parametrize("name", ["crash.pdf", "hang.pdf"])
def test_a_death_costs_the_file_that_is_at_fault(run: Callable, tmp_path: Path, name: str) -> None:
    """The files under way are read one by one, where it shows which is at fault; the others go on together."""
    summary, events = run("a.pdf", name, "n.pdf", "y.pdf", "z.pdf")
    assert {Path(row.name).name: row.status for row in summary.rows} == {
        "a.pdf": "ok", name: "failed", "n.pdf": "ok", "y.pdf": "ok", "z.pdf": "ok",
    }  # fmt: skip
    names = [entry["name"] for entry in diary(tmp_path)]
    assert names == ["a.pdf", name, name, "n.pdf", "y.pdf", "z.pdf"]
    told = [(e["file"], e["page"]) for e in events if e["event"] == "page"]
    assert len(told) == len(set(told)), "each page is told once"


def test_a_fresh_process_goes_on_after_many_pages(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_MODEL_LASTS", 1)
    names = [f"{n}.pdf" for n in range(5)]
    summary, events = run(*names, recycle=2)
    assert [row.status for row in summary.rows] == ["ok"] * 5
    assert [entry["name"] for entry in diary(tmp_path)] == names
    # it has been given the next file already when the first one ends
    pids = [entry["pid"] for entry in diary(tmp_path)]
    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]
    assert len([e for e in events if e["event"] == "page"]) == 10


def test_a_file_of_which_no_end_was_told_is_read_again(run: Callable, tmp_path: Path) -> None:
    summary, _ = run("a.pdf", "lost.pdf", "z.pdf")
    assert [row.status for row in summary.rows] == ["ok"] * 3
    assert [entry["name"] for entry in diary(tmp_path)] == ["a.pdf", "lost.pdf", "z.pdf", "lost.pdf"]


def test_several_pages_as_one_text_are_read_by_one_process(run: Callable, tmp_path: Path) -> None:
    """Each process would load the model."""
    names = [f"{n}.pdf" for n in range(4)]
    for name in names:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(name.encode())
    options = replace(OPTIONS, multi_page=True)
    run_batch(expand([str(tmp_path / "in")]), tmp_path / "out", ["text"], options, ExportOptions(), jobs=3,
              on_event=lambda _: None)  # fmt: skip
    assert len({entry["pid"] for entry in diary(tmp_path)}) == 1
    assert [entry["name"] for entry in diary(tmp_path)] == names


def test_what_is_done_with_an_event_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent reads whole files before it gives one to a process."""
    now = 0.0
    monkeypatch.setattr(process.time, "monotonic", lambda: now)
    reading, writing = os.pipe()
    os.write(writing, b'{"event": "next"}\n')
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as out:
        events = process.events_of(SimpleNamespace(stdout=pipe), 60.0)  # type: ignore[arg-type]
        assert next(events) == {"event": "next"}
        now = 1000.0
        later = threading.Timer(0.1, out.write, (b'{"event": "end"}\n',))
        later.start()
        assert next(events) == {"event": "end"}
        later.join()


def test_a_model_that_cannot_be_had_ends_the_run(run: Callable) -> None:
    with pytest.raises(DependencyMissing, match="no such model"):
        run("a.pdf", "none.pdf", "z.pdf")


# --- in the process


class Model:
    """Answers with the height of pictures, and remembers which questions came together."""

    name, family, together = "fake", "falcon_ocr", 3

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.refused: tuple[int, ...] = ()
        self.silent: tuple[int, ...] = ()  # about pictures of these heights

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        self.groups.append(len(questions))
        return iter([(n, self._answer(q)) for n, q in enumerate(questions)])

    def _answer(self, question: Question) -> Answer:
        height = question.pixels.shape[0]
        if height in self.refused:
            return InputError("too tall")
        return Generation("" if height in self.silent else f"a picture of {height} rows")

    def stop(self) -> None: ...


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    made = Model()
    reader = PromptedReader(made, manner_of("falcon_ocr"), LazyEngine(), guard="off")
    monkeypatch.setattr(together_worker, "pages_reader", lambda _: PromptedPages(reader, None))
    return made


def picture(path: Path, height: int) -> Path:
    image = Image.new("RGB", (200, height), (255, 255, 255))
    ImageDraw.Draw(image).text((10, 10), "Some text", fill=(0, 0, 0), font=ImageFont.load_default(24))
    path.parent.mkdir(exist_ok=True)
    image.save(path)
    return path


def jobs(folder: Path, files: Sequence[Path]) -> list[tuple[int, Job]]:
    (folder / "journal" / "pages").mkdir(parents=True, exist_ok=True)
    return [
        (n, Job(str(file), None, file.name, str(folder / "out" / file.stem), ("text",), OPTIONS, ExportOptions(),
                str(folder / "journal"), f"key{n}"))
        for n, file in enumerate(files)
    ]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
def test_pages_of_several_files_are_asked_about_together(model: Model, tmp_path: Path, threads: int) -> None:
    files = [picture(tmp_path / "in" / f"{n}.png", 60 + n) for n in range(4)]
    (tmp_path / "in" / "bad.png").write_bytes(b"no picture")
    (tmp_path / "in" / "long.pdf").write_bytes(make_pdf([f"BT /F 24 Tf 20 160 Td (Page {n}) Tj ET" for n in range(4)]))
    files = [*files[:2], tmp_path / "in" / "bad.png", *files[2:], tmp_path / "in" / "long.pdf"]
    events: list[dict[str, Any]] = []
    read_together(jobs(tmp_path, files), events.append, threads)
    assert model.groups == [3, 3, 2], "8 pages of 5 files, three at a time"
    ends = {e["number"]: e["event"] for e in events if e["event"] in ("done", "failed")}
    assert ends == {0: "done", 1: "done", 2: "failed", 3: "done", 4: "done", 5: "done"}
    assert {n: (tmp_path / "out" / f"{n}.txt").read_text().strip() for n in range(4)} == {
        n: f"a picture of {60 + n} rows" for n in range(4)
    }
    assert (tmp_path / "out" / "long.txt").read_text().count("a picture of") == 4
    assert [(e["number"], e["page"]) for e in events if e["event"] == "page"] == [
        (0, 1), (1, 1), (3, 1), (4, 1), (5, 1), (5, 2), (5, 3), (5, 4),
    ]  # fmt: skip
    assert sorted(page_store(tmp_path / "journal", "key5").pages()) == [0, 1, 2, 3]


def test_large_pages_make_small_groups(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a group are in memory at once."""
    monkeypatch.setattr(groups, "_PIXELS", 3 * 200 * 300)
    heights = [100, 150, 140, 400, 100, 90, 80, 20]
    files = [picture(tmp_path / "in" / f"{n}.png", height) for n, height in enumerate(heights)]
    read_together(jobs(tmp_path, files), lambda _: None)
    assert model.groups == [2, 1, 1, 3, 1], "a picture that is too large by itself is one; three at a time"
    assert (tmp_path / "out" / "3.txt").read_text().strip() == "a picture of 400 rows"


def test_pages_that_a_journal_has_are_not_read_again(model: Model, tmp_path: Path) -> None:
    files = [picture(tmp_path / "in" / f"{n}.png", 60 + n) for n in range(3)]
    given = jobs(tmp_path, files)
    read_together(given, lambda _: None)
    events: list[dict[str, Any]] = []
    (tmp_path / "out" / "0.txt").unlink()
    read_together(given, events.append)
    assert sum(model.groups) == 3
    assert [e.get("kept") for e in events if e["event"] == "page"] == [True] * 3
    assert (tmp_path / "out" / "0.txt").exists()


def test_a_page_that_fails_costs_itself(model: Model, tmp_path: Path) -> None:
    model.refused = (61,)
    files = [picture(tmp_path / "in" / f"{n}.png", 60 + n) for n in range(3)]
    events: list[dict[str, Any]] = []
    read_together(jobs(tmp_path, files), events.append)
    ends = [e for e in events if e["event"] == "done"]
    assert [(e["number"], e["exit_code"]) for e in ends] == [(0, 0), (1, ExitCode.INPUT), (2, 0)]
    assert ends[1]["statuses"] == {"failed": 1}


def test_a_broken_picture_without_text_fails_alone_and_none_is_asked_about_twice(model: Model, tmp_path: Path) -> None:
    files = [picture(tmp_path / "in" / f"{n}.png", 200 + n) for n in range(3)]
    whole = files[1].read_bytes()
    files[1].write_bytes(whole[: len(whole) // 2])
    model.silent = (201,)
    events: list[dict[str, Any]] = []
    read_together(jobs(tmp_path, files), events.append)
    assert model.groups == [3]
    pages = [e for e in events if e["event"] == "page"]
    assert [page["status"] for page in pages] == ["ok", "failed", "ok"]
    assert "get a whole copy of the file" in pages[1]["reasons"][0]


def test_answers_that_are_asked_for_again_are_not_written_twice(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a picture is refused and nobody looks at answers, its group is read page by page."""
    under_way: list[int] = []

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        assert not under_way
        under_way.append(len(questions))
        try:
            yield from ((n, model._answer(q)) for n, q in enumerate(questions))
        finally:
            under_way.clear()

    monkeypatch.setattr(model, "ask", ask)
    model.refused = (60,)
    files = [picture(tmp_path / "in" / f"{n}.png", 60 + n) for n in range(3)]
    events: list[dict[str, Any]] = []
    read_together(jobs(tmp_path, files), events.append)
    assert [e["exit_code"] for e in events if e["event"] == "done"] == [ExitCode.INPUT, 0, 0]


def test_it_is_told_that_answers_grow(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first one is whole, which may take an hour; but not with every piece of them."""
    now = 0.0

    def ask(questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        nonlocal now
        for n, question in enumerate(questions):
            for _ in range(50):
                now += 0.1
                question.heard()
            yield n, model._answer(question)

    monkeypatch.setattr(model, "ask", ask)
    monkeypatch.setattr(together_worker, "time", SimpleNamespace(monotonic=lambda: now))
    events: list[dict[str, Any]] = []
    read_together(jobs(tmp_path, [picture(tmp_path / "in" / f"{n}.png", 60 + n) for n in range(2)]), events.append)
    kinds = [e["event"] for e in events]
    assert 8 <= kinds.index("page") == kinds.count("looking") <= 10


def test_outputs_that_cannot_be_written_cost_their_file(model: Model, tmp_path: Path) -> None:
    files = [picture(tmp_path / "in" / f"{n}.png", 60 + n) for n in range(3)]
    (tmp_path / "out" / "1.txt" / "x").mkdir(parents=True)
    events: list[dict[str, Any]] = []
    read_together(jobs(tmp_path, files), events.append)
    ends = {e["number"]: (e["event"], e["exit_code"]) for e in events if e["event"] in ("done", "failed")}
    assert ends == {0: ("done", 0), 1: ("failed", ExitCode.OUTPUT), 2: ("done", 0)}


def test_the_next_pages_are_prepared_while_an_engine_answers(tmp_path: Path) -> None:
    """Questions about the second group are asked before the answers about the first are taken."""
    said: list[str] = []

    class Engine(Model):
        def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
            said.append(f"{len(questions)} asked")
            return self._answers(questions)

        def _answers(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
            said.append(f"{len(questions)} taken")
            yield from ((n, self._answer(q)) for n, q in enumerate(questions))

    from docai.render.document import open_document

    reader = PromptedReader(Engine(), manner_of("falcon_ocr"), LazyEngine(), guard="off")
    sources = [open_document(picture(tmp_path / f"{n}.png", 60 + n)) for n in range(7)]
    read = list(PromptedPages(reader, None).results_of(Wanted(source, 0) for source in sources))
    assert said == ["3 asked", "3 asked", "3 taken", "1 asked", "3 taken", "1 taken"]
    assert [page.source for page, _ in read] == sources
    assert {result.outcome.status for _, result in read} == {Status.OK}
