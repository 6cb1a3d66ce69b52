"""The embedded detector on pages set by hand; figures, pictures in scans, bold type in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from docai.layout.body import Body
from docai.layout.embedded import EmbeddedDetector, flow_of
from docai.layout.figures import find_figures
from docai.layout.order import Flow
from docai.layout.pictures import find_pictures, finer_than_needed
from docai.layout.weight import weighed
from docai.types import Box, Label, Line, Page, PageContent, Region, Rule
from tests.layout_pages import line, page, paragraph

DETECTOR = EmbeddedDetector()
BODY = Body(10.0, fonts=frozenset({"Body"}), leading=1.2)


def labels(regions: Sequence[Region]) -> list[str]:
    return [region.label.value for region in regions]


def article() -> list[Line]:
    return [
        line("A Title of Some Length", 180, 80, 20),
        *paragraph(50, 120, 290, 12), line("2 Methods", 50, 280, 14), *paragraph(50, 300, 290, 20),
        *paragraph(310, 120, 550, 25), line("Figure 1. A cat.", 350, 560, 9), *paragraph(310, 590, 550, 8),
        line("12", 300, 770),
    ]  # fmt: skip


CAT = Box(320, 430, 540, 550)


def test_an_article() -> None:
    regions = DETECTOR.detect(replace(page(), index=0), article(), PageContent(pictures=(CAT,)))
    assert [region.order for region in regions] == list(range(len(regions)))
    assert labels(regions) == ["title", "text", "heading", "text", "text", "figure", "caption", "text", "page_number"]


def test_only_a_first_page_has_a_title() -> None:
    assert labels(DETECTOR.detect(page(), article(), PageContent()))[0] == "heading"


def test_every_line_lies_in_a_region() -> None:
    lines = article()
    regions = DETECTOR.detect(page(), lines, PageContent(pictures=(CAT,)))
    for item in lines:
        assert any(r.box.l <= item.box.cx <= r.box.r and r.box.t <= item.box.cy <= r.box.b for r in regions), item.text


def test_a_page_without_text() -> None:
    assert DETECTOR.detect(page(), [], PageContent()) == []
    assert DETECTOR.detect(page(0, 0), [], PageContent()) == []
    assert labels(DETECTOR.detect(page(), [], PageContent(pictures=(CAT,)))) == ["figure"]


def test_turned_lines_in_the_margin_are_stamps() -> None:
    side = replace(line("Downloaded from a library", 10, 300, right=20), box=Box(10, 300, 20, 500), angle=270)
    assert labels(DETECTOR.detect(page(), [*paragraph(50, 100, 550, 30), side], PageContent()))[-1] == "stamp"


def test_a_caption_above_its_listing_is_read_first_as_printed() -> None:
    code = [line(text, 60, 330 + 12 * n, mono=True) for n, text in enumerate(("def f(x):", "return x", "f(1)"))]
    text = [*paragraph(50, 100, 550, 15), line("Listing 1: A function", 200, 305), *code, *paragraph(50, 400, 550, 15)]
    assert labels(DETECTOR.detect(page(), text, PageContent())) == ["text", "caption", "code", "text"]


def test_a_rule_over_both_columns_parts_them() -> None:
    text = [
        *paragraph(50, 100, 290, 12),
        *paragraph(310, 100, 550, 12),
        *paragraph(50, 262, 290, 12),
        *paragraph(310, 262, 550, 12),
    ]
    rule = Rule(Box(50, 252, 550, 252.5), 0.5)
    tops = [round(r.box.t) for r in DETECTOR.detect(page(), text, PageContent(rules=(rule,)))]
    assert tops == [100, 100, 262, 262]


def test_vertical_and_right_to_left_pages_are_recognised() -> None:
    assert flow_of([line("hello", 0, 0)]) is Flow.LEFT_TO_RIGHT
    assert flow_of([line("שלום עולם", 0, 0), line("Python", 0, 20)]) is Flow.RIGHT_TO_LEFT
    assert flow_of([line("本日は", 0, 0, vertical=True)]) is Flow.VERTICAL
    assert flow_of([]) is Flow.LEFT_TO_RIGHT


# --- figures

CHART = tuple(Box(100 + 40 * n, 200 - 15 * n, 130 + 40 * n, 300) for n in range(6))


def figures(content: PageContent, lines: Sequence[Line] = ()) -> list[Box]:
    return find_figures(page(), lines, content, BODY)


def test_a_chart_is_a_figure_with_its_labels() -> None:
    label = line("Berlin", 92, 296, 8)
    (box,) = figures(PageContent(drawings=CHART), [label])
    assert box.l <= label.box.l
    assert box.r == CHART[-1].r


def test_small_pictures_and_backgrounds_are_no_figures() -> None:
    assert figures(PageContent(pictures=(Box(10, 10, 30, 30), Box(0, 0, 600, 800)))) == []


def test_a_banner_behind_a_heading_is_no_figure() -> None:
    assert figures(PageContent(pictures=(Box(50, 100, 300, 130),)), [line("1 Introduction", 60, 108, 12)]) == []


def test_frames_around_text_are_no_figures() -> None:
    frames = tuple(Box(50 + n, 100 + n, 550 - n, 300 - n) for n in range(5))
    assert figures(PageContent(drawings=frames), paragraph(70, 120, 530, 5)) == []


def test_pictures_beside_each_other_are_one_figure() -> None:
    pair = (Box(50, 100, 250, 250), Box(260, 100, 460, 250))
    assert figures(PageContent(pictures=pair)) == [Box(50, 100, 460, 250)]
    between = [line("A long line of text that parts the two pictures", 40, 170)]
    assert len(figures(PageContent(pictures=pair), between)) == 2


def test_a_map_of_many_strokes_is_one_figure() -> None:
    strokes = [Box(100 + n % 100 * 3, 100 + n // 100 * 3, 104 + n % 100 * 3, 104 + n // 100 * 3) for n in range(10_000)]
    (box,) = figures(PageContent(drawings=tuple(strokes)))
    assert box == Box(100, 100, 401, 401)


def test_labels_along_an_axis_belong_to_the_figure_and_its_caption_does_not() -> None:
    axis = [line(text, 60 + 60 * n, 254, 8) for n, text in enumerate(("Mon", "Tue", "Wed"))]
    caption = line("Figure 1. The days of the week.", 50, 270, 9)
    assert [box.b for box in figures(PageContent(pictures=(Box(50, 100, 250, 250),)), [*axis, caption])] == [262]


def test_the_name_of_a_part_belongs_to_the_figure() -> None:
    (box,) = figures(PageContent(pictures=(Box(50, 100, 250, 250),)), [line("(b)", 140, 256)])
    assert box.b == 266


# --- pixels


def scan(height: int = 800, width: int = 600) -> np.ndarray:
    return np.full((height, width, 3), 250, np.uint8)


def test_dark_areas_of_a_scan_are_pictures_and_text_is_not() -> None:
    pixels = scan()
    pixels[200:400, 100:400] = np.random.default_rng(1).integers(0, 180, (200, 300, 3), np.uint8)
    text = Box(100, 500, 500, 560)
    pixels[500:560, 100:500] = 30
    sheet = Page(0, (600, 800), "px", "scan.png")
    (box,) = find_pictures(sheet, pixels, [text])
    assert box.as_tuple() == pytest.approx((100, 200, 400, 400), abs=8)


def test_coloured_areas_are_pictures() -> None:
    pixels = scan()
    pixels[200:400, 100:400] = (250, 250, 60)
    assert len(find_pictures(Page(0, (600, 800), "px", "scan.png"), pixels, [])) == 1


def test_an_empty_or_dark_page_holds_no_pictures() -> None:
    sheet = Page(0, (600, 800), "px", "scan.png")
    assert find_pictures(sheet, scan(), []) == []
    assert find_pictures(sheet, scan() // 10, []) == []


def test_large_scans_shrink_and_thin_lines_stay_dark() -> None:
    pixels = scan(3600, 2000)
    pixels[1001, :] = 0
    small = finer_than_needed(pixels)
    assert small.shape == (1800, 1000, 3)
    assert (small.min(axis=(1, 2)) == 0).any()
    assert finer_than_needed(scan()) is not None


def seen_lines(heavy: int) -> tuple[list[Line], np.ndarray]:
    """Ten lines of vertical strokes; those of line `heavy` are twice as wide."""
    pixels, lines = scan(), []
    for n in range(10):
        top = 50 + 40 * n
        for stroke in range(30):
            left = 100 + 12 * stroke
            pixels[top : top + 20, left : left + (6 if n == heavy else 3)] = 10
        lines.append(replace(line("some words", 98, top, right=460), box=Box(98, top, 460, top + 20), source="ocr:x"))
    return lines, pixels


def test_bold_lines_are_seen() -> None:
    lines, pixels = seen_lines(heavy=4)
    found = weighed(Page(0, (600, 800), "px", "scan.png"), lines, pixels)
    assert [item.bold for item in found] == [n == 4 for n in range(10)]


def test_few_lines_tell_nothing_of_their_weight() -> None:
    lines, pixels = seen_lines(heavy=1)
    assert not any(item.bold for item in weighed(Page(0, (600, 800), "px", "scan.png"), lines[:4], pixels))


def test_a_scanned_page() -> None:
    lines, pixels = seen_lines(heavy=0)
    pixels[500:700, 100:460] = np.random.default_rng(1).integers(0, 180, (200, 360, 3), np.uint8)
    lines[0] = replace(lines[0], text="Words", box=Box(98, 50, 280, 70))

    def render(dpi: float, rotation: int, skew: float) -> np.ndarray:
        return pixels

    sheet = Page(1, (600, 800), "px", "scan.png", render=render)
    regions = DETECTOR.detect(sheet, lines, PageContent())
    assert labels(regions)[0] == "heading"
    assert Label.FIGURE in [region.label for region in regions]
