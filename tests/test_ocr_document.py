"""The document pass: furniture, heading levels, paragraphs over borders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docai.ocr.document import settle
from docai.types import Block, Box, Label, Line, Page, PageResult, Region
from docai.writing import page_number

WIDTH, HEIGHT = 600.0, 800.0


def block(
    page: int, n: int, top: float, text: str, label: Label = Label.TEXT, size: float = 10.0, left: float = 50.0
) -> Block:
    box = Box(left, top, left + 200, top + 12)
    line = Line(text, box, size=size)
    return Block(id=f"p{page + 1}-b{n}", page=page, region=Region(box, label), text=text, lines=(line,))


def page_of(index: int, *blocks: Block) -> PageResult:
    return PageResult(Page(index, (WIDTH, HEIGHT), "pt", "test.pdf"), blocks)


def labels(pages: tuple[PageResult, ...]) -> dict[str, Label]:
    return {b.id: b.label for p in pages for b in p.blocks}


def article(pages: int, header: str, footer: str = "") -> list[PageResult]:
    bodies = [
        "Rivers carry silt",
        "Mountains rise slowly",
        "Clouds drift above",
        "Seas move sand",
        "Winds shape dunes",
        "Ice cuts valleys",
        "Rain falls",
    ]
    return [
        page_of(
            i,
            block(i, 1, 20, header.format(n=i + 1)),
            block(i, 2, 300, f"{bodies[i]} over many years of chapter{i} and more{i} words{i}."),
            *([block(i, 3, 770, footer.format(n=i + 1))] if footer else []),
        )
        for i in range(pages)
    ]


@pytest.mark.parametrize("pages", [2, 3, 7])
def test_a_repeated_top_line_is_a_header_and_the_body_stays(pages: int) -> None:
    found = labels(settle(article(pages, "Journal of Rivers, vol. {n}")))
    assert {found[f"p{i + 1}-b1"] for i in range(pages)} == {Label.PAGE_HEADER}
    assert {found[f"p{i + 1}-b2"] for i in range(pages)} == {Label.TEXT}


def test_numbers_that_count_up_are_page_numbers_and_others_are_not() -> None:
    found = labels(settle(article(3, "Header", "{n}")))
    assert {found[f"p{i + 1}-b3"] for i in range(3)} == {Label.PAGE_NUMBER}
    years = [
        page_of(i, block(i, 1, 300, f"text {i}"), block(i, 2, 770, str(year)))
        for i, year in enumerate((1998, 2003, 1891))
    ]
    assert set(labels(settle(years)).values()) == {Label.TEXT}


def test_the_same_page_twice_has_no_running_header() -> None:
    pages = [
        page_of(i, block(i, 1, 20, "A title"), block(i, 2, 300, "The very same words on each page")) for i in range(2)
    ]
    assert set(labels(settle(pages)).values()) == {Label.TEXT}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("- 12 -", 12),
        ("Page 3 of 10", 3),
        ("xiv", 14),
        ("Seite 7", 7),
        ("2,5", None),
        ("chapter", None),
        ("12345", None),
    ],
)
def test_page_number(text: str, number: int | None) -> None:
    assert page_number(text) == number


def test_heading_levels_follow_numbering_then_size() -> None:
    page = page_of(
        0,
        block(0, 1, 100, "A Study of Rivers", Label.TITLE, size=20),
        block(0, 2, 150, "1 Introduction", Label.HEADING, size=12),
        block(0, 3, 200, "1.1 Earlier work", Label.HEADING, size=12),
        block(0, 4, 250, "Acknowledgements", Label.HEADING, size=12),
        block(0, 5, 300, "A note", Label.HEADING, size=10),
    )
    assert [b.level for b in settle([page])[0].blocks] == [1, 2, 3, 2, 3]


def test_a_sentence_goes_on_over_columns_and_pages() -> None:
    first = page_of(
        0, block(0, 1, 300, "It begins here and"), block(0, 2, 100, "goes on in the next column, until", left=320)
    )
    second = page_of(1, block(1, 1, 100, "the next page."), block(1, 2, 120, "A new one."))
    assert [b.continues for p in settle([first, second]) for b in p.blocks] == [False, True, True, False]


def test_a_note_of_the_template_beside_the_text_is_a_stamp() -> None:
    def noted(pages: list[PageResult], left: float) -> dict[str, Label]:
        box = Box(left, 400, left + 50, 412)
        notes = [Block(f"n{i}", i, Region(box, Label.TEXT), "Ada Byron, member") for i in range(len(pages))]
        return labels(settle([replace(p, blocks=(*p.blocks, note)) for p, note in zip(pages, notes, strict=True)]))

    assert {noted(article(4, "Header"), 10.0)[f"n{i}"] for i in range(4)} == {Label.STAMP}
    assert {noted(article(4, "Header"), 545.0)[f"n{i}"] for i in range(4)} == {Label.STAMP}
    assert {noted(article(4, "Header"), 200.0)[f"n{i}"] for i in range(4)} == {Label.TEXT}  # within the text
    assert {noted(article(2, "Header"), 10.0)[f"n{i}"] for i in range(2)} == {Label.TEXT}  # too few to tell


def test_heights_of_recognised_headings_that_are_near_are_one_size() -> None:
    def levels(source: str, *sizes: float) -> list[int | None]:
        blocks = [block(0, n, 50.0 * n, f"Heading {n}", Label.HEADING, size) for n, size in enumerate(sizes, 1)]
        seen = [replace(b, lines=tuple(replace(line, source=source) for line in b.lines)) for b in blocks]
        return [b.level for b in settle([page_of(0, *seen)])[0].blocks]

    assert levels("ocr:embedded", 26.0, 10.2, 8.5, 9.4, 8.8) == [1, 2, 2, 2, 2]
    assert levels("text-layer", 26.0, 10.2, 8.5, 9.4, 8.8) == [1, 2, 4, 3, 4]
