"""The decoding process: `python -m docai.render.child`. Answers requests on stdin until its parent goes.

It opens untrusted files with native libraries, so it may crash, hang or run out of memory; the parent
(`docai.render.worker`) watches it. Its stdout carries messages only, its stderr is closed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from docai.errors import DocaiError, InputError, LimitExceeded
from docai.render import wire
from docai.render.orphan import exit_with_parent
from docai.types import Limits

_MEMORY = int(os.environ.get("DOCAI_CHILD_MEMORY", 1400 << 20))
_OUT_OF_MEMORY = f"decoding needs more than {_MEMORY >> 20} MiB of memory; DOCAI_CHILD_MEMORY (bytes) allows more"
_MOST_OPEN = 4  # documents kept open at once


def limit_memory() -> None:
    """Cap what this process can allocate: a file that wants more fails alone, the machine does not swap."""
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, _MEMORY)):
        with contextlib.suppress(ValueError, OSError):  # a lower limit is set already
            resource.setrlimit(kind, (most, most))
    if sys.platform == "darwin":  # takes the limit and does not keep it
        threading.Thread(target=end_when_larger_than, args=[_MEMORY], daemon=True).start()


def end_when_larger_than(most: int) -> None:
    """End this process once it has taken more memory than `most` bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit <= most:
        time.sleep(0.05)
    os._exit(1)


class Unknown(Exception):
    """No document of that number is open."""


class Documents:
    """The open documents, by the parent's number for them; the one used longest ago is closed first."""

    def __init__(self) -> None:
        self._open: dict[int, Any] = {}

    def open(self, number: int, request: dict[str, Any], data: bytes | None) -> Any:
        self.close(number)
        while len(self._open) >= _MOST_OPEN:
            self.close(next(iter(self._open)))
        limits = Limits(**request["limits"])
        source: Path | bytes = data if data is not None else Path(request["path"])
        self._open[number] = _opener(request["kind"])(source, request["password"], limits)
        return self._open[number]

    def get(self, number: int) -> Any:
        document = self._open.pop(number, None)
        if document is None:
            raise Unknown(number)
        self._open[number] = document
        return document

    def close(self, number: int) -> None:
        document = self._open.pop(number, None)
        if document is not None:
            document.close()


def _opener(kind: str) -> Any:
    if kind == "pdf":
        from docai.render.pdf import PdfFile

        return PdfFile
    if kind == "video":
        from docai.render.video import VideoFile

        return VideoFile
    if kind == "audio":
        from docai.render.audio import AudioFile

        return AudioFile
    from docai.render.image import ImageFileSource

    return ImageFileSource


def answer(documents: Documents, request: dict[str, Any], parts: list[memoryview]) -> tuple[dict[str, Any], list[Any]]:
    """(header, parts) of the answer to one request."""
    number, index = request["document"], request.get("index", 0)
    match request["do"]:
        case "open":
            return _describe(documents.open(number, request, bytes(parts[0]) if parts else None)), []
        case "close":
            documents.close(number)
            return {}, []
        case "size":
            return {"size": documents.get(number).page_size(index)}, []
        case "content":
            said, columns = documents.get(number).content(index)
            packed = {name: wire.pack_array(column) for name, column in columns.items()}
            return {"said": said, "arrays": {n: d for n, (d, _) in packed.items()}}, [
                part for _, part in packed.values()
            ]
        case "pixels":
            from docai.render.turn import turn

            pixels = turn(documents.get(number).pixels(index, request["dpi"]), request["rotation"], request["skew"])
            described, part = wire.pack_array(pixels)
            return {"array": described}, [part]
        case "times":
            described, part = wire.pack_array(documents.get(number).timeline.times)
            return {"array": described}, [part]
        case "frame":
            described, part = wire.pack_array(documents.get(number).frame(index, request["most"]))
            return {"array": described}, [part]
        case "thumbs":
            asked = request["indices"], request["width"], request["height"], request["seconds"]
            described, part = wire.pack_array(documents.get(number).thumbs(*asked))
            return {"array": described}, [part]
        case "samples":
            sound = documents.get(number)
            described, part = wire.pack_array(sound.samples(request["rate"]))
            return {"array": described, "notes": sound.notes}, [part]
        case "page_pdf":
            return {}, [documents.get(number).page_pdf(index)]
        case "with_layer":
            return {}, [documents.get(number).with_layer(bytes(parts[0]), request["pages"])]
    raise ValueError(request["do"])


def _describe(document: Any) -> dict[str, Any]:
    return {
        "page_count": document.page_count,
        "metadata": document.metadata,
        "outline": document.outline,
        "notes": document.notes,
        "seconds": getattr(document, "seconds", 0.0),
    }


def serve(incoming: int, outgoing: int) -> None:
    """Answer until the parent closes the pipe."""
    documents = Documents()
    while True:
        try:
            request, parts = wire.receive(incoming)
        except wire.Closed:
            return
        try:
            header, out = answer(documents, request, parts)
        except Unknown:
            header, out = _error("Unknown", ""), []  # opened in an earlier process, or closed to make room
        except DocaiError as error:
            header, out = _error(type(error).__name__, str(error)), []
        except MemoryError:
            header, out = _error(LimitExceeded.__name__, _OUT_OF_MEMORY), []
        except Exception as error:  # noqa: BLE001 - the border of the process: whatever a decoder raises ends here
            why = f"cannot be read: corrupt or of an unsupported kind ({error})"
            header, out = _error(InputError.__name__, why), []
        wire.send(outgoing, header, out)


def _error(name: str, message: str) -> dict[str, Any]:
    return {"error": name, "message": message}


def main() -> None:
    """Keep stdout for messages, then serve."""
    outgoing = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - open as long as the process
    limit_memory()
    exit_with_parent()
    try:
        serve(0, outgoing)
    except wire.Closed:
        return


if __name__ == "__main__":
    main()
