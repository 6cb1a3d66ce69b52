"""The ocr task: what a page ends as."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from docai.batch.work import done
from docai.errors import ExitCode
from docai.layout.detector import get_detector
from docai.ocr.engines import Recognised
from docai.ocr.reading import ReadOptions
from docai.render.document import open_document
from docai.tasks.ocr import PageReader, finish, read_pages
from docai.tasks.options import OcrOptions
from docai.types import Box, Line, Status, Word
from tests.conftest import make_pdf

LINE = Line("word", Box(5, 5, 50, 15), (Word("word", Box(5, 5, 50, 15)),), 8.0, 0.9, "ocr:fake")


class Engine:
    """Reads what it is told to."""

    name = "fake"

    def __init__(self, *lines: Line, reasons: tuple[str, ...] = ()) -> None:
        self.said = Recognised(lines, reasons=reasons)

    def read(self, pixels: np.ndarray, *, straighten: bool = True) -> Recognised:
        return self.said


def truncated(form: str = "PNG", orientation: int = 1, share: float = 0.5) -> bytes:
    noise = Image.fromarray(np.random.RandomState(0).randint(0, 255, (100, 80, 3), np.uint8))
    exif = Image.Exif()
    exif[274] = orientation
    buffer = io.BytesIO()
    noise.save(buffer, form, exif=exif, **({"progressive": True} if form == "JPEG" else {}))
    return buffer.getvalue()[: int(share * len(buffer.getvalue()))]


@pytest.mark.parametrize(
    ("engine", "ocr", "status", "says"),
    [
        (Engine(LINE), "auto", Status.DEGRADED, "truncated: only the upper"),
        (Engine(), "auto", Status.FAILED, "no text was found in them; get a whole copy"),
        (Engine(reasons=("script not covered",)), "auto", Status.DEGRADED, "script not covered"),
        (Engine(), "never", Status.DEGRADED, "was not read"),
    ],
)
def test_a_damaged_image_fails_where_nothing_is_read_in_what_is_left(
    engine: Engine, ocr: str, status: Status, says: str
) -> None:
    reader = PageReader(ReadOptions(ocr, engine), get_detector("embedded"))
    with open_document(truncated()) as source:
        result = reader.result(source, 0)
        document = finish(source, [result], OcrOptions())
    assert result.outcome.status is status
    assert says in " ".join(result.outcome.reasons)
    row = done(document, {})
    assert (row.status, row.exit_code) == (status.value, ExitCode.INPUT if status is Status.FAILED else ExitCode.OK)


@pytest.mark.parametrize(
    ("form", "orientation", "share", "says"),
    [
        ("PNG", 1, 0.5, "only the upper 4"),
        ("PNG", 3, 0.5, "only the lower 4"),
        ("JPEG", 1, 0.98, "its 100 rows could be decoded only in part"),
    ],
)
def test_how_much_of_a_damaged_image_is_left(form: str, orientation: int, share: float, says: str) -> None:
    with open_document(truncated(form, orientation, share)) as source:
        assert says in source.content(0).damage


def test_an_image_without_text_is_none_the_worse() -> None:
    reader = PageReader(ReadOptions("auto", Engine()), get_detector("embedded"))
    with open_document(truncated(share=1.0)) as source:
        assert reader.result(source, 0).outcome.status is Status.OK


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_a_page_that_is_shown_on_its_side_is_read_line_by_line_as_it_was_written(rotate: int) -> None:
    said = ["The first of three lines", "A second line", "And one below"]
    stream = " ".join(f"BT /F 16 Tf 80 {700 - 56 * n} Td ({text}) Tj ET" for n, text in enumerate(said))
    with open_document(make_pdf([stream], (595, 842), f"/Rotate {rotate}")) as source:
        (result,) = read_pages(source, OcrOptions())
    assert [block.text for block in result.blocks] == said
    assert (result.page.rotation, result.page.size) == (-rotate % 360, (595, 842))
