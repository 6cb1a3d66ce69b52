"""Blocks of prompts on disk: a file each, in the safetensors format, which outlive the process.

Files are written by a thread beside the engine's and read when they are asked for. What cannot be read, or is not what
was written, is as if it were not there, and is deleted.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from docai.vlm.prefix import Block

CAP = 20 << 30  # bytes of a model's files
_PENDING = 1 << 30  # bytes that may wait to be written; what comes beyond that is not kept
_VERSION = "docai-block-1"
_SUFFIX = ".safetensors"
# safetensors' names of types that caches have, and the NumPy type of the same bytes
_TYPES: dict[str, tuple[mx.Dtype, str]] = {
    "F32": (mx.float32, "<f4"),
    "F16": (mx.float16, "<f2"),
    "BF16": (mx.bfloat16, "<u2"),
    "U32": (mx.uint32, "<u4"),
}
Named = tuple[str, mx.array]  # a type's name, and an array that NumPy can read
_NAMES = {dtype: name for name, (dtype, _) in _TYPES.items()}


class DiskShelf:
    """The blocks of one model in a folder, up to `cap` bytes; those that were not used for longest make room.

    `layout` tells what the model's blocks look like: files of another layout are not its own.
    """

    def __init__(self, folder: Path, layout: str, cap: int = CAP) -> None:
        self._folder, self._layout, self._cap = folder, layout, cap
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._sizes = _found(folder)
        self._counts = {"disk_writes": 0, "disk_write_failures": 0, "disk_evictions": 0, "disk_rejects": 0}
        self._pending = 0
        self._queue: queue.SimpleQueue[tuple[str, Block, dict[str, Named], int] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="docai-blocks", daemon=True)
        self._writer.start()
        self._end = weakref.finalize(self, self._queue.put, None)

    # --- reading

    def get(self, key: str) -> Block | None:
        """The block; None where there is none that can be read."""
        with self._lock:
            if key not in self._sizes:
                return None
            self._sizes.move_to_end(key)
        path = self._path(key)
        try:
            block = self._read(path)
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            self._forget(key, "disk_rejects")
            return None
        return block

    def _read(self, path: Path) -> Block:
        """Raises ValueError, KeyError or TypeError for a file that is not as it was written."""
        data = np.fromfile(path, np.uint8)
        length = int.from_bytes(data[:8].tobytes(), "little")
        header: dict[str, Any] = json.loads(data[8 : 8 + length].tobytes())
        said, body = header.pop("__metadata__"), data[8 + length :]
        if (said["version"], said["layout"], said["sum"]) != (_VERSION, self._layout, checksum(body)):
            raise ValueError(f"{path}: not what was written")
        widths = tuple(tuple(layer) for layer in json.loads(said["widths"]))
        layers = tuple(
            tuple(_array(header[f"{n}.{part}"], body) for part in range(len(layer))) for n, layer in enumerate(widths)
        )
        logits = _array(header["logits"], body) if "logits" in header else None
        return Block(layers, widths, int(said["end"]), logits)

    # --- writing

    def put(self, key: str, block: Block) -> None:
        """Have a block written."""
        size = block.nbytes
        with self._lock:
            if self._pending + size > _PENDING or size > self._cap or (key in self._sizes and block.logits is None):
                return
            self._pending += size
        self._queue.put((key, block, _named(block), size))

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            key, block, named, size = item
            try:
                self._write(key, _encoded(block, named, self._layout))
            except OSError:
                with self._lock:
                    self._counts["disk_write_failures"] += 1
            with self._lock:
                self._pending -= size

    def _write(self, key: str, parts: list[bytes]) -> None:
        path = self._path(key)
        beside = path.with_suffix(f".{os.getpid()}.part")
        with beside.open("wb") as file:
            file.writelines(parts)
        beside.replace(path)
        with self._lock:
            self._sizes.pop(key, None)
            self._sizes[key] = path.stat().st_size
            self._counts["disk_writes"] += 1
        while (oldest := self._surplus()) is not None:
            self._forget(oldest, "disk_evictions")

    def _surplus(self) -> str | None:
        with self._lock:
            return next(iter(self._sizes)) if sum(self._sizes.values()) > self._cap else None

    def _forget(self, key: str, why: str) -> None:
        with self._lock:
            self._sizes.pop(key, None)
            self._counts[why] += 1
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{_SUFFIX}"

    def flush(self) -> None:
        """Wait until everything is written, and end the writing."""
        self._end()
        self._writer.join()

    def stats(self) -> dict[str, int]:
        """Counts and sizes by mlx-vlm's names."""
        with self._lock:
            sizes = {"disk_bytes": sum(self._sizes.values()), "disk_files": len(self._sizes)}
            return {**self._counts, **sizes, "disk_pending_bytes": self._pending, "disk_max_bytes": self._cap}


def _found(folder: Path) -> OrderedDict[str, int]:
    """The files of a folder with their sizes, those used last at the end; what was left half written is deleted."""
    files = [(path, path.stat()) for path in folder.glob(f"*{_SUFFIX}")]
    for path in folder.glob("*.part"):
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
