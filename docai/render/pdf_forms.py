"""Form fields and notes of a PDF page, which are no part of its text until they are drawn into it.

Runs in the decoding process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from numpy.typing import NDArray

from docai.render.frame import Frame, boxes_through

_CHECKED, _UNCHECKED = 0x2612, 0x2610  # ballot boxes, as a reader of plain text knows them
_TEXT_FIELDS = frozenset({raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX})
_BOXES = frozenset({raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON})
_NOTES = frozenset({raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP, raw.FPDF_ANNOT_WATERMARK})
_UNSEEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_MOST_ANNOTATIONS = 2_000  # of one page

Marks = list[tuple[tuple[float, float, float, float], bool]]


class Annotations:
    """What the annotations of a page add to its text.

    `texts`: some are drawn as text (filled fields, notes); `marks`: rectangle and state of each check box and radio
    button, in user space; `others`: indices of annotations whose text is none of the page's (buttons, check marks).
    """

    def __init__(self, page: Any, form: Any) -> None:
        self.texts = False
        self.marks: Marks = []
        self.others: list[int] = []
        for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
            annotation = raw.FPDFPage_GetAnnot(page, index)
            if annotation:
                self._add(index, annotation, form)
                raw.FPDFPage_CloseAnnot(annotation)

    def _add(self, index: int, annotation: Any, form: Any) -> None:
        subtype = raw.FPDFAnnot_GetSubtype(annotation)
        if raw.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
            return
        if subtype != raw.FPDF_ANNOT_WIDGET:
            self.texts |= subtype in _NOTES
        elif form is not None:
            self._add_field(index, annotation, form)

    def _add_field(self, index: int, annotation: Any, form: Any) -> None:
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        if kind in _TEXT_FIELDS:
            self.texts |= raw.FPDFAnnot_GetFormFieldValue(form, annotation, None, 0) > 2  # bytes, with two zeros
            return
        self.others.append(index)
        rect = raw.FS_RECTF()
        if kind in _BOXES and raw.FPDFAnnot_GetRect(annotation, rect):
            checked = bool(raw.FPDFAnnot_IsChecked(form, annotation))
            self.marks.append(((rect.left, rect.bottom, rect.right, rect.top), checked))


@contextmanager
def drawn_in(document: Any, index: int, page: Any, annotations: Annotations) -> Iterator[Any]:
    """The raw `page` itself or, where annotations are drawn as text, a copy of it that has them for content."""
    if not annotations.texts:
        yield page
        return
    copy = pdfium.PdfDocument.new()
    try:
        flat = _flat_page(copy, document, index, annotations.others)  # closes itself when it is let go
        yield page if flat is None else flat.raw
    finally:
        copy.close()


def _flat_page(copy: Any, document: Any, index: int, leave_out: list[int]) -> Any:
    """The page in a document of its own, with its annotations as content; None where pdfium cannot do it."""
    if not raw.FPDF_ImportPagesByIndex(copy.raw, document.raw, (ctypes.c_int * 1)(index), 1, 0):
        return None
    page = copy[0]
    for number in reversed(leave_out):
        raw.FPDFPage_RemoveAnnot(page.raw, number)
    flat = raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS
    page.close()  # a page sees its new content when it is loaded again
    return copy[0] if flat else None


def with_marks(
    columns: dict[str, NDArray[Any]], fonts: list[list[Any]], marks: Marks, frame: Frame
) -> dict[str, NDArray[Any]]:
    """Columns of `Glyphs` with a ballot box for each check box and radio button behind them, in a font of its own."""
    if not marks:
        return columns
    boxes = boxes_through(frame.affine(), np.asarray([rect for rect, _ in marks], np.float64))
    more: dict[str, Any] = {
        "fonts": np.full(len(marks), len(fonts)),
        "codepoints": [_CHECKED if checked else _UNCHECKED for _, checked in marks],
        "boxes": boxes,
        "sizes": np.minimum(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]),
    }
    fonts.append(["", 400, False, False])
    return {
        name: np.concatenate([column, np.asarray(more.get(name, np.zeros(len(marks))), column.dtype)])
        for name, column in columns.items()
    }
