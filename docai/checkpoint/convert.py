"""Checkpoints in our own names: dense or quantized, in shards, with what they were made from and their hashes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docai.checkpoint.backend import in_bytes, require_mlx
from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.files import INDEX, shard_names
from docai.checkpoint.hub import BESIDE, hash_name, hash_of
from docai.checkpoint.load import DOCAI, DTYPES, EXACT, Mapped, Source, weight_bytes
from docai.checkpoint.tensors import FLOATS, MLX_NAMES, Quantization
from docai.checkpoint.weights import Weight, part_names, sibling
from docai.errors import OutputError
from docai.version import __version__

MANIFEST = "docai.json"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is to be made of a checkpoint.

    `plan`: modules (in our names) that are quantized. `dtype` of floats, as safetensors spells it; None keeps theirs.
    `dense`: what is quantized becomes dense first. `shard_bytes`: the largest file.
    """

    plan: Mapping[str, Quantization]
    dtype: str | None = None
    dense: bool = False
    shard_bytes: int = 5_000_000_000

    def quantization(self, name: str, weight: Weight) -> Quantization | None:
        """How a weight is stored in the end."""
        planned = self.plan.get(name.removesuffix(".weight")) if name.endswith(".weight") else None
        return planned or (None if self.dense else weight.quantization)

    def float_type(self, name: str, weight: Weight) -> str:
        if name.endswith(EXACT):
            return "F32"
        return self.dtype or (weight.dtype if weight.dtype in FLOATS else "BF16")


def convert(
    checkpoint: Checkpoint,
    mapped: Mapped,
    conversion: Conversion,
    folder: Path,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write a checkpoint into a new folder; what its manifest says. Raises OutputError where it cannot be written."""
    sizes = {name: _stored(name, w, conversion) for name, w in mapped.map.weights.items()}
    _check_place(folder, sum(sizes.values()))
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        manifest = _fill(partial, checkpoint, mapped, conversion, sizes, on_progress)
        if folder.is_dir():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _stored(name: str, weight: Weight, conversion: Conversion) -> int:
    return weight_bytes(weight, conversion.float_type(name, weight), conversion.quantization(name, weight))


def _check_place(folder: Path, size: int) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder} exists already; name a new folder with -o")
    above = next(p for p in folder.absolute().parents if p.exists())
    free = shutil.disk_usage(above).free
    if size > free:
        raise OutputError(f"the checkpoint takes {in_bytes(size)}, but {in_bytes(free)} are free in {above}")


def _fill(
    folder: Path,
    checkpoint: Checkpoint,
    mapped: Mapped,
    conversion: Conversion,
    sizes: Mapping[str, int],
    on_progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    mx = require_mlx()
    source = Source(checkpoint, mapped.map)
    shards = _shards(sizes, conversion.shard_bytes)
    metadata = {"format": DOCAI, "docai": __version__, "made_from": checkpoint.name, "dialect": mapped.dialect}
    index: dict[str, str] = {}
    done = 0
    for file, names in zip(shard_names(len(shards)), shards, strict=True):
        arrays: dict[str, Any] = {}
        for name in names:
            made = dict(_converted(name, mapped.map.weights[name], source, conversion))
            mx.eval(list(made.values()))
            arrays |= made
            done += sizes[name]
            if on_progress:
                on_progress(done, sum(sizes.values()))
        try:
            mx.save_safetensors(str(folder / file), arrays, metadata=metadata)
        except RuntimeError as error:
            raise OutputError(f"cannot write {folder / file}: {error}") from error
        index |= dict.fromkeys(arrays, file)
    if len(shards) > 1:
        _write_json(folder / INDEX, {"metadata": {"total_size": sum(sizes.values())}, "weight_map": index})
    _write_json(folder / "config.json", _config(checkpoint, mapped, conversion))
    _copy_beside(checkpoint, folder)
    manifest = _manifest(folder, checkpoint, mapped, conversion)
    _write_json(folder / MANIFEST, manifest)
    return manifest


def _shards(sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """Names by file: as many as fit into `most` bytes, in order."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, nbytes in sizes.items():
        if shards[-1] and size + nbytes > most:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += nbytes
    return shards


def _converted(name: str, weight: Weight, source: Source, conversion: Conversion) -> Iterator[tuple[str, Any]]:
    """The arrays that are stored of a weight, by name."""
    mx = require_mlx()
    parts = weight.parts(source.take, mx)
    kind = getattr(mx, MLX_NAMES[conversion.float_type(name, weight)])
    how = conversion.quantization(name, weight)
    if how != weight.quantization:
        packed = weight.quantization
        dense = mx.dequantize(*parts.values(), **packed.arguments) if packed else parts["weight"]
        dense = dense.astype(kind)
        made = (dense,) if how is None else mx.quantize(dense, **how.arguments)
        parts = dict(zip(part_names(how), made, strict=True))
    for part, array in parts.items():
        yield sibling(name, part), array.astype(kind) if mx.issubdtype(array.dtype, mx.floating) else array


def _config(checkpoint: Checkpoint, mapped: Mapped, conversion: Conversion) -> dict[str, Any]:
    """The config of the original, with what changed: how modules (in our names) are quantized, the type of floats."""
    config = _without_quantization(checkpoint.config)
    text = config.get("text_config")
    if isinstance(text, Mapping):
        config["text_config"] = _without_quantization(text)
    if conversion.dtype:
        name = next(name for name, kind in DTYPES.items() if kind == conversion.dtype)
        for section in (config, config.get("text_config")):
            if isinstance(section, dict) and ("torch_dtype" in section or "dtype" in section or section is config):
                section["dtype" if "dtype" in section else "torch_dtype"] = name
    modules = {
        name.removesuffix(".weight"): how
        for name, weight in mapped.map.weights.items()
        if (how := conversion.quantization(name, weight)) is not None
    }
    if modules:
        kinds = list(modules.values())
        most = max(dict.fromkeys(kinds), key=kinds.count)
        others = {name: how.arguments for name, how in modules.items() if how != most}
        config["quantization"] = {**most.arguments, **others}
    return config


def _without_quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in ("quantization", "quantization_config")}


def _copy_beside(checkpoint: Checkpoint, folder: Path) -> None:
    """Tokenizer, templates and processor settings."""
    for name, text in checkpoint.made.items():
        if name != "config.json":
            (folder / name).write_text(text, encoding="utf-8")
    if checkpoint.path.is_dir():
        for path in checkpoint.path.iterdir():
            skipped = path.name in ("config.json", MANIFEST) or path.name.endswith(".index.json")
            if path.is_file() and path.suffix in BESIDE and not skipped:
                shutil.copyfile(path, folder / path.name)


def _manifest(folder: Path, checkpoint: Checkpoint, mapped: Mapped, conversion: Conversion) -> dict[str, Any]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    sources = {path.name: hash_name(path) or hash_of(path) for path in checkpoint.files}
    return {
        "docai": __version__,
        "made_from": {
            "name": checkpoint.name, "path": str(checkpoint.path), "dialect": mapped.dialect, "files": sources,
        },
        "dtype": conversion.dtype,
        "quantized": len([n for n, w in mapped.map.weights.items() if conversion.quantization(n, w)]),
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": hash_of(path)} for path in files},
    }  # fmt: skip


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
