"""Guessing ahead: what an answer repeats of its prompt or of itself is looked up, and checked in a single step.

Prompt lookup (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding; LLMA, arXiv:2304.04487): the tokens that
followed the last few ones when they stood in the text before are put through the network together. It says of each what
it would have said; guesses are taken as far as they agree, so the answer is that of greedy decoding, one step at a time
or several at once. The host has to know each token before it can guess the next ones, so steps are not queued ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from docai.vlm.batch import Batch
from docai.vlm.generate import Chosen
from docai.vlm.job import Job
from docai.vlm.network import Network

_GRAMS = (4, 3, 2)  # how many tokens have to stand in the text before; the longest that do count
_MISSES, _PAUSE = 3, 24  # so many guesses in a row of which nothing was right, and no more for so many tokens


class Guesser:
    """Knows where each run of a few tokens last stood in one text."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._text: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}  # run -> the place behind it
        self._missed, self._resume = 0, 0
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        """The text goes on. The run at its end is noted only now that something follows it."""
        for size in _GRAMS:
            if len(self._text) >= size:
                self._behind[tuple(self._text[-size:])] = len(self._text)
        self._text.append(token)

    def next(self, most: int) -> list[int]:
        """What followed when the end of the text stood there before; nothing where it never did, or helps little."""
        if len(self._text) < self._resume:
            return []
        for size in _GRAMS:
            place = self._behind.get(tuple(self._text[-size:])) if len(self._text) >= size else None
            if place is not None:
                return self._text[place : place + most]
        return []

    def heard(self, right: int) -> None:
        """So many of the tokens that were guessed were right."""
        self._missed = 0 if right else self._missed + 1
        if self._missed == _MISSES:
            self._missed, self._resume = 0, len(self._text) + _PAUSE


class GuessingBatch(Batch):
    """A batch whose steps check up to `most` guesses of each job. The tokens of all jobs are known on the host."""

    def __init__(self, network: Network, most: int) -> None:
        super().__init__(network)
        self._most = most
        self._guessers: dict[int, Guesser] = {}  # by the jobs' numbers
        self._checked: tuple[list[list[int]], mx.array] | None = None

    def join(self, job: Job, first: Chosen) -> None:
        super().join(job, first)
        self.deliver(job, np.asarray(first.token).tolist()[0])
        self._guessers[job.number] = Guesser([*job.request.ids, *job.answer.tokens])

    def leave(self, jobs: Sequence[Job], *, shrink: bool) -> None:
        super().leave(jobs, shrink=shrink)
        for job in jobs:
            self._guessers.pop(job.number, None)

    def queue(self) -> None:
        guesses = [self._guessed(job) for job in self.jobs]
        tokens = np.zeros((len(self.jobs), 1 + self._most * any(guesses)), np.int32)  # two shapes, no more
        for row, job, guess in zip(tokens, self.jobs, guesses, strict=True):
            if job is not None:
                row[: 1 + len(guess)] = [job.answer.tokens[-1], *guess]
        logits = self._network.steps(mx.array(tokens), self._caches or self._own, self._shifts)
        said = mx.argmax(logits, axis=-1)  # (B, L)
        mx.async_eval(said)
        self._checked = guesses, said

    def _guessed(self, job: Job | None) -> list[int]:
        if job is None or job.over:
            return []
        left = job.most - len(job.answer.tokens)
        return self._guessers[job.number].next(min(self._most, left - 1)) if left > 1 else []

    def take(self) -> list[Job]:
        if self._checked is None:
            return []
        (guesses, checked), self._checked = self._checked, None
        said = np.asarray(checked)
        counts = np.ones(len(guesses), np.int32)
        for place, (job, guess) in enumerate(zip(self.jobs, guesses, strict=True)):
            right = 0
            while right < len(guess) and guess[right] == said[place, right]:
                right += 1
            counts[place] = 1 + right
            if guess and job is not None:
                self._guessers[job.number].heard(right)
            for token in said[place, : 1 + right].tolist():
                if job is not None and not job.over:
                    self._guessers[job.number].add(token)
                    self.deliver(job, token)
        if self._places is not None:
            self._places.advance(counts)
        else:
            for cache in self._own:
                cache.trim(said.shape[1] - int(counts[0]))
        return [job for job in self.running if job.over]
