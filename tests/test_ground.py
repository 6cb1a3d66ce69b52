"""`docai ground`: phrases become places on the page."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

pytest.importorskip("mlx.core")

import docai
from docai.errors import InputError, UsageError
from docai.geometry import outlines, wkt
from docai.render.inputs import InputFile
from docai.tasks.ground import Found, Grounded, distinct, ground, grounded, on_page
from docai.tasks.options import GroundOptions, PictureOptions
from docai.types import Box, Page
from docai.vlm.locations import Located, florence, florence_region
from docai.vlm.model import Model
from docai.vlm.request import Generation, GenerationOptions
from tests.commands import run
from tests.conftest import make_pdf
from tests.tiny_checkpoint import tiny_llama
from tests.tiny_documents import tiny_locate
from tests.tiny_encdec import tiny_florence2

PAGE = Page(0, (612.0, 792.0), "pt", "a.pdf")
shares = st.floats(0, 1)


class Fake:
    """A model that gives one answer after the other; an error is raised."""

    name, at_once = "fake", 1

    def __init__(self, family: str, *answers: str | Exception) -> None:
        self.family, self.answers = SimpleNamespace(name=family), list(answers)
        self.asked: list[str] = []
        self.taken = 0

    def answer(self, messages: Sequence[Any], images: Sequence[Any], options: GenerationOptions) -> Any:
        assert len(images) == 1
        assert options.special_tokens
        self.asked.append(messages[0]["content"][-1]["text"])
        return SimpleNamespace(whole=partial(self._answer, self.answers.pop(0)))

    def _answer(self, said: str | Exception) -> Generation:
        self.taken += 1
        if isinstance(said, Exception):
            raise said
        return Generation(said)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    pixels = np.random.RandomState(1).randint(0, 256, (80, 64, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "b.pdf").write_bytes(tiny_pdf)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path


@pytest.fixture
def three(tmp_path: Path) -> InputFile:
    """A document of three pages."""
    (tmp_path / "three.pdf").write_bytes(make_pdf([f"BT /F 24 Tf 20 60 Td (Page {n}) Tj ET" for n in range(3)]))
    return InputFile(tmp_path / "three.pdf", None, "three.pdf")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_florence2(tmp_path_factory.mktemp("florence2"))


def asked(fake: Fake, *phrases: str, file: str = "a.png", shape: str = "box", sought: str = "all") -> list[Grounded]:
    options = GroundOptions(shape=shape, sought=sought)  # type: ignore[arg-type]
    given = InputFile(Path(file), None, file)
    return list(grounded(fake, given, phrases, options, PictureOptions(), GenerationOptions()))  # type: ignore[arg-type]


def test_each_phrase_is_asked_for_and_named() -> None:
    fake = Fake("florence2", "a cat<loc_100><loc_200><loc_500><loc_600>", "red car<loc_0><loc_0><loc_999><loc_999>")
    (page,) = asked(fake, "the  cat", "red car")
    assert fake.asked == ["<CAPTION_TO_PHRASE_GROUNDING>the cat", "<CAPTION_TO_PHRASE_GROUNDING>red car"]
    assert [(one.phrase, one.label) for one in page.found] == [("the cat", "a cat"), ("red car", "red car")]
    assert page.found[0].box.as_tuple() == pytest.approx((64 * 0.1005, 80 * 0.2005, 64 * 0.5005, 80 * 0.6005))


def test_nothing_to_look_for_is_everything() -> None:
    fake = Fake("florence2", "</s><s>cat<loc_1><loc_2><loc_300><loc_400>dog<loc_5><loc_6><loc_70><loc_80></s>")
    (page,) = asked(fake)
    assert fake.asked == ["<OD>"]
    assert [(one.phrase, one.label) for one in page.found] == [(None, "cat"), (None, "dog")]


def test_outlines_are_polygons_on_the_page() -> None:
    ring = "".join(f"<loc_{n}>" for n in (100, 100, 900, 100, 900, 900, 100, 900))
    (page,) = asked(Fake("florence2", ring), "cat", shape="outline")
    (found,) = page.found
    assert (found.label, len(found.outlines)) == ("cat", 1)
    assert shapely.from_wkt(found.wkt).area == pytest.approx(0.64 * 64 * 80)
    assert found.box.area == pytest.approx(0.64 * 64 * 80)


def test_an_outline_that_crosses_itself_is_repaired() -> None:
    bow = "".join(f"<loc_{n}>" for n in (100, 100, 900, 900, 900, 100, 100, 900))
    (page,) = asked(Fake("florence2", bow), "tie", shape="outline")
    (found,) = page.found
    assert found.wkt.startswith("MULTIPOLYGON")
    assert shapely.from_wkt(found.wkt).is_valid


def test_each_page_of_a_document_in_its_unit() -> None:
    fake = Fake("florence2", *["cat<loc_0><loc_0><loc_500><loc_500>"] * 2)
    pages = asked(fake, "cat", file="b.pdf")
    assert [page.as_json("m")["page"] for page in pages] == [1, 2]
    assert {page.page.unit for page in pages} == {"pt"}
    for page in pages:
        assert page.found[0].box.r == pytest.approx(page.page.width * 0.5005)


def test_questions_about_several_pages_are_asked_before_the_first_is_answered(three: InputFile) -> None:
    fake = Fake("florence2", *["x<loc_0><loc_0><loc_500><loc_500>"] * 6)
    fake.at_once = 4
    found = grounded(fake, three, ["a", "b"], GroundOptions(), PictureOptions(), GenerationOptions())  # type: ignore[arg-type]
    assert next(found).page.index == 0
    assert (len(fake.asked), fake.taken) == (6, 2)
    assert [page.page.index for page in found] == [1, 2]
    assert fake.asked == [f"<CAPTION_TO_PHRASE_GROUNDING>{phrase}" for phrase in "ababab"]


def test_a_page_that_cannot_be_read_costs_itself(three: InputFile) -> None:
    answers = ["x<loc_0><loc_0><loc_500><loc_500>", InputError("broken"), InputError("again"), "", "", ""]
    fake, errors, how = Fake("florence2", *answers), list[str](), (GroundOptions(), PictureOptions())
    pages = grounded(
        fake, three, ["a", "b"], *how, GenerationOptions(), on_error=lambda error: errors.append(str(error))
    )  # type: ignore[arg-type]
    assert [page.page.index for page in pages] == [2]
    assert errors == ["broken", "again"], "one of each page"
    with pytest.raises(InputError, match="broken"):
        next(grounded(Fake("florence2", *answers), three, ["a", "b"], *how, GenerationOptions()))  # type: ignore[arg-type]


def test_a_region_that_a_later_page_has_not_ends_with_the_pages_before() -> None:
    first, second = (Image.new("RGB", (side, side), (200, 200, 200)) for side in (400, 100))
    first.save("c.tif", save_all=True, append_images=[second])
    options, given = (
        GroundOptions(task="REGION_TO_CATEGORY", region="10,10,200,200"),
        InputFile(Path("c.tif"), None, "c"),
    )
    fake = Fake("florence2", "a thing<loc_0><loc_0><loc_500><loc_500>")
    pages = grounded(fake, given, [], options, PictureOptions(), GenerationOptions())  # type: ignore[arg-type]
    assert next(pages).page.index == 0
    with pytest.raises(UsageError, match="expected a part of the page, 100 x 100 px"):
        next(pages)


def test_locate_anything_is_asked_in_its_own_words() -> None:
    answer = "<ref>cat</ref><box><0><0><500><1000></box><ref>dog</ref><box><500><0><1000><1000></box>"
    fake = Fake("locateanything", answer)
    (page,) = asked(fake, "cat", "dog")
    assert fake.asked == ["Locate all the instances that matches the following description: cat</c>dog."]
    boxes = [(one.label, one.box.as_tuple()) for one in page.found]
    assert boxes == [("cat", (0, 0, 32, 80)), ("dog", (32, 0, 64, 80))]
    fake = Fake("locateanything", "<box><500><250></box>")
    (page,) = asked(fake, "the button", shape="point")
    assert fake.asked == ["Point to: the button."]
    assert page.found[0].wkt == "POINT (32 20)"


@pytest.mark.parametrize(
    ("sought", "phrases", "prompts"),
    [
        ("one", ["a cat"], ["Locate a single instance that matches the following description: a cat."]),
        ("text", ["Total", "VAT"], [f"Please locate the text referred as {word}." for word in ("Total", "VAT")]),
        ("text", [], ["Detect all the text in box format."]),
        ("screen", ["close"], ["Locate the region that matches the following description: close."]),
    ],
)
def test_locate_anything_looks_for_more_than_things(sought: str, phrases: list[str], prompts: list[str]) -> None:
    fake = Fake("locateanything", *["<box>None</box>"] * len(prompts))
    (page,) = asked(fake, *phrases, sought=sought)
    assert fake.asked == prompts
    assert page.found == ()


@pytest.mark.parametrize(
    ("family", "phrases", "more", "words"),
    [
        ("florence2", ["x"], {"sought": "text"}, "this model looks for all"),
        ("locateanything", ["x"], {"sought": "one", "shape": "point"}, "one gives boxes"),
        ("locateanything", [], {"sought": "screen"}, "expected phrases"),
    ],
)
def test_what_a_model_cannot_look_for(family: str, phrases: list[str], more: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked(Fake(family), *phrases, **more)


@pytest.mark.parametrize(
    ("family", "phrases", "shape", "words"),
    [
        ("florence2", ["x"], "point", "gives box or outline"),
        ("locateanything", ["x"], "outline", "gives box or point"),
        ("locateanything", [], "box", "expected phrases"),
        ("florence2", [" "], "box", "one of them is empty"),
        ("llama", ["x"], "box", "locates nothing"),
    ],
)
def test_what_a_model_cannot_be_asked(family: str, phrases: list[str], shape: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked(Fake(family), *phrases, shape=shape)


def test_repetitions_are_one() -> None:
    box, near, far = Box(0, 0, 10, 10), Box(0, 0, 10, 10.1), Box(5, 5, 15, 15)
    found = [Found("cat", None, b) for b in (box, near, far, box)] + [Found("dog", None, box)]
    assert [(one.label, one.box) for one in distinct(found)] == [("cat", box), ("cat", far), ("dog", box)]


# --- page unit <-> shares <-> bins


@given(shares, shares, shares, shares, st.floats(10, 5000), st.floats(10, 5000))
def test_boxes_come_back_within_a_bin(a: float, b: float, c: float, d: float, width: float, height: float) -> None:
    page = Page(0, (width, height), "px", "a.png")
    left, right, top, bottom = *sorted((a, c)), *sorted((b, d))
    (located,) = florence(florence_region(left, top, right, bottom), "proposals")
    found = on_page(located, page)
    assert found is not None
    box = found.box
    assert 0 <= box.l < box.r <= width
    assert 0 <= box.t < box.b <= height
    for value, share, side in zip(box.as_tuple(), (left, top, right, bottom), (width, height) * 2, strict=True):
        assert abs(value - share * side) <= side / 1000 * 1.001


@given(st.lists(st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)), min_size=1, max_size=12))
def test_outlines_are_valid_and_on_the_page(ring: list[tuple[float, float]]) -> None:
    found = on_page(Located("x", "polygon", (tuple(ring),)), PAGE)
    if found is None:
        return
    shape = shapely.from_wkt(found.wkt)
    assert all(shapely.Polygon(area).is_valid for area in found.outlines)
    assert shapely.box(*PAGE.box.as_tuple()).buffer(1e-6).contains(shape)
    assert found.box.as_tuple() == pytest.approx(shape.bounds)


def test_lines_and_points_are_no_outlines() -> None:
    assert outlines([(0, 0), (5, 5)], PAGE.box) == []
    assert outlines([(0, 0), (5, 5), (9, 9)], PAGE.box) == []
    assert outlines([(-9, -9), (-5, -9), (-5, -5)], PAGE.box) == []
    assert wkt([((1.0, 2.0),)]) == "POINT (1 2)"


# --- the command


def test_json_lines(model: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("ground", "b.pdf", "a cat", "-m", str(model), "--max-tokens", "12", "--pages", "2") == 0
    said = json.loads(capsysbinary.readouterr().out)
    assert (said["page"], said["unit"], said["model"]) == (2, "pt", str(model))
    assert isinstance(said["found"], list)


def test_a_picture_of_what_was_found(model: Path, tmp_path: Path) -> None:
    assert run("ground", "a.png", "-m", str(model), "--max-tokens", "9", "-f", "png", "-o", "out.png") == 0
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size == (64, 80)


def test_text_into_a_file(model: Path, tmp_path: Path) -> None:
    assert run("ground", "a.png", "cat", "-m", str(model), "--max-tokens", "9", "-f", "wkt", "-o", "out.wkt") == 0
    assert (tmp_path / "out.wkt").exists()


def test_errors_are_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ground", "a.png", "cat", "-m", str(model), "--shape", "point") == 2
    assert run("ground", "missing.png", "cat", "-m", str(model)) == 4
    assert run("ground", "a.png", "", "-m", str(model)) == 2
    assert run("ground", "a.png", "cat", "-m", str(tiny_llama(tmp_path / "text"))) == 2
    lines = capsys.readouterr().err.splitlines()
    assert sum("error" in line for line in lines) == 4


def test_from_python(model: Path, tmp_path: Path) -> None:
    loaded = docai.load(str(model))
    assert isinstance(loaded, Model)
    (page,) = docai.ground("a.png", "a cat", loaded, max_tokens=9)
    assert page.page.size == (64, 80)
    (same,) = ground((tmp_path / "a.png").read_bytes(), ["a cat"], loaded, max_tokens=9)
    assert same.found == page.found


def test_captions_in_the_words_of_the_model(model: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("caption", "a.png", "-m", str(model), "--detail", "short", "--max-tokens", "9") == 0
    said = capsysbinary.readouterr().out.decode()
    assert said.strip() == docai.load(str(model)).generate("<CAPTION>", ["a.png"], max_tokens=9).text.strip()


def test_locate_anything_answers_through_the_command(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    model = str(tiny_locate(tmp_path / "locate"))
    assert run("ground", "a.png", "a cat", "a dog", "-m", model, "--max-tokens", "9") == 0
    assert json.loads(capsysbinary.readouterr().out)["found"] == []
    assert run("ground", "a.png", "-m", model) == 2
    assert b"expected phrases to look for" in capsysbinary.readouterr().err


# --- Florence-2's tasks by their markers


def by_task(fake: Fake, task: str, *phrases: str, region: str | None = None, file: str = "a.png") -> list[Grounded]:
    options = GroundOptions(task=task, region=region)
    given = InputFile(Path(file), None, file)
    return list(grounded(fake, given, phrases, options, PictureOptions(), GenerationOptions()))  # type: ignore[arg-type]


def test_tasks_that_give_places() -> None:
    fake = Fake("florence2", "a small cat<loc_0><loc_0><loc_499><loc_499>")
    (page,) = by_task(fake, "dense_region_caption")
    assert fake.asked == ["<DENSE_REGION_CAPTION>"]
    assert [one.label for one in page.found] == ["a small cat"]
    fake = Fake("florence2", "line one" + "<loc_100>" * 2 + "<loc_500><loc_100><loc_500><loc_200><loc_100><loc_200>")
    (page,) = by_task(fake, "<OCR_WITH_REGION>")
    assert [(one.label, len(one.outlines)) for one in page.found] == [("line one", 1)]
    fake = Fake("florence2", "cat<poly>" + "".join(f"<loc_{n}>" for n in (1, 1, 90, 1, 90, 90)) + "</poly>")
    (page,) = by_task(fake, "OPEN_VOCABULARY_DETECTION", "cat")
    assert (fake.asked, len(page.found[0].outlines)) == (["<OPEN_VOCABULARY_DETECTION>cat"], 1)


def test_tasks_about_a_region_in_the_page_s_unit() -> None:
    fake = Fake("florence2", "</s><s>a red <loc_5>car</s>")
    (page,) = by_task(fake, "<region_to_category>", region="16,20,32,60")
    assert fake.asked == ["<REGION_TO_CATEGORY><loc_250><loc_250><loc_500><loc_750>"]
    (found,) = page.found
    assert found.label == "a red car"
    assert found.box.as_tuple() == pytest.approx((16, 20, 32, 60), abs=0.1)


@pytest.mark.parametrize(
    ("family", "task", "phrases", "region", "words"),
    [
        ("florence2", "FOO", [], None, "expected one of OCR"),
        ("florence2", "CAPTION", [], None, "gives text"),
        ("florence2", "OD", ["cat"], None, "takes no phrases"),
        ("florence2", "OPEN_VOCABULARY_DETECTION", [], None, "takes phrases"),
        ("florence2", "REGION_TO_OCR", [], None, "takes a --region"),
        ("florence2", "REGION_TO_OCR", ["cat"], "1,1,5,5", "no phrases"),
        ("florence2", "OD", [], "1,1,5,5", "takes no --region"),
        ("florence2", "REGION_TO_OCR", [], "1,1,5", "expected left,top,right,bottom in px"),
        ("florence2", "REGION_TO_OCR", [], "1,1,500,5", "a part of the page, 64 x 80 px"),
        ("florence2", "REGION_TO_OCR", [], "9,1,5,5", "a part of the page"),
        ("locateanything", "OD", [], None, "Florence-2's"),
    ],
)
def test_tasks_that_cannot_be_asked(family: str, task: str, phrases: list[str], region: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        by_task(Fake(family), task, *phrases, region=region)


def test_a_region_needs_a_task(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ground", "a.png", "-m", str(model), "--region", "1,1,5,5") == 2
    assert run("ground", "a.png", "-m", str(model), "--task", "REGION_PROPOSAL", "--max-tokens", "9") == 0
    assert "name that with --task" in capsys.readouterr().err
