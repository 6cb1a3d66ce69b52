"""Rotation of decoders: what a config says of it, in its older and its newer form, as a `RopeSpec`."""

from __future__ import annotations

import math
from typing import Any

from docai.errors import CheckpointError
from docai.nn.rope import (
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    ProportionalScaling,
    RopeSpec,
    Scaling,
    YarnScaling,
)
from docai.vlm.config import Config

_MOST_DIMS = 1 << 14  # of what is turned: some dozen are usual, and frequencies of a billion would fill the memory


def rope_parameters(config: Config, layer: str = "", older: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a config says of rotation, in the newer form (`rope_parameters`, perhaps by kind of layer).

    `older`: what stands in the place of rope_theta and rope_scaling in the older form.
    """
    said = config.get("rope_parameters")
    if said is not None:
        return dict(said.get(layer, said))
    if older is not None:
        return older
    return {"rope_theta": config.get("rope_theta", 10_000.0), **(config.get("rope_scaling") or {})}


def rope_spec(config: Config, said: dict[str, Any], head_dim: int) -> RopeSpec:
    """Rotation from the fields of `rope_parameters`; `config` has those beside it. Raises CheckpointError."""
    part = said.get("partial_rotary_factor") or config.get("partial_rotary_factor", 1.0)
    scaling = _scaling(config, said)
    dims = head_dim if isinstance(scaling, ProportionalScaling) else int(head_dim * part)
    if dims > _MOST_DIMS:
        raise CheckpointError(f"config.json: expected heads of at most {_MOST_DIMS} numbers, got {dims}")
    return RopeSpec(
        dims,
        said.get("rope_theta") or config.get("rope_theta", 10_000.0),
        scaling=scaling,
        sections=tuple(said.get("mrope_section") or ()),
        sections_mixed=bool(said.get("mrope_interleaved", False)),
    )


def _scaling(config: Config, said: dict[str, Any]) -> Scaling | None:
    kind = said.get("rope_type") or said.get("type") or "default"
    factor = said.get("factor", 1.0)
    context = said.get("original_max_position_embeddings") or config.get("original_max_position_embeddings")
    context = context or config["max_position_embeddings"]
    match kind:
        case "default" | "mrope":
            return None
        case "linear":
            return LinearScaling(factor)
        case "proportional":
            return ProportionalScaling(said.get("partial_rotary_factor", 1.0), factor)
        case "llama3":
            return Llama3Scaling(factor, said["low_freq_factor"], said["high_freq_factor"], context)
        case "yarn":
            return YarnScaling(
                factor, context, said.get("beta_fast") or 32.0, said.get("beta_slow") or 1.0, _yarn_attention(said),
                said.get("truncate", True),
            )  # fmt: skip
        case "longrope" | "su":
            attention = said.get("attention_factor") or _long_attention(
                config["max_position_embeddings"] / context, context
            )
            return LongScaling(tuple(said["short_factor"]), tuple(said["long_factor"]), context, attention)
    known = "linear, llama3, yarn, longrope, proportional"
    raise CheckpointError(f"rope_type {kind!r} is not supported; supported: {known}")


def _long_attention(factor: float, context: int) -> float:
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(context))


def _yarn_attention(said: dict[str, Any]) -> float | None:
    """`attention_factor`, or DeepSeek's quotient of two magnitudes."""
    above, below = said.get("mscale"), said.get("mscale_all_dim")
    if said.get("attention_factor") or not above or not below:
        return said.get("attention_factor")
    return magnitude(said["factor"], above) / magnitude(said["factor"], below)


def magnitude(factor: float, scale: float) -> float:
    """What YaRN multiplies queries and keys by for a context that is `factor` times as long (DeepSeek's `mscale`)."""
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0
