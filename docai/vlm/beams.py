"""Beam search for encoder-decoder models, as transformers does it.

Some answers grow in step; after each step the likeliest continuations of all of them go on. What is banned or forced is
so in the sum of log probabilities, not in the choice alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from docai.nn.cross import Memory
from docai.vlm.encdec import EncDecNetwork


@dataclass(frozen=True, slots=True)
class Search:
    """How beams are searched. `penalty` and `ngram` as in `docai.vlm.request.Sampling`, over `seed` and answer.

    An answer's score is its log probability over its length to the power of `length_penalty`. `early`: the search ends
    with as many whole answers as there are beams, else only once no better one can come.
    """

    beams: int
    most: int
    seed: tuple[int, ...]
    stops: Collection[int]
    first: int | None = None
    ngram: int = 0
    penalty: float = 1.0
    length_penalty: float = 1.0
    early: bool = True

    def banned(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that would repeat `ngram` tokens of this answer."""
        text, n = [*self.seed, *tokens], self.ngram
        if not n or len(text) < n:
            return []
        end = text[len(text) - n + 1 :]
        return [text[at + n - 1] for at in range(len(text) - n + 1) if text[at : at + n - 1] == end]


class Beam(NamedTuple):
    """An answer so far, with its log probability; whole ones have their score."""

    tokens: tuple[int, ...]
    score: float


def searched(network: EncDecNetwork, memories: Sequence[Memory], how: Search) -> list[Beam]:
    """Whole answers, best first."""
    caches = network.caches()
    logits = network.step(mx.array([how.seed]), caches, memories)
    running, whole = [Beam((), 0.0)], list[Beam]()
    for place in range(1, how.most + 1):
        best = list(_continued(logits, running, how))
        ended = [beam.tokens[-1] in how.stops or place == how.most for _, beam in best]
        scored = [
            Beam(beam.tokens, beam.score / place**how.length_penalty)
            for (_, beam), end in zip(best[: how.beams], ended, strict=False)
            if end
        ]
        whole = sorted([*whole, *scored], key=lambda beam: -beam.score)[: how.beams]
        going = [pair for pair, end in zip(best, ended, strict=True) if not end][: how.beams]
        if not going or _done(whole, going[0][1].score / place**how.length_penalty, how):
            break
        running = [beam for _, beam in going]
        rows = mx.array([row for row, _ in going])
        for cache in caches:
            cache.reorder(rows)
        logits = network.step(mx.array([[beam.tokens[-1]] for beam in running]), caches, memories)
    return whole


def _done(whole: Sequence[Beam], best: float, how: Search) -> bool:
    """Whether there are enough answers; `best`: the score of the likeliest one that could still go on."""
    if len(whole) < how.beams:
        return False
    return how.early or best <= whole[-1].score


def _continued(logits: mx.array, running: Sequence[Beam], how: Search) -> Iterator[tuple[int, Beam]]:
    """The likeliest continuations, each with the number of its beam; enough of them that not all can be whole."""
    logits = logits.astype(mx.float32)
    scores = _ruled(logits - mx.logsumexp(logits, axis=-1, keepdims=True), running, how)
    total = (scores + mx.array([[beam.score] for beam in running])).reshape(-1)
    count = min(total.size, max(2, 1 + len(how.stops)) * how.beams)
    top = mx.argpartition(-total, kth=count - 1)[:count]
    places, values = np.asarray(top), np.asarray(total[top])
    for at in np.lexsort((places, -values)):
        if np.isfinite(values[at]):
            row, token = divmod(int(places[at]), logits.shape[-1])
            yield row, Beam((*running[row].tokens, token), float(values[at]))


def _ruled(scores: mx.array, running: Sequence[Beam], how: Search) -> mx.array:
    """Log probabilities (B, V) with what is penalised, banned and forced."""
    if how.first is not None and not running[0].tokens:
        return mx.where(mx.arange(scores.shape[-1]) == how.first, 0.0, -mx.inf)[None]
    if how.penalty != 1:  # a logarithm of a probability is never above 0, so it is multiplied
        rows, tokens = _places([sorted({*how.seed, *beam.tokens}) for beam in running])
        scores[rows, tokens] = scores[rows, tokens] * how.penalty
    rows, tokens = _places([how.banned(beam.tokens) for beam in running])
    if rows.size:
        scores[rows, tokens] = -mx.inf
    return scores


def _places(tokens: Sequence[Sequence[int]]) -> tuple[mx.array, mx.array]:
    """Tokens of each row, as places of an array."""
    pairs = np.array([(row, token) for row, line in enumerate(tokens) for token in line], np.int32).reshape(-1, 2)
    return mx.array(pairs[:, 0]), mx.array(pairs[:, 1])
