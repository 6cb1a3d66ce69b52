"""Open documents: `Source` is a PDF or an image file, decoded in a process of its own. `Video` is one of its kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.errors import InputError, LimitExceeded
from docai.render import wire
from docai.render.inputs import InputFile, Kind, check_kind
from docai.render.worker import Forgotten, Worker, new_number, shared_worker
from docai.types import Box, Font, Glyphs, Limits, Link, OutlineItem, Page, PageContent, Rule

_GLYPH_COLUMNS = ("codepoints", "boxes", "sizes", "fonts", "angles", "flags")


def open_document(
    source: str | Path | bytes | InputFile,
    *,
    password: str | None = None,
    limits: Limits | None = None,
    name: str | None = None,
    ahead: bool = True,
    on_look: Callable[[], None] = lambda: None,
    worker: Worker | None = None,
) -> Source:
    """Open a PDF, an image or a recording: a path, its bytes, or an `InputFile`.

    `ahead`: of a PDF that is read page by page, the next page is decoded meanwhile, on another core.
    `on_look` is called now and then while a long recording is looked through for its pages.
    `worker`: the process that decodes PDFs and images, where it is not the one that all documents share.
    Raises InputError (missing, empty, corrupt, of another kind), PasswordError or LimitExceeded.
    """
    file = input_file(source, name or "document")
    head, _ = file.head_and_size()
    if head and check_kind(head, file.name) == "video":
        from docai.render.recording import Recording

        return Recording(file, limits or Limits(), on_look)
    return Source(file, password, limits or Limits(), ahead=ahead, worker=worker)


def input_file(source: str | Path | bytes | InputFile, name: str) -> InputFile:
    """What may name a document, as a file; `name` is for bytes."""
    if isinstance(source, InputFile):
        return source
    if isinstance(source, bytes):
        return InputFile(None, None, name, source)
    return InputFile(Path(source), None, str(source), None)


class Source:
    """A document that is open for reading. Close it, or use it as a context manager; a closed one opens again on use.

    `name` as the user gave it; `kind` is `pdf`, `image` or `video`, which has `seconds`; `notes` are things worth
    telling (only the first frame of an animation is read, ...). A page that cannot be read raises its error and leaves
    the others readable.
    """

    def __init__(
        self,
        file: InputFile,
        password: str | None,
        limits: Limits,
        kind: Kind | None = None,
        *,
        ahead: bool = True,
        worker: Worker | None = None,
    ) -> None:
        self.name = file.name
        self._ahead = ahead
        self._file, self._password, self._limits = file, password, limits
        head, size = file.head_and_size()
        if size == 0:
            raise InputError(f"{self.name}: empty file (0 bytes)")
        if limits.max_bytes is not None and size > limits.max_bytes:
            raise LimitExceeded(
                f"{self.name}: {size} bytes exceed the limit of {limits.max_bytes}; raise it with --max-bytes"
            )
        self.kind = kind or check_kind(head, self.name)
        self._worker, self._number = worker or shared_worker(), new_number()
        self._generation = -1
        self.interrupted = False
        self._last_read = -2  # no page: none comes right behind it
        described = self._open()
        self.page_count = int(described["page_count"])
        self.seconds = float(described["seconds"])
        self.metadata: dict[str, str] = {str(k): str(v) for k, v in described["metadata"].items()}
        self.outline = tuple(OutlineItem(str(t), int(n), p) for t, n, p in described["outline"])
        self.notes: tuple[str, ...] = tuple(map(str, described["notes"]))

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the decoding process forget the document."""
        self._worker.forget(self._number, self._generation, seconds=self._limits.page_seconds)
        self._generation = -1

    def interrupt(self) -> None:
        """Nobody wants anything of this document any more: end what another thread has it do, and refuse what follows.

        It waits a moment. The other thread gets an InputError.
        """
        self.interrupted = True
        self._worker.interrupt(self._number)

    def read_bytes(self) -> bytes:
        """The file as it is. Raises InputError."""
        return self._file.read()

    def page(self, index: int) -> Page:
        """A page as a viewer shows it, with its pixels on demand. Raises the page's error."""
        header, _ = self._ask({"do": "size", "index": index})
        width, height, _dpi = header["size"]

        def render(dpi: float, rotation: int, skew: float) -> NDArray[np.uint8]:
            return self._pixels(index, dpi, rotation, skew)

        return Page(index, (width, height), "pt" if self.kind == "pdf" else "px", self.name, render=render)

    def dpi(self, index: int) -> float | None:
        """The resolution that an image states; None where it states none."""
        return float(self._ask({"do": "size", "index": index})[0]["size"][2]) or None

    def content(self, index: int) -> PageContent:
        """What the file itself says is on a page. Raises the page's error."""
        header, parts = self._ask({"do": "content", "index": index})
        self._read_ahead(index)
        arrays = {n: wire.unpack_array(d, p) for (n, d), p in zip(header["arrays"].items(), parts, strict=True)}
        return _content(header["said"], arrays)

    def _read_ahead(self, index: int) -> None:
        """Have the next page decoded while this one is worked on, where the pages are read in a row."""
        if self._ahead and self.kind == "pdf" and self._last_read + 1 == index < self.page_count - 1:
            request = {"do": "content", "index": index + 1, "document": self._number}
            self._worker.call_ahead(request, seconds=self._limits.page_seconds)
        self._last_read = index

    def page_pdf(self, index: int) -> bytes:
        """A PDF of one page: unchanged where the document is a PDF, else the image on a page of its size."""
        return bytes(self._ask({"do": "page_pdf", "index": index})[1][0])

    def with_layer(self, layer: bytes, pages: Sequence[tuple[int, int | None]]) -> bytes:
        """The given pages (0-based) of a PDF as a PDF, each with a page of the PDF `layer` laid over it, or None.

        A layer page has the size of the page as displayed. Raises InputError where the document cannot be written.
        """
        request = {"do": "with_layer", "index": pages[0][0] if pages else 0, "pages": list(pages)}
        seconds = self._limits.page_seconds * (1 + len(pages) / 100)
        return bytes(self._ask(request, [layer], seconds)[1][0])

    def _pixels(self, index: int, dpi: float, rotation: int, skew: float) -> NDArray[np.uint8]:
        request = {"do": "pixels", "index": index, "dpi": dpi, "rotation": rotation, "skew": skew}
        header, parts = self._ask(request)
        return wire.unpack_array(header["array"], parts[0])

    def _reopened(
        self, request: dict[str, Any], parts: wire.Parts, seconds: float
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Open the document again and ask.

        Others, who open documents of their own, could make the process forget this one in between; and a fresh process
        may take over just then, but only once.
        """
        with self._worker.alone:
            self._open()
            try:
                return self._worker.call(request, parts, seconds=seconds)
            except Forgotten:
                self._open()
                return self._worker.call(request, parts, seconds=seconds)

    def _open(self) -> dict[str, Any]:
        """Open the document in the running process; one that is new gets a second try after a crash of the old."""
        path = None if self._file.path is None else str(self._file.path.resolve())
        request = {
            "do": "open",
            "document": self._number,
            "kind": self.kind,
            "path": path,
            "password": self._password,
            "limits": asdict(self._limits),
        }
        parts = [self._file.data] if self._file.data is not None else []
        try:
            header, _ = self._worker.call(request, parts, seconds=self._limits.page_seconds)
        except InputError as error:
            raise type(error)(f"{self.name}: {error}") from error
        self._generation = self._worker.generation
        return header

    def _ask(
        self, request: dict[str, Any], parts: wire.Parts = (), seconds: float | None = None
    ) -> tuple[dict[str, Any], list[memoryview]]:
        index = request["index"]
        if not 0 <= index < self.page_count:
            raise IndexError(f"page {index} of {self.page_count}")
        return self._call(request, parts, seconds, f"page {index + 1}")

    def _call(
        self, request: dict[str, Any], parts: wire.Parts, seconds: float | None, place: str
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Ask the decoding process, which may have to open the document again. `place` is named in errors."""
        if self.interrupted:
            raise InputError(f"{self.name}: reading it was given up")
        if self._generation != self._worker.generation:
            self._open()
        request = {**request, "document": self._number}
        seconds = seconds or self._limits.page_seconds
        try:
            try:
                return self._worker.call(request, parts, seconds=seconds)
            except Forgotten:
                return self._reopened(request, parts, seconds)
        except InputError as error:
            raise type(error)(f"{self.name}, {place}: {error}") from error


def _content(said: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> PageContent:
    glyphs = None
    if "codepoints" in arrays:
        table = tuple(Font(str(n), int(w), bool(i), bool(m)) for n, w, i, m in said["fonts"])
        glyphs = Glyphs(**{name: arrays[name] for name in _GLYPH_COLUMNS}, font_table=table)
    return PageContent(
        glyphs,
        tuple(Rule(Box(*row[:4]), row[4]) for row in _rows(arrays, "rules")),
        _boxes(arrays, "fills"),
        _boxes(arrays, "pictures"),
        _boxes(arrays, "drawings"),
        tuple(Link(Box(*box), str(target)) for box, target in said.get("links", ())),
        tuple(map(str, said.get("notes", ()))),
        str(said.get("damage", "")),
    )


def _rows(arrays: dict[str, NDArray[Any]], name: str) -> list[list[float]]:
    return arrays[name].tolist() if name in arrays else []


def _boxes(arrays: dict[str, NDArray[Any]], name: str) -> tuple[Box, ...]:
    return tuple(Box(*row) for row in _rows(arrays, name))
