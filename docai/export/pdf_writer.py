"""PDF files written object by object."""

from __future__ import annotations

import zlib


class PdfWriter:
    """Collects objects, then writes them with a cross-reference table."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []

    def reserve(self) -> int:
        """A number for an object whose body comes later."""
        self._bodies.append(b"null")
        return len(self._bodies)

    def put(self, number: int, body: str | bytes) -> int:
        """Set the body of a reserved object."""
        self._bodies[number - 1] = body.encode("ascii") if isinstance(body, str) else body
        return number

    def add(self, body: str | bytes) -> int:
        """A new object; its number."""
        return self.put(self.reserve(), body)

    def stream(self, data: bytes, entries: str = "", *, compress: bool = True) -> int:
        """A new stream object with these dictionary entries; its number."""
        if compress:
            data, entries = zlib.compress(data), entries + "/Filter/FlateDecode"
        head = f"<<{entries}/Length {len(data)}>>\nstream\n".encode("ascii")
        return self.add(head + data + b"\nendstream")

    def finish(self, root: int, info: int) -> bytes:
        """The file, with its catalog and information dictionary."""
        out, offsets = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), []
        for number, body in enumerate(self._bodies, 1):
            offsets.append(len(out))
            out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
        start, size = len(out), len(offsets) + 1
        out += f"xref\n0 {size}\n0000000000 65535 f \n{table}".encode("ascii")
        out += f"trailer\n<</Size {size}/Root {root} 0 R/Info {info} 0 R>>\nstartxref\n{start}\n%%EOF\n".encode("ascii")
        return bytes(out)


def text_string(text: str) -> str:
    """A text as a PDF string object, in UTF-16."""
    return f"<feff{text.encode('utf-16-be', 'replace').hex()}>"


def numbers(*values: float) -> str:
    """Numbers as PDF writes them: no exponents, no needless digits."""
    return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") if value else "0" for value in values)
