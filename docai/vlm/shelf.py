"""Blocks of prompts on disk: a file each (`docai.vlm.block_file`), which outlive the process.

Files are written by a thread beside the engine's and read when they are asked for. What cannot be read, or is not what
was written, is as if it were not there, and is deleted.
"""

from __future__ import annotations

import contextlib
import os
import queue
import stat
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

from docai.checkpoint.checkpoint import Checkpoint
from docai.errors import OutputError
from docai.version import __version__
from docai.vlm.admission import number_type
from docai.vlm.block_file import Contents, Named, block_of, encoded, named, read_file
from docai.vlm.network import Network
from docai.vlm.prefix import Block

CAP = 20 << 30  # bytes of a model's files
PENDING = 1 << 30  # bytes that may wait to be written; what comes beyond that is not kept
_SUFFIX, _PART = ".safetensors", ".part"
_STALE = 3600  # seconds
_READERS = 4  # files that are read at once
_SHARE = 16  # of the cap: after so much has been written, the folder is looked through for what others have written
# What reading a damaged file raises, or one that somebody has made up.
_NOT_A_BLOCK = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError)
Written = tuple[str, Block, dict[str, Named]]


class DiskShelf:
    """The blocks of one model in a folder, up to `cap` bytes; those that were not used for longest make room.

    `layout` tells what the model's blocks look like: files of another layout are not its own.
    """

    def __init__(self, folder: Path, layout: str, cap: int = CAP) -> None:
        """Raises OutputError for a folder that cannot be made."""
        self._files = _Files(folder, layout, cap)
        self._queue: queue.SimpleQueue[Written | None] = queue.SimpleQueue()
        writer = threading.Thread(target=_write, args=(self._files, self._queue), name="docai-blocks", daemon=True)
        writer.start()
        self._end = weakref.finalize(self, _finish, self._queue, writer)

    def __contains__(self, key: object) -> bool:
        return key in self._files

    def get(self, keys: Sequence[str]) -> dict[str, Block]:
        """Those of the blocks that are there and can be read. Files are read side by side."""
        there = [key for key in keys if key in self._files]
        if not there:
            return {}
        with ThreadPoolExecutor(min(_READERS, len(there)), "docai-blocks") as pool:
            read = list(pool.map(self._files.read, there))
        return {key: block_of(contents) for key, contents in zip(there, read, strict=True) if contents is not None}

    def used(self, keys: Sequence[str]) -> None:
        """The blocks of a prompt have been of use: the last one of them is the first to make room."""
        self._files.used(keys)

    def put(self, key: str, block: Block) -> None:
        """Have a block written."""
        if self._end.alive and self._files.expect(key, block):
            self._queue.put((key, block, named(block)))

    @property
    def most_pending(self) -> int:
        """Bytes that may wait to be written."""
        return self._files.most_pending

    @most_pending.setter
    def most_pending(self, most: int) -> None:
        self._files.most_pending = most

    def clear(self) -> None:
        """Delete all files. What is on its way there will be written."""
        self._files.clear()

    def flush(self) -> None:
        """Wait until everything is written, and end the writing; so does the end of the process."""
        self._end()

    def stats(self) -> dict[str, int]:
        """Counts and sizes by mlx-vlm's names."""
        return self._files.stats()


class _Files:
    """What is in the folder and what is on its way there. The engine's thread and the writer's share it.

    So may other processes: what they have written is noticed now and then, and counts.
    """

    def __init__(self, folder: Path, layout: str, cap: int) -> None:
        self._folder, self._layout, self._cap = folder, layout, cap
        self.most_pending = PENDING
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._sizes = _found(folder)
        except OSError as error:
            raise OutputError(f"{folder}: expected a folder for blocks of prompts: {error.strerror}") from error
        self._counts = {"disk_writes": 0, "disk_write_failures": 0, "disk_evictions": 0, "disk_rejects": 0}
        self._pending = 0
        self._coming: Counter[str] = Counter()  # how often a block waits to be written
        self._unseen = 0  # bytes written since the folder was looked through
        self._lock = threading.Lock()
        self._make_room()

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._sizes

    def read(self, key: str) -> Contents | None:
        """What is in a file; one that is not as it was written is deleted."""
        try:
            return read_file(self._path(key), self._layout)
        except _NOT_A_BLOCK:
            self._forget(key, "disk_rejects")
            return None

    def used(self, keys: Sequence[str]) -> None:
        now = time.time_ns()
        for number, key in enumerate(reversed(keys)):
            with contextlib.suppress(OSError):
                os.utime(self._path(key), ns=(now + number, now + number))
            with self._lock:
                if key in self._sizes:
                    self._sizes.move_to_end(key)

    def expect(self, key: str, block: Block) -> bool:
        """Whether a block is to be written: there is room, and the file neither is there already nor will be.

        One with scores is written anyway, as what is there may have none, but never the other way round.
        """
        with self._lock:
            known = (key in self._sizes or key in self._coming) and block.logits is None
            if known or self._pending + block.nbytes > self.most_pending or block.nbytes > self._cap:
                return False
            self._pending += block.nbytes
            self._coming[key] += 1
            return True

    def write(self, key: str, block: Block, arrays: Mapping[str, Named]) -> None:
        """Write a block that was expected; one that cannot be written is not kept."""
        path = self._path(key)
        beside = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}{_PART}")
        try:
            with beside.open("xb") as file:  # never what somebody has put there
                file.writelines(encoded(block, arrays, self._layout))
            size = beside.stat().st_size
            beside.replace(path)
        except (OSError, MemoryError, RuntimeError):
            self._settle("disk_write_failures", key, block)
            with contextlib.suppress(OSError):
                beside.unlink()
        else:
            self._settle("disk_writes", key, block, size)
            self._unseen += size
        if self._unseen > self._cap // _SHARE:
            self._look()
        self._make_room()

    def clear(self) -> None:
        with self._lock:
            keys = list(self._sizes)
        for key in keys:
            self._forget(key, "disk_evictions")

    def _look(self) -> None:
        """Look through the folder anew. (Only the writer adds files, and it is the writer that does this.)"""
        with contextlib.suppress(OSError):
            found = _found(self._folder)
            with self._lock:
                self._sizes, self._unseen = found, 0

    def _make_room(self) -> None:
        while (oldest := self._surplus()) is not None:
            self._forget(oldest, "disk_evictions")

    def _settle(self, what: str, key: str, block: Block, size: int | None = None) -> None:
        """A block waits no more; `size` of its file, None where there is none."""
        with self._lock:
            self._pending -= block.nbytes
            self._coming -= Counter([key])  # which drops those that are no more
            self._counts[what] += 1
            if size is not None:
                self._sizes.pop(key, None)
                self._sizes[key] = size

    def _surplus(self) -> str | None:
        with self._lock:
            return next(iter(self._sizes)) if sum(self._sizes.values()) > self._cap else None

    def _forget(self, key: str, why: str) -> None:
        with self._lock:
            self._sizes.pop(key, None)
            self._counts[why] += 1
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def stats(self) -> dict[str, int]:
        with self._lock:
            sizes = {"disk_bytes": sum(self._sizes.values()), "disk_files": len(self._sizes)}
            return {**self._counts, **sizes, "disk_pending_bytes": self._pending, "disk_max_bytes": self._cap}


def _write(files: _Files, waiting: queue.SimpleQueue[Written | None]) -> None:
    """The writer's work, until there is a None."""
    while (written := waiting.get()) is not None:
        files.write(*written)


def shelf_of(folder: Path, checkpoint: Checkpoint, network: Network, cap: int = CAP) -> DiskShelf:
    """The shelf of a model in a folder for several.

    A checkpoint whose files were written anew, and another version of docai, which may compute otherwise, have another
    one; what there was of the earlier ones is deleted. Raises OutputError for a folder that cannot be made.
    """
    paths = sorted(file.absolute() for file in checkpoint.files)
    model = _digest([str(path) for path in paths])
    state = _digest([((real := path.resolve().stat()).st_size, real.st_mtime_ns) for path in paths], __version__)
    layout = _digest(network.spec.decoder, number_type(network))
    for other in folder.glob(f"{model}-*"):
        if not other.name.startswith(f"{model}-{state}-"):
            _delete(other)
    return DiskShelf(folder / f"{model}-{state}-{layout}", layout, cap)


def _delete(folder: Path) -> None:
    """Delete a shelf; nothing else that somebody may have put there."""
    for path in [*folder.glob(f"*{_SUFFIX}"), *folder.glob(f"*{_PART}")]:
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _digest(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def _finish(waiting: queue.SimpleQueue[Written | None], writer: threading.Thread) -> None:
    """Have the writer end when it has written everything."""
    waiting.put(None)
    if writer is not threading.current_thread():
        writer.join()


def _found(folder: Path) -> OrderedDict[str, int]:
    """The files of a folder with their sizes, those used last at the end; what is long half written is deleted."""
    found: list[tuple[int, str, int]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process has deleted it meanwhile, or it is not ours to delete
            state = path.stat()
            if path.suffix == _SUFFIX and stat.S_ISREG(state.st_mode):  # a pipe would never be read to its end
                found.append((state.st_mtime_ns, path.stem, state.st_size))
            elif path.suffix == _PART and state.st_mtime < time.time() - _STALE:  # a younger one may be being written
                path.unlink()
    return OrderedDict((key, size) for _, key, size in sorted(found))
