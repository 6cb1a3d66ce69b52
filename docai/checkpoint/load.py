"""From a checkpoint to the weights of a module: recognise its dialect, map, quantize layers, load strictly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docai.checkpoint.backend import check_memory, on_gpu, require_mlx
from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.compressed import CompressedArrays, holds_packed
from docai.checkpoint.dialect import Rule, apply_rules
from docai.checkpoint.gguf import GgufArrays
from docai.checkpoint.quantize import QuantizationConfig
from docai.checkpoint.tensors import BITS, FLOATS, MLX_NAMES, Quantization
from docai.checkpoint.weights import Shape, Weight, WeightMap, sibling
from docai.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    import mlx.nn as nn

DOCAI = "docai"  # the dialect of our own checkpoints: no rules
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
# Ends of names. Frequencies: rounded, they would turn by whole degrees too much. What ranks experts: ties would appear.
# How fast states fade: the mistake would grow with every token.
EXACT = ("decoder.golden.weight", ".mlp.router_bias", ".attn.log_rate")
_BATCH = 1 << 29  # bytes that are read and changed at a time, so that what they are made of is freed again

Rules = Mapping[str, Callable[[Any], "tuple[Rule, ...]"]]


@dataclass(frozen=True, slots=True)
class Mapped:
    """The weights of a checkpoint under our names, and the dialect that they were written in."""

    dialect: str
    map: WeightMap

    def nbytes(self, dtype: str) -> int:
        """Bytes in memory where floats have the type `dtype`, as safetensors spells it."""
        return sum(weight_bytes(weight, dtype, weight.quantization) for weight in self.map.weights.values())


def map_weights(checkpoint: Checkpoint, rules: Rules, spec: Any, expected: Mapping[str, Shape]) -> Mapped:
    """The first dialect whose rules map all tensors to the names and shapes that are expected.

    `rules` as in a family: dialect -> rules, given the spec. Raises CheckpointError with what is wrong in the dialect
    that comes nearest.
    """
    failed: list[tuple[int, str, CheckpointError]] = []
    for dialect in _candidates(checkpoint, rules):
        try:
            found = _apply(checkpoint, rules, dialect, spec)
        except CheckpointError as error:
            failed.append((len(checkpoint.tensors), dialect, error))
            continue
        wrong = found.wrong(expected)
        if not wrong:
            return Mapped(dialect, found)
        failed.append((wrong, dialect, found.error(expected, f"{checkpoint.name} (read as {dialect})")))
    _, _, nearest = min(failed, key=lambda one: one[0])
    raise nearest


def has_part(checkpoint: Checkpoint, rules: Rules, spec: Any, prefix: str) -> bool:
    """Whether a checkpoint has weights under a prefix of ours, such as `vision.`, in whatever dialect."""
    for dialect in _candidates(checkpoint, rules):
        try:
            found = _apply(checkpoint, rules, dialect, spec)
        except CheckpointError:
            return True  # something is there that a rule works on; loading will say what is wrong
        if any(name.startswith(prefix) for name in found.weights):
            return True
    return False


def _apply(checkpoint: Checkpoint, rules: Rules, dialect: str, spec: Any) -> WeightMap:
    how = checkpoint.quantization
    try:
        chosen = rules[dialect](spec) if dialect in rules else ()
    except (TypeError, ValueError, LookupError) as error:  # sizes of a strange config
        raise CheckpointError(f"{checkpoint.name}: its config.json has no weight rules ({error})") from error
    return apply_rules(checkpoint.tensors, (*checkpoint.rules, *chosen), how.of if how else lambda _: None)


def _candidates(checkpoint: Checkpoint, rules: Rules) -> list[str]:
    """Dialects in the order of likelihood: what the files say of themselves, then the order of the family."""
    said = checkpoint.metadata.get("format", "")
    if said == DOCAI:
        return [DOCAI]
    likely = [said] if said in rules else []
    return list(dict.fromkeys((*likely, *rules, DOCAI)))


def load_dtype(checkpoint: Checkpoint, dtype: str | None = None) -> str:
    """The type that float weights get, as safetensors spells it: what is asked for, else what suits the device.

    On a CPU half precision is slow, so that is float32. On a GPU weights keep their type, except for float32 that the
    config calls half precision.
    """
    if dtype is not None:
        if dtype not in DTYPES:
            raise UsageError(f"dtype: expected one of {', '.join(DTYPES)}; got {dtype!r}")
        return DTYPES[dtype]
    if not on_gpu():
        return "F32"
    stored = [info.dtype for info in checkpoint.tensors.values() if info.dtype in FLOATS]
    most = max(stored, key=stored.count, default="BF16")
    text = checkpoint.config.get("text_config")
    sections = (checkpoint.config, text if isinstance(text, Mapping) else {})
    said = [section.get(key) for section in sections for key in ("dtype", "torch_dtype")]
    meant = next((DTYPES[name] for name in said if isinstance(name, str) and name in DTYPES), "F32")
    return meant if most in ("F32", "F64") else most


def load_into(
    module: nn.Module,
    checkpoint: Checkpoint,
    rules: Rules,
    spec: Any,
    *,
    dtype: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Mapped:
    """Fill a freshly made module with the weights of a checkpoint.

    `on_progress` is told bytes done and bytes in all, first of all (0, what is needed), before anything is read.

    Layers whose weights are quantized become quantized layers. Raises CheckpointError where anything does not fit, and
    LimitExceeded where the weights do not fit into memory.
    """
    require_mlx()
    mapped = map_weights(checkpoint, rules, spec, shapes_of(module))
    kind = load_dtype(checkpoint, dtype)
    needed = mapped.nbytes(kind)
    check_memory(needed, checkpoint.name)
    if on_progress:
        on_progress(0, needed)
    _quantize_layers(module, mapped.map)
    done = 0
    for arrays, size in _batches(mapped.map, checkpoint, kind):
        _place(module, arrays)
        done += size
        if on_progress:
            on_progress(done, needed)
    module.eval()
    return mapped


def shapes_of(module: nn.Module) -> dict[str, Shape]:
    """The names and shapes of a module's weights."""
    from mlx.utils import tree_flatten

    flat: list[tuple[str, Any]] = tree_flatten(module.parameters())  # type: ignore[no-untyped-call, assignment]
    return {name: tuple(array.shape) for name, array in flat}


def weight_bytes(weight: Weight, dtype: str, how: Quantization | None) -> int:
    """Bytes of a weight that is packed as `how`, where floats have the type `dtype`."""
    if how is None:
        return weight.size * BITS[dtype if weight.dtype in FLOATS else weight.dtype] // 8
    groups = weight.size // how.group_size
    return weight.size * how.bits // 8 + groups * (2 * BITS[dtype] // 8 if how.has_biases else 1)


def _quantize_layers(module: nn.Module, found: WeightMap) -> None:
    """Give every layer whose weight is quantized the form that takes it."""
    import mlx.nn as nn

    packed = {n.removesuffix(".weight"): w.quantization for n, w in found.weights.items() if w.quantization}

    def how(path: str, _: nn.Module) -> bool | dict[str, Any]:
        said = packed.pop(path, None)
        return said.arguments if said else False

    if packed:
        nn.quantize(module, class_predicate=how)
    if packed:
        raise CheckpointError(f"{next(iter(packed))}.weight is quantized, but is no matrix that can be")


def _batches(found: WeightMap, checkpoint: Checkpoint, dtype: str) -> Iterator[tuple[list[tuple[str, Any]], int]]:
    """All arrays by name, in their final types, and their bytes; some at a time. Nothing is read yet."""
    mx = require_mlx()
    source = Source(checkpoint, found)
    wanted = getattr(mx, MLX_NAMES[dtype])
    batch, size = [], 0
    for name, weight in found.weights.items():
        for part, array in weight.parts(source.take, mx).items():
            whole = array if weight.change is None else mx.contiguous(array)  # a view would be copied at each use
            batch.append((sibling(name, part), _as(mx, whole, mx.float32 if name.endswith(EXACT) else wanted)))
        size += weight_bytes(weight, dtype, weight.quantization)
        if size >= _BATCH:
            yield batch, size
            batch, size = [], 0
    yield batch, size


def _as(mx: Any, array: Any, dtype: Any) -> Any:
    return array.astype(dtype) if mx.issubdtype(array.dtype, mx.floating) else array


class Source:
    """The arrays of a checkpoint's files, by name. They are read from disk when they are evaluated.

    Each can be taken as often as `found` needs it; after that it is forgotten, so that none outlives its use.
    """

    def __init__(self, checkpoint: Checkpoint, found: WeightMap) -> None:
        self._tensors, self._quantization = checkpoint.tensors, checkpoint.quantization
        self._files: dict[Path, dict[str, Any]] = {}
        self._uses = Counter(name for weight in found.weights.values() for name in weight.reads())

    def take(self, name: str) -> Any:
        info = self._tensors[name]
        if info.dtype not in MLX_NAMES or info.file is None:
            raise CheckpointError(f"{name} is of type {info.dtype}, which MLX does not compute with")
        if info.file not in self._files:
            self._files[info.file] = _loaded(info.file, self._quantization)
        self._uses[name] -= 1
        arrays = self._files[info.file]
        array = arrays[name]
        if self._uses[name] <= 0:
            del arrays[name]
        return array


def _loaded(path: Path, how: QuantizationConfig | None) -> dict[str, Any]:
    """The arrays of a file by name. They are read when they are evaluated, or asked for."""
    if path.suffix == ".gguf":
        return GgufArrays(path)
    mx = require_mlx()
    try:
        found: dict[str, Any] = mx.load(str(path))
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    return CompressedArrays(found, how.default.bits) if how and holds_packed(found) else found


def _place(module: nn.Module, arrays: list[tuple[str, Any]]) -> None:
    """Evaluate arrays and put them into their places."""
    mx = require_mlx()
    try:
        mx.eval([array for _, array in arrays])
    except RuntimeError as error:
        raise CheckpointError(f"weights cannot be read: {error}") from error
    module.load_weights(arrays, strict=False)
