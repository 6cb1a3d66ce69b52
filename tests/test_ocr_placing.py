"""What a model has read gets lines, by those that are known or by the ink; outputs lay its words where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docai.export.words import lines_of, words_of
from docai.ocr.ink_lines import strips
from docai.ocr.placing import shared_out, with_lines
from docai.types import Block, Box, Cell, Label, Line, Page, Region, Table, Word

FONT = ImageFont.load_default(24)
ROWS = ["It was the tide that counted the hours here,", "and nobody had asked it to stop. The book on",
        "the shelf kept all of its heights."]  # fmt: skip
MORE = ["A second paragraph, as long as it takes to", "fill the two lines of which it consists."]


def drawn(places: Sequence[tuple[int, int, str]], size: tuple[int, int] = (1200, 900)) -> np.ndarray:
    image = Image.new("RGB", size, (255, 255, 255))
    for left, top, text in places:
        ImageDraw.Draw(image).text((left, top), text, fill=(20, 20, 60), font=FONT)
    return np.asarray(image)


def paragraph(rows: Sequence[str], left: int = 40, top: int = 40) -> list[tuple[int, int, str]]:
    return [(left, top + 36 * n, row) for n, row in enumerate(rows)]


def page_of(pixels: np.ndarray, scale: float = 1.0) -> Page:
    height, width = pixels.shape[:2]
    return Page(0, (width * scale, height * scale), "px" if scale == 1 else "pt", "x.png")


def block(text: str, box: Box, label: Label = Label.TEXT, **more: object) -> Block:
    return Block("b", 0, Region(box, label), text, confidence=0.9, source="vlm:x", **more)  # type: ignore[arg-type]


def said(found: Block) -> list[str]:
    return [line.text for line in found.lines]


def test_columns_are_read_one_after_the_other() -> None:
    title = [(300, 20, "A title over both of the columns")]
    left, right = paragraph(ROWS, 40, 100), paragraph([row[:20] for row in ROWS], 700, 112)  # not on the same lines
    found = strips(drawn([*title, *left, *right]))
    assert [round(strip.left, -1) for strip in found] == [300, 40, 40, 40, 700, 700, 700]
    assert [abs(strip.top - top) < 12 for strip, (_, top, _) in zip(found, [*title, *left, *right], strict=True)]


@pytest.mark.parametrize("shape", [(0, 0, 3), (40, 40, 3)])
def test_there_are_no_lines_on_blank_paper(shape: tuple[int, ...]) -> None:
    assert strips(np.full(shape, 255, np.uint8)) == []


@pytest.mark.parametrize("scale", [1.0, 0.36])
def test_words_are_spread_over_the_lines_of_the_ink(scale: float) -> None:
    pixels = drawn([*paragraph(ROWS), *paragraph(MORE, 40, 500)])
    page = page_of(pixels, scale)
    (found,) = with_lines(page, pixels, [block(" ".join(ROWS), Box(0, 0, page.width, 200 * scale))])
    assert said(found) == ROWS
    for line, (left, top, _) in zip(found.lines, paragraph(ROWS), strict=True):
        assert line.box.l == pytest.approx(left * scale, abs=4 * scale)
        assert line.box.t == pytest.approx((top + 5) * scale, abs=8 * scale)
        assert line.box.height == pytest.approx(22 * scale, abs=8 * scale)
    assert {(line.source, line.confidence) for line in found.lines} == {("vlm:x", 0.9)}


def test_blocks_of_one_answer_share_its_lines_and_tables_keep_their_place() -> None:
    """As of a page that is asked about as a whole: all blocks have its box."""
    rows = ["Name  Height  Day", "Sands  3.41  12", "Neap  2.20  19"]
    pixels = drawn([*paragraph(ROWS), *paragraph(rows, 40, 250), *paragraph(MORE, 40, 500)])
    page = page_of(pixels)
    cells = tuple(Cell(r, c, text, page.box) for r, row in enumerate(rows) for c, text in enumerate(row.split("  ")))
    table = block("\n".join(rows), page.box, Label.TABLE, table=Table(3, 3, cells))
    before, between, after = with_lines(
        page, pixels, [block(" ".join(ROWS), page.box), table, block(" ".join(MORE), page.box)]
    )
    assert (said(before), between, said(after)) == (ROWS, table, MORE)
    assert after.lines[0].box.t > 490


def test_lines_that_a_model_tells_of_are_kept() -> None:
    rows = ["a = 1", "if a and everything else:", "b"]
    pixels = drawn(paragraph(rows))
    (found,) = with_lines(page_of(pixels), pixels, [block("\n".join(rows), Box(0, 0, 900, 300), Label.CODE)])
    assert said(found) == rows


def test_known_lines_tell_where_words_stand() -> None:
    """A text layer's: the model has joined what was parted, left a word out and put another one in."""
    texts = ["The first line of a para-", "graph that the model reads", "in its own way, as they do."]
    lines = []
    for top, text in zip((100, 140, 180), texts, strict=True):
        words = [Word(w, Box(50 + 60 * k, top, 100 + 60 * k, top + 30)) for k, w in enumerate(text.split())]
        lines.append(Line(text, Box(50, top, 450, top + 30), tuple(words)))
    pixels = drawn([])
    answer = "The first line of a paragraph that model reads well in its own way, as they do."
    (found,) = with_lines(page_of(pixels), pixels, [block(answer, Box(40, 90, 460, 230))], lines)
    assert said(found) == ["The first line of a paragraph", "that model reads well", "in its own way, as they do."]
    assert [line.box for line in found.lines] == [line.box for line in lines]
    assert found.lines[2].words == lines[2].words
    assert not found.lines[1].words or len(found.lines[1].words) == 4


def test_lines_that_say_something_else_do_not_count() -> None:
    pixels = drawn(paragraph(ROWS))
    lines = [Line("nothing of that kind", Box(600, 600, 900, 640))]
    (found,) = with_lines(page_of(pixels), pixels, [block(" ".join(ROWS), Box(0, 0, 1200, 900))], lines)
    assert said(found) == ROWS


def squares(rows: Sequence[int]) -> np.ndarray:
    """Rows of so many squares, which stand for Chinese signs."""
    pixels = np.full((900, 1200, 3), 255, np.uint8)
    for row, count in enumerate(rows):
        for n in range(count):
            pixels[40 + 50 * row : 70 + 50 * row, 40 + 34 * n : 68 + 34 * n] = 0
    return pixels


CHINESE = ["潮汐表记录了港口的水位", "每天两次涨潮两次落潮的", "时刻。"]


def test_chinese_is_parted_at_any_sign() -> None:
    pixels = squares([*map(len, CHINESE), 0, *map(len, CHINESE)])
    given = [block("".join(CHINESE), Box(0, 0, 1200, 900)) for _ in range(2)]
    assert [said(found) for found in with_lines(page_of(pixels), pixels, given)] == [CHINESE] * 2


def test_chinese_is_found_in_known_lines() -> None:
    lines = [Line(text, Box(50, 100 + 40 * n, 450, 130 + 40 * n)) for n, text in enumerate(CHINESE)]
    answer = "".join(CHINESE).replace("港口", "海港")  # the model reads one sign otherwise
    (found,) = with_lines(page_of(drawn([])), drawn([]), [block(answer, Box(40, 90, 460, 230))], lines)
    assert "".join(said(found)) == answer
    assert [line.box for line in found.lines] == [line.box for line in lines]
    assert said(found)[1:] == CHINESE[1:]


def test_chinese_and_latin_words_keep_their_spaces() -> None:
    lines = [Line("版本 docai 1.2 读取", Box(50, 100, 450, 130)), Line("PDF文件 now", Box(50, 140, 450, 170))]
    answer = "版本 docai 1.2 读取PDF文件 now"
    (found,) = with_lines(page_of(drawn([])), drawn([]), [block(answer, Box(40, 90, 460, 230))], lines)
    assert said(found) == ["版本 docai 1.2 读取", "PDF文件 now"]


@pytest.mark.parametrize(("texts", "first"), [(("One", "two"), True), (("אחד", "שתיים"), False)])
def test_of_a_line_that_two_share_the_first_has_the_side_where_it_begins(texts: tuple[str, str], first: bool) -> None:
    line = Line(" ".join(texts), Box(100, 100, 400, 130))
    given = [block(text, Box(90, 90, 410, 140)) for text in texts]
    one, other = (b.lines[0].box for b in with_lines(page_of(drawn([])), drawn([]), given, [line]))
    assert (one.l < other.l) is first
    assert min(one.l, other.l) == 100
    assert max(one.r, other.r) == 400


def test_a_pattern_gives_no_lines() -> None:
    """Neither rows that stand too near to each other for print, nor more pieces than any region has lines."""
    hatched, grid = np.full((2, 1199, 1199, 3), 255, np.uint8)
    hatched[np.arange(1199) % 4 < 3, :500] = 0
    grid[np.arange(1199) % 24 < 8] = 0
    grid[:, np.arange(1199) % 24 > 8] = 255
    assert strips(hatched) == []
    assert len(strips(grid)) == 2500
    page = page_of(grid)
    (found,) = with_lines(page, grid, [block("word " * 3000, page.box)])
    assert found.lines == ()


def test_a_photograph_gives_no_lines() -> None:
    pixels = np.random.RandomState(1).randint(0, 256, (900, 700, 3)).astype(np.uint8)
    (found,) = with_lines(page_of(pixels), pixels, [block("\n".join(ROWS), Box(0, 0, 700, 900))])
    assert found.lines == ()
    assert [line.text for line in lines_of(found)] == ROWS


def test_figures_formulas_and_what_has_lines_stay_as_they_are() -> None:
    pixels, line = drawn(paragraph(ROWS)), Line("x", Box(0, 0, 1, 1))
    box = Box(0, 0, 1200, 900)
    given = [
        block("x^2", box, Label.FORMULA), block("", box, Label.FIGURE), block("x", box, lines=(line,)), block("", box),
    ]  # fmt: skip
    assert with_lines(page_of(pixels), pixels, given) == given


@pytest.mark.parametrize(
    ("letters", "weights", "spans"),
    [
        ([30, 20], [10, 10, 10, 10, 10], [(0, 3), (3, 5)]),
        ([30, 20], [10, 10, 10, 99, 10, 10], [(0, 3), (4, 6)]),  # a picture between them
        ([30], [99, 10, 10, 10], [(1, 4)]),
        ([5, 5, 5], [10, 5], [(0, 1), (0, 1), (1, 2)]),  # more texts than lines
    ],
)
def test_lines_are_shared_out(letters: list[float], weights: list[float], spans: list[tuple[int, int]]) -> None:
    assert [(span.start, span.stop) for span in shared_out(letters, weights)] == spans


def test_cells_of_which_no_place_is_known_lie_on_a_grid() -> None:
    box = Box(0, 0, 300, 90)
    cells = (Cell(0, 0, "wide", box, colspan=2), Cell(1, 0, "a", box), Cell(1, 1, "b c", box), Cell(2, 0, "d", box))
    found = lines_of(block("", box, Label.TABLE, table=Table(3, 2, cells)))
    assert [(line.text, line.box) for line in found] == [
        ("wide", Box(0, 0, 300, 30)), ("a", Box(0, 30, 150, 60)), ("b c", Box(150, 30, 300, 60)),
        ("d", Box(0, 60, 150, 90)),
    ]  # fmt: skip
    measured = replace(cells[1], box=Box(5, 30, 20, 50))
    kept = lines_of(block("", box, Label.TABLE, table=Table(3, 2, (cells[0], measured))))
    assert [line.box for line in kept] == [box, measured.box]
    assert [word.text for word in words_of(found[2])] == ["b", "c"]
