"""Detections as JSON: written, read back, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docai.errors import InputError, UsageError
from docai.layout.detections import PageDetections, detections_json
from docai.layout.detector import FOREIGN_LABELS, get_detector, label_named
from docai.layout.given import MOST_BYTES, MOST_ENTRIES, read_detections, source_of
from docai.types import Box, Label, Line, Page, Region, Word
from tests.layout_pages import page

BOX = {"l": 10, "t": 20, "r": 110, "b": 60}
GOOD = {"label": "text", "confidence": 0.5, "box": BOX}


def said(**more: Any) -> bytes:
    return json.dumps(
        {"source": "a.pdf", "page": 1, "unit": "pt", "size": [600, 800], "detections": [GOOD]} | more
    ).encode()


def test_what_is_written_reads_back() -> None:
    regions = (
        Region(Box(10, 20, 110, 60), Label.TITLE, 0.75, 0, ((10.0, 20.0), (110.0, 20.0), (110.0, 60.0))),
        Region(Box(10, 80, 110, 160), Label.LIST_ITEM, None, 1),
    )
    word = Word("hello", Box(11, 21, 40, 40), frozenset({"bold"}))
    lines = (
        Line("hello", Box(11, 21, 40, 40), (word,), 12.5, 0.9, "ocr:x", "Font", bold=True, angle=90, vertical=True),
    )
    sheet = Page(2, (600, 800), "px", "scan.png", 90, 1.5)
    found = PageDetections(sheet, "embedded", 0.25, regions, lines)
    (back,) = read_detections(detections_json(found))
    assert (back.index, back.rotation, back.skew, back.threshold, back.model) == (2, 90, 1.5, 0.25, "embedded")
    assert (back.page.size, back.page.unit, back.page.source) == ((600, 800), "px", "scan.png")
    assert [(r.box, r.label, r.score, r.order, r.polygon) for r in back.regions] == [
        (r.box, r.label, r.score, r.order, r.polygon) for r in regions
    ]
    assert back.lines == lines


@pytest.mark.parametrize(
    "data",
    [
        said(),
        said() + b"\n",
        json.dumps([json.loads(said())]).encode(),
        json.dumps([GOOD]).encode(),
        json.dumps([[GOOD]]).encode(),
        json.dumps([{"category": "text", "score": 0.5, "bbox": [10, 20, 110, 60]}]).encode(),
        json.dumps({"image_size": [600, 800], "boxes": [{"type": "Text", "bbox": [10, 20, 110, 60]}]}).encode(),
    ],
)
def test_every_shape_is_read(data: bytes) -> None:
    (found,) = read_detections(data)
    assert found.index == 0
    assert [(r.box, r.label) for r in found.regions] == [(Box(10, 20, 110, 60), Label.TEXT)]


def test_pages_one_a_line() -> None:
    assert [p.index for p in read_detections(said() + b"\n\n" + said(page=3))] == [0, 2]


def test_overshoot_is_clipped() -> None:
    (found,) = read_detections(said(detections=[GOOD | {"box": {"l": -5, "t": 700, "r": 700, "b": 805}}]))
    assert found.regions[0].box == Box(0, 700, 600, 800)


def test_an_unknown_label_is_text_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="entry 1: unknown label 'blurb'"):
        (found,) = read_detections(said(detections=[GOOD | {"label": "blurb"}]))
    assert (found.regions[0].label, found.regions[0].name) == (Label.TEXT, "blurb")


def test_regions_come_by_their_order() -> None:
    entries = [GOOD | {"order": 2}, GOOD, GOOD | {"order": 1}]
    assert [r.order for r in read_detections(said(detections=entries))[0].regions] == [1, 2, None]


def test_entries_with_a_category_stand_in_reading_order() -> None:
    boxes = [[10, 500, 90, 540], [10, 10, 90, 40], [200, 10, 290, 40]]
    entries = [{"category": "text", "score": 0.9, "bbox": box} for box in boxes]
    (found,) = read_detections(json.dumps(entries).encode())
    assert [(list(r.box.as_tuple()), r.order) for r in found.regions] == [(box, n) for n, box in enumerate(boxes)]


def test_regions_without_any_order_are_put_into_reading_order() -> None:
    boxes = [[50, 300, 290, 500], [310, 100, 550, 500], [50, 40, 550, 80], [50, 100, 290, 290]]
    (found,) = read_detections(said(detections=[{"label": "text", "bbox": box} for box in boxes]))
    assert [(r.box.l, r.box.t, r.order) for r in found.regions] == [
        (50, 40, 0),
        (50, 100, 1),
        (50, 300, 2),
        (310, 100, 3),
    ]


BAD: list[tuple[str, bytes, str]] = [
    ("nothing", b"  \n", "empty"),
    ("no JSON", b"%PDF-1.7", "line 1 is not JSON"),
    ("a broken line", said() + b"\n{", "line 2 is not JSON"),
    ("a bare number", b"12", "expected JSON objects"),
    ("not UTF-8", b'{"a": "\xff"}', "not JSON"),
    ("too deep", b"[" * 200_000, "not JSON"),
    ("a NaN", said().replace(b"110", b"NaN"), "page 1, entry 1.*finite.*NaN"),
    ("an infinity", said().replace(b"110", b"1e999"), "page 1, entry 1.*finite.*Infinity"),
    ("a huge integer", said().replace(b"110", b"1" * 400), "page 1, entry 1.*finite"),
    ("a string for a number", said().replace(b"110", b'"110"'), "page 1, entry 1.*finite number"),
    ("a truth value for a number", said().replace(b"110", b"true"), "page 1, entry 1.*finite number"),
    ("an inverted box", said(detections=[GOOD, GOOD | {"box": BOX | {"r": 5}}]), "page 1, entry 2.*inverted or empty"),
    (
        "a box off the page",
        said(detections=[GOOD | {"bbox": 0, "box": BOX | {"t": 900, "b": 950}}]),
        "entry 1.*off the page",
    ),
    ("a box of three numbers", said(detections=[{"label": "text", "bbox": [1, 2, 3]}]), "entry 1: expected a box"),
    ("no box", said(detections=[{"label": "text"}]), "entry 1: expected a box"),
    ("no label", said(detections=[{"box": BOX}]), "entry 1: it has no label"),
    ("other keys", b'[{"foo": 1}]', "entry 1: expected a box"),
    ("entries that are no objects", said(detections=["text"]), "entry 1: expected an object"),
    ("detections that are no list", said(detections={"a": 1}), "`detections` is no list"),
    ("too many entries", said(detections=[GOOD] * (MOST_ENTRIES + 1)), f"{MOST_ENTRIES + 1} entries"),
    ("a page 0", said(page=0), "expected a page from 1 on; got 0"),
    ("a page that is no number", said(page="two"), "expected a page from 1 on"),
    ("a page twice", said() + b"\n" + said(), "page 1 comes twice"),
    ("a size of one", said(size=[600]), "expected a size"),
    ("a size of nothing", said(size=[0, 800]), "expected a size above 0"),
    ("an odd rotation", said(rotation=45), "rotation of 0, 90, 180 or 270"),
    ("a score that is none", said(detections=[GOOD | {"confidence": "high"}]), "entry 1: confidence"),
    ("a polygon that is none", said(detections=[GOOD | {"polygon": [1, 2]}]), "entry 1: expected a polygon"),
    ("lines that are no list", said(lines={"a": 1}), "`lines` is no list"),
    ("a line without text", said(lines=[{"box": BOX}]), "line 1: expected an object"),
    ("a line with an odd angle", said(lines=[{"text": "a", "box": BOX, "angle": 45}]), "line 1: .*angle"),
    ("a line with odd words", said(lines=[{"text": "a", "box": BOX, "words": ["a"]}]), "line 1: expected words"),
]


@pytest.mark.parametrize(("data", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_named_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_detections(data)
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_huge_file_is_refused_unread() -> None:
    with pytest.raises(InputError, match="more than"):
        read_detections(b" " * (MOST_BYTES + 1))


def test_detections_are_fitted_to_the_page_they_are_used_on() -> None:
    (found,) = read_detections(said(unit="px", size=[1200, 1600], lines=[{"text": "a", "box": BOX, "size": 20}]))
    fitted = found.fitted_to(page())
    assert fitted.page.size == (600, 800)
    assert fitted.regions[0].box == Box(5, 10, 55, 30)
    assert (fitted.lines[0].box, fitted.lines[0].size) == (Box(5, 10, 55, 30), 10)


def test_boxes_of_an_unknown_size_are_taken_as_they_are_and_checked() -> None:
    (found,) = read_detections(json.dumps([GOOD, GOOD | {"box": BOX | {"t": 900, "b": 950}, "order": 1}]).encode())
    with pytest.raises(InputError, match=r"page 1, entry .: the box lies off the page"):
        found.fitted_to(page())


def test_the_source_is_the_one_document() -> None:
    assert source_of(said() + b"\n" + said(page=2)) == "a.pdf"
    for data in (json.dumps([GOOD]).encode(), said() + b"\n" + said(page=2, source="b.pdf"), said(source="<stdin>")):
        with pytest.raises(InputError, match="names no single document"):
            source_of(data)


@pytest.mark.parametrize("label", list(Label))
def test_our_own_labels_are_known(label: Label) -> None:
    assert label_named(label.value) is label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Section-header", Label.HEADING), ("Page-footer", Label.PAGE_FOOTER), ("paragraph_title", Label.HEADING),
        ("isolate_formula", Label.FORMULA), ("Picture", Label.FIGURE), ("doc_title", Label.TITLE),
        ("abandon", Label.STAMP), ("nothing", None),
    ],
)  # fmt: skip
def test_foreign_names(name: str, label: Label | None) -> None:
    assert label_named(name) is label
    assert all(key == key.lower() and key.isalnum() for key in FOREIGN_LABELS)


def test_detectors_by_name() -> None:
    assert get_detector("embedded").name == "embedded"
    with pytest.raises(UsageError, match="expected one of embedded"):
        get_detector("other")
