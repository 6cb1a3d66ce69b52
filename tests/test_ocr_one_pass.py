"""Whole pages read by models that say where everything lies, through the stage that asks and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("mlx.core")

from docai.errors import LimitExceeded, UsageError
from docai.geometry import union
from docai.ocr.asking import InStep, OneByOne, Question, alike
from docai.ocr.manners import manner_of
from docai.ocr.prompted import Leaf, PromptedReader
from docai.preprocess.centred import Placement
from docai.render.inputs import InputFile
from docai.tasks.caption import Caption, captions_of
from docai.tasks.load import load
from docai.tasks.options import CaptionOptions, PictureOptions
from docai.types import Label, Page, Status
from docai.vlm.clips import MediumLike
from docai.vlm.controls import DEFAULT
from docai.vlm.encdec_model import EncDecModel
from docai.vlm.request import FinishReason, Generation, GenerationOptions
from tests.tiny_encdec import tiny_florence2

HEIGHT, WIDTH = 800, 600


class Fake:
    """Says one thing about everything."""

    name = "fake"

    def __init__(self, family: str, answer: str, reason: FinishReason = "stop") -> None:
        self.family, self.answer, self.reason = family, answer, reason
        self.asked: list[Question] = []

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Generation]]:
        self.asked += questions
        return iter([(n, Generation(self.answer, finish_reason=self.reason)) for n in range(len(questions))])


def page() -> Page:
    """With something like lines of text in it."""
    pixels = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    for top in range(100, 700, 24):
        pixels[top : top + 12, 60:540:3] = 0
    return Page(0, (float(WIDTH), float(HEIGHT)), "px", "a.png", render=lambda *_: pixels)


def reader(fake: Fake, **more: object) -> PromptedReader:
    def second() -> object:
        raise AssertionError("nothing else is asked")

    return PromptedReader(fake, manner_of(fake.family), second, **more)  # type: ignore[arg-type]


def nemotron(*blocks: tuple[str, str, tuple[int, int, int, int]], canvas: tuple[int, int] = (2048, 1664)) -> str:
    placed, out = Placement.of((HEIGHT, WIDTH), canvas), ""
    for text, name, (left, top, right, bottom) in blocks:
        (x1, y1), (x2, y2) = (placed.forth(x / WIDTH, y / HEIGHT) for x, y in ((left, top), (right, bottom)))
        out += f"<x_{x1:.5f}><y_{y1:.5f}>{text}<x_{x2:.5f}><y_{y2:.5f}><class_{name}>\n\n"
    return out


TEXT = "All that the many lines of this page may well say, again and in other words, until it is full. " * 8


@pytest.mark.parametrize("canvas", [(2048, 1664), (2048, 1648), (400, 300)])
def test_a_page_in_one_pass(canvas: tuple[int, int]) -> None:
    answer = nemotron(("# Head", "Title", (60, 50, 540, 90)), (TEXT, "Text", (60, 100, 540, 700)), canvas=canvas)
    fake = Fake("nemotron_parse", answer)
    (result,) = reader(fake, canvas=canvas).read([Leaf(page())])
    assert [(b.id, b.label, b.source) for b in result.blocks] == [
        ("p1-b1", Label.TITLE, "vlm:fake"), ("p1-b2", Label.TEXT, "vlm:fake"),
    ]  # fmt: skip
    assert result.blocks[1].box.as_tuple() == pytest.approx((60, 100, 540, 700), abs=0.1)
    assert [question.prompt for question in fake.asked] == [DEFAULT]
    assert fake.asked[0].most == 9000


def test_an_answer_that_does_not_end_is_not_asked_for_in_halves() -> None:
    fake = Fake("nemotron_parse", nemotron((TEXT, "Text", (60, 100, 540, 700))), "length")
    (result,) = reader(fake, guard="mark").read([Leaf(page())])
    assert len(fake.asked) == 1
    assert (result.outcome.status, result.blocks[0].verdict) == (Status.DEGRADED, "cut")


def test_lines_with_regions() -> None:
    text, answer = "a line of words that says something", ""
    for top in range(100, 700, 24):
        corners = ((60, top), (540, top), (540, top + 12), (60, top + 12))
        answer += text + "".join(f"<loc_{int(x / 0.6)}><loc_{int(y / 0.8)}>" for x, y in corners)
    (result,) = reader(Fake("florence2", answer)).read([Leaf(page())])
    assert " ".join(block.text for block in result.blocks) == " ".join([text] * 25)
    whole = union(block.box for block in result.blocks)
    assert whole.as_tuple() == pytest.approx((60, 100, 540, 688), abs=1)


def test_a_task_of_ones_own() -> None:
    words = " ".join(f"thing {number} that can be seen" for number in range(40))
    fake = Fake("florence2", words)
    (result,) = reader(fake, prompt="<MORE_DETAILED_CAPTION>").read([Leaf(page())])
    assert fake.asked[0].prompt == "<MORE_DETAILED_CAPTION>"
    assert result.blocks[0].text == words


@pytest.mark.parametrize("task", ["foo", "<foo>", "read it all", "<OCR"])
def test_a_task_that_there_is_not(task: str) -> None:
    check = manner_of("florence2").check
    assert check is not None
    check("ocr")
    with pytest.raises(UsageError, match=r"task: expected one of OCR, OCR_WITH_REGION, .*; got "):
        check(task)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where answers to equal questions are written in step."""
    monkeypatch.setattr("docai.vlm.encdec_model.on_gpu", lambda: True)


@pytest.mark.usefixtures("gpu")
def test_equal_questions_are_answered_in_step(tmp_path: Path) -> None:
    model = load(str(tiny_florence2(tmp_path)))
    assert isinstance(model, EncDecModel)
    pictures = [np.random.RandomState(n).randint(0, 256, (40 + n, 50, 3)).astype(np.uint8) for n in range(5)]
    questions = [Question("<OCR>" if n % 2 else "<OD>", picture, 9) for n, picture in enumerate(pictures)]
    assert [list(places) for places in alike(questions, 2)] == [[0, 2], [4], [1, 3]]
    options = GenerationOptions(logprobs=0)
    found = dict(InStep(model, options).ask(questions))
    alone = dict(OneByOne(model, options).ask(questions))
    for place in range(5):
        one, other = found[place], alone[place]
        assert isinstance(one, Generation)
        assert isinstance(other, Generation)
        assert (one.tokens, one.finish_reason) == (other.tokens, other.finish_reason)


@pytest.mark.usefixtures("gpu")
def test_a_question_that_cannot_be_asked_spoils_no_other(tmp_path: Path) -> None:
    model = load(str(tiny_florence2(tmp_path, max_position_embeddings=60)))
    assert isinstance(model, EncDecModel)
    picture = np.zeros((40, 50, 3), np.uint8)
    questions = [Question("<OCR>", picture, 9), Question("a question that is too long " * 9, picture, 9)]
    found = dict(InStep(model, GenerationOptions()).ask(questions))
    assert isinstance(found[0], Generation)
    assert isinstance(found[1], LimitExceeded)


def test_captions_of_many_files_are_written_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is what it is alone, and a file that is no picture costs itself."""
    model = load(str(tiny_florence2(tmp_path / "model")))
    assert isinstance(model, EncDecModel)
    names = [f"{n}.png" for n in range(11)]
    for n, name in enumerate(names):
        pixels = np.random.RandomState(n).randint(0, 256, (40 + n, 50, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / names[2]).write_bytes(b"no picture")
    files = [InputFile(tmp_path / name, None, name, None) for name in names]

    def captions() -> list[tuple[str, str]]:
        asked = captions_of(model, files, CaptionOptions(), PictureOptions(), GenerationOptions(max_tokens=6))
        return [(file.name, one.text if isinstance(one, Caption) else type(one).__name__) for file, one in asked]

    alone = captions()
    groups: list[int] = []
    together = EncDecModel.answer_all

    def counted(self: EncDecModel, prompt: str, images: Sequence[MediumLike], options: GenerationOptions) -> Any:
        groups.append(len(images))
        return together(self, prompt, images, options)

    monkeypatch.setattr(EncDecModel, "answer_all", counted)
    monkeypatch.setattr("docai.vlm.encdec_model.on_gpu", lambda: True)
    assert captions() == alone
    assert groups == [7, 3]
    assert alone[2] == ("2.png", "InputError")
