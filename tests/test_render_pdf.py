"""What a PDF page says: glyphs, rules, fills, form fields, links."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docai.errors import InputError, PasswordError
from docai.export.glyphless import font_file
from docai.render.document import open_document
from docai.types import Glyphs, PageContent
from tests.conftest import pdf_of

# The objects of a page: 1 the catalog, 2 the pages, 3 Helvetica, 4 the page, the rest as given.


def stream(content: str, keys: str = "") -> str:
    return f"<< {keys} /Length {len(content)} >>\nstream\n{content}\nendstream"


PAGES = "<< /Type /Pages /Count 1 /Kids [4 0 R] >>"
CATALOG = "<< /Type /Catalog /Pages 2 0 R >>"
HELVETICA = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def page(keys: str, resources: str = "") -> str:
    fonts = "/Font << /F 3 0 R >>"
    return f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << {fonts} {resources} >> {keys} >>"


def page_pdf(content: str, keys: str = "", resources: str = "") -> bytes:
    """A PDF of one page of 300 x 200 points that a content stream draws; its object is number 4."""
    return pdf_of(CATALOG, PAGES, HELVETICA, page(f"/Contents 5 0 R {keys}", resources), stream(content))


def content_of(content: str, extra: str = "") -> PageContent:
    """What is read from a page of 300 x 200 points that a content stream draws."""
    with open_document(page_pdf(content, extra)) as source:
        return source.content(0)


def glyphs_of(content: str, extra: str = "") -> Glyphs:
    glyphs = content_of(content, extra).glyphs
    assert glyphs is not None
    return glyphs


@pytest.mark.parametrize(
    ("matrix", "size", "angle"),
    [
        ("1 0 0 1", 20, 0),
        ("0 1 -1 0", 20, 270),
        ("-1 0 0 -1", 20, 180),
        ("0 -1 1 0", 20, 90),
        (".7071 .7071 -.7071 .7071", 20, 315),
        ("-1 0 0 -1", -20, 0),
        ("20 0 0 20", 1, 0),
        (".5 0 0 1", 20, 0),
    ],
)
def test_text_has_its_size_and_direction_as_displayed(matrix: str, size: int, angle: int) -> None:
    glyphs = glyphs_of(f"BT /F {size} Tf {matrix} 150 100 Tm (AM) Tj ET")
    assert glyphs.sizes.tolist() == pytest.approx([20, 20], abs=0.01)
    assert glyphs.angles.tolist() == [angle, angle]


@pytest.mark.parametrize(
    ("matrix", "box"),
    [
        ("1 0 0 1", (150, 84.4, 163.3, 104.4)),
        ("0 1 -1 0", (134.4, 86.7, 154.4, 100)),
        ("-1 0 0 -1", (136.7, 95.6, 150, 115.6)),
        ("0 -1 1 0", (145.6, 100, 165.6, 113.3)),
    ],
)
def test_a_box_is_the_advance_along_the_line_and_one_height_across_it(
    matrix: str, box: tuple[float, float, float, float]
) -> None:
    assert glyphs_of(f"BT /F 20 Tf {matrix} 150 100 Tm (A) Tj ET").boxes[0].tolist() == pytest.approx(box, abs=0.1)


def test_a_slant_that_fakes_italics_widens_no_box() -> None:
    straight = glyphs_of("BT /F 20 Tf 1 0 0 1 50 100 Tm (AM) Tj ET").boxes
    slanted = glyphs_of("BT /F 20 Tf 1 0 .3 1 50 100 Tm (AM) Tj ET").boxes
    np.testing.assert_allclose(slanted, straight, atol=0.1)


@pytest.mark.parametrize(("rotate", "angle"), [(0, 0), (90, 90), (180, 180), (270, 270)])
def test_a_page_is_read_as_it_is_displayed(rotate: int, angle: int) -> None:
    data = page_pdf("BT /F 20 Tf 120 100 Td (A) Tj ET", f"/Rotate {rotate} /CropBox [100 50 200 150]")
    with open_document(data) as source:
        shown, glyphs = source.page(0), source.content(0).glyphs
        assert glyphs is not None
        assert shown.size == (100, 100)
        assert glyphs.angles[0] == angle
        dark = np.argwhere(shown.pixels(144).min(axis=2) < 128) / 2  # in points: y, x
        left, top, right, bottom = glyphs.boxes[0]
        assert left <= dark[:, 1].min() <= dark[:, 1].max() <= right
        assert top <= dark[:, 0].min() <= dark[:, 0].max() <= bottom


def test_vertical_writing_keeps_the_boxes_of_its_characters() -> None:
    """The font is in the file: what pdfium takes for one that is not depends on the machine."""
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /F /Encoding /Identity-V /DescendantFonts [6 0 R] /ToUnicode 9 0 R >>"
    )
    cid = (
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /F /FontDescriptor 7 0 R /CIDToGIDMap 10 0 R /DW 1000"
        " /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    )
    descriptor = (
        "<< /Type /FontDescriptor /FontName /F /Flags 4 /FontBBox [0 -200 1000 1000] /ItalicAngle 0 /Ascent 800"
        " /Descent -200 /CapHeight 742 /StemV 80 /FontFile2 8 0 R >>"
    )
    file = font_file().decode("latin-1")
    names = stream(
        "begincmap\n1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
        "3 beginbfchar\n<0001> <65E5>\n<0002> <672C>\n<0003> <8A9E>\nendbfchar\nendcmap"
    )
    text = stream("BT /F 20 Tf 1 0 0 1 200 180 Tm <000100020003> Tj ET")
    shapes = stream("\0\0\0\1\0\1\0\1")  # every character has glyph 1
    objects = (CATALOG, PAGES, font, page("/Contents 5 0 R"), text, cid, descriptor)
    with open_document(pdf_of(*objects, stream(file), names, shapes)) as source:
        glyphs = source.content(0).glyphs
    assert glyphs is not None
    assert "".join(map(chr, glyphs.codepoints)) == "日本語"
    assert glyphs.boxes[:, :3].tolist() == [[190, 20, 210], [190, 40, 210], [190, 60, 210]]
    assert (glyphs.boxes[:, 3] - glyphs.boxes[:, 1]).tolist() == pytest.approx([20] * 3, abs=2)  # as the font has it


@pytest.mark.parametrize(
    ("drawn", "flag"),
    [
        ("BT /F 20 Tf 50 100 Td (A) Tj ET", 0),
        ("BT 3 Tr /F 20 Tf 50 100 Td (A) Tj ET", Glyphs.INVISIBLE),
        ("BT 1 g /F 20 Tf 50 100 Td (A) Tj ET", Glyphs.PALE),
        ("/G gs BT /F 20 Tf 50 100 Td (A) Tj ET", Glyphs.INVISIBLE),
        ("0 0 40 200 re W n BT /F 20 Tf 50 100 Td (A) Tj ET", Glyphs.INVISIBLE),
        ("40 90 40 40 re W n BT /F 20 Tf 50 100 Td (A) Tj ET", 0),
    ],
)
def test_text_that_does_not_show_is_flagged(drawn: str, flag: int) -> None:
    with open_document(page_pdf(drawn, resources="/ExtGState << /G << /ca 0 >> >>")) as source:
        glyphs = source.content(0).glyphs
    assert glyphs is not None
    assert glyphs.flags.tolist() == [flag]


def test_only_the_part_of_a_line_that_is_clipped_away_is_flagged() -> None:
    glyphs = glyphs_of("q 0 0 100 200 re W n BT /F 20 Tf 50 100 Td (ABCDEFGH) Tj ET Q")
    hidden = (glyphs.flags & Glyphs.INVISIBLE) != 0
    assert hidden.tolist() == ((glyphs.boxes[:, 0] + glyphs.boxes[:, 2]) / 2 > 100).tolist()
    assert 0 < hidden.sum() < len(hidden)


def test_a_form_clips_the_text_in_it() -> None:
    form = stream(
        "BT /F 20 Tf 10 10 Td (In) Tj 100 0 Td (Out) Tj ET", "/Type /XObject /Subtype /Form /BBox [0 0 300 200]"
    )
    form = form.replace("/BBox", "/Resources << /Font << /F 3 0 R >> >> /BBox")
    drawn = stream("q 0 0 90 200 re W n 1 0 0 1 20 20 cm /X Do Q")
    objects = (CATALOG, PAGES, HELVETICA, page("/Contents 5 0 R", "/XObject << /X 6 0 R >>"), drawn, form)
    with open_document(pdf_of(*objects)) as source:
        glyphs = source.content(0).glyphs
    assert glyphs is not None
    shown = (glyphs.flags & (Glyphs.INVISIBLE | Glyphs.GENERATED)) == 0
    assert "".join(map(chr, glyphs.codepoints[shown])) == "In"


@pytest.mark.parametrize(
    ("drawn", "rules", "fills", "drawings"),
    [
        pytest.param("1 w 20 150 m 220 150 l S", [(20, 49.5, 220, 50.5, 1)], [], 0, id="line"),
        pytest.param("20 150 200 1 re f", [(20, 49, 220, 50, 1)], [], 0, id="thin rectangle"),
        pytest.param("2 0 0 2 0 0 cm .5 w 10 75 m 110 75 l S", [(20, 49.5, 220, 50.5, 1)], [], 0, id="scaled"),
        pytest.param("0 1 -1 0 0 0 cm 1 w 20 -50 m 120 -50 l S", [(49.5, 80, 50.5, 180, 1)], [], 0, id="turned"),
        pytest.param(
            "q 0 0 100 200 re W n 1 w 20 150 m 220 150 l S Q", [(20, 49.5, 100, 50.5, 1)], [], 0, id="clipped"
        ),
        pytest.param(".5 g 20 100 100 50 re f", [], [(20, 50, 120, 100)], 0, id="fill"),
        pytest.param("1 g 20 100 100 50 re f", [], [], 0, id="white"),
        pytest.param(".5 g 0 0 300 200 re f", [], [], 0, id="background"),
        pytest.param("20 w 20 150 m 220 150 l S", [], [(20, 40, 220, 60)], 0, id="band"),
        pytest.param("20 100 m 80 180 l 140 100 l S", [], [], 1, id="slanting"),
        pytest.param("20 100 m 40 180 80 180 100 100 c S", [], [], 1, id="curve"),
    ],
)
def test_paths_are_rules_fills_or_drawings(
    drawn: str, rules: list[tuple[float, ...]], fills: list[tuple[float, ...]], drawings: int
) -> None:
    content = content_of(drawn)
    found = [(*rule.box.as_tuple(), rule.width) for rule in content.rules]
    np.testing.assert_allclose(found, rules, atol=0.6) if rules else None
    assert len(found) == len(rules)
    assert [box.as_tuple() for box in content.fills] == [pytest.approx(box, abs=0.6) for box in fills]
    assert len(content.drawings) == drawings


def test_a_stroked_rectangle_is_four_rules() -> None:
    rules = content_of("1 w 20 100 100 50 re S").rules
    assert sorted(rule.horizontal for rule in rules) == [False, False, True, True]


def form_pdf() -> bytes:
    """A form with two values, one of them without an appearance, a ticked and an empty box, and a note."""
    catalog = (
        "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [6 0 R 7 0 R 8 0 R 9 0 R] /NeedAppearances true"
        " /DA (/F 0 Tf 0 g) /DR << /Font << /F 3 0 R >> >> >> >>"
    )
    widget = "<< /Type /Annot /Subtype /Widget /P 4 0 R"
    return pdf_of(
        catalog,
        PAGES,
        HELVETICA,
        page("/Contents 5 0 R /Annots [6 0 R 7 0 R 8 0 R 9 0 R 10 0 R]"),
        stream("BT /F 12 Tf 20 150 Td (Name:) Tj ET"),
        f"{widget} /F 4 /FT /Tx /T (name) /V (Grace Hopper) /Rect [60 145 200 165] /DA (/F 12 Tf 0 g) >>",
        f"{widget} /F 2 /FT /Tx /T (hidden) /V (never shown) /Rect [60 120 200 140] /DA (/F 12 Tf 0 g) >>",
        f"{widget} /F 4 /FT /Btn /T (yes) /V /Yes /AS /Yes /Rect [60 100 75 115] >>",
        f"{widget} /F 4 /FT /Btn /T (no) /V /Off /AS /Off /Rect [80 100 95 115] >>",
        "<< /Type /Annot /Subtype /FreeText /F 4 /Contents (a note) /Rect [60 50 200 80] /DA (/Helv 12 Tf 0 g) >>",
    )


def test_values_of_form_fields_and_notes_are_text() -> None:
    with open_document(form_pdf()) as source:
        glyphs = source.content(0).glyphs
    assert glyphs is not None
    text = "".join(map(chr, glyphs.codepoints))
    assert all(part in text for part in ("Name:", "Grace Hopper", "a note", "☒", "☐"))
    assert "never shown" not in text
    ticked = glyphs.boxes[text.index("☒")]
    assert ticked.tolist() == [60, 85, 75, 100]
    name = glyphs.boxes[text.index("Grace")]
    assert 60 <= name[0] <= 70
    assert 30 <= name[1] <= name[3] <= 60


def test_links_lead_to_addresses_and_pages() -> None:
    links = (
        "/Annots [<< /Type /Annot /Subtype /Link /Rect [10 10 50 30] /A << /S /URI /URI (https://example.org) >> >>"
        " << /Type /Annot /Subtype /Link /Rect [60 10 90 30] /Dest [4 0 R /Fit] >>]"
    )
    first, second = content_of("", links).links
    assert (first.target, first.box.as_tuple()) == ("https://example.org", (10, 170, 50, 190))
    assert second.target == "#page=1"


def test_pictures_are_where_they_are_drawn() -> None:
    picture = Image.new("RGB", (100, 50), "white")
    ImageDraw.Draw(picture).rectangle((10, 10, 30, 20), fill="black")
    buffer = io.BytesIO()
    picture.save(buffer, "PDF", resolution=72)
    with open_document(buffer.getvalue()) as source:
        assert [box.as_tuple() for box in source.content(0).pictures] == [(0, 0, 100, 50)]


def test_an_error_is_not_blamed_on_the_file_before(locked_pdf: tuple[bytes, str]) -> None:
    with pytest.raises(PasswordError):
        open_document(locked_pdf[0])
    with pytest.raises(InputError, match="corrupt") as caught:
        open_document(pdf_of("<< /Type /Catalog >>"))  # pdfium fails on it without setting an error
    assert not isinstance(caught.value, PasswordError)


def test_a_pdf_without_pages_says_so() -> None:
    with pytest.raises(InputError, match="no pages"):
        open_document(pdf_of(CATALOG, "<< /Type /Pages /Count 0 /Kids [] >>"))


def test_a_file_that_needs_no_password_opens_with_any(tiny_pdf: bytes) -> None:
    assert open_document(tiny_pdf, password="not needed").page_count == 2


def test_a_broken_table_of_objects_is_mended_and_said_so(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf.replace(b"startxref\n", b"startxref\n9")) as source:
        assert source.page_count == 2
        assert "damaged" in source.notes[0]


def test_a_huge_page_is_drawn_smaller() -> None:
    with open_document(page_pdf("0 0 20000 20000 re f").replace(b"300 200]", b"40000 40000]")) as source:
        height, width, _ = source.page(0).pixels(144).shape
        assert height * width <= 25_000_000
