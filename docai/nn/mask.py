"""Attention masks: True where a key may be seen, or numbers that are added to scores.

None means that all may be seen, "causal" that MLX's kernel masks by itself.
"""

from __future__ import annotations

from typing import Literal

import mlx.core as mx

Mask = mx.array | Literal["causal"] | None


def causal(length: int, offset: int, *, window: int | None = None, blocks: mx.array | None = None) -> Mask:
    """What `length` tokens after `offset` earlier ones may see: themselves and what came before.

    `window`: only the last so many tokens, the seeing one included. `blocks` (B, length): tokens that share a number
    above 0 see each other whatever their order (an image's rows, a prefix), even beyond the window.
    Arrays are True where a key may be seen: (length, keys) or (B, 1, length, keys).
    """
    keys = offset + length
    window = window if window is not None and keys > window else None  # one that hides nothing is none
    if blocks is None and window is None:
        return None if length == 1 else "causal"
    query, key = mx.arange(offset, keys)[:, None], mx.arange(keys)[None]
    seen = key <= query
    if window is not None:
        seen = seen & (key > query - window)
    if blocks is None:
        return seen
    together = (blocks[:, :, None] == blocks[:, None, :]) & (blocks[:, :, None] > 0)  # (B, length, length)
    if offset:
        together = mx.concatenate([mx.zeros((*together.shape[:2], offset), mx.bool_), together], axis=2)
    return (seen[None] | together)[:, None]
