"""Blocks of prompts on disk: a file each, in the safetensors format, which outlive the process.

Files are written by a thread beside the engine's and read when they are asked for. What cannot be read, or is not what
was written, is as if it were not there, and is deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from docai.checkpoint.checkpoint import Checkpoint
from docai.vlm.admission import number_type
from docai.vlm.network import Network
from docai.vlm.prefix import Block

CAP = 20 << 30  # bytes of a model's files
_PENDING = 1 << 30  # bytes that may wait to be written; what comes beyond that is not kept
_VERSION = "docai-block-1"
_SUFFIX, _PART = ".safetensors", ".part"
_STALE = 3600  # seconds
_READERS = 4  # files that are read at once
_TYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16, "U32": mx.uint32}  # safetensors' names
Written = tuple[str, Block, dict[str, "Named"]]
Named = tuple[str, mx.array]  # a type's name, and an array that NumPy can read
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


class DiskShelf:
    """The blocks of one model in a folder, up to `cap` bytes; those that were not used for longest make room.

    `layout` tells what the model's blocks look like: files of another layout are not its own.
    """

    def __init__(self, folder: Path, layout: str, cap: int = CAP) -> None:
        self._files = _Files(folder, layout, cap)
        self._queue: queue.SimpleQueue[Written | None] = queue.SimpleQueue()
        writer = threading.Thread(target=_write, args=(self._files, self._queue), name="docai-blocks", daemon=True)
        writer.start()
        self._end = weakref.finalize(self, _finish, self._queue, writer)

    def get(self, keys: Sequence[str]) -> dict[str, Block]:
        """Those of the blocks that are there and can be read. Files are read side by side."""
        there = [key for key in keys if key in self._files]
        if not there:
            return {}
        with ThreadPoolExecutor(min(_READERS, len(there)), "docai-blocks") as pool:
            read = list(pool.map(self._files.read, there))
        return {key: _block(contents) for key, contents in zip(there, read, strict=True) if contents is not None}

    def put(self, key: str, block: Block) -> None:
        """Have a block written."""
        if self._files.expect(key, block):
            self._queue.put((key, block, _named(block)))

    def flush(self) -> None:
        """Wait until everything is written, and end the writing; so does the end of the process."""
        self._end()

    def stats(self) -> dict[str, int]:
        """Counts and sizes by mlx-vlm's names."""
        return self._files.stats()


class _Files:
    """What is in the folder and what is on its way there. The engine's thread and the writer's share it."""

    def __init__(self, folder: Path, layout: str, cap: int) -> None:
        self._folder, self._layout, self._cap = folder, layout, cap
        folder.mkdir(parents=True, exist_ok=True)
        self._sizes = _found(folder)
        self._counts = {"disk_writes": 0, "disk_write_failures": 0, "disk_evictions": 0, "disk_rejects": 0}
        self._pending = 0
        self._lock = threading.Lock()

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return key in self._sizes

    def read(self, key: str) -> Contents | None:
        """What is in a file; one that is not as it was written is deleted."""
        path = self._path(key)
        try:
            contents = _read(path, self._layout)
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            self._forget(key, "disk_rejects")
            return None
        with self._lock:
            if key in self._sizes:
                self._sizes.move_to_end(key)
        return contents

    def expect(self, key: str, block: Block) -> bool:
        """Whether a block is to be written: there is room, and the file is not there already."""
        with self._lock:
            known = key in self._sizes and block.logits is None
            if known or self._pending + block.nbytes > _PENDING or block.nbytes > self._cap:
                return False
            self._pending += block.nbytes
            return True

    def write(self, key: str, block: Block, named: Mapping[str, Named]) -> None:
        """Write a block that was expected; one that cannot be written is not kept."""
        path = self._path(key)
        beside = path.with_suffix(f".{os.getpid()}{_PART}")
        try:
            with beside.open("wb") as file:
                file.writelines(_encoded(block, named, self._layout))
            size = beside.stat().st_size
            beside.replace(path)
        except OSError:
            self._settle("disk_write_failures", block)
        else:
            self._settle("disk_writes", block, {key: size})
        while (oldest := self._surplus()) is not None:
            self._forget(oldest, "disk_evictions")

    def _settle(self, what: str, block: Block, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        with self._lock:
            self._pending -= block.nbytes
            self._counts[what] += 1
            for key, size in sizes.items():
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
    """The shelf of a model in a folder for several. A checkpoint whose files were written anew has another one."""
    files = [(file.name, (real := file.resolve().stat()).st_size, real.st_mtime_ns) for file in checkpoint.files]
    layout = _digest(network.spec.decoder, number_type(network))
    return DiskShelf(folder / _digest(files, layout), layout, cap)


def _digest(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def _finish(waiting: queue.SimpleQueue[Written | None], writer: threading.Thread) -> None:
    """Have the writer end when it has written everything."""
    waiting.put(None)
    if writer is not threading.current_thread():
        writer.join()


def _found(folder: Path) -> OrderedDict[str, int]:
    """The files of a folder with their sizes, those used last at the end; what is long half written is deleted."""
    files = [(path, path.stat()) for path in folder.glob(f"*{_SUFFIX}")]
    for path in folder.glob(f"*{_PART}"):
        if path.stat().st_mtime < time.time() - _STALE:  # what is younger, another process may be writing
            path.unlink(missing_ok=True)
    return OrderedDict((path.stem, stat.st_size) for path, stat in sorted(files, key=lambda pair: pair[1].st_mtime_ns))


def _named(block: Block) -> dict[str, Named]:
    """The arrays of a block by their names in a file. What MLX has to do for it is done on the engine's thread."""
    named = {f"{n}.{part}": array for n, layer in enumerate(block.layers) for part, array in enumerate(layer)}
    if block.logits is not None:
        named["logits"] = block.logits
    viewed = {n: (_NAMES[a.dtype], a.view(mx.uint16) if a.dtype == mx.bfloat16 else a) for n, a in named.items()}
    mx.async_eval([array for _, array in viewed.values()])
    return viewed


class Contents(NamedTuple):
    """A file that is as it was written: where its arrays are in `body`, and of each layer what its keys take."""

    arrays: dict[str, dict[str, Any]]
    body: NDArray[np.uint8]
    widths: tuple[tuple[int, ...], ...]
    end: int


def _read(path: Path, layout: str) -> Contents:
    """Raises OSError, ValueError, KeyError or TypeError for a file that is not as it was written."""
    data = np.fromfile(path, np.uint8)
    length = int.from_bytes(data[:8].tobytes(), "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length].tobytes())
    said, body = header.pop("__metadata__"), data[8 + length :]
    if (said["version"], said["layout"], said["sum"]) != (_VERSION, layout, checksum(body)):
        raise ValueError("not what was written")
    widths = tuple(tuple(layer) for layer in json.loads(said["widths"]))
    expected = {f"{n}.{part}" for n, layer in enumerate(widths) for part in range(len(layer))}
    if expected - header.keys() or any(entry["dtype"] not in _TYPES for entry in header.values()):
        raise ValueError("not the arrays of a block")
    return Contents(header, body, widths, int(said["end"]))


def _block(contents: Contents) -> Block:
    """A file's block; its bytes are copied to the device at once."""
    body = mx.array(contents.body)

    def array(name: str) -> mx.array:
        entry = contents.arrays[name]
        start, stop = entry["data_offsets"]
        return body[start:stop].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])

    layers = tuple(tuple(array(f"{n}.{part}") for part in range(len(layer))) for n, layer in enumerate(contents.widths))
    return Block(layers, contents.widths, contents.end, array("logits") if "logits" in contents.arrays else None)


def _encoded(block: Block, named: Mapping[str, Named], layout: str) -> list[bytes]:
    """A block as the parts of a safetensors file."""
    header: dict[str, Any] = {}
    arrays = {name: np.asarray(array) for name, (_, array) in named.items()}
    body = b"".join(array.tobytes() for array in arrays.values())
    at = 0
    for name, array in arrays.items():
        offsets = [at, at + array.nbytes]
        header[name] = {"dtype": named[name][0], "shape": list(array.shape), "data_offsets": offsets}
        at += array.nbytes
    header["__metadata__"] = {
        "version": _VERSION,
        "layout": layout,
        "widths": json.dumps(block.widths),
        "end": str(block.end),
        "sum": checksum(np.frombuffer(body, np.uint8)),
    }
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return [len(head).to_bytes(8, "little"), head, body]


def checksum(data: NDArray[np.uint8]) -> str:
    """Tells damaged bytes, at the speed of memory: the sum of their 64-bit words, and how many bytes there are."""
    whole = data[: len(data) // 8 * 8]
    words = whole.view(np.uint64) if whole.ctypes.data % 8 == 0 else whole.copy().view(np.uint64)
    rest = int.from_bytes(data[len(whole) :].tobytes(), "little")
    return f"{int(words.sum(dtype=np.uint64)):x}-{rest:x}-{len(data)}"
