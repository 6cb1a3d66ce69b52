"""Requests that take their steps together.

The step after a token is queued before the host reads that token, for the whole batch. A request that is by itself
keeps its own caches, which need no masks; with the second one the batch gets places (see `docai.nn.batch`). Their
number doubles as more join, and halves when most of them stand empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from docai.nn.batch import BatchCache, Places, batch_cache
from docai.nn.cache import Cache
from docai.vlm.choose import Choice, Told, choose
from docai.vlm.generate import Chosen
from docai.vlm.job import Job
from docai.vlm.network import Network


class Batch:
    """Jobs of one kind, each at its place; None is a free one."""

    def __init__(self, network: Network, steady: int = 0) -> None:
        """`steady`: always so many places, with attention for each by itself, so that no answer depends on company."""
        self._network, self._steady = network, steady
        self._clear()

    def _clear(self) -> None:
        self.jobs: list[Job | None] = []
        self._own: Sequence[Cache] = []  # of one job that is by itself
        self._places: Places | None = None  # of several
        self._caches: list[BatchCache] = []
        self._shifts: int | mx.array = 0
        self._now: Choice | None = None  # the tokens that the host reads next
        self._next: Choice | None = None  # those behind them
        self._logits: mx.array | None = None  # or the scores from which they are still to be chosen

    @property
    def running(self) -> list[Job]:
        return [job for job in self.jobs if job is not None]

    @property
    def full(self) -> bool:
        """Whether nobody can join any more."""
        return bool(self._steady and self.jobs) and None not in self.jobs

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for cache in (self._caches or self._own) for a in cache.state)

    # --- a step

    def queue(self) -> None:
        """Put the next step on its way; its input are the tokens that the host has not read yet."""
        now, jobs = self._now, self.running
        if now is None or all(len(job.answer.tokens) + 1 >= job.most for job in jobs):
            return
        logits = self._network.step(now.tokens[:, None], self._caches or self._own, self._shifts)
        if self._places is not None:
            self._places.advance(1)
        if any(job.waits for job in jobs):
            mx.async_eval(logits)
            self._logits = logits
        else:
            self._next = choose(self.jobs, logits)

    def take(self) -> list[Job]:
        """Read the tokens that are there; the jobs that they end."""
        if self._now is None:
            return []
        now, tokens = self._now, np.asarray(self._now.tokens).tolist()
        for place, job in enumerate(self.jobs):
            if job is not None:
                self.deliver(job, tokens[place], now.told.get(place))
        if self._logits is not None:
            self._next = choose([None if job is None or job.over else job for job in self.jobs], self._logits)
        self._now, self._next, self._logits = self._next, None, None
        return [job for job in self.running if job.over]

    def deliver(self, job: Job, token: int, told: Told | None = None) -> None:
        """Give a job its next token."""
        try:
            job.deliver(token, told)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job only
            job.fail(error)

    # --- joining and leaving

    def join(self, job: Job, first: Chosen) -> None:
        """A job whose prompt was read, with its first token."""
        if not self.running and not self._steady:
            self._alone(job, first)
            return
        place = self._free_place(job)
        for cache, own in zip(self._caches, job.caches, strict=True):
            cache.join(place, own)
        assert self._places is not None, "places were made"
        self._places.set(place, job.caches[0].offset)
        self.jobs[place] = job
        self._now = _placed(self._now, place, first)
        job.release()
        self._shifts = self._shift_array()

    def leave(self, jobs: Sequence[Job], *, shrink: bool) -> None:
        """Forget jobs. `shrink`: nobody waits for their places."""
        for place, job in enumerate(self.jobs):
            if job in jobs:
                assert job is not None, "it is one of them"
                job.release()
                self.jobs[place] = None
                if self._places is not None:
                    self._places.set(place, 0)
        if not self.running:
            self._clear()
        elif shrink and self._places is not None and not self._steady and 2 * len(self.running) < len(self.jobs):
            self._resize()

    def _alone(self, job: Job, first: Chosen) -> None:
        self.jobs, self._own, self._shifts = [job], job.caches, job.shift
        self._now = Choice(first.token, {} if first.logprobs is None else {0: (first.logprobs, 0)})

    def _free_place(self, job: Job) -> int:
        """A place for one more."""
        if self._steady and self._places is None:
            self._places = Places(self._steady)
            self._caches = [batch_cache(cache, self._places, apart=True) for cache in job.caches]
            self.jobs = [None] * self._steady
            self._now = Choice(mx.zeros((self._steady,), mx.uint32))
        elif self._places is None:
            self._open()
        if None not in self.jobs:
            self._resize(2 * len(self.jobs))
        return self.jobs.index(None)

    def _open(self) -> None:
        """Places for two, with the job that was by itself at the first."""
        own, self._own = self._own, []
        self._places = Places(2)
        self._caches = [batch_cache(cache, self._places) for cache in own]
        for cache, alone in zip(self._caches, own, strict=True):
            cache.join(0, alone)
        self._places.set(0, own[0].offset)
        (job,) = self.running
        job.release()
        self.jobs = [job, None]
        self._now = None if self._now is None else self._now.kept([0], 2)

    def _resize(self, count: int | None = None) -> None:
        """Leave only the places that are taken, among `count` or as few as hold them."""
        kept = [place for place, job in enumerate(self.jobs) if job is not None]
        count = count or 1 << (len(kept) - 1).bit_length()
        for cache in self._caches:
            cache.resize(kept, count)
        assert self._places is not None, "there are places"
        self._places.resized(kept, count)
        self.jobs = [*(self.jobs[place] for place in kept), *[None] * (count - len(kept))]
        self._now = None if self._now is None else self._now.kept(kept, count)
        self._shifts = self._shift_array()

    def _shift_array(self) -> int | mx.array:
        shifts = [0 if job is None else job.shift for job in self.jobs]
        return mx.array(shifts, dtype=mx.int32) if any(shifts) else 0


def _placed(now: Choice | None, place: int, first: Chosen) -> Choice:
    assert now is not None, "others are running"
    tokens = now.tokens
    tokens[place : place + 1] = first.token.astype(tokens.dtype)
    told = now.told if first.logprobs is None else {**now.told, place: (first.logprobs, 0)}
    return Choice(tokens, told)
