"""PDF files through pdfium. Runs in the decoding process, since pdfium can crash, hang or eat memory."""

from __future__ import annotations

import contextlib
import io
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from numpy.typing import NDArray

from docai.errors import InputError, LimitExceeded, PasswordError
from docai.render.frame import Frame
from docai.render.pdf_forms import Annotations, drawn_in, with_marks
from docai.render.pdf_links import read_links, read_outline
from docai.render.pdf_objects import read_objects
from docai.render.pdf_text import MOST_CHARACTERS, read_glyphs
from docai.render.stamp import with_layer
from docai.types import Limits

RENDER_PIXELS = 25_000_000  # a page is rendered no larger than this: A3 at 300 dpi has 17 million
_HEAD_READ = 1 << 20  # bytes that are searched for what is wrong
_LARGEST_SIDE = 14_400 * 4  # points; larger page boxes (the format's own limit is 14,400) are cut
_NO_PAGES = "the PDF has no pages (zero are counted in it)"
_BROKEN = "not a valid PDF: corrupt or truncated; a repair tool (qpdf, mutool) may save it"


class PdfFile:
    """An open PDF. Raises InputError, PasswordError or LimitExceeded."""

    kind = "pdf"

    def __init__(self, source: Path | bytes, password: str | None, limits: Limits) -> None:
        self.notes: list[str] = []
        self._opened_with = source, password
        self._document = _open(source, password)
        self._limits = limits
        self.page_count = len(self._document)
        if self.page_count <= 0:
            raise InputError(_NO_PAGES)
        if limits.max_pages is not None and self.page_count > limits.max_pages:
            raise LimitExceeded(
                f"{self.page_count} pages exceed the limit of {limits.max_pages}; raise it with --max-pages"
            )
        with contextlib.suppress(pdfium.PdfiumError):
            self._document.init_forms()
        if not raw.FPDF_DocumentHasValidCrossReferenceTable(self._document.raw):
            self.notes.append("the PDF is damaged (its cross-reference table is broken); what could be found is read")
        if self._document.get_formtype() in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND):
            self.notes.append("an XFA form: only the pages that it carries for other viewers are read")
        self._page: tuple[int, Any] | None = None

    def close(self) -> None:
        self._release()
        self._document.close()

    @property
    def metadata(self) -> dict[str, str]:
        return {key: value for key, value in self._document.get_metadata_dict(skip_empty=True).items() if value.strip()}

    @property
    def outline(self) -> list[tuple[str, int, int | None]]:
        """(title, level from 1, 0-based page or None)."""
        return read_outline(self._document)

    def _release(self) -> None:
        if self._page is not None:
            self._page[1].close()
            self._page = None

    def _load(self, index: int) -> Any:
        if self._page is None or self._page[0] != index:
            self._release()
            try:
                self._page = (index, self._document[index])
            except (pdfium.PdfiumError, IndexError) as error:
                raise InputError("the page cannot be loaded: it is corrupt") from error
        return self._page[1]

    def page_size(self, index: int) -> tuple[float, float, float]:
        """(width, height, dots per inch of the unit) as displayed, in points."""
        return (*_frame(self._load(index)).size, 72.0)

    def content(self, index: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What the file says is on a page: lists for the header, and the glyph columns."""
        page = self._load(index)
        frame = _frame(page)
        annotations = Annotations(page.raw, self._form)
        with drawn_in(self._document, index, page.raw, annotations) as drawn:
            objects = read_objects(drawn, frame)
            columns, fonts = read_glyphs(drawn, frame, objects.clips)
        columns = with_marks(columns, fonts, annotations.marks, frame)
        notes = ["the page's drawing is too large to be read whole"] if objects.cut_short else []
        if len(columns["codepoints"]) >= MOST_CHARACTERS:
            notes.append(f"only the first {MOST_CHARACTERS} characters of the page are read")
        said = {"fonts": fonts, "links": read_links(self._document.raw, page.raw, frame), "notes": notes}
        return said, {**columns, **objects.arrays()}

    @property
    def _form(self) -> Any:
        """The raw handle of the document's form; None where it has none."""
        return None if self._document.formenv is None else self._document.formenv.raw

    def pixels(self, index: int, dpi: float) -> NDArray[np.uint8]:
        """The displayed page as RGB (H, W, 3), smaller than asked for where it would be larger than a limit."""
        page = self._load(index)
        width, height = _frame(page).size
        most = min(RENDER_PIXELS, self._limits.max_pixels)
        scale = min(dpi / 72, math.sqrt(most / (width * height)), 32_000 / max(width, height))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        return _render(self._form, page, size)

    def page_pdf(self, index: int) -> bytes:
        """A PDF of this one page, unchanged."""
        single = pdfium.PdfDocument.new()
        single.import_pages(self._document, [index])
        buffer = io.BytesIO()
        single.save(buffer)
        return buffer.getvalue()

    def with_layer(self, layer: bytes, pages: list[tuple[int, int | None]]) -> bytes:
        """The given pages with pages of the PDF `layer` laid over them (see `docai.render.stamp`)."""
        document = _open(*self._opened_with)  # a second time, as this changes it
        try:
            return with_layer(document, layer, pages, _frame)
        finally:
            document.close()


def _render(form: Any, page: Any, size: tuple[int, int]) -> NDArray[np.uint8]:
    bitmap = pdfium.PdfBitmap.new_native(*size, raw.FPDFBitmap_BGR)
    bitmap.fill_rect((255, 255, 255, 255), 0, 0, *size)
    flags = raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
    raw.FPDF_RenderPageBitmap(bitmap.raw, page.raw, 0, 0, *size, 0, flags)
    if form is not None:
        raw.FPDF_FFLDraw(form, bitmap.raw, page.raw, 0, 0, *size, 0, flags)
    array: NDArray[np.uint8] = bitmap.to_numpy()
    return np.ascontiguousarray(array[:, :, :3])


def _open(source: Path | bytes, password: str | None) -> Any:
    error: pdfium.PdfiumError | None = None
    for attempt in _spellings(password):
        raw.FPDF_LoadMemDocument(b"", 0, None)  # fails, so that the error of an earlier file cannot be taken for ours
        try:
            return pdfium.PdfDocument(_readable(source), password=attempt)
        except pdfium.PdfiumError as failed:
            error = failed
            if getattr(failed, "err_code", None) != raw.FPDF_ERR_PASSWORD:
                break
    code = getattr(error, "err_code", None)
    if code == raw.FPDF_ERR_PASSWORD:
        raise PasswordError(_locked(password)) from error
    if code == raw.FPDF_ERR_SECURITY:
        raise InputError("the PDF's encryption is not supported") from error
    raise InputError(_NO_PAGES if _says_no_pages(source) else _BROKEN) from error


def _says_no_pages(source: Path | bytes) -> bool:
    """Whether a file that pdfium refuses is an otherwise sound PDF without pages, which it refuses as well."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        data = file.read(_HEAD_READ)
    return bool(re.search(rb"/Count\s+0\b", data)) and b"%%EOF" in data and not re.search(rb"/Type\s*/Page\b", data)


def _spellings(password: str | None) -> list[str | None]:
    """A password as given, with its accents composed (keyboards differ in that), and none: not all files need it."""
    if not password:
        return [None]
    typed = password.encode("utf-8", "replace").decode()  # what is no text at all cannot be passed on
    return [*dict.fromkeys([typed, *(unicodedata.normalize(form, typed) for form in ("NFC", "NFKC"))]), None]


def _readable(source: Path | bytes) -> Path | bytes:
    """pdfium takes paths in UTF-8 only; a file with another name is read here."""
    if isinstance(source, bytes):
        return source
    try:
        str(source).encode()
    except UnicodeEncodeError:
        return source.read_bytes()
    return source


def _locked(password: str | None) -> str:
    how = "give it with --password or DOCAI_PASSWORD"
    return f"wrong password: {how}" if password else f"the PDF needs a password: {how}"


def _frame(page: Any) -> Frame:
    """The crop box within the media box, kept to a size that can be drawn."""
    rect = raw.FS_RECTF()
    if not raw.FPDF_GetPageBoundingBox(page.raw, rect):
        raise InputError("the page has no box")
    left, bottom, right, top = rect.left, rect.bottom, rect.right, rect.top
    rotation = raw.FPDFPage_GetRotation(page.raw) % 4 * 90
    if not all(map(math.isfinite, (left, bottom, right, top))) or right - left < 0.1 or top - bottom < 0.1:
        raise InputError("the page has no area")
    if max(right - left, top - bottom) > _LARGEST_SIDE:
        raise LimitExceeded(
            f"the page measures {right - left:.0f} x {top - bottom:.0f} points,"
            f" too large to draw (limit {_LARGEST_SIDE})"
        )
    return Frame(left, bottom, right, top, rotation)
