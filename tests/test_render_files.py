"""Files as pages: PDFs and images of every kind, and what is no document."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docai.errors import InputError, LimitExceeded, PasswordError
from docai.render.colors import to_rgb
from docai.render.document import open_document
from docai.render.inputs import check_kind, expand
from docai.render.turn import turn
from docai.types import Limits


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_a_pdf_has_glyphs_rules_and_pixels(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf) as source:
        page, content = source.page(0), source.content(0)
        assert (source.kind, source.page_count, page.size, page.unit) == ("pdf", 2, (300.0, 200.0), "pt")
        glyphs = content.glyphs
        assert glyphs is not None
        assert "".join(map(chr, glyphs.codepoints)).strip() == "Hello world"
        assert glyphs.sizes.tolist()[0] == pytest.approx(12)
        left, top, _, bottom = glyphs.boxes[0]
        assert (left, bottom > top) == (pytest.approx(20, abs=2), True)
        assert top < 40 < bottom  # the baseline stands at y = 160 of 200, counted from below
        assert page.pixels(144).shape == (400, 600, 3)
        (rule,) = content.rules
        assert rule.horizontal
        assert rule.box.width == pytest.approx(200, abs=3)  # the stroke has a width


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", InputError, "empty file"),
        (b"%PDF-1.4\n", InputError, "not a valid PDF"),
        (b"PK\x03\x04 something", InputError, "convert it to PDF"),
        (b"<!DOCTYPE html><p>", InputError, "HTML"),
        (b"\xef\xbb\xbf <HTML>", InputError, "HTML"),
        (b"%!PS-Adobe-3.0", InputError, "ps2pdf"),
        (b"{\\rtf1", InputError, "convert it to PDF"),
        (b"\x1f\x8b\x08", InputError, "unpack"),
        (b"no document at all", InputError, "not a valid image"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, error: type[InputError], says: str) -> None:
    with pytest.raises(error, match=says):
        open_document(data)


def test_a_locked_pdf_opens_with_its_password_only(locked_pdf: tuple[bytes, str]) -> None:
    data, password = locked_pdf
    with pytest.raises(PasswordError, match="--password"):
        open_document(data)
    with pytest.raises(PasswordError, match="wrong password"):
        open_document(data, password=password + "x")
    assert open_document(data, password=password).page_count == 1


GREY = Image.new("L", (40, 20), 120)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(encoded(GREY, "PNG"), id="grey"),
        pytest.param(encoded(GREY.convert("P"), "PNG"), id="palette"),
        pytest.param(encoded(GREY.convert("1"), "PNG"), id="bilevel"),
        pytest.param(encoded(GREY.convert("CMYK"), "JPEG"), id="cmyk"),
        pytest.param(encoded(GREY.convert("RGBA"), "WEBP"), id="webp"),
        pytest.param(encoded(GREY, "BMP"), id="bmp"),
        pytest.param(encoded(GREY, "GIF"), id="gif"),
        pytest.param(encoded(GREY, "TIFF", compression="tiff_lzw"), id="tiff"),
    ],
)
def test_every_common_image_is_decoded_to_rgb(image: bytes) -> None:
    with open_document(image) as source:
        assert source.page(0).pixels().shape == (20, 40, 3)
        assert source.page(0).unit == "px"


def test_frames_of_a_tiff_are_pages_and_those_of_a_gif_are_not() -> None:
    frames = [Image.new("L", (8, 8), value) for value in (0, 100, 200)]
    tiff = encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    with open_document(tiff) as source:
        assert source.page_count == 3
        assert [int(source.page(i).pixels()[0, 0, 0]) for i in range(3)] == [0, 100, 200]
    gif = encoded(frames[0].convert("P"), "GIF", save_all=True, append_images=[f.convert("P") for f in frames[1:]])
    with open_document(gif) as source:
        assert source.page_count == 1
        assert "3 frames" in source.notes[0]


def test_exif_turns_the_image_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    with open_document(encoded(Image.new("RGB", (40, 20)), "JPEG", exif=exif.tobytes())) as source:
        assert source.page(0).size == (20.0, 40.0)
        assert source.page(0).pixels().shape == (40, 20, 3)


def test_alpha_lies_on_white_and_deep_grey_is_scaled() -> None:
    assert np.asarray(to_rgb(Image.new("RGBA", (1, 1), (0, 0, 0, 0)))).tolist() == [[[255, 255, 255]]]
    deep = Image.fromarray(np.array([[0, 2000, 4000]], np.uint16))
    assert np.asarray(to_rgb(deep))[0, :, 0].tolist() == [0, 127, 255]


def test_too_many_pixels_are_refused_before_decoding() -> None:
    header = b"GIF89a" + (60000).to_bytes(2, "little") * 2 + b"\x00\x00\x00" + b"," + b"\0" * 4
    header += (60000).to_bytes(2, "little") * 2 + b"\x00\x02\x00\x3b"
    with pytest.raises(LimitExceeded, match="--max-pixels"):
        open_document(header, limits=Limits())


def test_the_part_of_a_truncated_image_that_decodes_is_read_with_a_note() -> None:
    noise = Image.fromarray(np.random.RandomState(0).randint(0, 255, (64, 64, 3), np.uint8))
    with open_document(encoded(noise, "JPEG")[:-200]) as source:
        assert source.page(0).pixels().shape == (64, 64, 3)
        assert "truncated" in open_document(encoded(noise, "JPEG")[:-200]).content(0).notes[0]


@pytest.mark.parametrize(("rotation", "corner"), [(0, (0, 0)), (90, (0, -1)), (180, (-1, -1)), (270, (-1, 0))])
def test_turn_is_clockwise(rotation: int, corner: tuple[int, int]) -> None:
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[0, 0] = 255
    assert turn(pixels, rotation, 0)[corner].tolist() == [255, 255, 255]


def test_folders_patterns_and_missing_files(tmp_path: Path) -> None:
    for name in ("b.pdf", "a.PNG", "notes.txt", "deep/c.jpg", ".hidden/d.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = [f.path.relative_to(tmp_path).as_posix() for f in expand([str(tmp_path)]) if f.path]
    assert found == ["a.PNG", "b.pdf", "deep/c.jpg"]
    assert len(expand([str(tmp_path / "*.pdf"), str(tmp_path / "b.pdf")])) == 1
    for missing in ("none.pdf", "*.tif", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError):
            expand([str(tmp_path / missing)])


def test_pictures_that_docai_wrote_beside_a_document_are_none(tmp_path: Path) -> None:
    names = ("a.pdf", "a_images/page-1-figure-1.png", "a_images/page-12-formula-3.png", "a_images/photo.png")
    for name in (*names, "page-1-figure-1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = [f.path.relative_to(tmp_path).as_posix() for f in expand([str(tmp_path)]) if f.path]
    assert found == ["a.pdf", "page-1-figure-1.png", "a_images/photo.png"]
    assert len(expand([str(tmp_path / "a_images")])) == 3  # named itself


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b"%PDF-1.7", "a", "pdf"),
        (b"\n\n%PDF-1.4", "a.bin", "pdf"),
        (b"\x89PNG", "a.pdf", "image"),
        (b"BM", "a", "image"),
    ],
)
def test_content_decides_not_the_name(head: bytes, name: str, kind: str) -> None:
    assert check_kind(head, name) == kind


def test_one_page_comes_as_a_pdf_of_its_own(tiny_pdf: bytes) -> None:
    with open_document(tiny_pdf) as source, open_document(source.page_pdf(1)) as single:
        assert (single.page_count, single.page(0).size) == (1, (300.0, 200.0))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_like_standard_input(tmp_path: Path, tiny_pdf: bytes) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[tiny_pdf])
    writer.start()
    (file,) = expand([str(pipe)])
    writer.join()
    assert open_document(file).page_count == 2


def test_a_folder_that_cannot_be_listed_is_told_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    (tmp_path / "a.pdf").write_bytes(b"x")

    def scandir(path: object) -> object:
        if Path(str(path)) == locked:
            raise PermissionError(13, "Permission denied", str(locked))
        return real(path)  # type: ignore[call-overload]

    real = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    assert [file.path for file in expand([str(tmp_path)])] == [tmp_path / "a.pdf", locked]
    with pytest.raises(InputError, match="cannot be read"):
        open_document(locked)


def test_a_name_that_is_no_text_can_be_opened(tmp_path: Path, tiny_pdf: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.pdf"))
    try:
        path.write_bytes(tiny_pdf)
    except OSError:
        pytest.skip("this file system takes text only")
    assert open_document(path).page_count == 2
