"""A font without shapes, for text that is searched and copied but not seen.

Every character gets a code of its own and the same glyph, half an em wide: a line from corner to corner of its box, of
no area, since readers take the boxes of characters from their outlines and drop those that have none. /ToUnicode says
which character each code is. So the font covers every script in less than a kilobyte. (The idea is that of Tesseract's
pdf.ttf.)
"""

from __future__ import annotations

import struct

from docai.export.pdf_writer import PdfWriter

ADVANCE = 0.5  # width of every glyph, in ems
DESCENT = 0.2  # how far the em box reaches below the baseline
_EM = 1000
_MOST_CODES = 0xFFFF
_RANGE = 100  # entries that a bfchar section may hold


class GlyphlessFont:
    """The characters used so far, with their codes. One font serves one page."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def encode(self, text: str) -> str:
        """The codes of a text, as a PDF hexadecimal string without its brackets."""
        return "".join(f"{self._code(char):04X}" for char in text)

    def _code(self, char: str) -> int:
        code = self._codes.setdefault(char, len(self._codes) + 1)
        return code if code <= _MOST_CODES else 0

    def write(self, pdf: PdfWriter, font_file: int) -> int:
        """Add the font to a PDF, around a font file that is in it already; the font's object number."""
        advance, ascent, descent = _metrics()
        descriptor = pdf.add(
            f"<</Type/FontDescriptor/FontName/DocaiGlyphless/Flags 5/FontBBox[0 {-descent} {advance} {ascent}]"
            f"/ItalicAngle 0/Ascent {ascent}/Descent {-descent}/CapHeight {ascent}/StemV 80/FontFile2 {font_file} 0 R>>"
        )
        glyphs = pdf.stream(b"\x00\x00" + b"\x00\x01" * len(self._codes))
        cid_font = pdf.add(
            "<</Type/Font/Subtype/CIDFontType2/BaseFont/DocaiGlyphless"
            "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
            f"/FontDescriptor {descriptor} 0 R/DW {advance}/CIDToGIDMap {glyphs} 0 R>>"
        )
        unicode = pdf.stream(self._to_unicode().encode("ascii"))
        return pdf.add(
            "<</Type/Font/Subtype/Type0/BaseFont/DocaiGlyphless/Encoding/Identity-H"
            f"/DescendantFonts[{cid_font} 0 R]/ToUnicode {unicode} 0 R>>"
        )

    def _to_unicode(self) -> str:
        entries = [f"<{code:04X}> <{_utf16(char)}>" for char, code in self._codes.items() if code <= _MOST_CODES]
        sections = [entries[n : n + _RANGE] for n in range(0, len(entries), _RANGE)]
        lists = "\n".join(f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar" for part in sections)
        return (
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
            "/CIDSystemInfo <</Registry (Adobe) /Ordering (UCS) /Supplement 0>> def\n"
            "/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
            "1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
            f"{lists}\nendcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
        )


def _utf16(char: str) -> str:
    return char.encode("utf-16-be", "replace").hex().upper()


def _metrics() -> tuple[int, int, int]:
    """Advance, ascent and (positive) descent in units of the font."""
    return round(ADVANCE * _EM), round((1 - DESCENT) * _EM), round(DESCENT * _EM)


def font_file() -> bytes:
    """A TrueType font of an empty glyph and ours (the format: the OpenType specification)."""
    advance, ascent, descent = _metrics()
    glyph = struct.pack(">hhhhhHHBBhhhh", 1, 0, -descent, advance, ascent, 1, 0, 1, 1, 0, advance, -descent, _EM)
    tables = {
        b"cmap": struct.pack(">HHHHI", 0, 1, 3, 1, 12)
        + struct.pack(">12H", 4, 24, 0, 2, 2, 0, 0, 0xFFFF, 0, 0xFFFF, 1, 0),
        b"glyf": glyph,
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh",
            0x10000,
            0x10000,
            0,
            0x5F0F3CF5,
            3,
            _EM,
            0,
            0,
            0,
            -descent,
            advance,
            ascent,
            0,
            3,
            2,
            0,
            0,
        ),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH", 0x10000, ascent, -descent, 0, advance, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2
        ),
        b"hmtx": struct.pack(">HhHh", advance, 0, advance, 0),
        b"loca": struct.pack(">HHH", 0, 0, len(glyph) // 2),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 2, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        b"name": struct.pack(">HHH", 0, 0, 6),
        b"post": struct.pack(">IiHHIIIII", 0x30000, 0, 0, 0, 1, 0, 0, 0, 0),
    }
    return _assembled(tables)


def _assembled(tables: dict[bytes, bytes]) -> bytes:
    """The tables behind their directory, with checksums."""
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    directory = struct.pack(">IHHHH", 0x10000, count, 16 * power, power.bit_length() - 1, 16 * (count - power))
    offset, body = 12 + 16 * count, b""
    for tag, data in sorted(tables.items()):
        directory += tag + struct.pack(">III", _checksum(data), offset + len(body), len(data))
        body += data + b"\0" * (-len(data) % 4)
    font = directory + body
    adjustment = (0xB1B0AFBA - _checksum(font)) & 0xFFFFFFFF
    place = font.index(tables[b"head"]) + 8
    return font[:place] + struct.pack(">I", adjustment) + font[place + 4 :]


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (-len(data) % 4)
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF
