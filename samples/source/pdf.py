"""A small PDF writer: shaped text in embedded subsets, lines, areas, pictures, links and bookmarks.

Positions are in points from the top left corner; the same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from source.fonts import Face, Glyph

A4 = (595.28, 841.89)
Colour = tuple[float, float, float]
BLACK: Colour = (0, 0, 0)


def number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") or "0"


def numbers(*values: float) -> str:
    return " ".join(number(v) for v in values)


def width(glyphs: Sequence[Glyph], size: float) -> float:
    return sum(g.advance for g in glyphs) * size / 1000


@dataclass
class Sheet:
    """A page being written."""

    pdf: Pdf
    size: tuple[float, float] = A4
    ops: list[str] = field(default_factory=list)
    links: list[tuple[tuple[float, float, float, float], str]] = field(default_factory=list)

    def text(
        self, x: float, y: float, text: str, face: Face, size: float, *, align: str = "left", colour: Colour = BLACK
    ) -> float:
        """One run of text with its baseline at `y`; returns its width."""
        glyphs = face.shape(text)
        length = width(glyphs, size)
        self.glyphs(x - {"left": 0, "centre": length / 2, "right": length}[align], y, glyphs, face, size, colour=colour)
        return length

    def glyphs(
        self, x: float, y: float, glyphs: Sequence[Glyph], face: Face, size: float, *, colour: Colour = BLACK
    ) -> None:
        """A shaped horizontal run, its baseline starting at (x, y)."""
        self.ops.append(f"BT {numbers(*colour)} rg /{self.pdf.font(face, 'H')} {number(size)} Tf")
        if any(g.dx or g.dy for g in glyphs):
            for g in glyphs:
                at = numbers(x + g.dx * size / 1000, self.size[1] - y + g.dy * size / 1000)
                self.ops.append(f"1 0 0 1 {at} Tm <{g.gid:04x}> Tj")
                x += g.advance * size / 1000
        else:
            shown = "".join(f"<{g.gid:04x}>{numbers(g.natural - g.advance)} " for g in glyphs).replace(">0 ", ">")
            self.ops.append(f"1 0 0 1 {numbers(x, self.size[1] - y)} Tm [{shown.replace('><', '')}] TJ")
        self.ops.append("ET")

    def vertical(self, x: float, y: float, text: str, face: Face, size: float) -> None:
        """A column of text from top to bottom, centred at `x`, its first character's cell starting at `y`."""
        glyphs = face.shape(text, direction="ttb", script="Hira", language="ja")
        shown = "".join(f"{g.gid:04x}" for g in glyphs)
        at = numbers(x, self.size[1] - y)
        self.ops.append(f"BT 0 0 0 rg /{self.pdf.font(face, 'V')} {number(size)} Tf 1 0 0 1 {at} Tm <{shown}> Tj ET")

    def line(self, x1: float, y1: float, x2: float, y2: float, thick: float = 0.5, colour: Colour = BLACK) -> None:
        h = self.size[1]
        self.ops.append(f"{numbers(*colour)} RG {number(thick)} w {numbers(x1, h - y1)} m {numbers(x2, h - y2)} l S")

    def curve(self, points: Sequence[tuple[float, float]], thick: float, colour: Colour) -> None:
        path = " l ".join(numbers(x, self.size[1] - y) for x, y in points[1:])
        start = numbers(points[0][0], self.size[1] - points[0][1])
        self.ops.append(f"{numbers(*colour)} RG {number(thick)} w {start} m {path} l S")

    def area(self, x: float, y: float, w: float, h: float, colour: Colour) -> None:
        self.ops.append(f"{numbers(*colour)} rg {numbers(x, self.size[1] - y - h, w, h)} re f")

    def frame(self, x: float, y: float, w: float, h: float, thick: float = 0.5) -> None:
        self.ops.append(f"0 0 0 RG {number(thick)} w {numbers(x, self.size[1] - y - h, w, h)} re S")

    def picture(self, x: float, y: float, w: float, h: float, jpeg: bytes, pixels: tuple[int, int]) -> None:
        name = self.pdf.image(jpeg, pixels)
        self.ops.append(f"q {numbers(w, 0, 0, h, x, self.size[1] - y - h)} cm /{name} Do Q")

    def link(self, x: float, y: float, w: float, h: float, target: str) -> None:
        self.links.append(((x, self.size[1] - y - h, x + w, self.size[1] - y), target))


@dataclass
class Pdf:
    """A document being written."""

    title: str
    language: str = "en"
    sheets: list[Sheet] = field(default_factory=list)
    fonts: dict[tuple[Face, str], str] = field(default_factory=dict)
    images: list[tuple[bytes, tuple[int, int]]] = field(default_factory=list)
    bookmarks: list[tuple[str, int]] = field(default_factory=list)
    objects: list[bytes] = field(default_factory=list)
    faces: dict[Face, tuple[int, int]] = field(default_factory=dict)

    def sheet(self, size: tuple[float, float] = A4) -> Sheet:
        self.sheets.append(Sheet(self, size))
        return self.sheets[-1]

    def font(self, face: Face, mode: str) -> str:
        return self.fonts.setdefault((face, mode), f"F{len(self.fonts) + 1}")

    def image(self, jpeg: bytes, pixels: tuple[int, int]) -> str:
        self.images.append((jpeg, pixels))
        return f"I{len(self.images)}"

    def save(self) -> bytes:
        """The file. Object 1 is the catalog, 2 the page tree, 3 the information dictionary."""
        self.objects = [b"", b"", b""]
        fonts = " ".join(f"/{name} {self._font(face, mode, name)} 0 R" for (face, mode), name in self.fonts.items())
        images = " ".join(f"/I{i} {self._image(*image)} 0 R" for i, image in enumerate(self.images, 1))
        resources = self._add(f"<< /Font << {fonts} >> /XObject << {images} >> >>")
        pages = [self._page(sheet, resources) for sheet in self.sheets]
        self._set(2, f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{p} 0 R' for p in pages)}] >>")
        outline = f" /Outlines {self._outline(pages)} 0 R" if self.bookmarks else ""
        self._set(1, f"<< /Type /Catalog /Pages 2 0 R /Lang ({self.language}){outline} >>")
        date = "/CreationDate (D:20240101000000Z) /ModDate (D:20240101000000Z)"
        self._set(3, f"<< /Title {_string(self.title)} /Producer (docai samples) {date} >>")
        return self._file()

    def _add(self, body: str | bytes) -> int:
        self.objects.append(body.encode() if isinstance(body, str) else body)
        return len(self.objects)

    def _set(self, ref: int, body: str) -> None:
        self.objects[ref - 1] = body.encode()

    def _stream(self, data: bytes, head: str = "", *, packed: bool = False) -> int:
        if not packed:
            data, head = zlib.compress(data, 9), f"{head} /Filter /FlateDecode"
        return self._add(f"<< {head} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream")

    def _page(self, sheet: Sheet, resources: int) -> int:
        content = self._stream("\n".join(sheet.ops).encode())
        annots = " ".join(
            f"<< /Type /Annot /Subtype /Link /Border [0 0 0] /Rect [{numbers(*box)}] "
            f"/A << /S /URI /URI {_string(target)} >> >>"
            for box, target in sheet.links
        )
        return self._add(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {numbers(*sheet.size)}] /Resources {resources} 0 R "
            f"/Contents {content} 0 R /Annots [{annots}] >>"
        )

    def _outline(self, pages: Sequence[int]) -> int:
        root = len(self.objects) + 1
        count = len(self.bookmarks)
        self._add(f"<< /Type /Outlines /First {root + 1} 0 R /Last {root + count} 0 R /Count {count} >>")
        for i, (title, page) in enumerate(self.bookmarks, root + 1):
            before = f" /Prev {i - 1} 0 R" if i > root + 1 else ""
            after = f" /Next {i + 1} 0 R" if i < root + count else ""
            dest = f"/Dest [{pages[page]} 0 R /Fit]"
            self._add(f"<< /Title {_string(title)} /Parent {root} 0 R {dest}{before}{after} >>")
        return root

    def _image(self, jpeg: bytes, pixels: tuple[int, int]) -> int:
        head = f"/Type /XObject /Subtype /Image /Width {pixels[0]} /Height {pixels[1]} /ColorSpace /DeviceRGB"
        return self._stream(jpeg, f"{head} /BitsPerComponent 8 /Filter /DCTDecode", packed=True)

    def _font(self, face: Face, mode: str, name: str) -> int:
        """A composite font, written across (mode H) or down (V)."""
        if face not in self.faces:
            self.faces[face] = (self._descendant(face, name), self._stream(_to_unicode(face.used)))
        child, unicode = self.faces[face]
        return self._add(
            f"<< /Type /Font /Subtype /Type0 /BaseFont /{self._base(face, name)} /Encoding /Identity-{mode} "
            f"/DescendantFonts [{child} 0 R] /ToUnicode {unicode} 0 R >>"
        )

    def _base(self, face: Face, name: str) -> str:
        return f"SAMPL{chr(64 + int(name[1:]))}+{face.name}"

    def _descendant(self, face: Face, name: str) -> int:
        """The subset of a font; its character codes are the glyph numbers of the original."""
        program = self._stream(face.subset(), "/Subtype /CIDFontType0C" if face.cff else "")
        base = self._base(face, name)
        head, hhea = face.file["head"], face.file["hhea"]
        unit = 1000 / face.em
        bbox = numbers(*(v * unit for v in (head.xMin, head.yMin, head.xMax, head.yMax)))
        slant = " /ItalicAngle -12" if "Italic" in face.name else " /ItalicAngle 0"
        flags = 4 | (64 if "Italic" in face.name else 0)
        descriptor = self._add(
            f"<< /Type /FontDescriptor /FontName /{base} /Flags {flags} /FontBBox [{bbox}]{slant} "
            f"/Ascent {numbers(hhea.ascent * unit)} /Descent {numbers(hhea.descent * unit)} /CapHeight 700 "
            f"/StemV {140 if 'Bold' in face.name else 80} /FontFile{3 if face.cff else 2} {program} 0 R >>"
        )
        widths = " ".join(f"{gid} [{numbers(face.natural(gid))}]" for gid in sorted(face.used))
        kind = "CIDFontType0" if face.cff else "CIDFontType2 /CIDToGIDMap /Identity"
        system = "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
        return self._add(
            f"<< /Type /Font /Subtype /{kind} /BaseFont /{base} {system} /FontDescriptor {descriptor} 0 R "
            f"/DW 1000 /W [{widths}] >>"
        )

    def _file(self) -> bytes:
        out, offsets = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), []
        for ref, body in enumerate(self.objects, 1):
            offsets.append(len(out))
            out += b"%d 0 obj\n%s\nendobj\n" % (ref, body)
        start, digest = len(out), hashlib.md5(out).hexdigest()  # the file's /ID, as the PDF specification proposes
        out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1)
        out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        trailer = f"<< /Size {len(offsets) + 1} /Root 1 0 R /Info 3 0 R /ID [<{digest}> <{digest}>] >>"
        return bytes(out) + f"trailer\n{trailer}\nstartxref\n{start}\n%%EOF\n".encode()


def _string(text: str) -> str:
    """A PDF text string: plain where it can be, UTF-16 elsewhere."""
    if text.isascii():
        return "(" + text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") + ")"
    return f"<feff{text.encode('utf-16-be').hex()}>"


def _to_unicode(used: dict[int, str]) -> bytes:
    """The CMap that says which characters each glyph stands for."""
    pairs = [f"<{gid:04x}> <{text.encode('utf-16-be').hex()}>" for gid, text in sorted(used.items()) if text]
    groups = [pairs[i : i + 100] for i in range(0, len(pairs), 100)]
    chars = "\n".join(f"{len(g)} beginbfchar\n" + "\n".join(g) + "\nendbfchar" for g in groups)
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
        "/CMapName /Samples def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <ffff> endcodespacerange\n{chars}\nendcmap end end"
    ).encode()
