"""Pages are read by a model that is asked about them; what comes out can be relied on, or says that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docai.errors import InputError
from docai.layout.detector import label_named
from docai.ocr.as_one import read_as_one
from docai.ocr.asking import Answer, Question, by_size
from docai.ocr.engines import Recognised
from docai.ocr.manners import manner_of
from docai.ocr.prompted import Leaf, PromptedReader
from docai.types import Box, Label, Line, Page, PageContent, PageResult, Region, Status
from docai.vlm.request import Generation, TokenLogprob

LINES = ["The first line of some text", "which goes on in a second", "and ends with the third one."]
TEXT = " ".join(LINES)
SURE = (TokenLogprob(1, "x", -0.05),)


def drawn(*lines: str) -> np.ndarray:
    image = Image.new("RGB", (600, 800), (255, 255, 255))
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((40, 40 + 60 * number), line, fill=(0, 0, 0), font=ImageFont.load_default(30))
    return np.asarray(image)


def page(*lines: str, index: int = 0) -> Page:
    pixels = drawn(*lines)
    return Page(index, (600.0, 800.0), "px", "x.png", render=lambda *_: pixels)


class Model:
    """Answers by the prompt and the picture, and remembers what it was asked."""

    name, family, together = "fake", "falcon_ocr", 1

    def __init__(self, answers: Callable[[Question], Answer | str]) -> None:
        self._answers = answers
        self.asked: list[Question] = []

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        self.asked += questions
        for place in reversed(range(len(questions))):  # in any order
            answer = self._answers(questions[place])
            yield place, Generation(answer, logprobs=SURE) if isinstance(answer, str) else answer


class Engine:
    """The embedded engine's place: finds one line in any picture."""

    name = "embedded"

    def __init__(self, text: str = TEXT) -> None:
        self.text, self.reads = text, 0

    def read(self, pixels: Any, *, straighten: bool = True) -> Recognised:
        self.reads += 1
        height, width = pixels.shape[:2]
        return Recognised(
            (Line(self.text, Box(2.0, 2.0, width - 2.0, height - 2.0), source="ocr:embedded"),) if self.text else ()
        )


def region(name: str, box: tuple[float, float, float, float] = (30, 30, 570, 220), order: int = 0) -> Region:
    return Region(Box(*box), label_named(name) or Label.TEXT, 0.9, order, name=name)


def read(
    answers: Callable[[Question], Answer | str], *regions: Region, engine: Engine | None = None,
    leaf: Leaf | None = None, lines: Sequence[str] = LINES, **how: Any,
) -> tuple[PageResult, Model]:  # fmt: skip
    model = Model(answers)
    reader = PromptedReader(model, manner_of("falcon_ocr"), engine or Engine(""), **how)
    (result,) = reader.read([leaf or Leaf(page(*lines), regions or None)])
    return result, model


def test_a_page_as_a_whole() -> None:
    result, model = read(lambda _: f"# Title\n\n{TEXT}")
    assert [(q.prompt, q.pixels.shape, q.most) for q in model.asked] == [("plain", (800, 600, 3), 4096)]
    assert [(b.id, b.label, b.text) for b in result.blocks] == [
        ("p1-b1", Label.TITLE, "Title"), ("p1-b2", Label.TEXT, TEXT),
    ]  # fmt: skip
    assert {(b.source, b.verdict, b.box) for b in result.blocks} == {("vlm:fake", "ok", page().box)}
    assert result.outcome.status is Status.OK
    assert result.blocks[0].confidence == pytest.approx(0.951, abs=1e-3)


def test_a_page_by_its_regions() -> None:
    regions = [region("paragraph_title", (30, 30, 570, 90)), region("text", (30, 95, 570, 220)),
               region("image", (30, 300, 570, 500)), region("table", (30, 35, 300, 80))]  # fmt: skip
    said = {"section-header": "## Heading line", "text": " ".join(LINES[1:])}
    result, model = read(lambda q: said[q.prompt], *regions)
    assert sorted(q.prompt for q in model.asked) == ["section-header", "text"]  # the table lies in the heading
    assert [(b.label, b.text, b.box) for b in result.blocks] == [
        (Label.HEADING, "Heading line", regions[0].box), (Label.TEXT, " ".join(LINES[1:]), regions[1].box),
        (Label.FIGURE, "", regions[2].box),
    ]  # fmt: skip
    assert result.blocks[2].source == "layout"
    assert result.outcome.status is Status.OK


def test_several_pages_are_asked_about_together() -> None:
    model = Model(lambda _: TEXT)
    calls: list[int] = []
    ask = model.ask
    model.ask = lambda questions: (calls.append(len(questions)), ask(questions))[1]  # type: ignore[method-assign]
    reader = PromptedReader(model, manner_of("falcon_ocr"), Engine())
    results = reader.read([Leaf(page(*LINES, index=n), [region("text")] * (n + 1)) for n in range(3)])
    assert calls == [3]  # of doubles one is asked about
    assert [r.page.index for r in results] == [0, 1, 2]
    assert [b.id for r in results for b in r.blocks] == ["p1-b1", "p2-b1", "p3-b1"]


def test_a_page_as_a_whole_where_no_region_can_be_read() -> None:
    result, model = read(lambda _: TEXT, region("text", (30, 30, 500, 31)), region("table", (30, 60, 500, 62)))
    assert [q.prompt for q in model.asked] == ["plain"]
    assert [b.box for b in result.blocks] == [page().box]


def test_other_words() -> None:
    _, model = read(lambda _: TEXT, region("table"), prompt="Read it.")
    assert [q.prompt for q in model.asked] == ["Read it."]
    _, model = read(lambda _: TEXT, region("text"), category="table")
    assert [q.prompt for q in model.asked] == ["table"]
    _, model = read(lambda _: TEXT, category="formula")
    assert [q.prompt for q in model.asked] == ["formula"]


def test_pages_in_points_are_rendered_as_the_manner_wants() -> None:
    asked: list[float] = []

    def render(dpi: float, *_: Any) -> np.ndarray:
        asked.append(dpi)
        return drawn(*LINES)

    leaf = Leaf(Page(0, (300.0, 400.0), "pt", "x.pdf", render=render), [region("text", (15, 15, 285, 110))])
    result, model = read(lambda _: TEXT, leaf=leaf)
    assert asked == [200]
    assert model.asked[0].pixels.shape == (190, 540, 3)
    assert result.blocks[0].box == Box(15, 15, 285, 110)
    read(lambda _: TEXT, leaf=leaf, dpi=90)
    assert asked == [200, 90]


# --- guarded


def test_blank_regions_are_not_asked_about() -> None:
    result, model = read(lambda _: "made up", region("text", (30, 600, 500, 700)))
    assert not model.asked
    assert (result.blocks, result.outcome.status) == ((), Status.OK)


@pytest.mark.parametrize(
    ("answer", "reason", "verdict"),
    [("", "stop", "empty"), ("word " * 200, "loop", "loop"), (TEXT[:40], "length", "cut")],
)
def test_answers_that_cannot_be_used_are_replaced(answer: str, reason: Any, verdict: str) -> None:
    engine = Engine()
    result, _ = read(lambda _: Generation(answer, finish_reason=reason), region("text"), engine=engine)
    (block,) = result.blocks
    assert (block.text, block.source, block.verdict) == (TEXT, "ocr:embedded", verdict)
    assert result.outcome.status is Status.FALLBACK
    assert "(region 1)" in result.outcome.reasons[0]
    assert engine.reads == 1


@pytest.mark.parametrize(("guard", "status"), [("mark", Status.DEGRADED), ("off", Status.OK)])
def test_or_only_marked_or_left_alone(guard: Any, status: Status) -> None:
    answer = "Once. " + "word " * 200
    engine = Engine()
    row = region("text", (30, 30, 570, 90))
    result, _ = read(lambda _: Generation(answer, finish_reason="loop"), row, engine=engine, guard=guard)
    (block,) = result.blocks
    assert block.source == "vlm:fake"
    assert (block.text == answer.strip()) == (guard == "off")
    assert block.verdict == ("" if guard == "off" else "loop")
    assert result.outcome.status is status
    assert engine.reads == 0


def test_a_trusted_text_layer_stands_in_first() -> None:
    engine = Engine()
    lines = [Line(text, Box(40, 40 + 60 * n, 500, 75 + 60 * n)) for n, text in enumerate(LINES)]
    leaf = Leaf(page(*LINES), [region("text")], lines)
    result, _ = read(lambda _: "", leaf=leaf, engine=engine)
    assert [(b.text, b.source) for b in result.blocks] == [(TEXT, "text-layer")]
    assert engine.reads == 0


def test_what_an_engine_has_read_before_is_not_read_again() -> None:
    engine = Engine()
    seen = [Line(TEXT, Box(40, 40, 500, 200), source="ocr:embedded")]
    result, _ = read(lambda _: "", leaf=Leaf(page(*LINES), [region("text")], seen=seen), engine=engine)
    assert (result.blocks[0].text, engine.reads) == (TEXT, 0)


def test_a_model_that_disagrees_with_the_text_layer_is_marked() -> None:
    lines = [Line("Something else altogether stands here in the text layer", Box(40, 40, 500, 200))]
    result, _ = read(lambda _: TEXT, leaf=Leaf(page(*LINES), [region("text")], lines))
    assert [(b.text, b.verdict) for b in result.blocks] == [(TEXT, "disagrees")]
    assert result.outcome.status is Status.DEGRADED


def test_verify_reads_everything_twice() -> None:
    result, _ = read(lambda _: TEXT, region("text"), engine=(engine := Engine()), verify=True)
    assert (result.outcome.status, engine.reads) == (Status.OK, 1)
    result, _ = read(lambda _: TEXT, region("text"), engine=Engine("An entirely different line was seen"), verify=True)
    assert result.blocks[0].verdict == "disagrees"


def test_a_region_whose_answer_does_not_end_is_asked_about_in_parts() -> None:
    def answers(asked: Question) -> Answer:
        if asked.pixels.shape[0] > 150:
            return Generation("word " * 200, finish_reason="loop")
        return Generation(f"part of {asked.pixels.shape[0]} rows", logprobs=SURE)

    result, model = read(answers, region("text"))
    assert len(model.asked) == 3
    whole, above, below = (q.pixels.shape[0] for q in model.asked)
    assert above + below == whole
    (first, second) = (b.text for b in result.blocks)
    assert (first, second) == (f"part of {above} rows", f"part of {below} rows")
    assert {b.verdict for b in result.blocks} == {"ok"}
    assert result.outcome.status is Status.OK


def test_tables_are_not_cut_in_two() -> None:
    _, model = read(lambda _: Generation("<td>x" * 300, finish_reason="length"), region("table"))
    assert len(model.asked) == 1


def test_parts_are_not_asked_about_for_ever() -> None:
    lines = [f"line {n} of many" for n in range(12)]
    result, model = read(lambda _: Generation("word " * 200, finish_reason="loop"), lines=lines)
    assert 1 < len(model.asked) <= 15
    assert result.blocks[0].verdict == "loop"


def as_one(answer: Generation, **how: Any) -> tuple[list[PageResult], Engine]:
    """Three pages of one text; the second is blank, the third has a text layer."""
    engine, layer = Engine(), [Line("It has a text layer of its own", Box(40, 40, 500, 75))]
    leaves = [Leaf(page(*LINES)), Leaf(page(index=1)), Leaf(page(*LINES, index=2), lines=layer)]
    reader = PromptedReader(Model(lambda _: answer), manner_of("got"), engine, **how)
    return read_as_one(reader, leaves), engine


def test_pages_as_one_text_have_another_where_the_answer_cannot_be_used() -> None:
    results, engine = as_one(Generation("word " * 200, finish_reason="loop"))
    assert [[b.text for b in result.blocks] for result in results] == [[TEXT], [], ["It has a text layer of its own"]]
    assert [[(b.source, b.verdict) for b in r.blocks] for r in results] == [
        [("ocr:embedded", "loop")], [], [("text-layer", "loop")],
    ]  # fmt: skip
    assert [result.outcome.status for result in results] == [Status.FALLBACK, Status.OK, Status.FALLBACK]
    assert "another text stands in its place (the whole page)" in results[2].outcome.reasons
    assert engine.reads == 1


@pytest.mark.parametrize(("guard", "status"), [("mark", Status.DEGRADED), ("off", Status.OK)])
def test_or_the_one_text_is_marked_or_left_alone(guard: Any, status: Status) -> None:
    results, engine = as_one(Generation("Once. " + "word " * 200, finish_reason="loop"), guard=guard)
    assert [result.outcome.status for result in results] == [status, Status.OK, Status.OK]
    assert (len(results[0].blocks), engine.reads) == (1, 0)


def test_a_whole_page_is_replaced_by_all_that_stands_on_it() -> None:
    lines = [Line(text, Box(40, 40 + 200 * n, 500, 75 + 200 * n)) for n, text in enumerate(LINES)]
    result, _ = read(lambda _: "", leaf=Leaf(page(*LINES), None, lines))
    assert [b.text for b in result.blocks] == LINES
    assert result.outcome.status is Status.FALLBACK


def test_answers_have_lines_where_the_ink_is() -> None:
    result, _ = read(lambda _: TEXT, region("text"))
    assert [line.text for line in result.blocks[0].lines] == LINES
    assert [round(line.box.t, -1) for line in result.blocks[0].lines] == [50, 110, 170]
    assert {line.source for line in result.blocks[0].lines} == {"vlm:fake"}


def test_pictures_that_a_model_does_not_take() -> None:
    refused = InputError("too thin")
    result, _ = read(lambda _: refused, region("text"), engine=Engine())
    assert [(b.text, b.verdict) for b in result.blocks] == [(TEXT, "refused")]
    assert result.outcome.status is Status.FALLBACK
    with pytest.raises(InputError, match="too thin"):
        read(lambda _: refused, region("text"), guard="off")


def test_captions_go_to_their_figures_without_lines_to_measure() -> None:
    regions = [region("image", (30, 300, 570, 500)), region("figure_title", (30, 505, 570, 535))]
    leaf = Leaf(page(), regions)
    pixels = np.array(drawn(*LINES))
    pixels[510:530, 40:400:3] = 0
    leaf = replace(leaf, page=replace(leaf.page, render=lambda *_: pixels))
    result, _ = read(lambda _: "Figure 1: A thing that is shown above it, with words", leaf=leaf)
    (figure,) = result.blocks
    assert [child.label for child in figure.children] == [Label.CAPTION]


def test_notes_of_a_file_degrade_its_page() -> None:
    leaf = Leaf(page(*LINES), content=PageContent(notes=("a part could not be read",)))
    result, _ = read(lambda _: TEXT, leaf=leaf)
    assert result.outcome.status is Status.DEGRADED


def test_control_characters_are_left_out() -> None:
    result, _ = read(lambda _: f"\x1b[31m{TEXT}\x00")
    assert result.blocks[0].text == f"[31m{TEXT}"


def test_large_pictures_first() -> None:
    sizes = [(10, 10), (90, 40), (30, 30)]
    assert by_size([Question("", np.zeros((*size, 3), np.uint8), 1) for size in sizes]) == [1, 2, 0]
