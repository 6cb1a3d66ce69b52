"""The picture of a page as a PDF holds it: the original JPEG, black and white as bits, or a new JPEG."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from docai.export.figures import jpeg_of
from docai.export.pdf_writer import PdfWriter
from docai.types import Page

if TYPE_CHECKING:
    from docai.types import RGB

_QUALITY = 88
_START_OF_FRAME = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended, progressive: what PDF readers decode
_EXIF, _ADOBE = 0xE1, 0xEE


@dataclass(frozen=True, slots=True)
class PageImage:
    """An image, encoded. `bits` a colour component, `components` 1 (grey) or 3 (RGB)."""

    data: bytes
    width: int
    height: int
    components: int = 3
    bits: int = 8

    def write(self, pdf: PdfWriter) -> int:
        """Add it to a PDF; its object number."""
        space = "/DeviceRGB" if self.components == 3 else "/DeviceGray"
        entries = (
            f"/Type/XObject/Subtype/Image/Width {self.width}/Height {self.height}"
            f"/ColorSpace{space}/BitsPerComponent {self.bits}"
        )
        if self.bits == 1:
            return pdf.stream(self.data, entries)
        return pdf.stream(self.data, entries + "/Filter/DCTDecode", compress=False)


def page_image(page: Page, dpi: float, original: bytes = b"") -> PageImage:
    """The page as displayed. `original`: the file that it comes from, used as it is where it is a plain JPEG."""
    if page.render is None:
        raise ValueError("a page without pixels has no image")
    size = page.size if page.rotation % 180 == 0 else page.size[::-1]
    kept = plain_jpeg(original)
    if kept is not None and page.unit == "px" and (kept.width, kept.height) == tuple(map(int, size)):
        return kept
    return encoded(page.render(dpi, 0, 0.0))


def encoded(pixels: RGB) -> PageImage:
    """Pixels (H, W, 3): one bit each where they are black and white only, else JPEG, grey where they have no colour."""
    height, width = pixels.shape[:2]
    grey = pixels[:, :, 0]
    coloured = bool((grey != pixels[:, :, 1]).any() or (grey != pixels[:, :, 2]).any())
    if coloured:
        return PageImage(jpeg_of(pixels, _QUALITY), width, height)
    if bool(((grey == 0) | (grey == 255)).all()):
        return PageImage(np.packbits(grey > 0, axis=1).tobytes(), width, height, 1, 1)
    return PageImage(jpeg_of(np.ascontiguousarray(grey), _QUALITY), width, height, 1)


def plain_jpeg(data: bytes) -> PageImage | None:
    """A JPEG file that shows upright as it is: grey or RGB, no EXIF turn, no Adobe inversion. Else None."""
    at = 2
    while data[:2] == b"\xff\xd8" and at + 4 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], struct.unpack(">H", data[at + 2 : at + 4])[0]
        if marker in _START_OF_FRAME and at + 10 <= len(data):
            bits, height, width, components = struct.unpack(">BHHB", data[at + 4 : at + 10])
            return PageImage(data, width, height, components) if bits == 8 and components in (1, 3) else None
        if marker == _ADOBE or (marker == _EXIF and data[at + 4 : at + 8] == b"Exif"):
            return None
        at += 2 + length
    return None
