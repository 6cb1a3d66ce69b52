"""Attention masks: True where a key may be seen, or numbers that are added to scores.

None means that all may be seen, "causal" that MLX's kernel masks by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

Mask = mx.array | Literal["causal"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Tokens that see each other whatever their order, an image's rows or a prefix: those that share a number above 0.

    `numbers` (B, length). They do so even beyond a window or, `bounded`, only as far back as it reaches.
    """

    numbers: mx.array
    bounded: bool = False


def causal(length: int, offset: int, *, window: int | None = None, blocks: Blocks | None = None) -> Mask:
    """What `length` tokens after `offset` earlier ones may see: themselves and what came before, and their `blocks`.

    `window`: only the last so many tokens, the seeing one included.
    Arrays are True where a key may be seen: (length, keys) or (B, 1, length, keys).
    """
    keys = offset + length
    window = window if window is not None and keys > window else None  # one that hides nothing is none
    if blocks is None and window is None:
        return None if length == 1 else "causal"
    query, key = mx.arange(offset, keys)[:, None], mx.arange(keys)[None]
    before, near = key <= query, None if window is None else key > query - window
    seen = before if near is None else before & near
    if blocks is None:
        return seen
    together = _together(blocks.numbers, offset)
    if blocks.bounded:
        either = before[None] | together
        return (either if near is None else either & near)[:, None]
    return (seen[None] | together)[:, None]


def _together(numbers: mx.array, offset: int) -> mx.array:
    """(B, length, offset + length): which of the tokens share a block; those before have none."""
    together = (numbers[:, :, None] == numbers[:, None, :]) & (numbers[:, :, None] > 0)
    if offset:
        together = mx.concatenate([mx.zeros((*together.shape[:2], offset), mx.bool_), together], axis=2)
    return together
