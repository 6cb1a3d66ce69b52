"""Searchable PDFs, read back with pdfium and, where it is installed, poppler."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image

from docai.errors import UsageError
from docai.export.formats import export
from docai.export.page_image import encoded, plain_jpeg
from docai.export.pdf_writer import PdfWriter, numbers, text_string
from docai.export.text_layer import as_it_looks
from docai.render.document import Source, open_document
from docai.types import Block, Box, Document, Label, Line, Page, PageResult, Region, Word

TEXTS = ("Hello invisible world", "100 % & more", "日本語のテキスト", "Ελληνικά Кириллица 😀")
RTL = "مرحبا بالعالم (العربي)"


def original(rotate: int = 0, box: str = "0 0 600 800", count: int = 1) -> bytes:
    """A PDF whose content leaves its coordinates scaled behind."""
    pdf = PdfWriter()
    root, tree = pdf.reserve(), pdf.reserve()
    kids = []
    for n in range(count):
        content = pdf.stream(f"0.5 0 0 0.5 30 40 cm 0 0 1 rg {100 * n} 0 50 50 re f".encode())
        boxes = f"/MediaBox[0 0 1000 1000]/CropBox[{box}]/Rotate {rotate}"
        kids.append(pdf.add(f"<</Type/Page/Parent {tree} 0 R{boxes}/Contents {content} 0 R>>"))
    pdf.put(tree, f"<</Type/Pages/Count {count}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]>>")
    pdf.put(root, f"<</Type/Catalog/Pages {tree} 0 R>>")
    return pdf.finish(root, pdf.add(f"<</Title {text_string('Kept')}>>"))


def line(text: str, top: float, rtl: bool = False, source: str = "ocr:embedded", cell: float = 8) -> Line:
    words, at = [], 0
    for word in text.split():
        at = text.index(word, at)
        left, right = 50 + cell * at, 50 + cell * (at + len(word))
        if rtl:
            left, right = 100 + cell * len(text) - right, 100 + cell * len(text) - left
        words.append(Word(word, Box(left, top, right, top + 12)))
        at += len(word)
    return Line(text, Box(50, top, 50 + cell * len(text), top + 12), tuple(words), source=source)


def result(page: Page, lines: list[Line]) -> PageResult:
    region = Region(Box(0, 0, *page.size), Label.TEXT)
    return PageResult(page, (Block(f"p{page.index + 1}-b1", page.index, region, "text", tuple(lines)),))


def searchable(source: Source, *results: PageResult) -> bytes:
    made = export(Document(source.name, results), "pdf", source=source)
    assert isinstance(made, bytes)
    return made


def all_lines() -> list[Line]:
    return [*(line(text, 100 + 30 * n) for n, text in enumerate(TEXTS)), line(RTL, 300, rtl=True)]


def text_of(pdf: bytes, page: int = 0) -> list[str]:
    with pdfium.PdfDocument(pdf) as document:
        return [said.strip() for said in document[page].get_textpage().get_text_range().splitlines()]


def pixels_of(pdf: bytes) -> Any:
    with pdfium.PdfDocument(pdf) as document:
        return document[0].render().to_numpy().copy()


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_pages_with_a_rotation_and_a_crop_box(rotate: int) -> None:
    file = original(rotate, "100 50 700 850")
    with open_document(file) as source:
        made = searchable(source, result(source.page(0), all_lines()))
    assert text_of(made) == [*TEXTS, RTL]
    assert (pixels_of(made) == pixels_of(file)).all()


def test_words_stand_in_their_boxes() -> None:
    with open_document(original(0, "100 50 700 850")) as source:
        made = searchable(source, result(source.page(0), [line("Hello world", 100)]))
    with pdfium.PdfDocument(made) as document:
        text = document[0].get_textpage()
        start = text.get_text_range().index("world")
        first, last = text.get_charbox(start), text.get_charbox(start + 4)
    # the page's left is 100, its top 850; "world" is at 98..138 from the left, 100..112 from the top
    assert np.allclose((first[0], last[2], *first[1::2]), (198, 238, 738, 750), atol=0.5)


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_lines_of_turned_pages_stay_whole(rotation: int) -> None:
    with open_document(original()) as source:
        made = searchable(source, result(source.page(0).turned(rotation), all_lines()))
    assert sorted(text_of(made)) == sorted([*TEXTS, RTL])


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler is not installed")
@pytest.mark.parametrize("skew", [0.0, 1.5, -1.5])
def test_poppler_reads_the_words(tmp_path: Path, skew: float) -> None:
    with open_document(original()) as source:
        made = searchable(source, result(source.page(0).turned(0, skew), all_lines()))
    (tmp_path / "a.pdf").write_bytes(made)
    said = subprocess.run(["pdftotext", tmp_path / "a.pdf", "-"], capture_output=True, check=True)
    assert said.stderr == b""
    text = said.stdout.decode()
    assert all(any(word in part for part in text.splitlines()) for said in TEXTS for word in said.split())
    assert "مرحبا بالعالم" in text


def test_text_that_is_there_already_gets_no_second_layer() -> None:
    file = original(count=2)
    with open_document(file) as source:
        lines = [line("there", 100, source="text-layer")], [line("read", 100)]
        made = searchable(source, *(result(source.page(n), said) for n, said in enumerate(lines)))
    assert text_of(made, 0) == []
    assert text_of(made, 1) == ["read"]
    with pdfium.PdfDocument(made) as document:
        assert document.get_metadata_value("Title") == "Kept"


def test_only_the_pages_that_were_read() -> None:
    with open_document(original(count=3)) as source:
        made = searchable(source, result(source.page(2), [line("last", 100)]))
    with pdfium.PdfDocument(made) as document:
        assert len(document) == 1
    assert text_of(made) == ["last"]


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler is not installed")
@pytest.mark.parametrize("rotation", [0, 90])
def test_words_whose_boxes_touch_stay_apart(tmp_path: Path, rotation: int) -> None:
    words = (
        Word("iiiiiiii", Box(50, 100, 90, 112)),
        Word("WWW", Box(90, 100, 130, 112)),
        Word("end", Box(131, 100, 150, 112)),
    )
    said = Line("iiiiiiii WWW end", Box(50, 100, 150, 112), words, source="ocr:embedded")
    with open_document(original()) as source:
        made = searchable(source, result(source.page(0).turned(rotation), [said]))
    (tmp_path / "a.pdf").write_bytes(made)
    read = subprocess.run(["pdftotext", tmp_path / "a.pdf", "-"], capture_output=True, check=True).stdout.decode()
    assert read.split() == text_of(made)[0].split() == said.text.split()


def image_file(format: str, size: tuple[int, int] = (600, 800)) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, format, dpi=(150, 150))
    return buffer.getvalue()


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_an_image_becomes_a_page_of_its_size(format: str) -> None:
    file = image_file(format)
    with open_document(file) as source:
        made = searchable(source, result(source.page(0), all_lines()))
    assert text_of(made) == [*TEXTS, RTL]
    assert (file in made) == (format == "JPEG")
    with pdfium.PdfDocument(made) as document:
        assert document[0].get_size() == pytest.approx((288, 384), abs=0.1)


def test_without_a_source_the_page_is_its_picture() -> None:
    def render(dpi: float, rotation: int, skew: float) -> Any:
        assert (rotation, skew) == (0, 0.0)
        return np.full((80, 60, 3), 200, np.uint8)

    said = result(Page(0, (600.0, 800.0), "pt", "a.pdf", 90, render=render), [line("sideways", 100)])
    made = export(Document("a.pdf", (said,)), "pdf")
    assert isinstance(made, bytes)
    assert text_of(made) == ["sideways"]
    with pytest.raises(UsageError, match="page 1 has no picture"):
        export(Document("a.pdf", (result(Page(0, (6.0, 8.0), "pt", "a.pdf"), []),)), "pdf")


def test_how_pictures_are_kept() -> None:
    grey = np.tile(np.arange(64, dtype=np.uint8)[:, None, None] * 2, (1, 64, 3))
    assert (encoded(grey).components, encoded(grey).bits) == (1, 8)
    assert encoded((grey > 60).astype(np.uint8) * 255).bits == 1
    assert encoded(grey * np.array([1, 0, 1], np.uint8)).components == 3


def test_only_plain_jpegs_are_kept_as_they_are() -> None:
    file = image_file("JPEG", (30, 20))
    kept = plain_jpeg(file)
    assert kept is not None
    assert (kept.width, kept.height, kept.components) == (30, 20, 3)
    turned = Image.new("RGB", (4, 4))
    exif = turned.getexif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    turned.save(buffer, "JPEG", exif=exif)
    assert plain_jpeg(buffer.getvalue()) is None
    assert plain_jpeg(b"") is None
    assert all(plain_jpeg(file[:n]) is None for n in range(0, 100, 7))


@pytest.mark.parametrize(
    ("word", "seen"), [("abc", "abc"), ("אבג", "גבא"), ("(אב)", "(בא)"), ("אב12", "12בא"), ("3.5", "3.5"), ("", "")]
)
def test_right_to_left_words_are_written_as_they_look(word: str, seen: str) -> None:
    assert as_it_looks(word) == seen


def test_numbers_are_written_without_exponents() -> None:
    assert numbers(1e-9, 0, 1.50, -200000000.25) == "0 0 1.5 -200000000.25"
