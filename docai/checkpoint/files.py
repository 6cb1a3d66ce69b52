"""The files of a checkpoint: which they are, and the names, types and shapes of their tensors, without the numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docai.checkpoint.tensors import BITS, TensorInfo
from docai.errors import CheckpointError

INDEX = "model.safetensors.index.json"
_MOST_HEADER = 100_000_000  # bytes; the limit of the safetensors package
_MOST_JSON = 200_000_000
_NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.\w+)")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True, slots=True)
class Contents:
    """The tensors of a checkpoint's files, and what the first file says of itself."""

    files: tuple[Path, ...]
    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]


def read_folder(folder: Path) -> Contents:
    """The safetensors files of a folder. Raises CheckpointError for what is missing or broken."""
    files, indexed = weight_files(folder)
    tensors: dict[str, TensorInfo] = {}
    metadata: dict[str, str] = {}
    for file in files:
        found, said = read_header(file)
        twice = next((name for name in found if name in tensors), None)
        if twice is not None:
            raise CheckpointError(f"{file}: tensor {twice} is in {tensors[twice].file} too")
        tensors.update(found)
        metadata = metadata or said
    for name, shard in indexed.items():
        if name not in tensors:
            raise CheckpointError(f"{folder / INDEX}: tensor {name} should be in {shard}, but is not there")
    return Contents(files, tensors, metadata)


def weight_files(folder: Path) -> tuple[tuple[Path, ...], dict[str, str]]:
    """The weight files of a folder, and which of them its index says a tensor is in. All of them are there."""
    if (folder / INDEX).is_file():
        indexed = _index(folder / INDEX)
        names = sorted(set(indexed.values()))
    else:
        indexed, names = {}, _without_index(folder)
    gone = [name for name in names if not (folder / name).is_file()]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise CheckpointError(f"{folder}: {gone[0]}{more} is missing; docai models pull gets it again")
    return tuple(folder / name for name in names), indexed


def _index(path: Path) -> dict[str, str]:
    """Tensor name -> file name."""
    table = read_json(path).get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(file, str) for file in table.values()):
        raise CheckpointError(f"{path}: expected an object weight_map of file names")
    for file in table.values():
        if "/" in file or "\\" in file or not file.endswith(".safetensors"):
            raise CheckpointError(f"{path}: expected names of safetensors files beside it; got {file!r}")
    return table


def _without_index(folder: Path) -> list[str]:
    """All safetensors files; `consolidated` ones hold the same in another layout, where there are others."""
    names = sorted(path.name for path in folder.glob("*.safetensors") if not path.name.startswith("."))
    names = [name for name in names if not name.startswith("consolidated")] or names
    if not names:
        raise CheckpointError(_no_weights(folder))
    return sorted({name for one in names for name in _siblings(one)})


def _siblings(name: str) -> Iterable[str]:
    """All files of the set that a file is of: model-00001-of-00003.safetensors has two others."""
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return (name,)
    return (f"{found[1]}-{i:05d}-of-{found[3]}{found[4]}" for i in range(1, int(found[3]) + 1))


def _no_weights(folder: Path) -> str:
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in _PICKLES)
    if pickles:
        return (
            f"{folder}: its weights are a pickle ({pickles[0]}), which can run code and is never loaded; "
            "expected safetensors: convert it with its own library (save_pretrained), or take a repo that has them"
        )
    others = sorted(p.name for p in folder.iterdir() if p.suffix in (".npz", ".gguf", ".onnx"))
    got = f"; got {', '.join(others)}" if others else "; found none"
    return f"{folder}: expected *.safetensors files{got}"


def read_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """The tensors and the metadata of a safetensors file. Raises CheckpointError where it is broken or cut off."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(_MOST_HEADER, size - 8):
                raise CheckpointError(f"{path}: no safetensors file, or cut off within its header ({size} bytes)")
            header = json.loads(file.read(length))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its safetensors header is corrupt: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: its safetensors header is corrupt: expected an object")
    said = header.pop("__metadata__", None) or {}
    tensors = {name: _tensor(path, name, value, 8 + length, size) for name, value in header.items()}
    return tensors, {str(k): str(v) for k, v in said.items()} if isinstance(said, dict) else {}


def _tensor(path: Path, name: str, value: Any, start: int, size: int) -> TensorInfo:
    try:
        dtype, shape, (begin, end) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
        whole = [*shape, begin, end]
        sound = dtype in BITS and all(type(n) is int and n >= 0 for n in whole)
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise CheckpointError(f"{path}: its safetensors header is corrupt at {name}: {str(value)[:120]}")
    info = TensorInfo(dtype, shape, path, start + begin)
    if end - begin != info.nbytes:
        raise CheckpointError(
            f"{path}: its safetensors header is corrupt: {name}, {dtype} {shape}, takes {info.nbytes} bytes, "
            f"but is given {end - begin}"
        )
    if start + end > size:
        raise CheckpointError(
            f"{path}: the file is cut off: {name} ends at byte {start + end}, the file at {size}; "
            "docai models pull gets it again"
        )
    return info


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError."""
    try:
        if path.stat().st_size > _MOST_JSON:
            raise CheckpointError(f"{path}: expected a JSON file of at most {_MOST_JSON} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return value


def total_bytes(tensors: Iterable[TensorInfo]) -> int:
    return sum(info.nbytes for info in tensors)


def shard_names(count: int) -> Sequence[str]:
    """The file names of a checkpoint in `count` parts."""
    if count == 1:
        return ("model.safetensors",)
    return [f"model-{i:05d}-of-{count:05d}.safetensors" for i in range(1, count + 1)]
