"""Weights of tiny checkpoints, made from a seed and each tensor's name: nobody has to store them.

The stream is that of NumPy's `RandomState`, which is frozen for good (NEP 19); a Generator's may change. Each tensor
has a seed of its own, so that adding one changes no other. Default initialisations hide mistakes (zeros, ones, equal
rows), so everything is random: matrices ~ N(0, 1 / fan-in), norm weights 1 + N(0, 0.01) (about 0 where the norm adds
the 1 itself), biases N(0, 0.01).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
_FACTORS = ("layer_scalar", "router.scale", "per_expert_scale", "std_scale")  # around 1, as norms are
_CONVOLUTIONS = ("conv.conv.weight", "conv1d.weight")  # along the tokens
_PLAIN = ("vision", "visual", "merger", "linear_attn")  # parts of models whose norms never add a 1: towers, states


def noise(name: str, shape: Sequence[int], seed: int) -> Array:
    """N(0, 1) of a shape, for ever the same for a name and a seed."""
    state = np.random.RandomState((zlib.crc32(name.encode()) ^ (seed * 0x9E3779B1)) & 0xFFFFFFFF)
    return state.standard_normal(tuple(shape)).astype(np.float32)


def tensor(name: str, shape: Sequence[int], seed: int, *, norm_offset: bool = False) -> Array:
    """The values of one tensor. `norm_offset`: norms multiply by 1 + w, but for some (`_PLAIN`)."""
    values = noise(name, shape, seed)
    if "running_var" in name:
        return 0.5 + np.abs(values)
    if re.search(r"(in|out)put_(min|max)$", name):  # of layers whose numbers are cut to bounds
        return np.asarray((1 + 0.2 * np.abs(values)) * (-1 if name.endswith("min") else 1), np.float32)
    if len(shape) <= 1:
        is_norm = name.endswith(("weight", *_FACTORS)) and "bias" not in name
        around = 0.0 if not is_norm or (norm_offset and not any(part in name for part in _PLAIN)) else 1.0
        return around + np.float32(0.1) * values
    return values / np.float32(np.sqrt(fan_in(shape)))


def fan_in(shape: Sequence[int]) -> int:
    """Numbers that are added up for one output: all but the first axis, or the last one of stacked experts."""
    return int(shape[-1] if len(shape) == 3 else np.prod(shape[1:]))


def as_variant(
    values: Mapping[str, Array],
    renames: Iterable[Sequence[str]],
    copies: Mapping[str, str],
    *,
    channels_last: bool,
    channels_first: bool = False,
    drops: str = "",
    alternating: str = "",
    latents: bool = False,
    latents_apart: Sequence[int] | None = None,
    experts: str = "",
    ones: str = "",
) -> dict[str, Array]:
    """The tensors of a checkpoint as another dialect has them, by name; `Variant` tells what the rest is."""
    out = {}
    for name, value in values.items():
        for pattern, new in renames:
            name = re.sub(pattern, new, name)
        if drops and re.search(drops, name):
            continue
        if alternating and re.search(alternating, name):
            value = value.reshape(2, -1, value.shape[-1]).swapaxes(0, 1).reshape(value.shape)
        if ones and re.search(ones, name):
            value = 1 + value
        is_convolution = (value.ndim > 3 and not name.endswith("pos_embed")) or name.endswith(_CONVOLUTIONS)
        if is_convolution and (channels_last or channels_first):
            value = np.moveaxis(value, 1, -1) if channels_last else np.moveaxis(value, -1, 1)
        out[name] = value
    out = with_latents_joined(out) if latents else out
    out = with_latents_apart(out, *latents_apart) if latents_apart else out
    out = with_experts(out, experts) if experts else out
    return {
        name: np.require(a, requirements="C")
        for name, a in (out | {new: out[old] for new, old in copies.items()}).items()
    }


def with_latents_joined(values: Mapping[str, Array]) -> dict[str, Array]:
    """`embed_q` (heads, rank, key) and `unembed_out` (heads, value, rank) as one `kv_b_proj`, as they are published."""
    out = dict(values)
    for name in [name for name in values if name.endswith("embed_q.weight")]:
        stem = name.removesuffix("embed_q.weight")
        parts = [out.pop(name).swapaxes(1, 2), out.pop(f"{stem}unembed_out.weight")]
        joined = np.concatenate(parts, axis=1)  # (heads, key + value, rank)
        out[f"{stem}kv_b_proj.weight"] = joined.reshape(-1, joined.shape[-1])
    return out


def with_latents_apart(values: Mapping[str, Array], heads: int, key: int, value: int) -> dict[str, Array]:
    """The opposite of `with_latents_joined`."""
    out = dict(values)
    for name in [name for name in values if name.endswith("kv_b_proj.weight")]:
        stem, joined = name.removesuffix("kv_b_proj.weight"), out.pop(name)
        keys, rest = np.split(joined.reshape(heads, key + value, -1), [key], axis=1)
        out |= {f"{stem}embed_q.weight": keys.swapaxes(1, 2), f"{stem}unembed_out.weight": rest}
    return out


def with_experts(values: Mapping[str, Array], how: str) -> dict[str, Array]:
    """The matrices of experts in another layout, whichever of `apart` and `stacked` they have."""
    out: dict[str, Array] = {}
    found: dict[str, dict[int, Array]] = {}  # by the name without the expert's number
    for name, value in values.items():
        if one := re.fullmatch(r"(.*\.mlp)\.experts\.(\d+)\.(\w+)\.weight", name):
            found.setdefault(f"{one[1]} {one[3]}", {})[int(one[2])] = value
        elif stack := re.fullmatch(r"(.*\.mlp)\.switch_mlp\.(\w+)\.weight", name):
            found[f"{stack[1]} {stack[2]}"] = dict(enumerate(value))
        else:
            out[name] = value
    for stem, numbered in found.items():
        mlp, layer = stem.split()
        if how == "apart":
            out |= {f"{mlp}.experts.{n}.{layer}.weight": value for n, value in numbered.items()}
        stacked = np.stack([numbered[n] for n in range(len(numbered))])
        if how == "stacked":
            out[f"{mlp}.switch_mlp.{layer}.weight"] = stacked
        if how == "fused" and layer == "down_proj":
            out[f"{mlp}.experts.down_proj"] = stacked
        if how == "fused" and layer == "gate_proj":
            ups = found[f"{mlp} up_proj"]
            out[f"{mlp}.experts.gate_up_proj"] = np.concatenate([stacked, [ups[n] for n in range(len(ups))]], axis=1)
    return out


def tensors(shapes: Mapping[str, Sequence[int]], seed: int, *, norm_offset: bool = False) -> dict[str, Array]:
    """All tensors of a checkpoint by name."""
    return {name: tensor(name, shape, seed, norm_offset=norm_offset) for name, shape in shapes.items()}
