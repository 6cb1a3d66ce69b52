"""Searchable PDF: the pages as they are, with the text that was read laid over them, unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from docai.errors import UsageError
from docai.export.glyphless import GlyphlessFont, font_file
from docai.export.options import ExportOptions
from docai.export.page_image import PageImage, page_image
from docai.export.pdf_writer import PdfWriter, numbers, text_string
from docai.export.text_layer import all_lines, text_layer
from docai.types import Document, Line, Page, PageResult, Status
from docai.version import __version__

if TYPE_CHECKING:
    from docai.render.document import Source

_DPI = 200.0  # of images that state no resolution


def render(document: Document, options: ExportOptions, source: Source | None = None) -> bytes:
    """The document as a searchable PDF.

    Of a PDF, `source` copies the pages, untouched but for the text; pages whose text layer was trusted get no second
    one. Of images (and without a source) the pages are pictures, those that could not be read left out. Raises
    UsageError where a page has no picture.
    """
    if source is not None and source.kind == "pdf":
        return _over_original(document, source)
    read = [result for result in document.pages if result.outcome.status is not Status.FAILED]
    return _build(document, [_pictured(result, options, source) for result in read])


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A page of the PDF: a picture or nothing, and lines over it. `scale`: points per unit of the page."""

    page: Page
    lines: Sequence[Line]
    scale: float = 1.0
    image: PageImage | None = None

    @property
    def size(self) -> tuple[float, float]:
        """(width, height) in points, as displayed."""
        width, height = self.page.size if self.page.rotation % 180 == 0 else self.page.size[::-1]
        return max(width * self.scale, 1.0), max(height * self.scale, 1.0)


def _over_original(document: Document, source: Source) -> bytes:
    sheets: list[_Sheet] = []
    pages: list[tuple[int, int | None]] = []
    for result in document.pages:
        lines = [line for line in all_lines(result) if line.source != "text-layer"]
        pages.append((result.page.index, len(sheets) if lines else None))
        if lines:
            sheets.append(_Sheet(result.page, lines))
    return source.with_layer(_build(document, sheets), pages)


def _pictured(result: PageResult, options: ExportOptions, source: Source | None) -> _Sheet:
    page = result.page
    if page.render is None:
        raise UsageError(f"pdf: page {page.index + 1} has no picture: export it with its source open, or read it again")
    dpi = (source.dpi(page.index) if source else None) or _DPI
    scale = 1.0 if page.unit == "pt" else 72 / dpi
    original = source.read_bytes() if source is not None and source.page_count == 1 else b""
    return _Sheet(page, all_lines(result), scale, page_image(page, options.dpi, original))


def _build(document: Document, sheets: Sequence[_Sheet]) -> bytes:
    pdf = PdfWriter()
    root, tree, file = pdf.reserve(), pdf.reserve(), pdf.stream(font_file(), f"/Length1 {len(font_file())}")
    kids = [_write(pdf, sheet, tree, file) for sheet in sheets]
    pdf.put(tree, f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]>>")
    pdf.put(root, f"<</Type/Catalog/Pages {tree} 0 R>>")
    title = document.metadata.get("Title") or PurePath(document.source).name
    info = pdf.add(f"<</Title {text_string(title)}/Producer {text_string(f'docai {__version__}')}>>")
    return pdf.finish(root, info)


def _write(pdf: PdfWriter, sheet: _Sheet, parent: int, file: int) -> int:
    """One page with its own font, which knows its characters only."""
    width, height = sheet.size
    font = GlyphlessFont()
    content = text_layer(sheet.page, sheet.lines, font, sheet.scale)
    resources = f"/Font<</F {font.write(pdf, file)} 0 R>>"
    if sheet.image is not None:
        content = f"q {numbers(width, 0, 0, height, 0, 0)} cm /Picture Do Q\n" + content
        resources += f"/XObject<</Picture {sheet.image.write(pdf)} 0 R>>"
    stream = pdf.stream(content.encode("ascii"))
    return pdf.add(
        f"<</Type/Page/Parent {parent} 0 R/MediaBox[0 0 {numbers(width, height)}]"
        f"/Resources<<{resources}>>/Contents {stream} 0 R>>"
    )
