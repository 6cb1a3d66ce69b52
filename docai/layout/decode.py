"""From a network's outputs for one page to regions. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a network says of one page: `logits` (Q, classes), `boxes` (Q, 4) as centre and size in fractions.

    `order` (Q, Q) and the masks, `mixtures` (Q, P) of `prototypes` (h, w, P), where it has them.
    """

    logits: Floats
    boxes: Floats
    order: Floats | None = None
    mixtures: Floats | None = None
    prototypes: Floats | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lowest scores: of all classes, and of single ones by id. `strict`: a score must be higher."""

    general: float
    single: Mapping[int, float] = field(default_factory=dict)
    strict: bool = False

    def passed(self, scores: Floats, classes: Ints) -> NDArray[np.bool_]:
        least = np.array([self.single.get(int(c), self.general) for c in classes], np.float32)
        return scores > least if self.strict else scores >= least


@dataclass(frozen=True, slots=True)
class Finds:
    """Regions, arrays of N: `queries` and `classes` by number, `scores`, `boxes` (N, 4) as edges in fractions.

    `ranks`: places in reading order among all queries, where the network orders them; the regions are in it then, and
    from the highest score down otherwise.
    """

    queries: Ints
    classes: Ints
    scores: Floats
    boxes: Floats
    ranks: Ints | None = None


def decoded(outputs: Outputs, thresholds: Thresholds) -> Finds:
    """The likeliest pairs of query and class, as many as there are queries, that pass: one query may come twice.

    What is no number, as half precision may give, passes never.
    """
    count, classes = outputs.logits.shape
    scores = sigmoid(outputs.logits).reshape(-1)
    best = np.argsort(-scores, kind="stable")[:count]
    finite = np.isfinite(outputs.boxes[best // classes]).all(-1)
    best = best[finite & thresholds.passed(scores[best], best % classes)]
    ranks = None
    if outputs.order is not None:
        places = reading_ranks(outputs.order)[best // classes]
        by_rank = np.argsort(places, kind="stable")
        best, ranks = best[by_rank], places[by_rank]
    centre, size = np.split(outputs.boxes[best // classes], 2, axis=-1)
    edges = np.concatenate([centre - size / 2, centre + size / 2], -1)
    return Finds(best // classes, best % classes, scores[best], edges, ranks)


def reading_ranks(order: Floats) -> Ints:
    """(Q, Q) how sure i is before j, for i < j -> the place of each query: the fewer before it, the earlier."""
    before = np.triu(sigmoid(order), 1)
    votes = before.sum(0) + np.tril(1 - before.T, -1).sum(0)
    ranks = np.empty(len(votes), np.intp)
    ranks[np.argsort(votes, kind="stable")] = np.arange(len(votes))
    return ranks


def masks_of(outputs: Outputs, queries: Ints, threshold: float) -> NDArray[np.bool_] | None:
    """The masks (N, h, w) of some queries, where a network has masks."""
    if outputs.mixtures is None or outputs.prototypes is None:
        return None
    height, width, count = outputs.prototypes.shape
    logits = outputs.mixtures[queries] @ outputs.prototypes.reshape(-1, count).T
    return (sigmoid(logits) > threshold).reshape(-1, height, width)


def sigmoid(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)), np.float32)
