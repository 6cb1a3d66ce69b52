"""From a prompt in ids to an answer: reading the prompt in chunks, then token after token.

The step after a token is queued before the host reads that token, so the device never waits for the host; only where a
grammar or a thinking budget has to see a token first is the sampling (not the step) done after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from docai.errors import LimitExceeded, UsageError
from docai.nn.cache import Cache, FullCache, RotatingCache
from docai.nn.rope import LongScaling
from docai.preprocess.inputs import ImageInput
from docai.vlm.answer import Answer
from docai.vlm.connector import ImageFeatures
from docai.vlm.features import Key
from docai.vlm.network import Network, Prompt
from docai.vlm.prefix import Beginning, Kept, Layout, Mark, PrefixStore, Span, chunk_ends
from docai.vlm.request import Generation, GenerationOptions, Piece, Timings, TokenLogprob, Usage
from docai.vlm.sample import Sampler, logprobs
from docai.vlm.stream import Pieces
from docai.vlm.structured import Grammar
from docai.vlm.thinking import Thinking, ThinkingMarks

_MARKS = 4  # places of a prompt that can be come back to
_SWEEP = 256  # steps between which MLX may hoard freed memory, as in mlx-lm


@dataclass(frozen=True, slots=True, eq=False)
class RequestImage:
    """An image of a request. `input` tells its size in tokens; `features` encodes it, unless it is `cached`."""

    key: Key
    input: ImageInput
    features: Callable[[], ImageFeatures]
    cached: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a model is to answer: the ids of a prompt with room for its images, and how."""

    ids: Sequence[int]
    images: Sequence[RequestImage] = ()
    options: GenerationOptions = field(default_factory=GenerationOptions)
    grammar: Grammar | None = None


class Chosen(NamedTuple):
    """A token (1,) that is on its way, and where asked for its log probability (1,), the likeliest (K,) and theirs."""

    token: mx.array
    logprobs: tuple[mx.array, mx.array, mx.array] | None


class Runtime:
    """A network with what answering needs of its tokenizer. Requests share it; none leaves anything in it but what the
    prefix store keeps."""

    def __init__(
        self, network: Network, pieces: Pieces, marks: ThinkingMarks | None = None, prefixes: PrefixStore | None = None
    ) -> None:
        self.network, self.pieces, self.marks = network, pieces, marks
        self.prefixes = PrefixStore(0) if prefixes is None else prefixes

    @property
    def context(self) -> int:
        """The longest prompt and answer together, in tokens."""
        return self.network.spec.decoder.context

    def stream(self, request: Request, *, started: float | None = None) -> Stream:
        """The answer, as it comes. Raises LimitExceeded for a prompt that is too long.

        `started` is when the request came in, on the clock of `time.perf_counter`.
        """
        self.check_length(request.ids, request.images)
        return Stream(self, request, time.perf_counter() if started is None else started)

    def check_length(self, ids: Sequence[int], images: Sequence[RequestImage]) -> None:
        """Raise LimitExceeded for a prompt that leaves no room for an answer."""
        if len(ids) < self.context:
            return
        pictured = sum(image.input.tokens for image in images)
        parts = f", {pictured} of them for {len(images)} image{'s' * (len(images) != 1)}" if images else ""
        raise LimitExceeded(
            f"the prompt has {len(ids)} tokens{parts}, but the model's context is {self.context}, answer included; ask "
            f"with {'fewer or smaller images (image_tokens)' if images else 'less text'}"
        )


class Stream:
    """An answer as it comes: iterate over its pieces; `result` is the whole of it, or what there is so far.

    Closing it, or an interrupt while it is being iterated over, ends the answer and lets go of its caches.
    """

    def __init__(self, runtime: Runtime, request: Request, started: float) -> None:
        options = request.options
        self._most = min(options.most_tokens, runtime.context - len(request.ids))
        self._runtime, self._request = runtime, request
        self._clock = Clock(started)
        thinking = Thinking(runtime.marks, request.ids, options.thinking_budget)
        self._answer = Answer(options, runtime.pieces, thinking, request.grammar)
        self._sampler = Sampler(options, request.ids, self._most)
        self._reused = 0
        self._run_on = self._run()

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        return next(self._run_on)

    def close(self) -> None:
        """End the answer here."""
        self._run_on.close()

    @property
    def result(self) -> Generation:
        """The answer so far. An answer that was not read to its end is `cancelled`."""
        answer, request, clock = self._answer, self._request, self._clock
        usage = Usage(
            prompt=len(request.ids),
            images=sum(image.input.tokens for image in request.images),
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
            timings=clock.timings(),
            logprobs=None if request.options.logprobs is None else tuple(answer.logprobs),
            seed=self._sampler.seed,
        )

    def whole(self) -> Generation:
        """Read to the end."""
        for _ in self:
            pass
        return self.result

    def _run(self) -> Generator[Piece]:
        """Reads the prompt, then yields the text of token after token."""
        request, network = self._request, self._runtime.network
        reader = PromptReader(network, request)
        kind = cache_kind(network, request)
        found = self._runtime.prefixes.take(reader.layout, kind) or Beginning(new_caches(network, request.options))
        self._reused = found.offset
        logits = reader.read(found, self._clock)
        kept = Kept(reader.layout, kind, found.caches, reader.marks)
        try:
            yield from self._decoded(logits, found.caches, reader.shift)
        except (GeneratorExit, KeyboardInterrupt):  # what was read is whole, and the next question may need it
            self._runtime.prefixes.put(kept)
            raise
        self._runtime.prefixes.put(kept)

    def _decoded(self, logits: mx.array, caches: Sequence[Cache], shift: int) -> Iterator[Piece]:
        for token, logprob in self._tokens(logits, caches, shift):
            self._clock.token()
            yield from self._answer.add(token, logprob)
            if self._answer.finish_reason:
                return
        yield from self._answer.end("length")

    def _tokens(
        self, logits: mx.array, caches: Sequence[Cache], shift: int
    ) -> Iterator[tuple[int, TokenLogprob | None]]:
        """Token after token; whoever takes them has to know each before the next is asked for."""
        network, answer = self._runtime.network, self._answer
        waits = answer.grammar is not None or answer.thought.budgeted
        chosen = self._choose(logits)
        for place in range(1, self._most + 1):
            more = place < self._most
            following: Chosen | None = None
            if more:
                logits = network.step(chosen.token[:, None], caches, shift)
                if waits:
                    mx.async_eval(logits)
                else:
                    following = self._choose(logits)
            yield self._read(chosen)
            if more:
                chosen = following or self._choose(logits)
            if place % _SWEEP == 0:
                mx.clear_cache()

    def _choose(self, logits: mx.array) -> Chosen:
        """The next token, on its way. What the host knows of the answer so far may force or forbid some."""
        answer, options = self._answer, self._request.options
        forced = answer.thought.forced()
        if forced is not None:
            token = self._sampler.force(forced)
        else:
            token = self._sampler(logits, answer.allowed(logits.shape[-1]))
        told = None if options.logprobs is None else logprobs(logits, token, options.logprobs)
        mx.async_eval(token, *(told or ()))
        return Chosen(token, told)

    def _read(self, chosen: Chosen) -> tuple[int, TokenLogprob | None]:
        """A token on the host."""
        token, text = int(np.asarray(chosen.token)[0]), self._runtime.pieces.text
        if chosen.logprobs is None:
            return token, None
        own, likeliest, values = (np.asarray(array) for array in chosen.logprobs)
        top = tuple((int(t), text(int(t)), float(v)) for t, v in zip(likeliest, values, strict=True))
        return token, TokenLogprob(token, text(token), float(own[0]), top)


class PromptReader:
    """Reads one prompt into caches. `shift` and `marks` are known once it is read."""

    def __init__(self, network: Network, request: Request) -> None:
        self._network, self._request = network, request
        self.layout = self._layout()
        self.shift = 0
        self.marks: tuple[Mark, ...] = ()

    def _layout(self) -> Layout:
        ids, spec = self._request.ids, self._network.spec
        spans = self._spans()
        step = self._request.options.prefill_step or (512 if mx.default_device() == mx.cpu else 2048)
        if spec.image_mask == "prompt":  # all tokens see each other: there are no chunks
            return Layout(tuple(ids), spans, (len(ids),))
        ends = chunk_ends(len(ids), spans, step, whole_images=spec.image_mask == "image")
        return Layout(tuple(ids), spans, ends)

    def _spans(self) -> tuple[Span, ...]:
        spans, marks = zip(self._places(), self._request.images, strict=True), self._network.spec.image_marks
        return tuple(Span(max(0, p[0] - marks), p[-1] + 1, image.key) for p, image in spans if p)

    def _places(self) -> list[list[int]]:
        """Where the tokens of each image stand."""
        places = np.flatnonzero(np.isin(np.asarray(self._request.ids), self._network.image_tokens)).tolist()
        ends = np.cumsum([image.input.tokens for image in self._request.images]).tolist()
        return [places[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def _features(self, start: int) -> list[ImageFeatures]:
        """The features of the image tokens from `start` on: of the images behind it, and of what is left of one."""
        features = []
        for places, image in zip(self._places(), self._request.images, strict=True):
            done = sum(place < start for place in places)
            if done < len(places) or not done:
                whole = image.features()
                features.append(ImageFeatures(whole.rows[done:], tuple(level[done:] for level in whole.deepstack)))
        return features

    def read(self, found: Beginning, clock: Clock) -> mx.array:
        """Take in what the caches do not hold yet: the scores (1, V) after the last token."""
        request, network, start = self._request, self._network, found.offset
        features = self._features(start)
        clock.prepared()
        positions, self.shift = network.positions(request.ids, [image.input for image in request.images])
        left = None if positions is None else positions[:, start:]
        logits, self.marks = found.logits, found.marks[-_MARKS:]
        if logits is None or start < len(request.ids):
            prompt = network.prompt(request.ids[start:], features, left, self.shift, end=len(request.ids))
            logits = self._chunks(prompt, found.caches, start)
            self.marks = (*self.marks, Mark.of(len(request.ids), found.caches, logits))
        mx.eval(logits)
        clock.prompt_done()
        return logits

    def _chunks(self, prompt: Prompt, caches: Sequence[Cache], start: int) -> mx.array:
        """Read a prompt from `start` on, chunk by chunk; the last place before its end can be come back to."""
        ends = [end for end in self.layout.ends if end > start]
        hidden = prompt.embeddings
        for begin, end in zip((start, *ends), ends, strict=False):
            if end == ends[-1] and begin > start:
                self.marks = (*self.marks, Mark.of(begin, caches))
            hidden = self._network.prefill(prompt.part(begin - start, end - start), caches)
            if end < ends[-1]:
                mx.eval([cache.state for cache in caches])
                mx.clear_cache()
        return self._network.decoder.logits(hidden[:, -1])


def new_caches(network: Network, options: GenerationOptions) -> list[Cache]:
    """Empty caches, as the options have them. Raises UsageError where heads cannot be rounded."""
    heads = {layer.attention.head_dim for layer in network.spec.decoder.layers}
    if options.kv_bits and any(head % 32 for head in heads):
        raise UsageError(f"kv_bits: this model has heads of {min(heads)} numbers, and only groups of 32 can be rounded")
    caches = network.caches(bits=options.kv_bits)
    window = options.kv_window
    return caches if window is None else [RotatingCache(window) if isinstance(c, FullCache) else c for c in caches]


def cache_kind(network: Network, request: Request) -> Hashable:
    """What has to be equal for one request to go on with another's caches."""
    ropes = {layer.attention.rope for layer in network.spec.decoder.layers}
    scalings = {rope.scaling for rope in ropes if rope is not None}
    turned = any(len(request.ids) > s.context for s in scalings if isinstance(s, LongScaling))
    return request.options.kv_bits, request.options.kv_window, turned


class Clock:
    """When what happened to a request."""

    def __init__(self, started: float) -> None:
        self._started = self._prepared = self._prompt = self._first = self._last = started

    def prepared(self) -> None:
        self._prepared = time.perf_counter()

    def prompt_done(self) -> None:
        self._prompt = time.perf_counter()

    def token(self) -> None:
        self._last = time.perf_counter()
        if self._first == self._started:
            self._first = self._last

    def timings(self) -> Timings:
        """The seconds of each part. What never began took none."""
        return Timings(
            prepare_s=self._prepared - self._started,
            prefill_s=max(0.0, self._prompt - self._prepared),
            first_token_s=max(0.0, self._first - self._started),
            decode_s=max(0.0, self._last - self._first),
        )
