"""A checkpoint as it lies on disk: its config, the names and shapes of its tensors, the files beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docai.checkpoint.compressed import as_affine
from docai.checkpoint.dialect import Rule
from docai.checkpoint.files import read_folder, read_json, total_bytes
from docai.checkpoint.quantize import QuantizationConfig, quantization_of
from docai.checkpoint.tensors import TensorInfo
from docai.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`name` is what it was asked for as; `path` a folder, or a GGUF file.

    `rules` come before those of the family; `made` are texts of files, by name, that the checkpoint does not have as
    such: GGUF files have names of their own, and hold config and tokenizer in their metadata.
    """

    name: str
    path: Path
    config: Mapping[str, Any]
    files: tuple[Path, ...]
    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str] = field(default_factory=dict)
    quantization: QuantizationConfig | None = None
    rules: tuple[Rule, ...] = ()
    made: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors, as they are stored."""
        return total_bytes(self.tensors.values())

    def file(self, name: str) -> Path | None:
        """A file beside the weights, where there is one."""
        path = self.path / name
        return path if path.is_file() else None

    def text_file(self, name: str) -> str | None:
        """The text of a file beside the weights; None where there is none. Raises CheckpointError."""
        if name in self.made:
            return self.made[name]
        path = self.file(name)
        if path is None:
            return None
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from error

    def json_file(self, name: str) -> dict[str, Any] | None:
        """A JSON object beside the weights; None where there is no such file. Raises CheckpointError."""
        if name in self.made:
            made: dict[str, Any] = json.loads(self.made[name])
            return made
        path = self.file(name)
        return None if path is None else read_json(path)


def read_checkpoint(path: Path, name: str | None = None) -> Checkpoint:
    """The checkpoint in a folder, or in a GGUF file. Raises CheckpointError."""
    name = name or str(path)
    if path.is_dir() and not (path / "config.json").is_file():
        path = _gguf_in(path)
    if path.suffix == ".gguf":
        from docai.checkpoint.gguf import read_gguf

        return read_gguf(path, name)
    if not path.is_dir():
        raise CheckpointError(f"{path}: expected a folder with config.json and *.safetensors, or a GGUF file")
    if not (path / "config.json").is_file():
        raise CheckpointError(f"{path}: expected a config.json beside the weights; found none")
    config = read_json(path / "config.json")
    quantization = quantization_of(config, str(path / "config.json"))
    contents = read_folder(path)
    tensors = as_affine(contents.tensors)
    return Checkpoint(name, path, config, contents.files, tensors, contents.metadata, quantization)


def _gguf_in(folder: Path) -> Path:
    """The one GGUF file of a folder that has no config; the folder itself where there is none."""
    files = sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise CheckpointError(f"{folder} holds {', '.join(file.name for file in files)}: name one of them")
    return files[0] if files else folder
