"""Where the outputs of a file go, and how they get there whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docai.errors import OutputError
from docai.export.formats import suffix
from docai.render.inputs import InputFile


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


def _relative(file: InputFile) -> Path:
    if file.path is None:
        return Path("stdin.pdf")
    if file.root is not None:
        return file.path.relative_to(file.root)
    return Path(file.path.name)


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
