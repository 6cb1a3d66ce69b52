"""Choosing the next tokens of a batch: together for all who choose in the same way, one by one for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from docai.vlm.generate import Chosen
from docai.vlm.job import Job
from docai.vlm.logprobs import Logprobs
from docai.vlm.sample import draw

Told = tuple[Logprobs, int]  # those of a step, and a row there


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The tokens (B,) of a step, on their way; at places that asked for them, log probabilities."""

    tokens: mx.array
    told: dict[int, Told] = field(default_factory=dict)

    def kept(self, places: Sequence[int], count: int) -> Choice:
        """At these places only, in this order, of `count`."""
        order = [*places, *[places[0]] * (count - len(places))]
        return Choice(self.tokens[mx.array(order)], {n: self.told[p] for n, p in enumerate(places) if p in self.told})


def choose(jobs: Sequence[Job | None], logits: mx.array) -> Choice:
    """The next token of each place by scores (B, V); what a free place gets is of no account."""
    tokens = mx.argmax(logits, axis=-1)
    drawn: dict[int, list[int]] = {}  # the places that draw among as many tokens
    for place, job in enumerate(jobs):
        if job is None:
            continue
        if not job.plain:
            chosen = _own(job, logits[place : place + 1])
            if chosen is not None:
                tokens[place : place + 1] = chosen.token.astype(tokens.dtype)
        elif job.sampler.greedy:
            job.sampler.next_key()
        else:
            drawn.setdefault(job.sampler.options.top_k, []).append(place)
    for places in drawn.values():
        tokens = _drawn(jobs, places, logits, tokens)
    asking = {place: job.top for place, job in enumerate(jobs) if job is not None and job.top is not None}
    step = Logprobs(logits, tokens, max(asking.values())) if asking else None
    mx.async_eval(tokens, *(step.arrays if step else ()))
    return Choice(tokens, {place: (step, place) for place in asking} if step else {})


def _own(job: Job, logits: mx.array) -> Chosen | None:
    """What a job chooses by itself; None where that fails, which ends it."""
    try:
        return job.choose(logits)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job only
        job.fail(error)
        return None


def _drawn(jobs: Sequence[Job | None], places: list[int], logits: mx.array, tokens: mx.array) -> mx.array:
    """`tokens`, with those of places that draw among as many, each by its own key, temperature and bounds."""
    samplers = [job.sampler for place in places if (job := jobs[place]) is not None]
    options = [sampler.options for sampler in samplers]
    keys = [sampler.next_key() for sampler in samplers]
    everyone = places == list(range(len(jobs)))
    rows = logits if everyone else logits[mx.array(places)]

    def column(values: list[float]) -> mx.array:
        return mx.array(values, dtype=mx.float32)[:, None]

    top_p, min_p = [o.top_p for o in options], [o.min_p for o in options]
    new = draw(
        rows.astype(mx.float32) / column([o.temperature for o in options]),
        mx.array(keys, dtype=mx.uint32),
        top_k=options[0].top_k,
        top_p=column(top_p) if min(top_p) < 1 else 1.0,
        min_p=column(min_p) if max(min_p) > 0 else 0.0,
    ).astype(tokens.dtype)
    if everyone:
        return new
    tokens[mx.array(places)] = new
    return tokens
