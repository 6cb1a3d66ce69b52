"""ALTO XML 4.4 (https://www.loc.gov/standards/alto/): blocks, lines and words in pixels of the page as displayed."""

from __future__ import annotations

from collections.abc import Iterator

from docai.export.flow import flat
from docai.export.markup import element, escaped
from docai.export.options import ExportOptions
from docai.export.words import PixelFrame, PlacedWord, lines_of, words_of
from docai.geometry import union
from docai.types import Block, Box, Cell, Document, Label, Line, PageOutcome, PageResult, Status, Style
from docai.version import __version__

_NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
_SCHEMA = "http://www.loc.gov/standards/alto/v4/alto-4-4.xsd"
_STYLES: dict[Style, str] = {
    "bold": "bold",
    "italic": "italics",
    "superscript": "superscript",
    "subscript": "subscript",
}


Pixels = tuple[int, int, int, int]


def render(document: Document, options: ExportOptions) -> str:
    """The document as ALTO. Coordinates are pixels: the image's own, or at `options.dpi` for pages in points."""
    attributes = {
        "xmlns": _NAMESPACE,
        "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
        "xsi:schemaLocation": f"{_NAMESPACE} {_SCHEMA}",
        "SCHEMAVERSION": "4.4",
    }
    pages = (_page(result, options.dpi) for result in document.pages)
    parts = (_description(document, options.dpi), _tags(document), element("Layout", {}, "\n", *pages))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + element("alto", attributes, "\n", *parts) + "\n"


def _description(document: Document, dpi: int) -> str:
    points = any(result.page.unit == "pt" for result in document.pages)
    step = f"text recognition ({document.engine})" + (f"; pixels at {dpi} dpi" if points else "")
    software = element(
        "processingSoftware",
        {},
        element("softwareName", {}, "docai"),
        element("softwareVersion", {}, __version__),
    )
    return element(
        "Description",
        {},
        element("MeasurementUnit", {}, "pixel"),
        element("sourceImageInformation", {}, element("fileName", {}, escaped(document.source))),
        element("Processing", {"ID": "docai"}, element("processingStepDescription", {}, escaped(step)), software),
    )


def _tags(document: Document) -> str:
    labels = sorted({block.label for result in document.pages for block in flat(result.blocks)})
    tags = (element("LayoutTag", {"ID": _tag(label), "LABEL": label.value}) for label in labels)
    return element("Tags", {}, *tags) if labels else ""


def _tag(label: Label) -> str:
    return f"label_{label.value}"


def _page(result: PageResult, dpi: int) -> str:
    frame, number = PixelFrame(result.page, dpi), result.page.index + 1
    width, height = frame.size
    blocks = (_block(block, frame, f"{number}_{n}") for n, block in enumerate(flat(result.blocks), 1))
    space = element("PrintSpace", {"HPOS": 0, "VPOS": 0, "WIDTH": width, "HEIGHT": height}, "\n", *blocks)
    page = {"ID": f"page_{number}", "PHYSICAL_IMG_NR": number, "WIDTH": width, "HEIGHT": height}
    confidence = {"PC": _confidence(result), "PROCESSINGREFS": "docai"}
    return element("Page", {**page, **confidence}, space) + "\n" + _failure(result.outcome)


def _failure(outcome: PageOutcome) -> str:
    if outcome.status is Status.OK:
        return ""
    said = escaped("; ".join(outcome.reasons)).replace("--", "- -")
    return f"<!-- {outcome.status.value}: {said} -->\n"


def _confidence(result: PageResult) -> float | None:
    known = [block.confidence for block in flat(result.blocks) if block.confidence is not None]
    return round(sum(known) / len(known), 3) if known else None


def _place(box: Box, frame: PixelFrame) -> dict[str, object]:
    return _rect(frame.box(box))


def _rect(edges: Pixels) -> dict[str, object]:
    left, top, right, bottom = edges
    return {"HPOS": left, "VPOS": top, "WIDTH": right - left, "HEIGHT": bottom - top}


def _block(block: Block, frame: PixelFrame, name: str) -> str:
    place = {"TAGREFS": _tag(block.label)}
    if block.label is Label.FIGURE:
        return element("Illustration", {"ID": f"block_{name}", **_place(block.box, frame), **place}) + "\n"
    if block.table is not None:
        return _table(block, frame, name) + "\n"
    lines = [line for line in lines_of(block) if line.text.strip()]
    return _text_block(block.box, lines, frame, name, place) if lines else ""


def _text_block(box: Box, lines: list[Line], frame: PixelFrame, name: str, more: dict[str, str]) -> str:
    said = (_line(line, frame, f"{name}_{n}") for n, line in enumerate(lines, 1))
    return element("TextBlock", {"ID": f"block_{name}", **_place(box, frame), **more}, "\n", *said) + "\n"


def _table(block: Block, frame: PixelFrame, name: str) -> str:
    """A table as a composed block with a text block for each cell."""
    cells = (
        _text_block(cell.box, lines, frame, f"{name}_r{cell.row + 1}c{cell.col + 1}", {})
        for cell, lines in _cell_lines(block)
    )
    place = {**_place(block.box, frame), "TAGREFS": _tag(block.label)}
    return element("ComposedBlock", {"ID": f"block_{name}", "TYPE": "table", **place}, "\n", *cells)


def _cell_lines(block: Block) -> Iterator[tuple[Cell, list[Line]]]:
    """Each cell with the lines whose words lie in it; a line over several cells is cut."""
    lines = lines_of(block)
    for cell in block.table.cells if block.table else ():
        held = [piece for line in lines if (piece := _within(line, cell.box)) is not None]
        if held:
            yield cell, held


def _within(line: Line, box: Box) -> Line | None:
    inside = [w for w in words_of(line) if box.l <= w.box.cx < box.r and box.t <= w.box.cy < box.b]
    if not inside:
        return None
    text = "".join(word.text + " " * word.space for word in inside).strip()
    return Line(text, union(word.box for word in inside), confidence=line.confidence, angle=line.angle)


def _line(line: Line, frame: PixelFrame, name: str) -> str:
    words = words_of(line)
    places = [frame.box(word.box) for word in words]
    parts = []
    for n, (word, place) in enumerate(zip(words, places, strict=True)):
        parts.append(_string(word, line, place, f"string_{name}_{n + 1}"))
        if word.space and n + 1 < len(words):
            width = max(0, places[n + 1][0] - place[2])
            parts.append(element("SP", {"HPOS": place[2], "VPOS": place[1], "WIDTH": width}))
    return element("TextLine", {"ID": f"line_{name}", **_place(line.box, frame)}, *parts) + "\n"


def _string(word: PlacedWord, line: Line, place: Pixels, name: str) -> str:
    styles = " ".join(_STYLES[style] for style in sorted(word.styles) if style in _STYLES) or None
    confidence = None if line.confidence is None else round(line.confidence, 3)
    return element("String", {"ID": name, "CONTENT": word.text, **_rect(place), "WC": confidence, "STYLE": styles})
