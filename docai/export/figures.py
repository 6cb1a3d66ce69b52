"""Figures as pictures of their own: names, PNG bytes, data URIs."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from docai.errors import DocaiError
from docai.export.options import ExportOptions, image_folder
from docai.types import Block, Box, Document, Label, Page, PageResult

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.types import RGB

_LOG = logging.getLogger(__name__)
_PROSE = 4  # words a line, on average, from which on the text within a figure is more than its labels


def picture_names(document: Document) -> dict[str, str]:
    """File names of the blocks that are shown as pictures, by block id: `page-3-figure-1.png`.

    Left out are blocks of pages whose pixels are out of reach, as their source is closed.
    """
    return {block.id: name for result in document.pages for block, name in _pictures(result)}


def _pictures(result: PageResult) -> Iterator[tuple[Block, str]]:
    counts: dict[str, int] = {}
    for block in result.blocks:
        if result.page.render is not None and is_picture(block):
            counts[block.kind] = counts.get(block.kind, 0) + 1
            yield block, f"page-{result.page.index + 1}-{block.kind}-{counts[block.kind]}.png"


def is_picture(block: Block) -> bool:
    """Whether a block is shown as a picture: figures, and formulas that no model has put into LaTeX."""
    return block.kind == "figure" or (block.kind == "formula" and not is_latex(block))


def is_latex(block: Block) -> bool:
    """Whether a formula's text is LaTeX: only models write it; text layers and OCR give its characters."""
    return block.kind == "formula" and block.source.startswith("vlm") and bool(block.text.strip())


def is_prose(block: Block) -> bool:
    """Whether a figure holds sentences, not only the labels of a chart."""
    lines = [line.text.split() for line in block.lines] or [line.split() for line in block.text.splitlines()]
    return is_picture(block) and bool(lines) and sum(map(len, lines)) >= max(12, _PROSE * len(lines))


def alt_text(block: Block) -> str:
    """What a picture is called where it cannot be seen: its caption, or what it is."""
    caption = next((child.text for child in block.children if child.label is Label.CAPTION), "")
    return caption or (block.text if block.kind == "formula" and block.text else block.kind.capitalize())


def assets(document: Document, options: ExportOptions | None = None, source: Source | None = None) -> dict[str, bytes]:
    """The PNG files that an output with `images="ref"` refers to: path relative to the output -> bytes.

    `source`, the open document, gives pixels to pages that have none (read back from JSON).
    """
    options = options or ExportOptions()
    document = attached(document, source)
    folder = image_folder(document, options)
    return {f"{folder}/{name}": png for name, png in _files(document, options.dpi)}


def _files(document: Document, dpi: float) -> Iterator[tuple[str, bytes]]:
    for result in document.pages:
        named = list(_pictures(result))
        pixels = pixels_of(result.page, dpi) if named else None
        if pixels is not None:
            yield from ((name, png_of(crop(result.page, pixels, block.box))) for block, name in named)


def pictures_in(result: PageResult, document: Document, options: ExportOptions) -> dict[str, str]:
    """The pictures of a page's figures by block id: paths relative to the output, or data URIs."""
    named = list(_pictures(result)) if options.images != "none" else []
    if options.images == "ref":
        return {block.id: f"{image_folder(document, options)}/{name}" for block, name in named}
    pixels = pixels_of(result.page, options.dpi) if named else None
    if pixels is None:
        return {}
    return {block.id: data_uri(png_of(crop(result.page, pixels, block.box)), "image/png") for block, _ in named}


def pixels_of(page: Page, dpi: float) -> RGB | None:
    """The upright page, or None where its source is closed or cannot draw it."""
    try:
        return page.pixels(dpi) if page.render is not None else None
    except DocaiError as error:
        _LOG.warning("page %d has no picture: %s", page.index + 1, error)
        return None


def attached(document: Document, source: Source | None) -> Document:
    """The document with pixels for those of its pages that have none."""
    if source is None:
        return document
    return replace(document, pages=tuple(_attached(result, source) for result in document.pages))


def _attached(result: PageResult, source: Source) -> PageResult:
    if result.page.render is not None or not result.page.width:
        return result
    return replace(result, page=replace(result.page, render=source.page(result.page.index).render))


def crop(page: Page, pixels: RGB, box: Box) -> RGB:
    """The part of a page's pixels (H, W, 3) in a box of the page's unit, at least one pixel large."""
    height, width = pixels.shape[:2]
    sx, sy = width / page.width, height / page.height
    left, top = min(max(0, int(box.l * sx)), width - 1), min(max(0, int(box.t * sy)), height - 1)
    right, bottom = max(left + 1, min(width, round(box.r * sx))), max(top + 1, min(height, round(box.b * sy)))
    return pixels[top:bottom, left:right]


def shrunk(pixels: RGB, widest: int) -> RGB:
    """Pixels (H, W, 3) no wider than `widest`."""
    if pixels.shape[1] <= widest:
        return pixels
    import numpy as np
    from PIL import Image

    height = max(1, round(pixels.shape[0] * widest / pixels.shape[1]))
    return np.asarray(Image.fromarray(pixels).resize((widest, height), Image.Resampling.LANCZOS))


def png_of(pixels: RGB) -> bytes:
    """Pixels (H, W, 3) as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=False)
    return buffer.getvalue()


def jpeg_of(pixels: RGB, quality: int = 80) -> bytes:
    """Pixels (H, W, 3), or (H, W) grey, as a JPEG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def data_uri(data: bytes, media_type: str) -> str:
    """Bytes as a `data:` URI."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
