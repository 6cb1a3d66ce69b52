"""A request in the engine, seen from inside: what is known of its answer, and all that belongs to it alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable
from typing import Literal

import mlx.core as mx

from docai.nn.cache import Cache
from docai.vlm.answer import Answer
from docai.vlm.connector import ImageFeatures
from docai.vlm.features import Key
from docai.vlm.generate import Chosen, Clock, Request, Runtime
from docai.vlm.logprobs import Logprobs
from docai.vlm.prefix import BlockStore
from docai.vlm.reading import Reading
from docai.vlm.request import FinishReason, Generation, TokenLogprob, Usage
from docai.vlm.sample import Sampler, ruling
from docai.vlm.thinking import Thinking
from docai.vlm.ticket import Outlet

_NUMBERS = itertools.count()


class Job:
    """One request on its way. The engine's thread alone changes it, but for `cancelled`."""

    def __init__(self, runtime: Runtime, request: Request, client: str, tenant: Hashable, started: float) -> None:
        options = request.options
        self.number = next(_NUMBERS)
        self.request, self.client, self.tenant = request, client, tenant
        self.most = min(options.most_tokens, runtime.context - len(request.ids))
        self.outlet = Outlet()
        self.cancelled = False
        self.failures = 0  # steps that went wrong with it
        self.guess = _guess(runtime, request)
        self.boxes = _boxes(runtime, request)
        self.clock = Clock(started)
        self.answer = Answer(
            options, runtime.pieces, Thinking(runtime.marks, request.ids, options.thinking_budget), request.grammar
        )
        self.sampler = Sampler(options, request.ids, self.most)
        self.reading: Reading | None = None
        self.features: dict[Key, ImageFeatures] = {}  # of its images, made together with those of others
        self.caches: list[Cache] = []  # of its own, until it joins others
        self.shift = 0
        self._runtime, self._reused = runtime, 0

    @property
    def kind(self) -> Hashable:
        """What has to be equal for requests to share a batch.

        One with which a step went wrong is by itself, and so is one whose boxes are written in a step each.
        """
        alone = self.number if self.failures or self.boxes else None
        return self.request.options.context_kind, self.guess, self.boxes, alone

    @property
    def length(self) -> int:
        """The most tokens that it can have in the end."""
        return len(self.request.ids) + self.most

    @property
    def waits(self) -> bool:
        """Whether each token has to be known before the next is chosen."""
        return self.answer.grammar is not None or self.answer.thought.budgeted

    @property
    def over(self) -> bool:
        return self.outlet.over

    # --- reading

    @property
    def left(self) -> int:
        """The tokens that are still to be read."""
        read = 0 if self.reading is None else self.reading.offset
        return len(self.request.ids) + len(self.answer.tokens) - read

    @property
    def untouched(self) -> bool:
        """Whether nothing of its prompt has been read, nor of its answer been said."""
        return not self.answer.tokens and (self.reading is None or (self.reading.offset == 0 and not self.reading.done))

    def begin(self, store: BlockStore) -> Reading:
        """Begin to read the prompt, and what there is of the answer."""
        network, answered = self._runtime.network, self.answer.tokens
        reading = Reading(network, self.request, store, self.tenant, answered, self.features)
        self.reading = reading
        reading.begin()
        self._reused = self._reused or reading.reused
        self.clock.prepared()
        return reading

    def read(self) -> Chosen:
        """The prompt has been read: the first token, on its way."""
        reading = self.reading
        assert reading is not None, "it has not begun to read"
        assert reading.logits is not None, "it has not been read"
        self.caches, self.shift, self.reading = reading.caches, reading.shift, None
        if self.failures:
            self.sampler.replay(self.answer.tokens, reading.logits.shape[-1])
        return self.choose(reading.logits)

    # --- tokens

    @property
    def plain(self) -> bool:
        """Whether its next token can be chosen together with those of others."""
        return not (self.waits or self.sampler.ruled)

    def choose(self, logits: mx.array) -> Chosen:
        """The next token by scores (1, V), on its way. What is known of the answer may force or forbid some."""
        answer = self.answer
        forced = answer.thought.forced()
        if forced is not None:
            token = self.sampler.force(forced)
        else:
            token = self.sampler(logits, answer.allowed(logits.shape[-1]))
        told = None if self.top is None else Logprobs(logits, token, self.top)
        mx.async_eval(token, *(told.arrays if told else ()))
        return Chosen(token, told)

    @property
    def top(self) -> int | None:
        """How many of the likeliest tokens are to be told beside the chosen one; None: not even that."""
        return self.request.options.logprobs

    def deliver(self, token: int, told: tuple[Logprobs, int] | None) -> None:
        """Take in a token that the host has read; `told`: log probabilities of a step, and its row there."""
        if not self.answer.tokens:
            self.clock.prompt_done()
        self.clock.token()
        self.outlet.put(self.answer.add(token, self._logprob(token, told)))
        if self.answer.finish_reason:
            self.outlet.end()
        elif len(self.answer.tokens) >= self.most:
            self.end("length")

    def _logprob(self, token: int, told: tuple[Logprobs, int] | None) -> TokenLogprob | None:
        if told is None or self.top is None:
            return None
        step, row = told
        return step.told(row, token, self.top, self._runtime.pieces.text)

    # --- the end

    def end(self, reason: FinishReason) -> None:
        """The answer is over."""
        if not self.over:
            self.outlet.put(self.answer.end(reason))
            self.outlet.end()

    def fail(self, error: BaseException) -> None:
        """The answer cannot be had, or no more of it."""
        self.outlet.end(error)

    def release(self) -> None:
        """Let go of what takes memory."""
        self.caches, self.reading, self.features = [], None, {}

    def result(self) -> Generation:
        """The answer so far."""
        answer, request = self.answer, self.request
        usage = Usage(
            prompt=len(request.ids),
            images=sum(image.input.tokens for image in request.images if image.input.kind != "audio"),
            audio=sum(image.input.tokens for image in request.images if image.input.kind == "audio"),
            generated=len(answer.tokens),
            thinking=answer.thought.count,
            reused=self._reused,
            cached_images=sum(image.cached for image in request.images),
        )
        return Generation(
            text=answer.text,
            tokens=tuple(answer.tokens),
            finish_reason=answer.finish_reason or "cancelled",
            thinking=answer.thinking,
            usage=usage,
            timings=self.clock.timings(),
            logprobs=None if request.options.logprobs is None else tuple(answer.logprobs),
            seed=self.sampler.seed,
        )


def _guess(runtime: Runtime, request: Request) -> int:
    """How many tokens can be guessed at once: none where the host may have a say, or a cache cannot be cut back."""
    options = request.options
    cut = options.kv_window is None and runtime.network.spec.decoder.cuttable
    greedy = options.temperature == 0 and options.logprobs is None and not ruling(options)
    free = greedy and request.grammar is None and options.thinking_budget is None
    return options.guess if free and cut else 0


def _boxes(runtime: Runtime, request: Request) -> Literal["hybrid", "fast"] | None:
    """How boxes are written in a step each: not where more is asked of tokens than which is the likeliest."""
    options = request.options
    plain = options.temperature == 0 and options.logprobs is None and not ruling(options)
    free = plain and request.grammar is None and options.thinking_budget is None and options.kv_window is None
    if not free or runtime.network.spec.boxes is None or options.box_decoding == "slow":
        return None
    return options.box_decoding


def now() -> float:
    """The clock of all requests."""
    return time.perf_counter()
