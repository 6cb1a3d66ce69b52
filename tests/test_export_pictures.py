"""Figures, the overlay, and the HTML page."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from docai.errors import InputError
from docai.export import overlay
from docai.export.colours import COLOURS, rgb
from docai.export.figures import assets, crop, shrunk
from docai.export.formats import ExportOptions, export
from docai.export.overlay import draw, regions_of
from docai.types import Box, Document, Label, PageResult, Span
from tests.export_samples import Blocks, document, page, rich, table


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_figures_are_cut_out() -> None:
    found = assets(rich(), ExportOptions(dpi=72))
    assert list(found) == ["doc_images/page-1-figure-1.png", "doc_images/page-1-formula-1.png"]
    assert opened(found["doc_images/page-1-figure-1.png"]).size == (60, 10)
    assert list(assets(rich(), ExportOptions(image_dir="x/y"))) == [
        "x/y/page-1-figure-1.png",
        "x/y/page-1-formula-1.png",
    ]


def test_a_page_without_pixels_has_no_figures() -> None:
    first = rich().pages[0]
    closed = Document("a.pdf", (replace(first, page=page(render=None)),))
    assert assets(closed) == {}
    assert "![" not in str(export(closed, "markdown", ExportOptions(images="ref")))


def test_a_page_that_cannot_be_drawn_is_skipped() -> None:
    def fails(dpi: float, rotation: int, skew: float) -> Any:
        raise InputError("corrupt")

    broken = Document("a.pdf", (replace(rich().pages[0], page=page(render=fails)),))
    assert assets(broken) == {}
    assert "Figure 1: a &lt;b" in str(export(broken, "markdown", ExportOptions(images="embed")))
    assert isinstance(export(broken, "png"), bytes)
    assert "<img" not in str(export(broken, "html"))


def test_pixels_come_from_the_open_source() -> None:
    class Source:
        def page(self, index: int) -> Any:
            return page(index)

    closed = Document("a.pdf", (replace(rich().pages[0], page=page(render=None)),))
    assert list(assets(closed, source=Source())) == ["a_images/page-1-figure-1.png", "a_images/page-1-formula-1.png"]  # type: ignore[arg-type]


def test_crops_stay_on_the_page() -> None:
    pixels = np.zeros((80, 60, 3), np.uint8)
    assert crop(page(), pixels, Box(0, 0, 600, 800)).shape == (80, 60, 3)
    assert crop(page(), pixels, Box(-50, 790, 9999, 900)).shape == (1, 60, 3)
    assert crop(page(), pixels, Box(700, 900, 800, 950)).shape == (1, 1, 3)
    assert shrunk(pixels, 30).shape == (40, 30, 3)


# --- overlay


def test_regions_are_drawn_in_their_colours() -> None:
    picture = draw(page(), regions_of(rich().pages[0]), 72)
    assert picture.size == (600, 800)
    assert picture.getpixel((80, 79)) == rgb(Label.PAGE_HEADER)
    assert set(COLOURS) == set(Label)


def test_pages_stand_below_each_other() -> None:
    made = export(rich(), "png", ExportOptions(dpi=72))
    assert isinstance(made, bytes)
    assert opened(made).size == (600, 800 + 12 + 800)


def test_long_documents_are_drawn_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "_MOST_PIXELS", 100_000)
    made = export(document(*[[] for _ in range(30)]), "png", ExportOptions(dpi=72))
    assert isinstance(made, bytes)
    picture = opened(made)
    assert 80_000 < picture.width * picture.height < 150_000


def test_long_scans_are_drawn_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    def render(dpi: float, rotation: int, skew: float) -> Any:
        return np.zeros((300, 200, 3), np.uint8)

    monkeypatch.setattr(overlay, "_MOST_PIXELS", 100_000)
    scans = tuple(PageResult(page(n, size=(200.0, 300.0), unit="px", render=render)) for n in range(10))
    made = export(Document("a.tiff", scans), "png")
    assert isinstance(made, bytes)
    assert opened(made).width < 100


# --- HTML


class Outline(HTMLParser):
    """Elements and their attributes; complains of tags that do not match."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def html(doc: Document, **options: Any) -> str:
    said = export(doc, "html", ExportOptions(**options))
    assert isinstance(said, str)
    return said


def test_blocks_and_boxes_lead_to_each_other() -> None:
    elements = Outline(html(rich(), furniture="keep")).elements
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {str(attrs["href"])[1:] for tag, attrs in elements if tag == "a" and str(attrs["href"]).startswith("#")}
    assert targets <= set(ids)
    assert {"p1-b2", "box-p1-b2", "p2-b3", "box-p2-b3"} <= targets


def test_the_page_loads_nothing() -> None:
    said = html(rich())
    elements = Outline(said).elements
    assert {str(attrs["src"])[:16] for _, attrs in elements if "src" in attrs} == {"data:image/jpeg;"}
    assert not [tag for tag, _ in elements if tag in ("link", "iframe", "object")]
    assert "url(" not in said
    assert "default-src 'none'" in said


def test_no_text_becomes_markup() -> None:
    nasty = '<script>alert(1)</script><img src=x onerror="alert(2)">\'"'
    make = Blocks()
    blocks = [make(nasty, label, marker=nasty if label is Label.LIST_ITEM else "") for label in Label]
    blocks += [
        make("", Label.TABLE, table=table([[nasty]])),
        make("click", spans=(Span(0, 5, link='javascript:alert(1)"'), Span(0, 5, "bold"))),
        make("away", spans=(Span(0, 4, link='https://x.org/"onmouseover="alert(3)'),)),
        replace(make("id"), id='"><script>'),
        replace(make("source"), source='"><b>'),
    ]
    doc = Document(nasty, (PageResult(page(), tuple(blocks)),), {"Title": nasty}, engine=nasty)
    elements = Outline(html(doc, furniture="keep")).elements
    assert [tag for tag, _ in elements].count("script") == 1
    assert not [key for _, attrs in elements for key in attrs if key.startswith("on")]
    assert not [attrs for _, attrs in elements if str(attrs.get("href")).startswith("javascript")]
    assert [attrs["href"] for _, attrs in elements if "rel" in attrs] == ['https://x.org/"onmouseover="alert(3)']


def test_what_html_shows() -> None:
    said = html(rich())
    assert "<h1>A Title</h1>" in said
    assert "<strong>Bold</strong> word and a <a href=" in said
    assert 'rowspan="2">Item</th>' in said
    assert "degraded: script not covered (Arabic)" in said
    assert "Running head" not in said
    assert re.search(r'class="block is-text"[^>]*dir="auto"', said)


@pytest.mark.parametrize("size", [(0.0, 0.0), (600.0, 800.0)])
def test_pages_that_cannot_be_shown(size: tuple[float, float]) -> None:
    bare = Document("a.pdf", (PageResult(page(size=size, render=None), (Blocks()("text"),)),))
    assert Outline(html(bare)).elements
