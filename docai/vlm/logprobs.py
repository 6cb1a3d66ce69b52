"""How likely the chosen tokens of a step were, and which would have been likelier."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import mlx.core as mx
import numpy as np

from docai.vlm.request import TokenLogprob


class Logprobs:
    """Log probabilities of a step, for all its rows in a few kernels; the host reads them once, for all rows.

    They are the model's own: before penalties, temperature and filters.
    """

    def __init__(self, logits: mx.array, tokens: mx.array, top: int) -> None:
        """`logits` (B, V), `tokens` (B,) the chosen ones; `top`: how many of the likeliest are told beside them."""
        scores = logits.astype(mx.float32)
        total = mx.logsumexp(scores, axis=-1, keepdims=True)  # (B, 1)
        own = mx.take_along_axis(scores, tokens[:, None].astype(mx.int32), axis=-1) - total
        self.arrays = [own[:, 0]]
        if top:
            found = mx.argpartition(-scores, kth=top - 1, axis=-1)[:, :top]  # (B, K), in no order
            values = mx.take_along_axis(scores, found, axis=-1)
            order = mx.argsort(-values, axis=-1)
            self.arrays += [mx.take_along_axis(a, order, axis=-1) for a in (found, values - total)]

    @cached_property
    def _read(self) -> list[np.ndarray]:
        return [np.asarray(array) for array in self.arrays]

    def told(self, row: int, token: int, top: int, text: Callable[[int], str]) -> TokenLogprob:
        """What is told of the token of one row; `text` gives a token's text."""
        own, *likeliest = self._read
        ranked = zip(*(array[row, :top].tolist() for array in likeliest), strict=True) if likeliest else ()
        return TokenLogprob(
            token, text(token), float(own[row]), tuple((int(t), text(int(t)), float(v)) for t, v in ranked)
        )
