"""What a folder run has finished, so that the next one need not do it again.

Under OUT/.docai: `done.log` has a line for each finished file, `pages/KEY.log` the finished pages of a file that is
under way. KEY hashes the file's content and everything that shapes the result, so a changed file or option is read
anew. Both kinds of file only grow. A line is a CRC-32 of its JSON, then the JSON: one that a crash cut short or a disk
garbled does not match and counts as not there. A crash loses nothing that was finished, a power cut a second's work.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from docai.batch.lines import line_of, value_of
from docai.errors import OutputError
from docai.export.json import page_from, page_json
from docai.types import PageResult
from docai.version import __version__

FOLDER = ".docai"
_SYNC = 1.0  # seconds between two waits for the disk: what it costs is below the time of a page, or seldom


def key_of(content: bytes, options: object) -> str:
    """A name for a file's content (or a digest of it) read with some options by this version of docai."""
    digest = hashlib.sha256(content)
    digest.update(repr((options, __version__)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:40]


class Journal:
    """The journal of one output folder. Only one run at a time may hold it."""

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER
        try:
            (self.folder / "pages").mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("a")
        except OSError as error:
            raise OutputError(f"cannot write to {out}: {error.strerror or error}") from error
        try:
            _hold(self._lock, out)
            with _said(self.folder):
                self._done = (self.folder / "done.log").open("ab")
                self._finished = {line["key"]: line for line in _lines(self.folder / "done.log") if "outputs" in line}
        except OutputError:
            self._lock.close()
            raise

    def close(self) -> None:
        """Let another run have the folder."""
        self._done.close()
        self._lock.close()

    def finished(self, key: str) -> dict[str, Any] | None:
        """What was told of a finished file, where all that was written of it is still there as it was."""
        entry = self._finished.get(key)
        if entry is None:
            return None
        whole = all(_size(self.folder.parent / name) == size for name, size in entry["outputs"].items())
        return entry if whole else None

    def outputs(self) -> set[str]:
        """What earlier runs wrote, relative to the output folder."""
        return {name for entry in self._finished.values() for name in entry["outputs"]}

    def finish(self, key: str, outputs: dict[str, int], **more: Any) -> None:
        """Record a finished file, on the disk before this returns; its pages are no longer needed.

        `outputs`: path relative to the output folder -> size. Raises OutputError.
        """
        entry = {"key": key, "outputs": outputs, **more}
        _append(self._done, entry)
        with _said(self.folder):
            os.fsync(self._done.fileno())
        self._finished[key] = entry
        page_store(self.folder, key).drop()


def page_store(folder: Path, key: str) -> PageStore:
    """What a journal keeps of a file under way."""
    return PageStore(folder / "pages" / f"{key}.log")


class PageStore:
    """The finished pages of a file under way.

    Each outlives this program at once. It outlives a power cut, too, but for those of the last second.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._synced = -_SYNC

    def pages(self) -> dict[int, PageResult]:
        """The finished pages by index; they have no pixels of their own."""
        pages = {}
        for line in _lines(self.path):
            with contextlib.suppress(KeyError, TypeError, ValueError):
                result = page_from(line)
                pages[result.page.index] = result
        return pages

    def keep(self, result: PageResult) -> None:
        """Add a finished page. Raises OutputError."""
        with _said(self.path.parent), self.path.open("ab") as file:
            _append(file, page_json(result))
            now = time.monotonic()
            if now - self._synced >= _SYNC:
                os.fsync(file.fileno())
                _sync_folder(self.path.parent)
                self._synced = now

    def drop(self) -> None:
        """Forget the pages."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _append(file: IO[bytes], value: dict[str, Any]) -> None:
    said = line_of(value)
    with _said(Path(file.name).parent):
        # one write, so that a kill leaves all or a part of the line; the line end in front closes a part left before
        file.write(b"\n%08x %s\n" % (zlib.crc32(said), said))
        file.flush()


@contextlib.contextmanager
def _said(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot keep the journal in {folder}: {error.strerror or error}") from error


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            value = _checked(line.strip())
            if value is not None:
                yield value


def _checked(line: bytes) -> dict[str, Any] | None:
    check, _, said = line.partition(b" ")
    if not said or b"%08x" % zlib.crc32(said) != check:
        return None
    value = value_of(said)
    return value if isinstance(value, dict) else None


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
    except BlockingIOError as error:
        raise OutputError(f"another run is writing to {out}; wait for it, or choose another folder") from error
    except OSError:  # a file system without locks
        return
