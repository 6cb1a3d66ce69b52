"""Lines and regions to blocks."""

from __future__ import annotations

import pytest

from docai.ocr.assemble import assemble
from docai.ocr.joining import Printed, glue, in_reading_order, join_lines, join_rows
from docai.types import Box, Label, Line, Link, Page, PageContent, Region, Word

PAGE = Page(0, (600.0, 800.0), "pt", "test.pdf")


def line(
    text: str, left: float, top: float, *, width: float | None = None, styles: dict[str, str] | None = None
) -> Line:
    """A line set in a type of 6 x 10 points, with a word box for each word."""
    words, x = [], left
    for word in text.split():
        style = frozenset({styles[word]}) if styles and word in styles else frozenset()
        words.append(Word(word, Box(x, top, x + 6 * len(word), top + 10), style))  # type: ignore[arg-type]
        x += 6 * (len(word) + 1)
    return Line(text, Box(left, top, left + (width or 6 * len(text)), top + 10), tuple(words), size=10)


def region(box: tuple[float, float, float, float], label: Label = Label.TEXT, order: int | None = None) -> Region:
    return Region(Box(*box), label, order=order)


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("the auto-", "matic door", "the automatic door"),
        ("state-of-the-", "art", "state-of-the-art"),
        ("in the UK-", "wide", "in the UK-wide"),
        ("pages 10-", "12", "pages 10- 12"),
        ("Jean-", "Paul", "Jean-Paul"),
        ("soft\u00ad", "Hyphen", "softHyphen"),
        ("日本", "語です", "日本語です"),
        ("日本", "and more", "日本 and more"),
        ("one", "two", "one two"),
        ("", "first", "first"),
        ("light- and heavy-", "duty trucks", "light- and heavy-duty trucks"),
        ("a list, and auto-", "matic", "a list, and automatic"),
    ],
)
def test_glue(before: str, after: str, joined: str) -> None:
    drop, between = glue(before, after)
    assert before[: len(before) - drop] + between + after == joined


@pytest.mark.parametrize(
    ("printed", "before", "after", "joined"),
    [
        ("A floating-point number", "Floating-", "point numbers", "Floating-point numbers"),
        ("TraceMonkey is fast", "the Trace-", "Monkey team", "the TraceMonkey team"),
        ("stop‐the‐world", "stop‐the‐", "world", "stop‐the‐world"),
        ("a re-cover and to recover", "re-", "cover", "recover"),  # either: as if it were nowhere
        ("point floating", "floating-", "point", "floatingpoint"),
        ("", "UK-", "wide", "UK-wide"),
    ],
)
def test_a_hyphen_at_a_line_end_is_what_it_is_elsewhere(printed: str, before: str, after: str, joined: str) -> None:
    lines = [line(before, 0, 12), line(after, 0, 24)]
    assert join_lines(lines, Printed([line(printed, 0, 0), *lines])).text == joined


def test_words_keep_their_place_in_the_joined_text() -> None:
    joined = join_lines([line("some auto-", 0, 0), line("matic words", 0, 12)])
    assert joined.text == "some automatic words"
    assert [joined.text[a:b] for word, a, b in joined.places][-1] == "words"


def test_code_keeps_its_lines_and_indents() -> None:
    rows = [line("def f():", 50, 0), line("return 1", 74, 12)]
    assert join_rows(rows).text == "def f():\n    return 1"


def test_right_to_left_rows_and_vertical_columns() -> None:
    assert [x.text for x in in_reading_order([line("שלום", 0, 0), line("עולם", 100, 0)])] == ["עולם", "שלום"]
    columns = [Line(t, Box(x, 0, x + 10, 100), vertical=True) for t, x in (("後", 0), ("先", 50))]
    assert [x.text for x in in_reading_order(columns)] == ["先", "後"]


def test_blocks_come_in_the_order_of_the_regions_and_no_line_is_lost() -> None:
    lines = [
        line("right column", 320, 100),
        line("left column", 50, 100),
        line("between them", 50, 120),
        line("far away", 50, 700),
    ]
    regions = [region((300, 90, 560, 115), order=1), region((40, 90, 280, 115), order=0)]
    blocks = assemble(PAGE, lines, PageContent(), regions)
    assert [b.text for b in blocks] == ["left column", "between them", "far away", "right column"]
    assert [b.id for b in blocks] == ["p1-b1", "p1-b2", "p1-b3", "p1-b4"]


def test_a_line_over_two_regions_is_cut_between_its_words() -> None:
    wide = line("left words right words", 50, 100)
    regions = [region((40, 90, 115, 115), order=0), region((116, 90, 300, 115), order=1)]
    assert [b.text for b in assemble(PAGE, [wide], PageContent(), regions)] == ["left words", "right words"]


def test_list_markers_links_and_styles() -> None:
    item = line("• see the manual", 50, 100, styles={"manual": "italic"})
    target = Link(item.words[-1].box, "https://example.org/")
    (block,) = assemble(PAGE, [item], PageContent(links=(target,)), [region((40, 90, 300, 115), Label.LIST_ITEM)])
    assert (block.marker, block.text) == ("•", "see the manual")
    assert {(block.text[s.start : s.end], s.style, s.link) for s in block.spans} == {
        ("manual", "italic", None),
        ("manual", None, "https://example.org/"),
    }


def test_a_figure_without_text_stays_and_an_empty_text_region_goes() -> None:
    regions = [region((0, 0, 100, 100), Label.FIGURE, 0), region((0, 200, 100, 300), Label.TEXT, 1)]
    assert [b.label for b in assemble(PAGE, [], PageContent(), regions)] == [Label.FIGURE]


# --- line ends that belong to the text


def block_text(*rows: tuple[str, float]) -> str:
    """The text of the block that lines make: (text, left), one below the other."""
    lines = [line(text, left, 100 + 12 * n) for n, (text, left) in enumerate(rows)]
    (block,) = assemble(PAGE, lines, PageContent(), [region((0, 90, 600, 800), order=0)])
    return block.text


def test_lines_with_room_for_the_next_word_end_there() -> None:
    address = ["YourCompany, Mitchell Admin", "215 Vine St", "Scranton PA 18503", "United States"]
    assert block_text(*((text, 50.0) for text in address)) == "\n".join(address)
    centred = ["Rivers", "of a dry country and their springs", "Ada"]
    assert block_text(*((text, 200 - 3.0 * len(text)) for text in centred)) == "\n".join(centred)
    wrapped = ["Total", "Please use the following words for", "payments: 2023"]  # the second has no room
    assert block_text(*((text, 50.0) for text in wrapped)) == f"{wrapped[0]}\n{wrapped[1]} {wrapped[2]}"


@pytest.mark.parametrize(
    "rows",
    [
        [("Lines that are as long as can be", 50.0), ("end where no other word would", 50.0), ("fit.", 50.0)],
        [("An indented line and a long one", 74.0), ("stand here, and one of them wraps on", 50.0), ("to it.", 50.0)],
        [("beside the", 50.0), ("picture it", 50.0), ("is narrow,", 50.0), ("and wide again, as it runs on", 50.0)],
        [("see the page of", 50.0), ("https://example.org/a-long-address", 50.0), ("for more.", 50.0)],
        [("短い", 50.0), ("日本語の文章はどこでも折り返すことがある", 50.0)],
    ],
)  # fmt: skip
def test_running_text_has_no_line_ends(rows: list[tuple[str, float]]) -> None:
    assert "\n" not in block_text(*rows)


def test_headings_are_one_line() -> None:
    lines = [line("Rivers", 50, 100), line("and their long, long springs", 50, 112)]
    (block,) = assemble(PAGE, lines, PageContent(), [region((0, 90, 600, 800), Label.HEADING, order=0)])
    assert block.text == "Rivers and their long, long springs"
