"""Where the outputs of a file go, and how they get there whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from docai.errors import OutputError, UsageError
from docai.export.figures import assets
from docai.export.formats import ExportOptions, export, suffix
from docai.render.inputs import InputFile

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.types import Document


@dataclass(frozen=True, slots=True)
class Target:
    """Output paths of one file, without their suffixes: `stem` + `.md`, `stem` + `.json`, ..."""

    stem: Path

    def path(self, form: str) -> Path:
        return self.stem.with_name(self.stem.name + suffix(form))


def targets(files: Sequence[InputFile], out: Path) -> list[Target]:
    """A target for each file under `out`, mirroring the folder that was named.

    Files that would meet (a.pdf and a.png, or two a.pdf from different folders) keep their suffix, then get a number.
    """
    wished = [_relative(file) for file in files]
    plain = Counter(str(path.with_suffix("")).casefold() for path in wished)
    taken: set[str] = set()
    made = []
    for path in wished:
        bare = path.with_suffix("")
        name = str(bare) if plain[str(bare).casefold()] == 1 else str(path)
        unique, number = name, 2
        while unique.casefold() in taken:
            unique, number = f"{name}-{number}", number + 1
        taken.add(unique.casefold())
        made.append(Target(out / unique))
    return made


def spare_inputs(files: Sequence[InputFile], targets: Sequence[Target], formats: Sequence[str]) -> None:
    """Raise UsageError where an output would take the place of a document that is to be read."""
    inputs = {file.path.resolve() for file in files if file.path is not None}
    for target in targets:
        for form in formats:
            if target.path(form).resolve() in inputs:
                raise UsageError(
                    f"{target.path(form)} is an input; writing {form} there would replace it: use another -o"
                )


def _relative(file: InputFile) -> Path:
    if file.path is None:
        return Path("stdin.pdf")
    if file.root is not None:
        return file.path.relative_to(file.root)
    return Path(file.path.name)


def write_outputs(
    document: Document, source: Source, target: Target, formats: Sequence[str], options: ExportOptions
) -> dict[str, int]:
    """Write a document in each format, pictures before the markdown that shows them: path -> size.

    Raises OutputError.
    """
    if options.image_dir is None:  # a.pdf and a.png each have their own
        options = replace(options, image_dir=f"{target.stem.name}_images")
    written: dict[str, int] = {}
    if options.shows_pictures(formats):
        for name, data in assets(document, options, source).items():
            path = target.stem.parent / name
            written[str(path)] = write_whole(path, data)
    for form in formats:
        path = target.path(form)
        written[str(path)] = write_whole(path, export(document, form, options, source))
    return written


def write_whole(path: Path, data: str | bytes) -> int:
    """Write a file so that it is there whole or not at all; its size. Raises OutputError."""
    content = data.encode() if isinstance(data, str) else data
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    return len(content)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_writable(folder: Path) -> None:
    """Raise OutputError before any work is done for a folder that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error
