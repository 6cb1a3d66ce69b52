"""HTML in one file: the picture of each page beside what it says, each block linked with its box on the picture.

It loads nothing from anywhere and can be read without scripts. A content security policy allows its own script only.
"""

from __future__ import annotations

import base64
import hashlib
import math
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING

from docai.export.colours import COLOURS
from docai.export.figures import crop, data_uri, is_picture, jpeg_of, pixels_of, shrunk
from docai.export.flow import children_around
from docai.export.html_inline import body_html
from docai.export.markup import element, escaped
from docai.export.options import ExportOptions
from docai.types import Block, Document, Label, Page, PageResult, Status
from docai.writing import clock, counted

if TYPE_CHECKING:
    from docai.types import RGB

_WIDEST = 1400  # pixels of a page's picture
_QUALITY = 72
_UNSURE = 0.8  # below this confidence a text is marked


def render(document: Document, options: ExportOptions) -> str:
    """The document as a page to read and check."""
    style, script = _resource("html_page.css") + _colours(), _resource("html_page.js")
    title = document.metadata.get("Title") or PurePath(document.source).name
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escaped(title)}</title>",
        f"<style>\n{style}</style>",
    ]
    pages = [_page(result, options) for result in document.pages]
    said = f"{escaped(document.source)} · {counted(len(pages), 'page')} · {escaped(document.engine)}"
    top = f"<header><h1>{escaped(title)}</h1><p>{said}</p></header>"
    body = "\n".join([top, "<main>", *pages, "</main>", f"<script>{script}</script>"])
    return "\n".join(
        ["<!DOCTYPE html>", "<html>", "<head>", *head, "</head>", "<body>", body, "</body>", "</html>", ""]
    )


def _resource(name: str) -> str:
    return resources.files("docai.export").joinpath(name).read_text("utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )


def _colours() -> str:
    return "".join(f".is-{label.value} {{ --colour: {colour}; }}\n" for label, colour in COLOURS.items())


def _page(result: PageResult, options: ExportOptions) -> str:
    page, number = result.page, result.page.index + 1
    pixels = pixels_of(page, options.dpi)
    blocks = [block for block in result.blocks if options.furniture == "keep" or not block.furniture]
    text = "".join(_block(block, page, pixels) for block in blocks)
    view = _view(page, blocks, pixels) if page.width > 0 and page.height > 0 else "<div></div>"
    return (
        f'<section class="page" id="page-{number}">\n{view}\n<div class="says">{_notes(result)}{text}</div>\n</section>'
    )


def _notes(result: PageResult) -> str:
    if result.outcome.status is Status.OK:
        return ""
    reasons = "; ".join(result.outcome.reasons)
    return f'<p class="notes">{result.outcome.status.value}: {escaped(reasons)}</p>\n'


def _view(page: Page, blocks: list[Block], pixels: RGB | None) -> str:
    """The page's picture with a link over each block."""
    number = page.index + 1
    image = ""
    if pixels is not None:
        source = data_uri(jpeg_of(shrunk(pixels, _WIDEST), _QUALITY), "image/jpeg")
        image = f'<img src="{source}" alt="Page {number}">'
    boxes = "".join(_box(part, page) for block in blocks for part in (block, *block.children))
    ratio = f"--ratio: {page.width / page.height:.4f}"
    sheet = f'<div class="sheet" style="{ratio}">{image}{boxes}</div>'
    return f'<figure class="view">{sheet}<figcaption>{_named(page)}</figcaption></figure>'


def _named(page: Page) -> str:
    number = f"Page {page.index + 1}"
    return number if page.time is None else f"{number}, {clock(page.time)}"


def _box(block: Block, page: Page) -> str:
    box = block.box
    edges = {"left": box.l / page.width, "top": box.t / page.height}
    edges |= {"width": box.width / page.width, "height": box.height / page.height}
    place = ";".join(f"{edge}:{100 * share if math.isfinite(share) else 0:.2f}%" for edge, share in edges.items())
    attributes = {"class": f"box is-{block.label.value}", "id": f"box-{block.id}", "href": f"#{block.id}"}
    return f"{element('a', {**attributes, 'style': place, 'title': _said_of(block)}, ' ')}"


def _block(block: Block, page: Page, pixels: RGB | None) -> str:
    """A block; with captions a figure, or a table that holds its own."""
    before, after = children_around(block)
    if block.table is not None:
        caption = next((child for child in block.children if child.label is Label.CAPTION), None)
        said = body_html(block, None, "" if caption is None else _caption(caption, above=caption in before))
        others = [[child for child in side if child is not caption] for side in (before, after)]
        return "".join((*map(_child, others[0]), _element("div", block, said), *map(_child, others[1])))
    said = _element("div", block, body_html(block, _picture(block, page, pixels)))
    whole = "".join((*map(_child, before), said, *map(_child, after)))
    return f"<figure>\n{whole}</figure>\n" if block.children else whole


def _child(block: Block) -> str:
    return _element("figcaption" if block.label is Label.CAPTION else "div", block, body_html(block, None))


def _caption(block: Block, *, above: bool) -> str:
    return _element("caption", block, body_html(block, None), None if above else "caption-side: bottom")


def _element(tag: str, block: Block, said: str, style: str | None = None) -> str:
    """A block's element, which can be linked to and leads to its place on the page."""
    unsure = block.confidence is not None and block.confidence < _UNSURE
    attributes = {
        "class": f"block is-{block.label.value}" + " unsure" * unsure,
        "id": block.id,
        "dir": "auto",
        "title": _said_of(block),
        "style": f"--depth: {block.level or 0}" if block.label is Label.LIST_ITEM else style,
    }
    place = f'<a class="place" href="#box-{escaped(block.id)}" aria-label="Show on the page">◧</a>'
    return element(tag, attributes, place, said) + "\n"


def _picture(block: Block, page: Page, pixels: RGB | None) -> str | None:
    if pixels is None or not is_picture(block):
        return None
    return data_uri(jpeg_of(shrunk(crop(page, pixels, block.box), _WIDEST), _QUALITY), "image/jpeg")


def _said_of(block: Block) -> str:
    sure = "" if block.confidence is None else f" · {100 * block.confidence:.0f} %"
    return f"{block.label.value} · {block.source}{sure}"
