"""`docai mcp`: documents as tools of a model elsewhere, over the Model Context Protocol on standard input and output.

The protocol is JSON-RPC, a message a line (modelcontextprotocol.io, revisions 2024-11-05 to 2025-06-18).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ValidationError

from docai.errors import DocaiError, UsageError
from docai.export.json import dumps
from docai.serve.asked import model_for, options_for, wrong_in
from docai.serve.errors import ApiError
from docai.tasks.options import (
    CaptionOptions,
    DetectOptions,
    GroundOptions,
    OcrOptions,
    ParseOptions,
    PictureOptions,
)
from docai.version import __version__
from docai.vlm.request import GenerationOptions

if TYPE_CHECKING:
    from docai.types import Document
    from docai.vlm.model import Model

LOG = logging.getLogger("docai.serve")
VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
_MOST_TEXT = 400_000  # characters of an answer: what a model can take in


@dataclass(frozen=True, slots=True)
class Tool:
    """What a client may call: `run` gets the checked arguments."""

    about: str
    takes: type[BaseModel]
    run: Callable[[Any, Settled], str]


@dataclass(frozen=True, slots=True)
class Settled:
    """What the process was started with."""

    model: str | None
    offline: bool
    root: Path | None
    loaded: dict[str, Model]

    def path(self, named: str) -> Path:
        """A file that may be read; with a root, a relative path begins there. Raises UsageError."""
        path = (self.root or Path()).joinpath(Path(named).expanduser()).resolve()
        if self.root is not None and not path.is_relative_to(self.root):
            raise UsageError(f"path: expected a file under {self.root}; got {named}")
        return path

    def asked(self, name: str | None) -> Model:
        """A model, loaded once. Raises UsageError without one, and DependencyMissing."""
        from docai.tasks.load import load

        name = name or self.model
        if name is None:
            raise UsageError("model: this needs a model; name one, or start docai mcp with --model")
        if name not in self.loaded:
            self.loaded.clear()
            self.loaded[name] = load(name, offline=self.offline)
        return self.loaded[name]


_PATH: dict[str, Any] = {"path": (str, ...)}
_Read = model_for("Read", OcrOptions, leave=("password",), **_PATH)
_Parse = model_for("Parse", ParseOptions, leave=("password",), **_PATH)
_Detect = model_for("Detect", DetectOptions, leave=("password",), **_PATH)
_Caption = model_for("Caption", CaptionOptions, model=(str | None, None), pages=(str | None, None), **_PATH)
_Ground = model_for(
    "Ground", GroundOptions, model=(str | None, None), pages=(str | None, None), phrases=(list[str], []), **_PATH
)


def _ocr(asked: Any, settled: Settled) -> str:
    from docai.export.formats import export

    text = export(_document(options_for(OcrOptions, asked, offline=settled.offline), asked, settled), "markdown")
    assert isinstance(text, str)
    return text


def _parsed(asked: Any, settled: Settled) -> str:
    from docai.export.formats import export
    from docai.tasks.parse import as_ocr

    options = as_ocr(options_for(ParseOptions, asked, offline=settled.offline))
    text = export(_document(options, asked, settled), "json")
    assert isinstance(text, str)
    return text


def _document(options: OcrOptions, asked: Any, settled: Settled) -> Document:
    from docai.render.document import open_document
    from docai.tasks.ocr import finish, layout_of, read_pages

    with open_document(settled.path(asked.path), limits=options.limits) as source:
        return finish(source, read_pages(source, options, layout_of(options)), options)


def _detected(asked: Any, settled: Settled) -> str:
    from docai.layout.detections import detections_json
    from docai.render.document import open_document
    from docai.tasks.detect import detect_pages

    options = options_for(DetectOptions, asked, offline=settled.offline)
    with open_document(settled.path(asked.path), limits=options.limits) as source:
        return "\n".join(detections_json(page).decode() for page in detect_pages(source, options))


def _captioned(asked: Any, settled: Settled) -> str:
    from docai.render.inputs import InputFile
    from docai.tasks.caption import captions

    file = InputFile(settled.path(asked.path), None, asked.path)
    what, pictures = options_for(CaptionOptions, asked), PictureOptions(pages=asked.pages)
    found = captions(settled.asked(asked.model), file, what, pictures, GenerationOptions())
    return "\n".join(f"page {one.page + 1}: {one.text}" if one.pages > 1 else one.text for one in found)


def _grounded(asked: Any, settled: Settled) -> str:
    from docai.render.inputs import InputFile
    from docai.tasks.ground import grounded

    file = InputFile(settled.path(asked.path), None, asked.path)
    model = settled.asked(asked.model)
    what, pictures = options_for(GroundOptions, asked), PictureOptions(pages=asked.pages)
    found = grounded(model, file, asked.phrases, what, pictures, GenerationOptions())
    return "\n".join(dumps(one.as_json(model.name)).decode() for one in found)


TOOLS: Mapping[str, Tool] = {
    "ocr": Tool("Read a PDF or an image file as Markdown.", _Read, _ocr),
    "parse": Tool("The structure of a PDF or an image as JSON: blocks with boxes, tables, figures.", _Parse, _parsed),
    "detect": Tool("The regions of pages with labels and reading order, a JSON object a page.", _Detect, _detected),
    "ground": Tool("Where things are in an image, by their names: boxes or outlines.", _Ground, _grounded),
    "caption": Tool("What an image, or each page of a document, shows.", _Caption, _captioned),
}


class Mcp:
    """A conversation with one client."""

    def __init__(self, settled: Settled) -> None:
        self._settled = settled

    def serve(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        """Answer messages until there are no more."""
        for line in reads:
            if line.strip() and (answer := self.answer(line)) is not None:
                writes.write(dumps(answer) + b"\n")
                writes.flush()

    def answer(self, line: bytes) -> dict[str, Any] | None:
        """The answer to a message; None for one that wants none."""
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            return _failed(None, -32700, "expected JSON")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return (
                None if isinstance(message, dict) and "id" in message else _failed(None, -32600, "expected a request")
            )
        if "id" not in message:
            return None
        said = message.get("params")
        return self._answered(message["id"], message["method"], said if isinstance(said, dict) else {})

    def _answered(self, number: Any, method: str, said: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                wanted = said.get("protocolVersion")
                version = wanted if wanted in VERSIONS else VERSIONS[0]
                about = {"name": "docai", "version": __version__}
                return _told(number, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
            case "ping":
                return _told(number, {})
            case "tools/list":
                return _told(number, {"tools": [_described(name, tool) for name, tool in TOOLS.items()]})
            case "tools/call":
                return self._called(number, said)
        return _failed(number, -32601, f"there is no method {method[:100]!r}")

    def _called(self, number: Any, said: dict[str, Any]) -> dict[str, Any]:
        tool = TOOLS.get(str(said.get("name")))
        if tool is None:
            return _failed(number, -32602, f"expected one of the tools {', '.join(TOOLS)}")
        try:
            asked = tool.takes.model_validate(said.get("arguments") or {})
            text, wrong = tool.run(asked, self._settled)[:_MOST_TEXT], False
        except ValidationError as error:
            place, said_of_it = wrong_in(error, tool.takes)
            text, wrong = f"{place or 'arguments'}: {said_of_it}", True
        except (DocaiError, ApiError) as error:
            text, wrong = error.message if isinstance(error, ApiError) else str(error), True
        except Exception as error:  # the border of the program
            LOG.exception("internal error")
            text, wrong = f"internal error ({type(error).__name__})", True
        return _told(number, {"content": [{"type": "text", "text": text}], "isError": wrong})


def _described(name: str, tool: Tool) -> dict[str, Any]:
    return {"name": name, "description": tool.about, "inputSchema": tool.takes.model_json_schema()}


def _told(number: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _failed(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def serve_mcp(model: str | None, *, offline: bool = False, root: str | None = None) -> int:
    """Serve one client on standard input and output: the exit code. Nothing else goes to standard output."""
    if root is not None and not Path(root).is_dir():
        raise UsageError(f"root: {root} is no folder")
    settled = Settled(model, offline, None if root is None else Path(root).resolve(), {})
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what libraries print is no message
        Mcp(settled).serve(sys.stdin.buffer, out)
    return 0
