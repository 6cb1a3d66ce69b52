"""What a folder run has finished, so that the next one need not do it again.

Under OUT/.docai: `done.jsonl` has a line for each finished file, `pages/KEY.jsonl` the finished pages of a file that is
under way. KEY hashes the file's content and everything that shapes the result, so a changed file or option is read
anew. Both kinds of file only grow; a line that a crash cut short is not valid JSON and counts as not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from docai import __version__
from docai.errors import OutputError
from docai.export.json import page_from, page_json
from docai.types import PageResult

FOLDER = ".docai"


def key_of(content: bytes, options: object) -> str:
    """A name for a file's content read with some options by this version of docai."""
    digest = hashlib.sha256(content)
    digest.update(repr((options, __version__)).encode())
    return digest.hexdigest()[:40]


class Journal:
    """The journal of one output folder. Only one run at a time may hold it."""

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER
        try:
            (self.folder / "pages").mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("a")
            self._done = (self.folder / "done.jsonl").open("ab")
        except OSError as error:
            raise OutputError(f"cannot write to {out}: {error.strerror or error}") from error
        try:
            _hold(self._lock, out)
        except OutputError:
            self.close()
            raise
        self._finished = {line["key"]: line for line in _lines(self.folder / "done.jsonl") if "key" in line}

    def close(self) -> None:
        """Let another run have the folder."""
        self._done.close()
        self._lock.close()

    def finished(self, key: str) -> dict[str, Any] | None:
        """What was written of a finished file, where all of it is still there as it was."""
        entry = self._finished.get(key)
        if entry is None:
            return None
        whole = all(_size(self.folder.parent / name) == size for name, size in entry["outputs"].items())
        return entry if whole else None

    def finish(self, key: str, outputs: dict[str, int], **more: Any) -> None:
        """Record a finished file; its pages are no longer needed."""
        entry = {"key": key, "outputs": outputs, **more}
        _append(self._done, entry)
        self._finished[key] = entry
        page_store(self.folder, key).unlink(missing_ok=True)


def page_store(folder: Path, key: str) -> Path:
    """Where the finished pages of a file under way are kept."""
    return folder / "pages" / f"{key}.jsonl"


def kept_pages(folder: Path, key: str) -> dict[int, PageResult]:
    """The finished pages of a file: index -> page. Pages have no pixels of their own."""
    pages = {}
    for line in _lines(page_store(folder, key)):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            result = page_from(line)
            pages[result.page.index] = result
    return pages


def keep_page(folder: Path, key: str, result: PageResult) -> None:
    """Add a finished page, on the disk before this returns."""
    with page_store(folder, key).open("ab") as file:
        _append(file, page_json(result))


def _append(file: IO[bytes], value: dict[str, Any]) -> None:
    file.write(b"\n" + orjson.dumps(value) + b"\n")  # the line end in front closes a line that was cut short
    file.flush()
    os.fsync(file.fileno())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(orjson.JSONDecodeError):
            value = orjson.loads(line) if line else None
            if isinstance(value, dict):
                yield value


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _hold(lock: IO[str], out: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise OutputError(f"another run is writing to {out}; wait for it, or choose another folder") from error
