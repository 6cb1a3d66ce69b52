"""Words with places, and the formats made of them: hOCR and ALTO."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from docai.export.formats import ExportOptions, export
from docai.export.markup import element, escaped
from docai.export.words import PixelFrame, lines_of, words_of
from docai.types import Box, Line, Word
from tests.export_samples import Blocks, document, line, page, rich

ALTO = {"a": "http://www.loc.gov/standards/alto/ns-v4#"}
XHTML = {"h": "http://www.w3.org/1999/xhtml"}


def xml(format: str, text: str = "") -> ElementTree.Element:
    said = export(document([Blocks()(text)]) if text else rich(), format)
    assert isinstance(said, str)
    return ElementTree.fromstring(said.encode())


def test_measured_words_know_where_spaces_are() -> None:
    box = Box(0, 0, 10, 10)
    said = Line("日本 語", box, (Word("日", box), Word("本", box), Word("語", box)))
    assert [(w.text, w.space) for w in words_of(said)] == [("日", False), ("本", True), ("語", False)]


@pytest.mark.parametrize("words", [(), (Word("other", Box(0, 0, 1, 1)),), (Word("ab", Box(0, 0, 1, 1)),)])
def test_words_that_are_not_the_text_are_spread_over_the_line(words: tuple[Word, ...]) -> None:
    said = words_of(Line("ab cde", Box(0, 0, 60, 10), words))
    assert [(w.text, w.box.l, w.box.r, w.space) for w in said] == [("ab", 0, 20, True), ("cde", 30, 60, False)]


def test_right_to_left_words_are_spread_from_the_right() -> None:
    first, last = words_of(Line("אב גדה", Box(0, 0, 60, 10)))
    assert (first.text, round(first.box.l), first.box.r, last.box.l) == ("אב", 40, 60, 0)


def test_text_without_lines_is_spread_over_its_box() -> None:
    block = Blocks()("one\ntwo three", lines=())
    assert [(said.text, said.box.height) for said in lines_of(block)] == [("one", 5), ("two three", 5)]


@pytest.mark.parametrize(
    ("rotation", "box"),
    [(0, (10, 20, 30, 50)), (90, (20, 70, 50, 90)), (180, (70, 150, 90, 180)), (270, (150, 10, 180, 30))],
)
def test_pixels_are_those_of_the_page_as_displayed(rotation: int, box: tuple[int, ...]) -> None:
    upright = page(size=(100.0, 200.0), unit="px", rotation=rotation)
    frame = PixelFrame(upright, 300)
    assert frame.size == ((100, 200) if rotation % 180 == 0 else (200, 100))
    assert frame.box(Box(10, 20, 30, 50)) == box
    assert frame.angle(line("a")) == rotation


def test_a_box_has_a_pixel_and_stays_on_the_page() -> None:
    frame = PixelFrame(page(unit="px"), 300)
    assert frame.box(Box(-5, 3, -5, 3)) == (0, 3, 1, 4)
    assert frame.box(Box(0, 0, 1e6, 1e6)) == (0, 0, 600, 800)


def test_hocr() -> None:
    root = xml("hocr")
    first, second = root.iterfind(".//h:div[@class='ocr_page']", XHTML)
    assert first.attrib["title"] == 'image "dir/doc.pdf"; bbox 0 0 1250 1667; ppageno 0; scan_res 150 150'
    words = [w for w in second.iterfind(".//h:span[@class='ocrx_word']", XHTML) if "x_wconf" in w.attrib["title"]]
    assert [w.text for w in words] == ["مرحبا", "بالعالم"]
    assert all(re.fullmatch(r"bbox \d+ \d+ \d+ \d+; x_wconf 90", w.attrib["title"]) for w in words)
    assert second.find(".//h:p[@dir='rtl']", XHTML) is not None


def test_hocr_at_another_resolution() -> None:
    said = export(rich(), "hocr", ExportOptions(dpi=72))
    assert isinstance(said, str)
    assert "bbox 0 0 600 800; ppageno 1; scan_res 72 72" in said


def test_alto() -> None:
    root = xml("alto")
    assert [p.attrib["WIDTH"] for p in root.iterfind(".//a:Page", ALTO)] == ["1250", "1250"]
    contents = [s.attrib["CONTENT"] for s in root.iterfind(".//a:String", ALTO)]
    assert contents[:4] == ["Running", "head", "A", "Title"]
    cells = root.findall(".//a:ComposedBlock[@TYPE='table']/a:TextBlock", ALTO)
    assert [c.attrib["ID"] for c in cells][:4] == [
        "block_1_9_r1c1",
        "block_1_9_r1c2",
        "block_1_9_r2c1",
        "block_1_9_r2c2",
    ]
    tags = {t.attrib["ID"] for t in root.iterfind(".//a:LayoutTag", ALTO)}
    assert {b.attrib["TAGREFS"] for b in root.iter() if "TAGREFS" in b.attrib} <= tags


@pytest.mark.parametrize("format", ["hocr", "alto"])
def test_ids_are_unique(format: str) -> None:
    ids = [e.attrib[key] for e in xml(format).iter() for key in ("id", "ID") if key in e.attrib]
    assert len(ids) == len(set(ids)) > 10


@pytest.mark.parametrize("format", ["hocr", "alto"])
def test_no_text_breaks_the_markup(format: str) -> None:
    nasty = '<b a="1">&amp; \x00\x01\''
    said = "".join(e.attrib.get("CONTENT", "") + (e.text or "") for e in xml(format, nasty).iter())
    assert "<b" in said and "&amp;" in said and "\ufffd\ufffd" in said  # noqa: PT018


def test_elements() -> None:
    assert element("a", {"b": '"<', "c": None}) == '<a b="&quot;&lt;"/>'
    assert escaped("\ud800a\ufffe") == "\ufffda\ufffd"


def test_a_failed_page_has_no_size() -> None:
    blank = document([])
    failed = replace(blank, pages=(replace(blank.pages[0], page=page(size=(0.0, 0.0), render=None)),))
    for format in ("hocr", "alto", "json", "text", "markdown"):
        assert export(failed, format) is not None
