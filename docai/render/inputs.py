"""What the user names, as files: paths, globs, folders and standard input; and what kind of file each is."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from docai.errors import InputError

# What a folder is searched for. A file that is named itself is taken by its content, whatever it is called.
_PHOTOS = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".webp", ".heic", ".heif", ".avif", ".jp2", ".j2k", ".jpx")
_SCANS = (".tif", ".tiff", ".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".pcx", ".tga", ".ico")
SUFFIXES = frozenset({".pdf", *_PHOTOS, *_SCANS})
_TEXTS = (".doc", ".docx", ".docm", ".odt", ".rtf", ".epub", ".pages")
_SHEETS_AND_SLIDES = (".xls", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".key")
_OFFICE_SUFFIXES = frozenset({*_TEXTS, *_SHEETS_AND_SLIDES})

Kind = Literal["pdf", "image"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read. `root` is the folder that was named, for output that mirrors it; `data` holds standard input."""

    path: Path | None
    root: Path | None
    name: str
    data: bytes | None = field(default=None, repr=False)

    def head_and_size(self) -> tuple[bytes, int]:
        """The first KiB and the size. Raises InputError."""
        if self.data is not None:
            return self.data[:1024], len(self.data)
        assert self.path is not None
        try:
            with self.path.open("rb") as file:
                return file.read(1024), os.fstat(file.fileno()).st_size
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def read(self) -> bytes:
        """All bytes. Raises InputError."""
        if self.data is not None:
            return self.data
        assert self.path is not None
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from error


def expand(inputs: Sequence[str], *, recursive: bool = True, max_bytes: int | None = None) -> list[InputFile]:
    """The files that `inputs` name, each once, folders sorted by name.

    Raises InputError for a file that is missing, a pattern that matches nothing and a folder without documents.
    """
    files: dict[object, InputFile] = {}
    for text in inputs:
        for file in _expand_one(text, recursive, max_bytes):
            files.setdefault("-" if file.path is None else file.path.resolve(), file)
    return list(files.values())


def _expand_one(text: str, recursive: bool, max_bytes: int | None) -> Iterator[InputFile]:
    if text == "-":
        yield InputFile(None, None, "<stdin>", _read_stdin(max_bytes))
        return
    path = Path(text)
    if path.is_dir():
        yield from _documents_in(path, recursive)
    elif path.exists():
        yield InputFile(path, None, text)
    elif glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise InputError(f"{text}: no file matches this pattern")
        yield from (InputFile(Path(m), None, m) for m in matches if Path(m).is_file())
    else:
        raise InputError(f"{text}: no such file or folder")


def _documents_in(folder: Path, recursive: bool) -> Iterator[InputFile]:
    found = False
    for directory, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if recursive else []
        for name in sorted(names):
            path = Path(directory, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith("."):
                found = True
                yield InputFile(path, folder, str(path))
    if not found:
        raise InputError(f"{folder}: no documents in this folder; PDFs and images are looked for")


def _read_stdin(max_bytes: int | None) -> bytes:
    if sys.stdin.isatty():
        raise InputError(
            "standard input is a terminal: expected a document through a pipe, as in `docai ocr - < a.pdf`"
        )
    # one byte more than allowed tells `open_document` that the limit is crossed, without reading on
    return sys.stdin.buffer.read(-1 if max_bytes is None else max_bytes + 1)


def check_kind(head: bytes, name: str) -> Kind:
    """`pdf` or `image` by content. Raises InputError for what docai does not read, saying what to do."""
    if b"%PDF-" in head[:1024]:
        return "pdf"
    suffix = Path(name).suffix.lower()
    if head[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" or head[:5] == b"{\\rtf" or (head[:2] == b"PK"):
        raise InputError(
            f"{name}: office files are not read; convert it to PDF first (soffice --headless --convert-to pdf)"
        )
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise InputError(f"{name}: HTML is not read; print it to PDF first")
    if suffix in _OFFICE_SUFFIXES:
        raise InputError(
            f"{name}: office files are not read; convert it to PDF first (soffice --headless --convert-to pdf)"
        )
    if suffix == ".pdf" and not _looks_like_image(head):
        raise InputError(f"{name}: not a valid PDF: it does not start like one (no %PDF- header)")
    return "image"


def _looks_like_image(head: bytes) -> bool:
    starts = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"II*\0", b"MM\0*", b"BM", b"RIFF", b"\0\0\0\x0cjP")
    return head.startswith(starts) or head[4:8] == b"ftyp"
