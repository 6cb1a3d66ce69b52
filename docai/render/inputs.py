"""What the user names, as files: paths, globs, folders and standard input; and what kind of file each is."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from docai.errors import InputError

# What a folder is searched for. A file that is named itself is taken by its content, whatever it is called.
_PHOTOS = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".webp", ".heic", ".heif", ".avif", ".jp2", ".j2k", ".jpx")
_SCANS = (".tif", ".tiff", ".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".pcx", ".tga", ".ico")
SUFFIXES = frozenset({".pdf", *_PHOTOS, *_SCANS})
# Pictures that docai wrote beside a document that it has read (docai/export/figures.py), in a folder NAME_images.
_OWN_PICTURE = re.compile(r"page-\d+-(?:figure|formula)-\d+\.png")
_MOVIES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".mts", ".m2ts", ".wmv", ".flv", ".ogv")
_TEXTS = (".doc", ".docx", ".docm", ".odt", ".rtf", ".epub", ".pages")
_SHEETS_AND_SLIDES = (".xls", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".key")
_OFFICE_SUFFIXES = frozenset({*_TEXTS, *_SHEETS_AND_SLIDES})

_OFFICE = "office files are not read; convert it to PDF first (soffice --headless --convert-to pdf)"
_NOT_READ = (  # how files begin, in lower case, that docai does not read; and what to do with them
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OFFICE),
    (b"{\\rtf", _OFFICE),
    (b"pk\x03\x04", "office files and archives are not read; convert it to PDF, or unpack it first"),
    (b"<!doctype html", "HTML is not read; print it to PDF first"),
    (b"<html", "HTML is not read; print it to PDF first"),
    (b"<svg", "SVG is not read; convert it to PDF first"),
    (b"%!ps", "PostScript is not read; convert it to PDF first (ps2pdf)"),
    (b"at&tform", "DjVu is not read; convert it to PDF first (ddjvu -format=pdf)"),
    (b"\x1f\x8b", "compressed files are not read; unpack it first"),
)

HEARD = "a model that hears takes it with docai chat --audio, the server as input_audio"

# How files begin that hold nothing but sound; those of WAV say it a little later.
_SOUND_MARKS = (
    b"fLaC",
    b"ID3",
    b"#!AMR",
    b"caff",
    b"wvpk",
    b"\xff\xfb",
    b"\xff\xf3",
    b"\xff\xf2",
    b"\xff\xf1",
    b"\xff\xf9",
)

# How videos begin: the offset of some bytes, and the bytes. Pictures in the container of MP4 are told by their brand.
_VIDEO_MARKS = (
    (0, b"\x1a\x45\xdf\xa3"),  # Matroska, WebM
    (8, b"AVI "),
    (0, b"FLV\x01"),
    (0, b"OggS"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"),  # ASF, WMV
    (0, b"\x00\x00\x01\xba"),  # MPEG program stream
    (0, b"\x06\x0e\x2b\x34\x02\x05\x01\x01"),  # MXF
    (0, b"DKIF"),  # IVF
    (0, b"YUV4MPEG2 "),
)
_PICTURE_BRANDS = (
    b"hei",
    b"hev",
    b"mif1",
    b"msf1",
    b"avif",
    b"avis",
    b"jxl ",
    b"jp2",
    b"jpx",
    b"jpm",
    b"crx ",
    b"miaf",
)
_MOVIE_ATOMS = (b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")  # of files without a brand (QuickTime)

Kind = Literal["pdf", "image", "video", "audio"]  # the last is asked for, never told by content


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
    elif path.is_file():
        yield InputFile(path, None, text)
    elif path.exists():  # a pipe, as in `docai ocr <(...)`: it can be read once, and its size is not known
        yield InputFile(path, None, text, _read_pipe(path, max_bytes))
    elif glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise InputError(f"{text}: no file matches this pattern")
        yield from (InputFile(Path(m), None, m) for m in matches if Path(m).is_file())
    else:
        raise InputError(f"{text}: no such file or folder")


def _documents_in(folder: Path, recursive: bool) -> Iterator[InputFile]:
    """A folder's documents, without the pictures that docai wrote beside some; and the folders in it that cannot be
    listed: opening those says why."""
    unlisted: list[Path] = []
    found = False
    for directory, folders, names in os.walk(folder, onerror=lambda error: unlisted.append(Path(error.filename))):
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if recursive else []
        for name in sorted(names):
            path = Path(directory, name)
            own = path.parent != folder and path.parent.name.endswith("_images") and _OWN_PICTURE.fullmatch(name)
            if path.suffix.lower() in SUFFIXES and not name.startswith(".") and not own:
                found = True
                yield InputFile(path, folder, str(path))
    yield from (InputFile(path, folder, str(path)) for path in unlisted)
    if not found and not unlisted:
        raise InputError(f"{folder}: no documents in this folder; PDFs and images are looked for")


def _read_stdin(max_bytes: int | None) -> bytes:
    if sys.stdin.isatty():
        raise InputError(
            "standard input is a terminal: expected a document through a pipe, as in `docai ocr - < a.pdf`"
        )
    return _read_most(sys.stdin.buffer, max_bytes)


def _read_pipe(path: Path, max_bytes: int | None) -> bytes:
    try:
        with path.open("rb") as pipe:
            return _read_most(pipe, max_bytes)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_most(stream: BinaryIO, max_bytes: int | None) -> bytes:
    """All of a stream; one byte more than allowed tells `open_document` of the limit without reading on."""
    return stream.read(-1 if max_bytes is None else max_bytes + 1)


def is_video(head: bytes) -> bool:
    """Whether a file that begins so is a video (or sound, which shares its containers)."""
    box, brand = head[4:8], head[8:12].lower()
    if box == b"ftyp":
        return not brand.startswith(_PICTURE_BRANDS)
    return (
        box in _MOVIE_ATOMS
        or any(head[at:].startswith(mark) for at, mark in _VIDEO_MARKS)
        or _is_transport(head)
        or _is_transport(head[4:], 192)  # as cameras and discs have it, with a time before each packet
    )


def _is_transport(head: bytes, packet: int = 188) -> bool:
    """Whether this is an MPEG transport stream: packets that begin with 0x47, four or more of them."""
    starts = head[::packet]
    return len(starts) > 3 and set(starts) == {0x47}


def check_kind(head: bytes, name: str) -> Kind:
    """`pdf`, `image` or `video` by content. Raises InputError for what docai does not read, saying what to do."""
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if is_video(head) or Path(name).suffix.lower() in _MOVIES:  # what is wrong with it is said of a video
        return "video"
    if head.startswith(_SOUND_MARKS) or (head[:4] in (b"RIFF", b"FORM") and head[8:12] in (b"WAVE", b"AIFF", b"AIFC")):
        raise InputError(f"{name}: audio is not seen; {HEARD}")
    for start, what in _NOT_READ:
        if head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(start):
            raise InputError(f"{name}: {what}")
    suffix = Path(name).suffix.lower()
    if suffix in _OFFICE_SUFFIXES:
        raise InputError(f"{name}: {_OFFICE}")
    if suffix == ".pdf" and not _looks_like_image(head):
        raise InputError(f"{name}: not a valid PDF: it does not start like one (no %PDF- header)")
    return "image"


def _looks_like_image(head: bytes) -> bool:
    starts = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"II*\0", b"MM\0*", b"II+\0", b"BM", b"RIFF", b"\0\0\0\x0cjP")
    return head.startswith(starts) or head[4:8] == b"ftyp"
