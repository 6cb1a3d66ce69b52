"""GGUF files of the Llama architecture, as text-only checkpoints.

The format is that of ggml (docs/gguf.md there). `docai.checkpoint.gguf_blocks` says how its block formats are packed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from docai.checkpoint.backend import require_mlx
from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.dialect import Drop, Interleave, Rename, Rule, renames
from docai.checkpoint.gguf_blocks import BLOCKS, BlockKind
from docai.checkpoint.quantize import QuantizationConfig
from docai.checkpoint.tensors import Quantization, TensorInfo
from docai.checkpoint.weights import sibling
from docai.errors import CheckpointError

# Metadata types of a fixed size, by number: what `struct` calls them.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


GROUP = 32  # numbers that share a scale, in the formats that stay quantized


@dataclass(frozen=True, slots=True)
class _Header:
    fields: dict[str, Any]
    tensors: dict[str, tuple[tuple[int, ...], BlockKind, int]]  # shape, kind, offset in the file


def read_gguf(path: Path, name: str) -> Checkpoint:
    """A GGUF file as a checkpoint: its metadata as config and tokenizer. Raises CheckpointError."""
    header = _read_header(path)
    try:
        config = _config(path, header)
    except (TypeError, ValueError, ArithmeticError, struct.error) as error:
        raise CheckpointError(f"{path}: its metadata describes no network: {error}") from error
    tensors: dict[str, TensorInfo] = {}
    modules: dict[str, Quantization | None] = {}
    for tensor, (shape, kind, offset) in header.tensors.items():
        if not kind.bits:
            tensors[tensor] = TensorInfo(kind.dtype, shape, path, offset)
            continue
        module = tensor.removesuffix(".weight")
        modules[module] = Quantization(GROUP, kind.bits)
        groups = (*shape[:-1], shape[-1] // GROUP)
        tensors[tensor] = TensorInfo("U32", (*shape[:-1], shape[-1] * kind.bits // 32), path, offset)
        tensors |= {f"{module}.{part}": TensorInfo(kind.dtype, groups, path, offset) for part in ("scales", "biases")}
    return Checkpoint(
        name,
        path,
        config,
        (path,),
        tensors,
        {"format": "gguf", "name": str(header.fields.get("general.name", ""))},
        QuantizationConfig(Quantization(GROUP, 4), modules) if modules else None,
        rules=_rules(config),
        made={**_tokenizer(path, header.fields), "config.json": json.dumps(config)},
    )


class GgufArrays(dict[str, Any]):
    """The arrays of a GGUF file by name, made when they are asked for; what is taken out is forgotten."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._tensors = path, _read_header(path).tensors

    def __missing__(self, name: str) -> Any:
        module, _, part = name.rpartition(".")
        owner = f"{module}.weight" if part in ("scales", "biases") else name
        shape, kind, offset = self._tensors[owner]
        rows = max(1, prod(shape[:-1]))
        data = np.memmap(self._path, np.uint8, "r", offset, (prod(shape) // kind.block * kind.size,))
        for made, array in kind.arrays(np.asarray(data).reshape(rows, -1)).items():
            self[sibling(owner, made)] = _array(array.reshape(*shape[:-1], -1), kind.dtype)
        return self[name]


def _array(array: Any, dtype: str) -> Any:
    """The same for MLX; NumPy has no name for bfloat16."""
    mx = require_mlx()
    return mx.array(array).view(mx.bfloat16) if array.dtype == np.uint16 and dtype == "BF16" else mx.array(array)


def _tokenizer(path: Path, fields: dict[str, Any]) -> dict[str, str]:
    """tokenizer.json and tokenizer_config.json as texts."""
    from docai.checkpoint.vocab.gguf import from_gguf_fields

    try:
        return from_gguf_fields(fields)
    except CheckpointError:
        raise
    except Exception as error:  # the library raises Exception itself
        raise CheckpointError(f"{path}: the tokenizer of its metadata is corrupt: {error}") from error


def _rules(config: Mapping[str, Any]) -> tuple[Rule, ...]:
    """From the names of ggml to those of transformers.

    llama.cpp stores the rows of q and k so that rotary pairs lie side by side; transformers wants halves of each head.
    """
    layer = "model.layers.{i}."
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    names = {
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    }  # fmt: skip
    return (
        *(Interleave(f"blk.{{i}}.attn_{x}.{{part}}", 2, count, inverse=True) for x, count in heads.items()),
        *renames({f"{old}.{{part}}": f"{new}.{{part}}" for old, new in names.items()}, "blk.{i}.", layer),
        Drop("rope_freqs.weight"),  # what they say is in the config
        Rename("token_embd.weight", "model.embed_tokens.weight"),
        Rename("output_norm.weight", "model.norm.weight"),
        Rename("output.weight", "lm_head.weight"),
    )


def _config(path: Path, header: _Header) -> dict[str, Any]:
    """The config.json that transformers would have. Raises CheckpointError for another architecture."""
    fields = header.fields
    kind = fields.get("general.architecture")
    if kind != "llama" or fields.get("llama.expert_count"):
        what = f"{kind!r} with experts" if kind == "llama" else repr(kind)
        raise CheckpointError(f"{path}: GGUF files of architecture {what} are not supported; expected 'llama'")

    def need(key: str) -> Any:
        if f"llama.{key}" not in fields:
            raise CheckpointError(f"{path}: expected llama.{key} in its metadata; found none")
        return fields[f"llama.{key}"]

    heads, dims = need("attention.head_count"), need("embedding_length")
    tokens = fields.get("tokenizer.ggml.tokens") or ()
    theta = fields.get("llama.rope.freq_base", 10_000.0)
    return {
        "model_type": "llama",
        "hidden_size": dims,
        "intermediate_size": need("feed_forward_length"),
        "num_hidden_layers": need("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "head_dim": fields.get("llama.attention.key_length") or fields.get("llama.rope.dimension_count", dims // heads),
        "vocab_size": fields.get("llama.vocab_size", len(tokens)),
        "max_position_embeddings": need("context_length"),
        "rms_norm_eps": need("attention.layer_norm_rms_epsilon"),
        "rope_theta": theta,
        "rope_scaling": _rope_scaling(path, header),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        **{f"{x}_token_id": fields.get(f"tokenizer.ggml.{x}_token_id") for x in ("bos", "eos")},
    }


def _rope_scaling(path: Path, header: _Header) -> dict[str, Any] | None:
    """Linear and YaRN scaling are in the metadata. Llama 3's is a tensor that frequencies are divided by.

    Its largest number is the factor; Meta's other settings are the same in all models.
    """
    fields = header.fields
    context = fields["llama.context_length"]
    if "rope_freqs.weight" in header.tensors:
        shape, kind, offset = header.tensors["rope_freqs.weight"]
        if kind.name != "F32":
            raise CheckpointError(f"{path}: expected rope_freqs.weight as F32; got {kind.name}")
        with path.open("rb") as file:
            file.seek(offset)
            factors = struct.unpack(f"<{prod(shape)}f", file.read(4 * prod(shape)))
        if max(factors) == 1:
            return None
        return {
            "rope_type": "llama3", "factor": max(factors), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }  # fmt: skip
    scaling = fields.get("llama.rope.scaling.type", "none")
    factor = fields.get("llama.rope.scaling.factor", fields.get("llama.rope.scale_linear", 1.0))
    if scaling == "none" and factor == 1.0:
        return None
    original = fields.get("llama.rope.scaling.original_context_length", context)
    kind_name = "linear" if scaling == "none" else scaling
    return {"rope_type": kind_name, "factor": factor, "original_max_position_embeddings": original}


def _read_header(path: Path) -> _Header:
    """The metadata and the tensor table of a file. Raises CheckpointError where it is broken or cut off."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            reader = _Reader(path, file, size)
            return reader.checked(reader.header())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: its GGUF header is corrupt: {error}") from error


class _Reader:
    """Values of a GGUF file, one after the other, never beyond its end."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self._path, self._file, self._size = path, file, size

    def header(self) -> _Header:
        magic, version = self._bytes(4), self._one("I")
        if magic != b"GGUF" or version not in (2, 3):
            raise CheckpointError(f"{self._path}: expected a GGUF file of version 2 or 3; got {magic!r}, {version}")
        tensor_count, field_count = self._one("Q"), self._one("Q")
        fields: dict[str, Any] = {}
        for _ in range(field_count):
            key = self._string()
            fields[key] = self._value(self._one("I"))
        table = [self._tensor() for _ in range(tensor_count)]
        alignment = fields.get("general.alignment")
        alignment = alignment if isinstance(alignment, int) and alignment > 0 else 32
        start = -(-self._file.tell() // alignment) * alignment
        return _Header(fields, {name: (shape, kind, start + offset) for name, shape, kind, offset in table})

    def checked(self, header: _Header) -> _Header:
        """The same, if all tensors lie within the file."""
        for name, (shape, kind, offset) in header.tensors.items():
            end = offset + prod(shape) // kind.block * kind.size
            if end > self._size:
                raise CheckpointError(
                    f"{self._path}: the file is cut off: {name} ends at byte {end}, the file at {self._size}"
                )
        return header

    def _tensor(self) -> tuple[str, tuple[int, ...], BlockKind, int]:
        name = self._string()
        axes = self._one("I")
        if axes > 8:
            raise CheckpointError(f"{self._path}: its GGUF header is corrupt: {name} has {axes} axes")
        shape = tuple(reversed([self._one("Q") for _ in range(axes)]))
        number, offset = self._one("I"), self._one("Q")
        kind = BLOCKS.get(number)
        if kind is None:
            known = ", ".join(k.name for k in BLOCKS.values())
            raise CheckpointError(f"{self._path}: {name} is of GGUF type {number}; docai reads {known}")
        row = shape[-1] if shape else 1
        if row % kind.block:
            raise CheckpointError(f"{self._path}: {name}, {kind.name}, has rows of {row} numbers")
        return name, shape, kind, offset

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._one(self._scalar(kind))
        inner, count = self._one("I"), self._one("Q")
        if inner in (_STRING, _ARRAY):
            return [self._value(inner) for _ in range(count)]
        scalar = self._scalar(inner)
        return list(struct.unpack(f"<{count}{scalar}", self._bytes(count * struct.calcsize(f"<{scalar}"))))

    def _scalar(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise CheckpointError(f"{self._path}: its GGUF header is corrupt: a value of type {kind}")
        return _SCALARS[kind]

    def _string(self) -> str:
        return self._bytes(self._one("Q")).decode("utf-8")

    def _one(self, scalar: str) -> Any:
        return struct.unpack(f"<{scalar}", self._bytes(struct.calcsize(f"<{scalar}")))[0]

    def _bytes(self, count: int) -> bytes:
        if self._file.tell() + count > self._size:
            raise CheckpointError(f"{self._path}: no GGUF file, or cut off within its header ({self._size} bytes)")
        return self._file.read(count)
