"""hOCR 1.2 (https://kba.github.io/hocr-spec/1.2/): lines and words with their places on the page as displayed."""

from __future__ import annotations

from docai.export.flow import flat
from docai.export.markup import element, escaped
from docai.export.options import ExportOptions
from docai.export.words import PixelFrame, PlacedWord, lines_of, words_of
from docai.types import Block, Document, Label, Line, PageResult
from docai.version import __version__
from docai.writing import is_rtl

_CLASSES = {
    Label.TABLE: "ocr_table",
    Label.FIGURE: "ocr_photo",
    Label.PAGE_HEADER: "ocr_header",
    Label.PAGE_FOOTER: "ocr_footer",
    Label.PAGE_NUMBER: "ocr_pageno",
}
_CAPABILITIES = "ocr_page ocr_carea ocr_par ocr_line ocrx_word ocrp_wconf " + " ".join(_CLASSES.values())


def render(document: Document, options: ExportOptions) -> str:
    """The document as hOCR. Coordinates are pixels: the image's own, or at `options.dpi` for pages in points."""
    metas = {"ocr-system": f"docai {__version__} ({document.engine})", "ocr-capabilities": _CAPABILITIES}
    head = [f"<title>{escaped(document.source)}</title>", '<meta charset="utf-8"/>']
    head += [element("meta", {"name": name, "content": value}) for name, value in metas.items()]
    pages = "\n".join(_page(result, options.dpi) for result in document.pages)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml">\n<head>\n'
        + "\n".join(head)
        + f"\n</head>\n<body>\n{pages}\n</body>\n</html>\n"
    )


def _page(result: PageResult, dpi: int) -> str:
    frame, page = PixelFrame(result.page, dpi), result.page
    width, height = frame.size
    name = page.source.replace("\\", "/").replace('"', "'")
    title = f'image "{name}"; bbox 0 0 {width} {height}; ppageno {page.index}'
    title += f"; scan_res {dpi} {dpi}" if page.unit == "pt" else ""
    number = page.index + 1
    areas = (_area(block, frame, f"{number}_{n}") for n, block in enumerate(flat(result.blocks), 1))
    return element("div", {"class": "ocr_page", "id": f"page_{number}", "title": title}, "\n", *areas)


def _area(block: Block, frame: PixelFrame, name: str) -> str:
    kind = _CLASSES.get(block.label, "ocr_carea")
    box = {"title": _bbox(frame.box(block.box))}
    lines = [_line(line, frame, f"{name}_{n}") for n, line in enumerate(lines_of(block), 1) if line.text.strip()]
    direction = "rtl" if is_rtl(block.text) else None
    paragraph = element("p", {"class": "ocr_par", "id": f"par_{name}", "dir": direction, **box}, "\n", *lines)
    area = {"class": kind, "id": f"block_{name}", **box}
    return f"{element('div', area, paragraph if lines else ' ')}\n"


def _line(line: Line, frame: PixelFrame, name: str) -> str:
    angle = frame.angle(line)
    title = _bbox(frame.box(line.box)) + (f"; textangle {angle:g}" if angle else "")
    words = (_word(word, line, frame, f"{name}_{n}") for n, word in enumerate(words_of(line), 1))
    return element("span", {"class": "ocr_line", "id": f"line_{name}", "title": title}, *words) + "\n"


def _word(word: PlacedWord, line: Line, frame: PixelFrame, name: str) -> str:
    title = _bbox(frame.box(word.box))
    if line.confidence is not None:
        title += f"; x_wconf {round(100 * line.confidence)}"
    text = escaped(word.text)
    for style, tag in (("italic", "em"), ("bold", "strong")):
        text = f"<{tag}>{text}</{tag}>" if style in word.styles else text
    return element("span", {"class": "ocrx_word", "id": f"word_{name}", "title": title}, text) + " " * word.space


def _bbox(box: tuple[int, int, int, int]) -> str:
    return "bbox {} {} {} {}".format(*box)
