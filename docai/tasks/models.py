"""`docai models`: what is in the cache, what a checkpoint is, whether it is whole; conversion stands in `convert`.

Each task gives plain values, as JSON has them; the command line prints them as tables or as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docai.checkpoint.backend import cache_folder, device_name, free_memory, require_mlx
from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint
from docai.checkpoint.config import sensible
from docai.checkpoint.convert import MANIFEST
from docai.checkpoint.files import read_json
from docai.checkpoint.hub import hash_name, hash_of, open_checkpoint
from docai.checkpoint.load import load_dtype, map_weights, shapes_of
from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.checkpoint.recipes import LATER, RECIPES, later_family
from docai.checkpoint.tensors import BITS, MLX_NAMES
from docai.errors import CheckpointError
from docai.layout.families import FAMILIES as DETECTORS
from docai.vlm.families import FAMILIES

if TYPE_CHECKING:
    import mlx.nn as nn

    from docai.checkpoint.load import Mapped
    from docai.layout.families import LayoutFamily
    from docai.layout.spec import DetectorSpec
    from docai.vlm.families import Family
    from docai.vlm.loading import AnySpec


def list_models() -> dict[str, Any]:
    """What the cache holds, which short names there are, which families are supported and which are not yet."""
    families: dict[str, list[str]] = {}
    for model_type, module in (FAMILIES | DETECTORS).items():
        families.setdefault(module, []).append(model_type)
    return {
        "cache": str(cache_folder()),
        "models": [_cached_model(repo) for repo in sorted(cache_folder().glob("models--*--*"))],
        "names": {name: {"repo": r.repo, "about": r.about} for name, r in RECIPES.items()},
        "families": dict(sorted(families.items())),
        "not_yet": {name: list(types) for name, types in LATER.items()},
    }


def _cached_model(folder: Path) -> dict[str, Any]:
    """What is known of a repo in the cache, without reading its weights."""
    repo = "/".join(folder.name.split("--")[1:])
    snapshots = sorted((folder / "snapshots").glob("*"), key=lambda path: path.stat().st_mtime)
    size = sum(blob.stat().st_size for blob in (folder / "blobs").glob("*") if blob.is_file())
    said: dict[str, Any] = {"repo": repo, "bytes": size, "revisions": [path.name for path in snapshots]}
    if not snapshots:
        return {**said, "model_type": None, "status": "empty"}
    try:
        checkpoint = read_checkpoint(snapshots[-1], repo)
    except CheckpointError as error:
        return {**said, "model_type": None, "status": f"incomplete: {error}"}
    kind = checkpoint.config.get("model_type")
    later = later_family(kind)
    status = (
        "ready"
        if kind in FAMILIES or kind in DETECTORS
        else f"not yet supported ({later})"
        if later
        else "not supported"
    )
    return {**said, "model_type": kind, "status": status}


def show_model(name: str, options: LoadOptions) -> dict[str, Any]:
    """All there is to say of a checkpoint: its spec, its modules, where its weights come from, what memory it takes."""
    checkpoint = opened(name, options)
    resolved = Resolved.of(checkpoint)
    spec, found = resolved.spec, resolved.mapped.map
    dtype = load_dtype(checkpoint, options.dtype)
    return {
        "name": checkpoint.name,
        "path": str(checkpoint.path),
        "model_type": checkpoint.config.get("model_type"),
        "family": resolved.family.name,
        "dialect": resolved.mapped.dialect,
        "files": [{"name": path.name, "bytes": path.stat().st_size} for path in checkpoint.files],
        "parameters": sum(weight.size for weight in found.weights.values()),
        "sees": _sees(spec),
        "hears": _hears(spec),
        "notices": _notices(spec),
        "made_from": (checkpoint.json_file(MANIFEST) or {}).get("made_from"),
        "memory": memory_need(resolved.mapped, spec, dtype),
        "spec": _plain(spec),
        "modules": list(_modules(resolved.network)),
        "weights": [
            {
                "name": own,
                "from": list(weight.sources),
                "shape": list(weight.shape),
                "stored": str(weight.quantization) if weight.quantization else _type_name(weight.dtype),
            }
            for own, weight in found.weights.items()
        ],
        "dropped": list(found.dropped),
    }


def _sees(spec: AnySpec | DetectorSpec) -> bool:
    from docai.layout.spec import DetectorSpec

    return isinstance(spec, DetectorSpec) or spec.connector is not None


def _hears(spec: AnySpec | DetectorSpec) -> bool:
    from docai.vlm.spec import ModelSpec

    return isinstance(spec, ModelSpec) and spec.hearing is not None


def _notices(spec: AnySpec | DetectorSpec) -> list[str]:
    from docai.layout.spec import DetectorSpec

    return [] if isinstance(spec, DetectorSpec) else list(spec.notices)


def memory_need(mapped: Mapped, spec: AnySpec | DetectorSpec, dtype: str) -> dict[str, Any]:
    """Bytes of the weights, of keys and values of 1000 tokens and of a request's states, where floats have a type."""
    weights, free = mapped.nbytes(dtype), free_memory()
    return {
        "dtype": _type_name(dtype),
        "weights": weights,
        "cache_per_1000_tokens": _kept_per_token(spec) * 1000 * BITS[dtype] // 8,
        "states": _state_size(spec) * BITS["F32"] // 8,
        "device": device_name(),
        "free": free,
        "fits": weights < free,
    }


def _kept_per_token(spec: AnySpec | DetectorSpec) -> int:
    """Numbers that a decoder keeps for each token: keys and values of every layer. Detectors have no tokens."""
    from docai.layout.spec import DetectorSpec
    from docai.vlm.spec import DecoderSpec

    if isinstance(spec, DetectorSpec):
        return 0
    if isinstance(spec.decoder, DecoderSpec):
        return sum(2 * attention.kept_heads * attention.head_dim for attention in spec.decoder.keeping)
    return 2 * spec.decoder.layers * spec.decoder.layer.dims


def _state_size(spec: AnySpec | DetectorSpec) -> int:
    """Numbers in the states of recurrent layers, which take the same for any number of tokens."""
    from docai.vlm.spec import ModelSpec

    return sum(attention.state_size for attention in spec.decoder.keeping) if isinstance(spec, ModelSpec) else 0


def _type_name(dtype: str) -> str:
    return MLX_NAMES.get(dtype, dtype)


def opened(name: str, options: SourceOptions, *, quiet: bool = False) -> Checkpoint:
    """The checkpoint of a name, downloaded where it has to be."""
    return open_checkpoint(name, revision=options.revision, offline=options.offline, quiet=quiet)


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A checkpoint with everything that it is read as. The network has no weights yet."""

    family: Family | LayoutFamily
    spec: AnySpec | DetectorSpec
    network: nn.Module
    mapped: Mapped

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Resolved:
        """Raises CheckpointError where the tensors are not those of the spec; DependencyMissing without MLX."""
        require_mlx()
        if checkpoint.config.get("model_type") in DETECTORS:
            return cls(*_detector(checkpoint))
        from docai.vlm.loading import build_network, resolve

        family, spec = resolve(checkpoint)
        with sensible(checkpoint):
            network = build_network(spec)
        return cls(family, spec, network, map_weights(checkpoint, family.rules, spec, shapes_of(network)))


def _detector(checkpoint: Checkpoint) -> tuple[LayoutFamily, DetectorSpec, nn.Module, Mapped]:
    from docai.layout.loading import resolve

    family, spec, network = resolve(checkpoint)
    return family, spec, network, map_weights(checkpoint, family.rules, spec, shapes_of(network))


def _plain(value: Any) -> Any:
    """Dataclasses as objects that name their class; equal neighbours in a list once, with their number."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, list | tuple):
        return _counted([_plain(one) for one in value])
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _counted(values: list[Any]) -> list[Any]:
    if not any(isinstance(value, dict) for value in values):
        return values
    out: list[dict[str, Any]] = []
    for value in values:
        if out and {k: v for k, v in out[-1].items() if k != "times"} == value:
            out[-1]["times"] += 1
        else:
            out.append({"times": 1, **value})
    return out


def _modules(network: nn.Module) -> Iterator[dict[str, Any]]:
    """The layers that have weights of their own: name, kind and number of parameters."""
    shapes = shapes_of(network)
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        owner = name.rpartition(".")[0]
        sizes[owner] = sizes.get(owner, 0) + _size(shape)
    kinds = {name: type(module).__name__ for name, module in modules_of(network)}
    for name in sorted(sizes, key=_in_order):
        yield {"name": name, "kind": kinds.get(name, "parameters"), "parameters": sizes[name]}


def modules_of(network: nn.Module) -> list[tuple[str, nn.Module]]:
    """All modules of a network by name."""
    found: list[tuple[str, nn.Module]] = network.named_modules()  # type: ignore[no-untyped-call]
    return found


def _size(shape: Iterable[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _in_order(name: str) -> list[tuple[int, str]]:
    """Layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def verify_model(
    name: str, options: SourceOptions, *, on_progress: Callable[[int, int], None] = lambda *_: None
) -> dict[str, Any]:
    """Compare the files of a checkpoint with the hashes that are known of them, and map every tensor.

    `problems` lists what is wrong. `on_progress` is told bytes done and bytes in all. Raises CheckpointError only where
    there is nothing to look at.
    """
    checkpoint = opened(name, options)
    files = list(_checked_files(checkpoint, on_progress))
    problems = [f"{one['name']}: {one['status']}" for one in files if one["status"] not in ("ok", "no hash known")]
    said: dict[str, Any] = {"name": checkpoint.name, "path": str(checkpoint.path), "files": files}
    try:
        resolved = Resolved.of(checkpoint)
        said |= {"dialect": resolved.mapped.dialect, "weights": len(resolved.mapped.map.weights)}
        said["dropped"] = list(resolved.mapped.map.dropped)
    except CheckpointError as error:
        problems.append(str(error))
    return {**said, "problems": problems}


def _checked_files(checkpoint: Checkpoint, on_progress: Callable[[int, int], None]) -> Iterator[dict[str, Any]]:
    folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    listed = _listed(folder / MANIFEST)
    paths = sorted(p for p in folder.iterdir() if p.is_file()) if checkpoint.path.is_dir() else [checkpoint.path]
    sizes = {path: path.stat().st_size for path in paths}
    done = 0
    for path, size in sizes.items():
        expected = hash_name(path) or listed.pop(path.name, None)
        if expected is None:
            status = "no hash known"
        else:
            status = "ok" if hash_of(path, len(expected)) == expected else f"its hash is not {expected[:12]}..."
        done += size
        on_progress(done, sum(sizes.values()))
        if path.name != MANIFEST:
            yield {"name": path.name, "bytes": size, "status": status}
    for name in listed:
        yield {"name": name, "bytes": None, "status": "missing"}


def _listed(manifest: Path) -> dict[str, str]:
    """The hashes that a converted checkpoint came with, by file."""
    if not manifest.is_file():
        return {}
    files = read_json(manifest).get("files", {})
    if not isinstance(files, dict) or not all(isinstance(f, dict) and "sha256" in f for f in files.values()):
        raise CheckpointError(f"{manifest}: expected files with their sha256")
    return {name: str(one["sha256"]) for name, one in files.items()}


def as_json(found: Mapping[str, Any]) -> str:
    """One JSON object."""
    return json.dumps(found, ensure_ascii=False)
