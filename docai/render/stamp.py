"""PDFs with something laid over their pages. Runs in the decoding process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import pypdfium2 as pdfium

from docai.render.frame import Frame


def with_layer(document: Any, layer: bytes, pages: Sequence[tuple[int, int | None]], frame_of: Any) -> bytes:
    """The given pages of an open PDF, each with the page of `layer` that is named beside it laid over it.

    A layer page has the size of the page as displayed. Where all pages are given, the document keeps what belongs to
    it as a whole (outline, metadata, forms). `frame_of` tells the frame of a page. Changes `document`.
    """
    overlay = pdfium.PdfDocument(layer) if any(number is not None for _, number in pages) else None
    indices = [index for index, _ in pages]
    if indices != list(range(len(document))):
        whole, document = document, pdfium.PdfDocument.new()
        document.import_pages(whole, indices)
    for position, (_, number) in enumerate(pages):
        if number is not None and overlay is not None:
            with contextlib.suppress(pdfium.PdfiumError):  # a page too broken to be changed stays as it is
                _lay_over(document, position, overlay, number, frame_of)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _lay_over(document: Any, position: int, overlay: Any, number: int, frame_of: Any) -> None:
    page = document[position]
    form = overlay.page_as_xobject(number, document).as_pageobject()
    form.set_matrix(pdfium.PdfMatrix(*from_displayed(frame_of(page))))
    page.insert_obj(form)
    page.gen_content()
    page.close()


def from_displayed(frame: Frame) -> tuple[float, float, float, float, float, float]:
    """From the page as displayed, but with y up from its bottom left, to its user space: a b c d e f."""
    return {
        0: (1.0, 0.0, 0.0, 1.0, frame.left, frame.bottom),
        90: (0.0, 1.0, -1.0, 0.0, frame.right, frame.bottom),
        180: (-1.0, 0.0, 0.0, -1.0, frame.right, frame.top),
        270: (0.0, -1.0, 1.0, 0.0, frame.left, frame.top),
    }[frame.rotation]
