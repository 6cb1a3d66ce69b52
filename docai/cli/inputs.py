"""What the words of a command line name: files to read, a layout, the place for outputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from docai.batch.runner import Row
from docai.errors import DocaiError, InputError, UsageError
from docai.layout.given import MOST_BYTES, source_of
from docai.render.inputs import InputFile, expand
from docai.tasks.ocr import Layout, layout_from, names_detector
from docai.tasks.options import InputOptions, OcrOptions


def names_many(inputs: Sequence[str]) -> bool:
    """Whether inputs may be several files: two words, a folder, a pattern. Raises UsageError where there are none."""
    if not inputs:
        raise UsageError("expected a file, a folder or - for standard input (see docai --help)")
    path = Path(inputs[0])
    return len(inputs) > 1 or path.is_dir() or (any(c in inputs[0] for c in "*?[") and not path.exists())


def files_of(inputs: Sequence[str], options: InputOptions) -> tuple[list[InputFile], list[Row]]:
    """The files of all inputs; an input that names none is a row of the summary, and the others go on.

    Raises the first error where no input names a file, UsageError for standard input among others.
    """
    if "-" in inputs:
        raise UsageError("standard input cannot be read together with other files")
    files: dict[Path, InputFile] = {}
    missing: list[Row] = []
    errors: list[DocaiError] = []
    for text in inputs:
        try:
            for file in expand([text], max_bytes=options.max_bytes):
                assert file.path is not None
                files.setdefault(file.path.resolve(), file)
        except DocaiError as error:
            errors.append(error)
            missing.append(Row(text, "failed", 0, (str(error),), int(error.exit_code)))
    if not files and errors:
        raise errors[0]
    return list(files.values()), missing


def given_layout(options: OcrOptions, inputs: Sequence[str]) -> tuple[Layout | None, Sequence[str], str | None]:
    """The layout that `--layout` names; the inputs; and the document that the layout itself names, where it is taken.

    Raises InputError where the layout cannot be read, UsageError where standard input would be two things.
    """
    if options.layout is None or names_detector(options.layout):
        return None, inputs, None
    if options.layout == "-" and "-" in inputs:
        raise UsageError("standard input cannot be both the layout and the document")
    data = _layout_bytes(str(options.layout))
    layout = layout_from(data)
    if inputs:
        return layout, inputs, None
    source = source_of(data)
    return layout, [source], source


def _layout_bytes(name: str) -> bytes:
    if name == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("layout: expected what `docai detect` prints on standard input; got a terminal")
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read the layout {name}: {error.strerror or error}") from error


def is_folder(path: str, formats: int = 1) -> bool:
    """Whether `-o` names a folder: it ends with a slash, is one, or has to hold several formats."""
    return path != "-" and (path.endswith(("/", os.sep)) or Path(path).is_dir() or formats > 1)
