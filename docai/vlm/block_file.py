"""A block of a prompt as a file in the safetensors format, sealed so that any damage is noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from docai.vlm.prefix import Block

_VERSION = "docai-block-2"
_TYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16, "U32": mx.uint32}  # safetensors' names
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_PAGE = 512  # words

Named = tuple[str, mx.array]  # a type's name, and an array that NumPy can read


def named(block: Block) -> dict[str, Named]:
    """The arrays of a block by their names in a file. What MLX has to do for it is done on the calling thread."""
    arrays = {f"{n}.{part}": array for n, layer in enumerate(block.layers) for part, array in enumerate(layer)}
    if block.logits is not None:
        arrays["logits"] = block.logits
    viewed = {n: (_NAMES[a.dtype], a.view(mx.uint16) if a.dtype == mx.bfloat16 else a) for n, a in arrays.items()}
    mx.async_eval([array for _, array in viewed.values()])
    return viewed


def encoded(block: Block, arrays: Mapping[str, Named], layout: str) -> list[bytes]:
    """A block, by its `named` arrays, as the parts of a file. `layout`: see `docai.vlm.shelf`."""
    header: dict[str, Any] = {}
    read = {name: np.asarray(array) for name, (_, array) in arrays.items()}
    body = b"".join(array.tobytes() for array in read.values())
    at = 0
    for name, array in read.items():
        offsets = [at, at + array.nbytes]
        header[name] = {"dtype": arrays[name][0], "shape": list(array.shape), "data_offsets": offsets}
        at += array.nbytes
    said = {"version": _VERSION, "layout": layout, "widths": json.dumps(block.widths), "end": str(block.end)}
    header["__metadata__"] = {**said, "seal": _seal(header, said, np.frombuffer(body, np.uint8))}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return [len(head).to_bytes(8, "little"), head, body]


class Contents(NamedTuple):
    """A file that is as it was written: where its arrays are in `body`, and of each layer what its keys take."""

    arrays: dict[str, dict[str, Any]]
    body: NDArray[np.uint8]
    widths: tuple[tuple[int, ...], ...]
    end: int


def read_file(path: Path, layout: str) -> Contents:
    """Raises OSError, ValueError, KeyError, TypeError or AttributeError for a file that is not as it was written."""
    data = np.fromfile(path, np.uint8)
    length = int.from_bytes(data[:8].tobytes(), "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length].tobytes())
    said, body = header.pop("__metadata__"), data[8 + length :]
    seal = said.pop("seal")
    if (said["version"], said["layout"], seal) != (_VERSION, layout, _seal(header, said, body)):
        raise ValueError("not what was written")
    return Contents(header, body, tuple(map(tuple, json.loads(said["widths"]))), int(said["end"]))


def block_of(contents: Contents) -> Block:
    """A file's block; its bytes are copied to the device at once."""
    body = mx.array(contents.body)

    def array(name: str) -> mx.array:
        entry = contents.arrays[name]
        start, stop = entry["data_offsets"]
        return body[start:stop].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])

    layers = tuple(tuple(array(f"{n}.{part}") for part in range(len(layer))) for n, layer in enumerate(contents.widths))
    return Block(layers, contents.widths, contents.end, array("logits") if "logits" in contents.arrays else None)


def _seal(header: Mapping[str, Any], said: Mapping[str, str], body: NDArray[np.uint8]) -> str:
    """Stands for all of a file."""
    return blake2b(json.dumps([header, said, checksum(body)], sort_keys=True).encode(), digest_size=16).hexdigest()


def checksum(data: NDArray[np.uint8]) -> str:
    """Tells damaged bytes, at the speed of memory: sums of the 64-bit words of each page, weighted by where it is."""
    whole = data[: len(data) // 8 * 8]
    words = whole.view(np.uint64) if whole.ctypes.data % 8 == 0 else whole.copy().view(np.uint64)
    pages = np.add.reduceat(words, np.arange(0, len(words), _PAGE)) if len(words) else words
    total = int((pages * np.arange(1, 2 * len(pages), 2, dtype=np.uint64)).sum(dtype=np.uint64))
    rest = int.from_bytes(data[len(whole) :].tobytes(), "little")
    return f"{total:x}-{rest:x}-{len(data)}"
