"""Boxes that are written in a step each: parallel box decoding, LocateAnything's (NVIDIA 2026, arXiv:2605.27365).

The model was taught to fill in six tokens at once: the last token stands once more, five masks follow, and these six
see each other and all that was before. What it is sure of is taken: a box, a point, that there is none, or words.
Afterwards the six are forgotten, and the tokens that were taken are read as any others, along with the next six.

`hybrid` writes a box token by token where the model is not sure of it; `fast` takes its first thought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import mlx.core as mx
import numpy as np

from docai.vlm.batch import Batch
from docai.vlm.generate import Chosen
from docai.vlm.job import Job
from docai.vlm.network import Network
from docai.vlm.spec import BoxSpec

How = Literal["hybrid", "fast"]

# Chances from which on the model counts as sure, from its published code.
_BEGINS, _NAMES = 0.7, 0.6  # a box; a name
_NONE, _ENDS, _BLANK = 0.2, 0.2, 0.1  # "None" in a box, the end of one, nothing behind it
_SURE = 0.9  # of a coordinate; a less likely one whose rivals lie further apart than this is none
_APART = 60
_RIVALS = 5  # likeliest tokens that are looked at


class Seen(NamedTuple):
    """What is looked at of the scores of six tokens: the likeliest of each, (6, K), and the chances of some tokens."""

    tokens: np.ndarray
    chances: np.ndarray
    named: dict[int, np.ndarray]  # token -> (6,)


def seen_of(logits: mx.array, spec: BoxSpec) -> Seen:
    """Of scores (6, V)."""
    chances = mx.softmax(logits.astype(mx.float32), axis=-1)
    best = mx.argpartition(-chances, kth=_RIVALS - 1, axis=-1)[:, :_RIVALS]
    order = mx.argsort(-mx.take_along_axis(chances, best, axis=-1), axis=-1)
    best = mx.take_along_axis(best, order, axis=-1)
    named = sorted({spec.box[0], spec.box[1], spec.name[0], spec.none, spec.blank, spec.end})
    arrays = best, mx.take_along_axis(chances, best, axis=-1), chances[:, mx.array(named)]
    tokens, rivals, known = (np.asarray(array) for array in arrays)
    return Seen(tokens, rivals, {token: known[:, n] for n, token in enumerate(named)})


class Taken(NamedTuple):
    """Tokens that the answer goes on with. `doubtful`: they begin a box that has to be written token by token."""

    tokens: list[int]
    doubtful: bool = False


def taken(seen: Seen, spec: BoxSpec, how: How) -> Taken:
    """What six tokens are taken for."""
    said = _box(seen, spec, how) or _name(seen, spec) or [int(token) for token in seen.tokens[:, 0]]
    begins, ends = spec.box
    if said[0] in (spec.blank, spec.end):
        return Taken([spec.end])
    if said[0] != begins:
        return Taken(_words(said, spec))
    if said[1] == spec.none:
        return Taken([begins, spec.none, ends])
    places = next((n for n, token in enumerate(said[1:5]) if not spec.is_place(token)), 4)
    if said[1 + places] == ends and places in (2, 4):
        return Taken(said[: 2 + places])
    return Taken(said) if how == "fast" else Taken(said[: 1 + places], doubtful=True)


def _box(seen: Seen, spec: BoxSpec, how: How) -> list[int] | None:
    """A box as far as the model is sure of it, a blank place where it is not; None where it is no box at all."""
    begins, ends, blank = (seen.named[token] for token in (*spec.box, spec.blank))
    nothing = seen.named[spec.none][1] > _NONE and ends[2] > _NONE and min(blank[3], blank[4]) > _BLANK
    if begins[0] >= _BEGINS and nothing:
        return [spec.box[0], spec.none, spec.box[1], *[spec.blank] * 3]
    last = ends[5] + blank[5] + seen.named[spec.end][5]
    if begins[0] < max(seen.named[spec.end][0], blank[0]) or last < _ENDS:
        return None
    places = [
        _place(tokens, chances, spec, how) for tokens, chances in zip(seen.tokens[1:5], seen.chances[1:5], strict=True)
    ]
    return None if None in places else [spec.box[0], *(place for place in places if place is not None), spec.box[1]]


def _place(tokens: np.ndarray, chances: np.ndarray, spec: BoxSpec, how: How) -> int | None:
    """The likeliest coordinate; the blank token where its rivals lie far apart, None where none is likely."""
    known = [(int(token), chance) for token, chance in zip(tokens, chances, strict=True) if spec.is_place(int(token))]
    if not known:
        return None
    (first, chance), rivals = known[0], [token for token, _ in known]
    doubtful = chance < _SURE and max(rivals) - min(rivals) > _APART
    return spec.blank if doubtful and how == "hybrid" else first


def _name(seen: Seen, spec: BoxSpec) -> list[int] | None:
    """The beginning of a name, which has no coordinates in it."""
    if seen.named[spec.name[0]][0] < _NAMES:
        return None
    words = [next((int(t) for t in tokens if not spec.is_place(int(t))), None) for tokens in seen.tokens[1:]]
    return None if None in words else [spec.name[0], *(word for word in words if word is not None)]


def _words(said: list[int], spec: BoxSpec) -> list[int]:
    """Words up to the first blank one; the end of a name is said once."""
    said = said[: said.index(spec.blank)] if spec.blank in said else said
    return said[:-1] if said[-2:] == [spec.name[1]] * 2 else said


@dataclass(slots=True)
class _Step:
    """Scores on their way: of six tokens, (6, V), or of the next one alone, (1, V)."""

    logits: mx.array
    window: bool


class BoxBatch(Batch):
    """One job, whose boxes are written in a step each. The host has to know what was taken before the next step."""

    def __init__(self, network: Network, how: How) -> None:
        super().__init__(network)
        assert network.spec.boxes is not None, "only for models that were taught this"
        self._spec, self._how = network.spec.boxes, how
        self._by_token = False
        self._step: _Step | None = None

    def join(self, job: Job, first: Chosen) -> None:  # noqa: ARG002 - six at once are asked for instead
        assert not self.running, "each job has a batch of its own"
        self.jobs, self._own = [job], job.caches
        for cache in self._own:
            cache.trim(1)  # the last token is read along with the masks
        self._by_token = self._how == "hybrid" and _is_open(job.answer.tokens, self._spec)

    def queue(self) -> None:
        (job,) = self.running
        text = [*job.request.ids, *job.answer.tokens]
        fresh = text[self._own[0].offset :]
        if self._by_token:
            self._step = _Step(self._scores(fresh, 0)[-1:], window=False)
        else:
            masks = [self._spec.mask] * (self._spec.window - 1)
            logits = self._scores([*fresh, *masks], self._spec.window)[-self._spec.window :]
            for cache in self._own:
                cache.trim(self._spec.window)
            self._step = _Step(logits, window=True)
        mx.async_eval(self._step.logits)

    def _scores(self, tokens: Sequence[int], window: int) -> mx.array:
        """(L, V) of the tokens behind each of these; the last `window` ones see each other."""
        decoder = self._network.decoder
        blocks = mx.array([[0] * (len(tokens) - window) + [1] * window]) if window else None
        hidden = decoder(decoder.embedded(mx.array([tokens])), self._own, blocks=blocks)
        return decoder.logits(hidden[0, -max(1, window) :])

    def take(self) -> list[Job]:
        (job,) = self.running
        step, self._step = self._step, None
        if step is None:
            return []
        said = self._window(step.logits) if step.window else self._token(step.logits)
        for token in said:
            if not job.over:
                self.deliver(job, token)
        if not job.over and not step.window and not self._may_follow(said[0]):
            job.end("stop")
        return [job] if job.over else []

    def _window(self, logits: mx.array) -> list[int]:
        found = taken(seen_of(logits, self._spec), self._spec, self._how)
        self._by_token = found.doubtful
        return found.tokens

    def _token(self, logits: mx.array) -> list[int]:
        said: list[int] = np.asarray(mx.argmax(logits, axis=-1)).tolist()
        self._by_token = said[0] != self._spec.box[1]
        return said

    def _may_follow(self, token: int) -> bool:
        """Whether a box that is written token by token can go on with this one; else the answer is over."""
        return token in (self._spec.box[1], self._spec.none) or self._spec.is_place(token)


def _is_open(tokens: Sequence[int], spec: BoxSpec) -> bool:
    """Whether a text ends within a box."""
    marks = [token for token in tokens if token in spec.box]
    return bool(marks) and marks[-1] == spec.box[0]
