"""The stored cases as checkpoints: their configs, tensors and images, written to disk, dense or quantized."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

from docai.preprocess.inputs import ImageInput, SoundInput
from docai.vlm.network import Network
from tests.parity.weights import as_variant, noise, tensors

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(path.stem for path in FOLDER.glob("*.json"))
Tensors = dict[str, np.ndarray]


def case_of(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return case


def variants() -> Iterator[tuple[str, str]]:
    """All cases, (name, ""), and what other dialects make of them, (name, variant)."""
    for name in CASES:
        yield name, ""
        for variant in case_of(name)["variants"]:
            yield name, variant


def changes(name: str, variant: str) -> dict[str, Any]:
    """What a variant of a case changes; nothing for the case itself."""
    changed: dict[str, Any] = case_of(name)["variants"].get(variant, {})
    return changed


def config_of(name: str, variant: str = "") -> dict[str, Any]:
    config: dict[str, Any] = changes(name, variant).get("config") or case_of(name)["config"]
    return config


def weights_of(name: str, variant: str = "") -> Tensors:
    """The tensors of a case or a variant of it."""
    case, changed = case_of(name), changes(name, variant)
    values = tensors(case["tensors"], case["seed"], norm_offset=case["norm_offset"])
    return as_variant(
        values,
        changed.get("renames", ()),
        changed.get("copies", {}),
        channels_last=changed.get("channels_last", False),
        channels_first=changed.get("channels_first", False),
        drops=changed.get("drops", ""),
        alternating=changed.get("alternating", ""),
        latents=changed.get("latents", False),
        latents_apart=changed.get("latents_apart"),
        experts=changed.get("experts", ""),
        ones=changed.get("ones", ""),
    )


def images_of(name: str) -> list[ImageInput]:
    case = case_of(name)
    return [_image(said, number, case["seed"]) for number, said in enumerate(case["images"])]


def _image(said: Mapping[str, Any], number: int, seed: int) -> ImageInput:
    extra = {key: np.asarray(value) for key, value in said["extra"].items()}
    grid = tuple(said["grid"]) if said["grid"] else None
    kind = SoundInput if said.get("kind") == "audio" else ImageInput
    return kind(noise(f"image {number}", said["shape"], seed), said["tokens"], grid, extra)


def written(folder: Path, config: Mapping[str, Any], weights: Tensors, metadata: dict[str, str] | None = None) -> Path:
    """A checkpoint on disk; its folder."""
    folder.mkdir(exist_ok=True)
    whole = {name: np.require(value, requirements="C") for name, value in weights.items()}
    save_file(whole, folder / "model.safetensors", metadata)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def logits(network: Network, tokens: Sequence[int], images: Sequence[ImageInput] = ()) -> np.ndarray:
    """(L, vocabulary) of a prompt that is read at once."""
    features = network.encode(images) if images else ()
    prompt = network.prompt(tokens, features, *network.positions(tokens, images))
    return np.asarray(network.decoder.logits(network.prefill(prompt, network.caches())))[0]


def quantized(
    weights: Tensors, bits: int, group: int, *, dense: Callable[[str], bool] = lambda _: False
) -> tuple[Tensors, Tensors]:
    """(packed, the same numbers unpacked): every matrix that mlx-vlm would quantize, but for the `dense` ones."""
    packed, plain = dict(weights), dict(weights)
    for name, value in weights.items():
        matrix = value.ndim == 2 or (value.ndim == 3 and re.search(r"switch_(mlp|glu)|embed_q|unembed_out", name))
        if not (matrix and name.endswith(".weight") and value.shape[-1] % group == 0) or dense(name):
            continue
        parts = mx.quantize(mx.array(value), group_size=group, bits=bits)
        stem = name.removesuffix("weight")
        packed |= {stem + part: np.array(a) for part, a in zip(("weight", "scales", "biases"), parts, strict=True)}
        plain[name] = np.array(mx.dequantize(*parts, group_size=group, bits=bits))
    return packed, plain
