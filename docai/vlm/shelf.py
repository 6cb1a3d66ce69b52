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
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
# safetensors' names of types that caches have, and the NumPy type of the same bytes
_TYPES: dict[str, tuple[mx.Dtype, str]] = {
    "F32": (mx.float32, "<f4"),
    "F16": (mx.float16, "<f2"),
    "BF16": (mx.bfloat16, "<u2"),
    "U32": (mx.uint32, "<u4"),
}
Written = tuple[str, Block, dict[str, "Named"]]
Named = tuple[str, mx.array]  # a type's name, and an array that NumPy can read
_NAMES = {dtype: name for name, (dtype, _) in _TYPES.items()}


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

    def get(self, key: str) -> Block | None:
        """The block; None where there is none that can be read."""
        return self._files.read(key)

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

    def read(self, key: str) -> Block | None:
        """The block of a file; one that is not as it was written is deleted."""
        with self._lock:
            if key not in self._sizes:
                return None
            self._sizes.move_to_end(key)
        path = self._path(key)
        try:
            block = _decoded(np.fromfile(path, np.uint8), self._layout)
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            self._forget(key, "disk_rejects")
            return None
        return block

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


def _decoded(data: NDArray[np.uint8], layout: str) -> Block:
    """The block of a file. Raises ValueError, KeyError or TypeError for one that is not as it was written."""
    length = int.from_bytes(data[:8].tobytes(), "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length].tobytes())
    said, body = header.pop("__metadata__"), data[8 + length :]
    if (said["version"], said["layout"], said["sum"]) != (_VERSION, layout, checksum(body)):
        raise ValueError("not what was written")
    widths = tuple(tuple(layer) for layer in json.loads(said["widths"]))
    layers = tuple(
        tuple(_array(header[f"{n}.{part}"], body) for part in range(len(layer))) for n, layer in enumerate(widths)
    )
    logits = _array(header["logits"], body) if "logits" in header else None
    return Block(layers, widths, int(said["end"]), logits)


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


def _array(entry: Mapping[str, Any], body: NDArray[np.uint8]) -> mx.array:
    dtype, of_numpy = _TYPES[entry["dtype"]]
    start, stop = entry["data_offsets"]
    numbers = np.frombuffer(body[start:stop].data, of_numpy).reshape(entry["shape"])
    made = mx.array(numbers)
    return made.view(dtype) if dtype == mx.bfloat16 else made


def checksum(data: NDArray[np.uint8]) -> str:
    """Tells damaged bytes, at the speed of memory: the sum and the parity of their 64-bit words."""
    whole = data[: len(data) // 8 * 8].view(np.uint64)
    rest = int.from_bytes(data[len(whole) * 8 :].tobytes(), "little")
    with np.errstate(over="ignore"):
        return (
            f"{int(whole.sum(dtype=np.uint64)):x}-{int(np.bitwise_xor.reduce(whole)) if len(whole) else 0:x}-{rest:x}"
        )
