"""Images of every kind as pixels, and broken ones."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, TiffImagePlugin

from docai.errors import InputError
from docai.render.colors import to_rgb
from docai.render.document import Source, open_document
from docai.render.turn import turn
from docai.types import Page

RAMP = np.linspace(0, 65535, 8).astype(np.uint16)[None].repeat(4, 0)  # (4, 8) from black to white
GREYS = [0, 36, 72, 109, 145, 182, 218, 255]
UNIT = np.linspace(0, 1, 8).astype(np.float32)[None].repeat(4, 0)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def first_row(data: bytes) -> list[int]:
    """The red values of the first row of the first page."""
    with open_document(data) as source:
        row: list[int] = source.page(0).pixels()[0, :, 0].tolist()
        return row


def white_is_zero(tiff: bytes) -> bytes:
    """A TIFF whose levels count from white."""
    entry = tiff.index(struct.pack("<HHI", 262, 3, 1)) + 8
    return tiff[:entry] + b"\0" + tiff[entry + 1 :]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encoded(Image.fromarray(RAMP), "PNG"), id="png"),
        pytest.param(encoded(Image.fromarray(RAMP), "TIFF"), id="tiff"),
        pytest.param(encoded(Image.fromarray(RAMP >> 4), "TIFF"), id="12 bits in 16"),
        pytest.param(encoded(Image.fromarray(RAMP.astype(np.int32)), "TIFF"), id="32 bits"),
        pytest.param(encoded(Image.fromarray(UNIT), "TIFF"), id="float"),
        pytest.param(encoded(Image.fromarray(UNIT - 0.5), "TIFF"), id="float below zero"),
        pytest.param(b"P5\n8 4\n65535\n" + RAMP.astype(">u2").tobytes(), id="pgm"),
    ],
)
def test_deep_grey_fills_the_range(data: bytes) -> None:
    assert first_row(data) == GREYS


def test_deep_grey_that_counts_from_white_is_turned_around() -> None:
    assert first_row(white_is_zero(encoded(Image.fromarray(RAMP), "TIFF"))) == [255 - level for level in GREYS]


def test_one_glaring_pixel_or_one_that_is_no_number_darkens_no_page() -> None:
    page = np.full((200, 200), 4000, np.uint16)
    page[0, 0] = 65535
    assert np.asarray(to_rgb(Image.fromarray(page)))[5, 5, 0] == 255
    numbers = UNIT.copy()
    numbers[1, 1:3] = np.nan, np.inf
    assert np.asarray(to_rgb(Image.fromarray(numbers)))[0, :, 0].tolist() == GREYS


@pytest.mark.parametrize(("ink", "paper"), [((0, 0, 0), 255), ((255, 0, 0), 255), ((255, 255, 255), 0)])
def test_what_is_transparent_is_paper_and_white_ink_is_not_lost_on_it(ink: tuple[int, int, int], paper: int) -> None:
    image = Image.new("RGBA", (8, 4), (255, 255, 255, 0))
    image.putpixel((7, 3), (*ink, 255))
    pixels = np.asarray(to_rgb(image))
    assert pixels[0, 0].tolist() == [paper] * 3
    assert pixels[3, 7].tolist() == list(ink)


@pytest.mark.parametrize(
    ("mode", "white"),
    [("CMYK", (0, 0, 0, 0)), ("YCbCr", (255, 128, 128)), ("LAB", (255, 128, 128)), ("HSV", (0, 0, 255))],
)
def test_white_stays_white_in_every_colour_space(mode: str, white: tuple[int, ...]) -> None:
    assert np.asarray(to_rgb(Image.new(mode, (2, 2), white))).min() >= 253


ASIDE = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # orientation -> Image.Transpose that stores it so


@pytest.mark.parametrize("orientation", ASIDE)
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_a_photo_stands_upright_whatever_way_it_is_stored(form: str, orientation: int) -> None:
    upright = Image.new("RGB", (48, 32), "white")
    upright.paste((255, 0, 0), (0, 0, 16, 8))
    method = ASIDE[orientation]
    stored = upright if method is None else upright.transpose(Image.Transpose(method))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"tiffinfo": {0x0112: orientation}} if form == "TIFF" else {"exif": exif.tobytes()}
    with open_document(encoded(stored, form, **options)) as source:
        page = source.page(0)
        pixels = page.pixels()
        assert (page.size, pixels.shape) == ((48, 32), (32, 48, 3))
        assert pixels[3, 5, 1] < 90 < 200 < pixels[28, 44, 1]


def tiff_of(*frames: tuple[Image.Image, int]) -> bytes:
    """A TIFF of frames, each with its NewSubfileType."""
    buffer = io.BytesIO()
    with TiffImagePlugin.AppendingTiffWriter(buffer, True) as writer:
        for image, kind in frames:
            image.save(writer, "TIFF", tiffinfo={254: kind})
            writer.newFrame()
    return buffer.getvalue()


def test_a_smaller_copy_in_a_tiff_is_no_page() -> None:
    pages = [Image.new("L", (64, 64), value) for value in (10, 200)]
    data = tiff_of((pages[0], 0), (pages[0].resize((8, 8)), 1), (pages[1], 0))
    with open_document(data) as source:
        assert [int(source.page(i).pixels()[0, 0, 0]) for i in range(source.page_count)] == [10, 200]


def test_a_directory_that_points_at_itself_ends() -> None:
    data = bytearray(encoded(Image.new("L", (8, 8)), "TIFF"))
    (directory,) = struct.unpack_from("<I", data, 4)
    (entries,) = struct.unpack_from("<H", data, directory)
    struct.pack_into("<I", data, directory + 2 + 12 * entries, directory)
    with open_document(bytes(data)) as source:
        assert source.page_count == 1


def noise(size: int = 64) -> Image.Image:
    return Image.fromarray(np.random.RandomState(0).randint(0, 255, (size, size, 3), np.uint8))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "PPM"])
def test_the_rest_of_a_truncated_image_is_white_and_said_to_be_missing(form: str) -> None:
    data = encoded(noise().convert("P") if form == "GIF" else noise(), form)
    with open_document(data[: len(data) // 2]) as source:
        pixels, notes = source.page(0).pixels(), source.content(0).notes
        assert pixels.shape == (64, 64, 3)
        unread, read = (0, -1) if form == "BMP" else (-1, 0)  # BMP is stored from the bottom up
        assert pixels[unread].min() == 255
        assert pixels[read].min() < 200
        assert "truncated" in notes[0]
        assert source.content(0).notes == notes


@pytest.mark.parametrize("form", ["JPEG2000", "WEBP", "TIFF", "PNG"])
def test_an_image_of_which_nothing_decodes_is_an_error(form: str) -> None:
    data = encoded(noise(), form)[:70]
    with pytest.raises(InputError, match=r"corrupt|truncated"), open_document(data) as source:
        source.page(0).pixels()


def test_a_text_chunk_that_unpacks_to_megabytes_is_left_out() -> None:
    bomb = b"zTXt" + b"Comment\0\0" + zlib.compress(b"x" * (80 << 20))
    chunk = struct.pack(">I", len(bomb) - 4) + bomb + struct.pack(">I", zlib.crc32(bomb))
    data = encoded(Image.new("L", (8, 4), 7), "PNG")
    with open_document(data[:33] + chunk + data[33:]) as source:
        assert source.page(0).pixels()[0, 0, 0] == 7
        assert "metadata is left out" in source.notes[0]


def test_formats_that_run_programs_are_not_opened() -> None:
    with pytest.raises(InputError):
        open_document(b"\xc5\xd0\xd3\xc6" + b"\0" * 100)  # EPS with a preview; Pillow would call Ghostscript


@given(
    rotation=st.sampled_from([0, 90, 180, 270]),
    skew=st.floats(-10, 10),
    x=st.integers(20, 100),
    y=st.integers(20, 60),
)
def test_a_point_of_the_turned_page_is_found_on_the_displayed_one(rotation: int, skew: float, x: int, y: int) -> None:
    shown = np.full((80, 120, 3), 255, np.uint8)
    shown[y - 1 : y + 2, x - 1 : x + 2] = 0
    page = Page(0, (120, 80), "px", "x").turned(rotation, skew)
    pixels = turn(shown, rotation, skew)
    assert pixels.shape[:2] == (page.height, page.width)
    dark = 255.0 - pixels[:, :, 0]
    if dark.sum() < 255 * 8:  # turned off the page
        return
    rows, columns = np.indices(dark.shape)
    mass = (columns * dark).sum() / dark.sum() + 0.5, (rows * dark).sum() / dark.sum() + 0.5
    assert page.to_displayed(*mass) == pytest.approx((x + 0.5, y + 0.5), abs=0.3)


def test_more_documents_than_the_process_keeps_open() -> None:
    sources: list[Source] = [open_document(encoded(Image.new("L", (8, 4), i), "PNG")) for i in range(8)]
    assert [int(s.page(0).pixels()[0, 0, 0]) for s in sources] == list(range(8))
