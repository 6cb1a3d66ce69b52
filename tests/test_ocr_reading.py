"""Which parts of a page come from its text layer and which from its pixels, and where that ends up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from docai.errors import UsageError
from docai.ocr import reading
from docai.ocr.engines import Recognised, get_engine
from docai.ocr.reading import ReadOptions, confidence_reasons, grouped, read_page, turn_content, turn_line
from docai.ocr.text_layer import TextLayer
from docai.types import Box, Line, Page, PageContent, Rule, Word

PRINTED = Line("printed", Box(10, 10, 60, 20), (Word("printed", Box(10, 10, 60, 20)),))


class Engine:
    """Reads one word, ten pixels in from every side of what it is given."""

    name = "fake"

    def __init__(self, rotation: int = 0, skew: float = 0.0, reasons: tuple[str, ...] = ()) -> None:
        self.turn, self.reasons = (rotation, skew), reasons
        self.seen: list[tuple[tuple[int, ...], bool]] = []

    def read(self, pixels: np.ndarray, *, straighten: bool = True) -> Recognised:
        self.seen.append((pixels.shape[:2], straighten))
        rotation, skew = self.turn if straighten else (0, 0.0)
        height, width = pixels.shape[:2] if rotation % 180 == 0 else pixels.shape[1::-1]
        box = Box(10, 10, width - 10, height - 10)
        line = Line("read", box, (Word("read", box),), 8.0, 0.9, "ocr:fake")
        return Recognised((line,), rotation, skew, self.reasons)


def page(unit: str = "pt") -> Page:
    def render(dpi: float, rotation: int, skew: float) -> np.ndarray:
        scale = dpi / 72 if unit == "pt" else 1
        size = (round(100 * scale), round(200 * scale))
        return np.zeros((*(size if rotation % 180 == 0 else size[::-1]), 3), np.uint8)

    return Page(0, (200, 100), "pt" if unit == "pt" else "px", "x", render=render)


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(*lines: Line, untrusted: tuple[Box, ...] = (), reasons: tuple[str, ...] = ()) -> None:
        found = TextLayer(lines, untrusted, reasons)
        monkeypatch.setattr(reading, "read_text_layer", lambda *_: found)

    return use


def test_a_trusted_text_layer_needs_no_engine(layer: Callable[..., None]) -> None:
    layer(PRINTED)
    engine = Engine()
    got = read_page(page(), PageContent(), ReadOptions("auto", engine))
    assert (got.lines, got.reasons, engine.seen) == ((PRINTED,), (), [])


def test_images_are_read_whole_at_their_own_pixels() -> None:
    engine = Engine()
    got = read_page(page("px"), PageContent(), ReadOptions("auto", engine))
    assert engine.seen == [((100, 200), True)]
    assert got.lines[0].box == Box(10, 10, 190, 90)


def test_a_forced_reading_leaves_the_text_layer_out(layer: Callable[..., None]) -> None:
    layer(PRINTED)
    got = read_page(page(), PageContent(), ReadOptions("force", Engine(), dpi=144))
    assert [line.text for line in got.lines] == ["read"]
    assert got.lines[0].box == Box(5, 5, 195, 95)  # at 144 dpi two pixels are a point
    assert got.lines[0].size == 4.0


def test_only_untrusted_areas_are_read(layer: Callable[..., None]) -> None:
    layer(PRINTED, untrusted=(Box(100, 30, 120, 70), Box(121, 30, 180, 70)))
    engine = Engine()
    got = read_page(page(), PageContent(), ReadOptions("auto", engine, dpi=72))
    assert engine.seen == [((40, 80), False)]  # the areas are neighbours
    assert [line.text for line in got.lines] == ["printed", "read"]
    assert got.lines[1].box == Box(110, 40, 170, 60)


def test_lines_beside_the_untrusted_area_are_left_out(layer: Callable[..., None]) -> None:
    layer(untrusted=(Box(100, 30, 105, 70), Box(105, 66, 180, 70)))  # what is read lies between them
    assert read_page(page(), PageContent(), ReadOptions("auto", Engine(), dpi=72)).lines == ()


def test_a_scan_is_read_whole_and_keeps_what_is_trusted(layer: Callable[..., None]) -> None:
    layer(PRINTED, untrusted=(Box(0, 0, 200, 100),), reasons=("hidden",))
    got = read_page(page(), PageContent(), ReadOptions("auto", Engine(reasons=("odd",)), dpi=72))
    assert [line.text for line in got.lines] == ["printed", "read"]
    assert got.reasons == ("hidden", "odd")


def test_without_ocr_it_says_what_is_missing(layer: Callable[..., None]) -> None:
    layer(PRINTED, untrusted=(Box(0, 0, 200, 100),))
    got = read_page(page(), PageContent(), ReadOptions("never", Engine()))
    assert got.lines == (PRINTED,)
    assert "--ocr never" in got.reasons[-1]


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_turned_scan_turns_everything(rotation: int) -> None:
    content = PageContent(rules=(Rule(Box(0, 0, 200, 1)),), pictures=(Box(0, 0, 20, 10),))
    got = read_page(page("px"), content, ReadOptions("force", Engine(rotation)))
    assert got.page.rotation == rotation
    assert got.page.size == ((100, 200) if rotation != 180 else (200, 100))
    assert got.lines[0].box == Box(10, 10, got.page.width - 10, got.page.height - 10)
    assert got.content.rules[0].horizontal == (rotation == 180)
    corner = got.page.to_displayed(got.content.pictures[0].cx, got.content.pictures[0].cy)
    assert corner == (10, 5)


def test_a_known_turn_is_not_looked_for() -> None:
    engine = Engine(rotation=180)
    got = read_page(page("px"), PageContent(), ReadOptions("force", engine, turn=(90, 1.5)))
    assert engine.seen == [((200, 100), False)]
    assert (got.page.rotation, got.page.skew) == (90, 1.5)


def test_a_text_layer_that_runs_sideways_turns_the_page(layer: Callable[..., None]) -> None:
    layer(Line("upwards", Box(10, 10, 20, 90), angle=270))
    got = read_page(page(), PageContent(), ReadOptions("auto", Engine()))
    assert got.page.rotation == 90
    assert got.lines[0].angle == 0
    assert got.lines[0].box.width == 80


def test_the_lean_is_taken_out_of_boxes() -> None:
    lean = 5.0
    straight = turn_line(Line("x", Box(100, 50, 100, 50)), page(), 0, lean)
    assert (straight.box.l, straight.box.t) == (100, 50)  # the centre stays
    content = PageContent(fills=(Box(150, 50, 150, 50),))
    (fill,) = turn_content(page(), content, 0, lean).fills
    assert page().turned(skew=lean).to_displayed(fill.l, fill.t) == pytest.approx((150, 50))


@pytest.mark.parametrize(
    ("scores", "says"), [([0.9, 0.95], False), ([0.4, 0.5], True), ([0.5, None], True), ([], False)]
)
def test_low_confidence_is_said(scores: list[float | None], says: bool) -> None:
    read = Recognised(tuple(Line("text", Box(0, 0, 1, 1), confidence=score) for score in scores))
    assert bool(confidence_reasons(read)) == says


def test_boxes_by_neighbourhood() -> None:
    boxes = [Box(0, 0, 10, 10), Box(100, 0, 110, 10), Box(12, 0, 20, 10), Box(22, 0, 30, 10)]
    assert sorted(len(group) for group in grouped(boxes, 5)) == [1, 3]
    assert grouped([], 5) == []


def test_engines_are_found_by_name() -> None:
    assert get_engine("embedded").name == "embedded"
    with pytest.raises(UsageError, match="embedded, tesseract"):
        get_engine("nothing")
