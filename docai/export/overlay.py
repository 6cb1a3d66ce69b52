"""PNG: pages with their regions drawn in, with label, order and score. Several pages stand one below the other."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from docai.export.colours import rgb
from docai.export.figures import pixels_of, shrunk
from docai.export.flow import flat
from docai.export.options import ExportOptions
from docai.types import Block, Box, Document, Page, PageResult, Region

if TYPE_CHECKING:
    from PIL import Image

_MOST_PIXELS = 40_000_000  # of the whole picture; long documents are drawn smaller
_LONGEST = 60_000  # pixels; viewers refuse longer pictures
_GAP = 12  # pixels between pages
_GROUND = (120, 120, 120)
_WASH = 40  # opacity of a region's colour, of 255


def render(document: Document, options: ExportOptions) -> bytes:
    """All pages of the document as one picture."""
    results = [result for result in document.pages if result.page.width > 0]
    share = _share([result.page for result in results], options.dpi)
    pages = [draw(result.page, regions_of(result), options.dpi, share) for result in results]
    buffer = io.BytesIO()
    stacked(pages).save(buffer, "PNG")
    return buffer.getvalue()


def regions_of(result: PageResult) -> list[Region]:
    """The regions of a page's blocks, in reading order."""
    return [_shown(block) for block in flat(result.blocks)]


def _shown(block: Block) -> Region:
    """A region that came without a score shows the confidence of its text."""
    region = block.region
    score = block.confidence if region.score is None else region.score
    return Region(region.box, region.label, score, polygon=region.polygon)


def _share(pages: Sequence[Page], dpi: float) -> float:
    """How large the pages can be to make one picture, of their size at `dpi`, 0..1."""
    scales = [page.scale(dpi) for page in pages]
    pixels = sum(page.width * page.height * scale**2 for page, scale in zip(pages, scales, strict=True))
    length = sum(page.height * scale for page, scale in zip(pages, scales, strict=True))
    return min(1.0, math.sqrt(_MOST_PIXELS / max(pixels, 1)), _LONGEST / max(length, 1))


def draw(page: Page, regions: Sequence[Region], dpi: float = 150, share: float = 1.0) -> Image.Image:
    """A page with regions drawn in, numbered as they come, at a `share` of its size. Without pixels it is blank."""
    from PIL import Image, ImageDraw, ImageFont

    width, height = (max(1, round(edge * page.scale(dpi) * share)) for edge in page.size)
    pixels = pixels_of(page, dpi * share)
    picture = Image.new("RGB", (width, height), "white") if pixels is None else Image.fromarray(shrunk(pixels, width))
    canvas = ImageDraw.Draw(picture, "RGBA")
    scale = picture.width / page.width, picture.height / page.height
    font = ImageFont.load_default(max(11, round(picture.width / 90)))
    places = [tuple(map(float, _scaled(region.box, scale))) for region in regions]
    for region, place in zip(regions, places, strict=True):
        if region.polygon:
            ring = [(x * scale[0], y * scale[1]) for x, y in region.polygon]
            canvas.polygon(ring, fill=(*rgb(region.label), _WASH), outline=rgb(region.label), width=2)
        else:
            canvas.rectangle(place, fill=(*rgb(region.label), _WASH), outline=rgb(region.label), width=2)
    for number, (region, place) in enumerate(zip(regions, places, strict=True), 1):
        score = "" if region.score is None else f" {region.score:.2f}"
        text = f"{number} {region.name or region.label.value}{score}"
        tag = canvas.textbbox((place[0], place[1]), text, font, anchor="lb")
        drop = max(0.0, 2 - tag[1])  # a tag above the page's edge moves into it
        canvas.rectangle((tag[0], tag[1] - 2 + drop, tag[2] + 4, tag[3] + 2 + drop), fill=rgb(region.label))
        canvas.text((place[0] + 2, place[1] + drop), text, "white", font, anchor="lb")
    return picture


def _scaled(box: Box, scale: tuple[float, float]) -> tuple[float, float, float, float]:
    left, right = sorted((box.l * scale[0], box.r * scale[0]))
    top, bottom = sorted((box.t * scale[1], box.b * scale[1]))
    return left, top, right, bottom


def stacked(pages: Sequence[Image.Image]) -> Image.Image:
    """Pictures one below the other."""
    from PIL import Image

    if len(pages) == 1:
        return pages[0]
    width = max((page.width for page in pages), default=1)
    height = sum(page.height for page in pages) + _GAP * max(0, len(pages) - 1)
    whole, top = Image.new("RGB", (width, max(1, height)), _GROUND), 0
    for page in pages:
        whole.paste(page, ((width - page.width) // 2, top))
        top += page.height + _GAP
    return whole
