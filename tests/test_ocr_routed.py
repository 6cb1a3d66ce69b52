"""Regions of a page become questions, answers become blocks, and no text gets lost on the way."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from docai.layout.detector import FOREIGN_LABELS
from docai.ocr.manners import ANY, MANNERS, manner_of
from docai.ocr.routed import Route, apart, blocks_of, cut_out, elements_of, not_nested, padded, routes_of
from docai.ocr.routes import CATEGORIES, PLAIN, SKIPPED, category_of
from docai.types import Box, Label, Page, Region

PAGE = Page(0, (612.0, 792.0), "pt", "x.pdf")
# The native names of PP-DocLayoutV3
NATIVE = (
    "abstract", "algorithm", "aside_text", "chart", "content", "display_formula", "doc_title", "figure_title", "footer",
    "footer_image", "footnote", "formula_number", "header", "header_image", "image", "inline_formula", "number",
    "paragraph_title", "reference", "reference_content", "seal", "table", "text", "vertical_text", "vision_footnote",
)  # fmt: skip


def region(
    name: str = "text", box: tuple[float, float, float, float] = (10, 10, 110, 60), score: float = 0.9
) -> Region:
    label = FOREIGN_LABELS.get("".join(c for c in name if c.isalnum()), Label.TEXT)
    return Region(Box(*box), label, score, 0, name=name)


def routed(*regions: Region) -> list[tuple[str, str]]:
    return [(r.region.name, r.category) for r in routes_of(regions, PAGE)]


# --- what is asked about


@pytest.mark.parametrize("name", NATIVE)
def test_every_native_name_has_a_route(name: str) -> None:
    asked = category_of(region(name))
    assert asked in (*CATEGORIES, SKIPPED)
    assert (asked == SKIPPED) == (name in ("chart", "image", "seal", "header_image", "footer_image"))


@pytest.mark.parametrize(
    ("name", "category"),
    [("display_formula", "formula"), ("inline_formula", "formula"), ("vertical_text", "text"), ("header", "text"),
     ("footer", "page-footer"), ("paragraph_title", "section-header"), ("doc_title", "title"), ("Table ", "table"),
     ("List-item", "list-item"), ("list_item", "list-item"), ("Page-header", "page-header"), ("number", "text"),
     ("figure_title", "caption"), ("vision_footnote", "footnote"), ("Section-header", "section-header")],
)  # fmt: skip
def test_names_are_routed_as_in_the_reference_and_beyond(name: str, category: str) -> None:
    assert category_of(region(name.lower())) == category
    assert category_of(region(name.upper())) == category


@pytest.mark.parametrize("label", list(Label))
def test_our_own_labels_have_a_route(label: Label) -> None:
    unnamed = Region(Box(0, 0, 10, 10), label)
    assert category_of(unnamed) == category_of(Region(Box(0, 0, 10, 10), label, name=label.value))
    assert (category_of(unnamed) == SKIPPED) == (label is Label.FIGURE)


def test_unknown_names_go_as_text() -> None:
    assert category_of(region("gizmo")) == "text"


def test_words_for_every_category() -> None:
    for manner in (*MANNERS.values(), ANY):
        for category in (*CATEGORIES, PLAIN):
            assert manner.prompt(category)
    assert manner_of("falcon_ocr").prompt("section-header") == "section-header"
    assert manner_of("falcon_ocr").prompt(PLAIN) == PLAIN
    assert manner_of("qwen2_vl") is ANY
    assert "HTML" in ANY.prompt("table") != ANY.prompt("caption") == ANY.prompt("text")


# --- nested and double boxes


def test_what_lies_in_a_larger_region_is_read_with_it() -> None:
    inner, outer = region("inline_formula", (20, 20, 40, 30)), region("text", (10, 10, 110, 60))
    assert routed(inner, outer) == [("text", "text")]
    assert routed(outer, inner) == [("text", "text")]


def test_nothing_is_left_to_a_region_that_is_left_to_another() -> None:
    whole, middle, small = (0, 0, 300, 200), (20, 100, 280, 222), (30, 205, 90, 220)
    regions = [region("table", whole), region("text", middle), region("text", small)]
    assert [r.region.box for r in routes_of(regions, PAGE)] == [Box(*whole), Box(*small)]


def test_text_in_a_picture_is_read() -> None:
    text, picture = region("text", (20, 20, 80, 40)), region("image", (10, 10, 300, 300))
    assert routed(picture, text) == [("image", SKIPPED), ("text", "text")]


def test_a_picture_in_a_text_is_not_shown_twice() -> None:
    assert routed(region("text", (0, 0, 300, 300)), region("image", (20, 20, 80, 40))) == [("text", "text")]


def test_half_inside_is_no_part() -> None:
    assert len(routed(region("text", (0, 0, 100, 100)), region("table", (0, 50, 100, 130)))) == 2


def test_of_doubles_the_larger_then_the_likelier_stays_wherever_it_stands() -> None:
    large, small = region("text", (0, 0, 100, 100), 0.5), region("table", (0, 0, 100, 86), 0.9)
    assert routed(large, small) == routed(small, large) == [("text", "text")]
    sure, unsure = region("table", (0, 0, 100, 100), 0.9), region("text", (0, 0, 100, 101), 0.5)
    assert routed(sure, unsure) == routed(unsure, sure) == [("table", "table")]


def test_a_box_under_several_labels_is_asked_about_once() -> None:
    box = (10, 10, 200, 200)
    assert routed(region("chart", box, 0.9), region("table", box, 0.4)) == [("table", "table")]
    assert routed(region("text", box), region("abstract", box)) == [("text", "text")]  # the first


def test_boxes_that_are_the_same_are_suppressed_the_same_way_in_any_order() -> None:
    chance = random.Random(5)
    boxes = [(x, y, x + w, y + h) for x, y, w, h in
             ((chance.randrange(400), chance.randrange(600), chance.randrange(5, 200), chance.randrange(5, 200))
              for _ in range(12))]  # fmt: skip
    regions = [region("text", box, n / 20) for n, box in enumerate(boxes)]
    expected = {r.region for r in routes_of(regions, PAGE)}
    for _ in range(10):
        chance.shuffle(regions)
        routes = routes_of(regions, PAGE)
        assert {r.region for r in routes} == expected
        assert [r.region for r in routes] == [r for r in regions if r in expected]  # in the order that they came in


def test_suppression_never_loses_what_is_printed() -> None:
    """Whatever is left out lies, by most of its area, in something that is asked about."""
    chance = random.Random(7)
    for _ in range(50):
        regions = [
            region(chance.choice(NATIVE), (x, y, x + chance.randrange(2, 300), y + chance.randrange(2, 300)))
            for x, y in ((chance.randrange(300), chance.randrange(400)) for _ in range(10))
        ]
        routes = [Route(r, category_of(r)) for r in regions]
        kept = not_nested(apart(routes))
        for lost in routes:
            if lost.asked and lost not in kept:
                b = lost.region.box
                covered = np.zeros((800, 800), bool)
                for route in kept:
                    if route.asked:
                        l, t, r, bottom = map(int, route.region.box.as_tuple())  # noqa: E741
                        covered[t:bottom, l:r] = True
                assert covered[int(b.t) : int(b.b), int(b.l) : int(b.r)].mean() > 0.6


# --- fallback to the page


@pytest.mark.parametrize("regions", [(), (region("image"),), (region("chart", (0, 0, 612, 792)),)])
def test_the_page_as_a_whole_where_there_is_nothing_to_ask_about(regions: Sequence[Region]) -> None:
    (route,) = routes_of(regions, PAGE)
    assert (route.category, route.region.box, route.region.score) == (PLAIN, PAGE.box, 1.0)


def test_pictures_alone_stay_pictures() -> None:
    assert routed(region("image"), region("image", (200, 200, 300, 300))) == [("image", SKIPPED)] * 2


# --- crops


def pixels(height: int, width: int) -> np.ndarray:
    return np.random.RandomState(1).randint(0, 255, (height, width, 3)).astype(np.uint8)


def test_crops_have_the_edges_of_the_reference() -> None:
    page = Page(0, (100.0, 200.0), "px", "x.png")
    image = pixels(200, 100)
    crop = cut_out(page, image, Box(10.9, 20.2, 60.5, 120.4))
    np.testing.assert_array_equal(crop, image[20:120, 10:61])
    whole = cut_out(page, image, Box(-5, -5, 500, 500))
    np.testing.assert_array_equal(whole, image)


def test_crops_follow_the_resolution() -> None:
    crop = cut_out(PAGE, pixels(1584, 1224), Box(100, 100, 200, 150))
    assert crop is not None
    assert crop.shape == (100, 200, 3)


@pytest.mark.parametrize("box", [Box(10, 10, 12, 90), Box(10, 10, 90, 11), Box(99, 10, 100, 100)])
def test_ruling_lines_are_not_asked_about(box: Box) -> None:
    assert cut_out(Page(0, (100.0, 200.0), "px", "x.png"), pixels(200, 100), box) is None


@pytest.mark.parametrize(("height", "width", "padded_to"), [(10, 40, 16), (12, 2000, 32), (30, 1024, 30), (16, 16, 16)])
def test_thin_crops_get_paper_around_them(height: int, width: int, padded_to: int) -> None:
    crop = np.full((height, width, 3), 250, np.uint8)
    crop[height // 2] = 0
    out = padded(crop)
    assert out.shape == (padded_to, width, 3)
    assert (out == 0).all(axis=2).sum() == width
    assert out[0, 0].tolist() == [250, 250, 250]


# --- answers


def made(name: str, answer: str, parser: str = "markdown") -> list[tuple[str, str]]:
    route = Route(region(name), category_of(region(name)))
    return [(e.label.value, e.text) for e in elements_of(route, answer, parser)]


def test_the_detector_says_what_a_region_is() -> None:
    assert made("doc_title", "# The title") == [("title", "The title")]
    assert made("paragraph_title", "## 1. Heading") == [("heading", "1. Heading")]
    assert made("paragraph_title", "1. Heading") == [("heading", "1. Heading")]
    assert made("figure_title", "Figure 1: A\nthing.") == [("caption", "Figure 1: A thing.")]
    assert made("footer", "3") == [("page_footer", "3")]
    assert made("list_item", "- an item") == [("list_item", "an item")]
    assert made("list_item", "no mark") == [("list_item", "no mark")]
    assert made("display_formula", "$$\nE=mc^2\n$$") == [("formula", "E=mc^2")]
    assert made("algorithm", "```\nfor x:\n  y\n```") == [("code", "for x:\n  y")]
    assert made("footnote", "1 A note.\n\n2 Another.") == [("footnote", "1 A note. 2 Another.")]


def test_the_model_says_what_parts_of_a_text_are() -> None:
    answer = "## Heading\n\nText.\n\n- a\n- b\n\n$$x$$"
    assert [label for label, _ in made("text", answer)] == ["heading", "text", "list_item", "list_item", "formula"]
    assert made("text", "## no markdown", "plain") == [("text", "## no markdown")]


def test_tables() -> None:
    answer = "<table><tr><td>a</td><td>b</td></tr></table>"
    route = Route(region("table"), "table")
    (block,) = blocks_of(route, answer, PAGE, parser="markdown", source="vlm:m")
    assert block.table is not None
    assert (block.text, block.source, block.box) == ("a\tb", "vlm:m", route.region.box)
    assert block.kind == "table"
    assert made("table", "no table at all") == [("text", "no table at all")]
    assert [label for label, _ in made("table", f"Table 1\n\n{answer}")] == ["text", "table"]


@pytest.mark.parametrize("name", ["text", "table", "display_formula", "doc_title", "algorithm", "list_item"])
@pytest.mark.parametrize("answer", ["", "  \n", "```\n```", "$$$$", "#"])
def test_empty_answers_are_no_blocks_or_small_ones(name: str, answer: str) -> None:
    for label, text in made(name, answer):
        assert label
        assert len(text) <= 4


def test_no_text_of_an_answer_gets_lost() -> None:
    words = [f"word{n}" for n in range(12)]
    shapes: Iterator[str] = itertools.cycle(["# {}", "{}", "- {}", "| {} |\n|---|", "> {}", "**{}**", "1. {}", "`{}`"])
    answer = "\n\n".join(shape.format(word) for shape, word in zip(shapes, words, strict=False))
    for name in NATIVE:
        route = Route(region(name), category_of(region(name)))
        said = " ".join(b.text for b in blocks_of(route, answer, PAGE, parser="markdown", source="vlm:m"))
        assert all(word in said for word in words), name
