"""What a recipe is: a tiny checkpoint, its oracle, a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Image:
    """One image as a tower takes it: the shape of its pixels in our layout, its grid, the rows that come of it.

    `extra`: small integer arrays that only some families need, by name.
    """

    shape: tuple[int, ...]
    tokens: int
    grid: tuple[int, int, int] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sound(Image):
    """One sound as a tower takes it: the shape of its frames, and the rows that come of them."""


@dataclass(frozen=True)
class Variant:
    """The same checkpoint as another dialect has it: names renamed by regular expressions, in order, and a config.

    `copies`: tensors that are there a second time, new name -> name. `channels_last`: convolutions as MLX has them, of
    a case that has them otherwise, and `channels_first` the other way round.
    `drops`: names that are not there. `alternating`: names whose rows are not in two halves, but alternate. `mlx`: the
    model of mlx-vlm whose names and shapes these are; make.py asks it for them. `latents`: matrices of keys
    and values from latent rows are one. `latents_apart` (heads, size of a key, of a value): of a case that has them as
    one, they are two. `experts`: matrices of experts are one by one (`apart`), `stacked` as MLX has them, or `fused` as
    transformers has them in memory. `ones`: norms that have in them the 1 which the case's add.
    """

    renames: tuple[tuple[str, str], ...] = ()
    config: Mapping[str, Any] | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    channels_last: bool = False
    channels_first: bool = False
    drops: str = ""
    alternating: str = ""
    mlx: str = ""
    latents: bool = False
    latents_apart: tuple[int, int, int] | None = None
    experts: Literal["", "apart", "stacked", "fused"] = ""
    ones: str = ""


@dataclass(frozen=True)
class Recipe:
    """A case. `oracle`: the library and the class that is asked; `feed`: a function of feeds.py, for its arguments."""

    name: str
    oracle: str  # "transformers:LlamaForCausalLM" or "mlx_vlm:qwen2_vl"
    config: Mapping[str, Any]
    tokens: tuple[int, ...]
    images: tuple[Image, ...] = ()
    feed: str = "text"
    norm_offset: bool = False
    variants: Mapping[str, Variant] = field(default_factory=dict)
    seed: int = 1
