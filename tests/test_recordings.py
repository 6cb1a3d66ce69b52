"""Text from recordings: slides and screens with the time since when they are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

import docai
from docai.errors import LimitExceeded
from docai.export.json import document_json, page_from, page_json
from docai.ocr.document import settle, without_builds
from docai.types import Block, Box, Document, Label, Page, PageOutcome, PageResult, Region, Status
from docai.writing import clock
from tests.clips import encoded
from tests.commands import run
from tests.conftest import SAMPLES

STAMP = re.compile(r"\*\*\[(\d\d:\d\d:\d\d)\]\*\*")


@pytest.fixture(scope="module")
def talk() -> Document:
    return docai.ocr(SAMPLES / "slides.mp4")


def slides(text: str) -> list[tuple[str, str]]:
    """(time, words) of each slide."""
    parts = STAMP.split(text)
    assert not parts[0].strip()
    bare = [" ".join(re.sub(r"[#*\\]|(?m:^- )", " ", part).split()) for part in parts[2::2]]
    return list(zip(parts[1::2], bare, strict=True))


def test_a_talk_is_read_slide_by_slide(talk: Document) -> None:
    found = slides(docai.export(talk, "markdown"))
    truth = slides((SAMPLES / "expected" / "slides.md").read_text())
    assert [time for time, _ in found] == [time for time, _ in truth]
    for (_, words), (_, said) in zip(found, truth, strict=True):
        assert Levenshtein.normalized_similarity(words, said) > 0.97


def test_every_format_has_the_times(talk: Document) -> None:
    assert re.findall(r"^\[(.+)\]$", docai.export(talk, "text"), re.MULTILINE) == ["00:00:00", "00:00:03", "00:00:06"]
    times = [page["time"] for page in json.loads(docai.export(talk, "json"))["pages"]]
    assert times == pytest.approx([0.0, 3.0, 6.8], abs=0.5)
    assert "Page 1, 00:00:00" in docai.export(talk, "html")
    chunks = [json.loads(line) for line in docai.export(talk, "chunks").splitlines()]
    assert chunks[0]["times"] == [0.0]


def test_a_page_with_a_time_comes_back_from_json(talk: Document) -> None:
    again = page_from(page_json(talk.pages[1]))
    assert again.page.time == pytest.approx(talk.pages[1].page.time, abs=1e-3)
    assert "time" not in page_json(PageResult(Page(0, (1, 1), "px", "a.png")))
    assert document_json(talk)["pages"][0]["time"] == 0.0


def test_the_command_reads_a_talk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ocr", str(SAMPLES / "slides.mp4"), "--pages", "1", "-o", str(tmp_path / "talk.md")) == 0
    assert "10 s of video: 5 pictures are read as pages" in capsys.readouterr().err
    text = (tmp_path / "talk.md").read_text()
    assert text.startswith("**[00:00:00]**\n")
    assert "Lindvik" in text


def test_how_often_it_is_looked_at_is_an_option() -> None:
    frames = [np.full((48, 64, 3), shade, np.uint8) for shade in (20, 120, 220, 70) for _ in range(6)]
    data = encoded(frames)
    assert len(docai.ocr(data, video_fps=10).pages) == 4
    assert len(docai.ocr(data, video_fps=1).pages) < 4
    with pytest.raises(LimitExceeded, match="--max-video-seconds"):
        docai.ocr(data, max_video_seconds=1)


# --- what the document pass does with the pages of a recording


def state(number: int, time: float, *texts: str, outcome: PageOutcome | None = None) -> PageResult:
    blocks = tuple(
        Block(f"p{number}-b{n}", number, Region(Box(10, 10 + 60 * n, 300, 40 + 60 * n), Label.TEXT), text)
        for n, text in enumerate(texts)
    )
    return PageResult(Page(number, (640, 360), "px", "talk.mp4", time=time), blocks, outcome or PageOutcome())


def test_a_slide_that_builds_up_is_one() -> None:
    pages = [
        state(0, 0.0, "Plan"),
        state(1, 2.0, "Plan", "first we dig"),
        state(2, 4.0, "Plan", "first we dig", "then we build"),
        state(3, 6.0, "Thanks"),
    ]
    kept = without_builds(pages)
    assert [(page.page.index, page.page.time) for page in kept] == [(2, 0.0), (3, 6.0)]


def test_pages_that_say_nothing_or_failed_stay() -> None:
    failed = PageOutcome(Status.FAILED, ("no",), 4)
    pages = [state(0, 0.0), state(1, 1.0, "Plan", outcome=failed), state(2, 2.0, "Plan"), state(3, 3.0)]
    assert [page.page.index for page in without_builds(pages)] == [0, 1, 2, 3]


def test_titles_that_come_back_stay_and_sentences_end_with_their_slide() -> None:
    pages = settle(
        [
            state(0, 0.0, "Results", "the first half and"),
            state(1, 5.0, "Results", "a second one"),
            state(2, 9.0, "Results", "nothing else"),
        ]
    )
    assert all(page.blocks[0].label is not Label.PAGE_HEADER for page in pages)
    assert not any(block.continues for page in pages for block in page.blocks)


def test_clocks() -> None:
    assert [clock(0), clock(59.6), clock(3723.44, 1), clock(-1)] == ["00:00:00", "00:00:59", "01:02:03.4", "00:00:00"]
