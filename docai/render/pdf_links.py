"""Links and the outline of a PDF (runs in the decoding process)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw

from docai.render.frame import Frame, boxes_through

_MOST_LINKS = 2_000  # of one page
_MOST_OUTLINE = 5_000
_DEEPEST_OUTLINE = 12

Rect = tuple[float, float, float, float]


def read_links(document: Any, page: Any, frame: Frame) -> list[tuple[list[float], str]]:
    """Link annotations: where on the displayed page, and the URL or `#page=N` that they lead to."""
    position, link = ctypes.c_int(0), raw.FPDF_LINK()
    rects: list[tuple[float, ...]] = []
    targets: list[str] = []
    while len(rects) < _MOST_LINKS and raw.FPDFLink_Enumerate(page, position, link):
        rect = raw.FS_RECTF()
        target = _target(document, link)
        if target and raw.FPDFLink_GetAnnotRect(link, rect):
            rects.append((rect.left, rect.bottom, rect.right, rect.top))
            targets.append(target)
    boxes = boxes_through(frame.affine(), np.asarray(rects, np.float64).reshape(-1, 4))
    shown = np.flatnonzero(np.isfinite(boxes).all(axis=1)).tolist()
    return [(boxes[i].tolist(), targets[i]) for i in shown]


def _target(document: Any, link: Any) -> str | None:
    action = raw.FPDFLink_GetAction(link)
    if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
        length = raw.FPDFAction_GetURIPath(document, action, None, 0)
        buffer = ctypes.create_string_buffer(min(length, 4096))
        raw.FPDFAction_GetURIPath(document, action, buffer, len(buffer))
        return buffer.raw.split(b"\0", 1)[0].decode("utf-8", "replace") or None
    destination = raw.FPDFLink_GetDest(document, link) or (action and raw.FPDFAction_GetDest(document, action))
    index = raw.FPDFDest_GetDestPageIndex(document, destination) if destination else -1
    return f"#page={index + 1}" if index >= 0 else None


def read_outline(document: Any) -> list[tuple[str, int, int | None]]:
    """(title, level from 1, 0-based page or None) of each entry; empty where the outline is broken."""
    with contextlib.suppress(pdfium.PdfiumError, ValueError, RecursionError):
        return list(_entries(document))
    return []


def _entries(document: Any) -> Iterator[tuple[str, int, int | None]]:
    for number, item in enumerate(document.get_toc(max_depth=_DEEPEST_OUTLINE)):
        if number >= _MOST_OUTLINE:
            return
        destination = item.get_dest()
        title = item.get_title().strip()
        if title:
            yield title, item.level + 1, destination.get_index() if destination else None
