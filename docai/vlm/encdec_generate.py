"""Answers of encoder-decoder models as they come: the driver beside `docai.vlm.generate`, with the same face.

The step behind a token is queued before the host reads that token.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from docai.checkpoint.checkpoint import Checkpoint
from docai.nn.cross import Memory
from docai.vlm.answer import Answer
from docai.vlm.beams import Search, searched
from docai.vlm.encdec import EncDecNetwork
from docai.vlm.generate import Chosen, Clock, RequestImage, Stream
from docai.vlm.logprobs import Logprobs
from docai.vlm.request import Generation, GenerationOptions, Piece, TokenLogprob, Usage
from docai.vlm.sample import Sampler
from docai.vlm.stream import Pieces
from docai.vlm.thinking import Thinking
from docai.vlm.tokenizer import Tokenizer

_SWEEP = 256  # steps between which MLX may hoard freed memory
_ENDS = ("bos_token", "eos_token", "pad_token")


@dataclass(frozen=True, slots=True)
class Habits:
    """What a checkpoint's generation_config.json asks for, where the request does not say it."""

    no_repeat_ngram: int = 0
    length_penalty: float = 1.0
    early: bool = True

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Habits:
        said = checkpoint.json_file("generation_config.json") or {}
        text = checkpoint.config.get("text_config") or {}
        both = {**text, **{name: value for name, value in said.items() if value is not None}}
        ngram, penalty = both.get("no_repeat_ngram_size") or 0, both.get("length_penalty") or 1.0
        return cls(int(ngram), float(penalty), both.get("early_stopping") in (None, True))


class EndPieces(Pieces):
    """Of the special tokens only the ends of a text are none of it: locations and classes are what is asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        named = (tokenizer.token_id(tokenizer.named.get(name, "")) for name in _ENDS)
        self._special = frozenset({*tokenizer.stops, *(token for token in named if token is not None)})


@dataclass(frozen=True, slots=True, eq=False)
class EncDecRequest:
    """What is to be answered: `prompt` is read behind the image, `seed` begins the answer and is no part of it."""

    image: RequestImage
    prompt: tuple[int, ...]
    seed: tuple[int, ...]
    options: GenerationOptions


class EncDecStream(Stream):
    """An answer as it comes; a search for the best of several comes at once when it is done."""

    def __init__(
        self, network: EncDecNetwork, pieces: Pieces, request: EncDecRequest, habits: Habits, started: float
    ) -> None:
        options, first = request.options, network.spec.first
        room = network.spec.context - len(request.seed)
        self.network, self.asked = network, request
        self.most = min(options.max_tokens or room, room)
        self._habits, self._pieces, self._clock = habits, pieces, Clock(started)
        self._answer = Answer(options, pieces, Thinking(None, request.seed, None))
        begun = request.seed if first is None else (*request.seed, first)
        self._sampler = Sampler(options, begun, self.most)
        self._run_on = self._run()

    @property
    def result(self) -> Generation:
        """The answer so far. An answer that was not read to its end is `cancelled`."""
        answer, asked = self._answer, self.asked
        rows = asked.image.input.tokens
        return Generation(
            text=answer.text,
            tokens=tuple(answer.tokens),
            finish_reason=answer.finish_reason or "cancelled",
            usage=Usage(
                prompt=rows + len(asked.prompt) + len(asked.seed),
                images=rows,
                generated=len(answer.tokens),
                cached_images=int(asked.image.cached),
            ),
            timings=self._clock.timings(),
            logprobs=None if asked.options.logprobs is None else tuple(answer.logprobs),
            seed=None,
        )

    def _run(self) -> Generator[Piece]:
        """Reads the picture and the prompt, then yields the text of token after token."""
        memories = self.read()
        yield from self._told(self._searched(memories) if self.asked.options.beams > 1 else self._greedy(memories))

    def read(self) -> list[Memory]:
        """Read the picture and the prompt: what the decoder looks up."""
        features = self.asked.image.features()
        self._clock.prepared()
        memories = self.network.read(features, self.asked.prompt)
        mx.eval(memories)
        self._clock.prompt_done()
        return memories

    def _told(self, tokens: Iterator[tuple[int, TokenLogprob | None]]) -> Iterator[Piece]:
        for token, logprob in tokens:
            self._clock.token()
            yield from self._answer.add(token, logprob)
            if self._answer.finish_reason:
                return
        yield from self._answer.end("length")

    def _searched(self, memories: Sequence[Memory]) -> Iterator[tuple[int, None]]:
        options, habits = self.asked.options, self._habits
        how = Search(
            options.beams,
            self.most,
            self.asked.seed,
            self._pieces.tokenizer.stops,
            self.network.spec.first,
            options.no_repeat_ngram,
            options.repetition_penalty,
            habits.length_penalty,
            habits.early,
        )
        yield from ((token, None) for token in searched(self.network, memories, how)[0].tokens)

    def _greedy(self, memories: Sequence[Memory]) -> Iterator[tuple[int, TokenLogprob | None]]:
        """Token after token."""
        network, caches = self.network, self.network.caches()
        chosen = self.begin(network.step(mx.array([self.asked.seed]), caches, memories))
        for place in range(1, self.most + 1):
            following = None
            if place < self.most:
                following = self._choose(network.step(chosen.token[:, None], caches, memories))
            yield self._read(chosen)
            chosen = following or chosen
            if place % _SWEEP == 0:
                mx.clear_cache()

    def begin(self, logits: mx.array) -> Chosen:
        """The first token: the one that every answer begins with, where there is one."""
        first = self.network.spec.first
        return self._choose(logits, None if first is None else mx.array([first], dtype=mx.uint32))

    def _choose(self, logits: mx.array, token: mx.array | None = None) -> Chosen:
        """The next token, on its way, and what is told of it."""
        token = self._sampler(logits) if token is None else token
        top = self.asked.options.logprobs
        told = None if top is None else Logprobs(logits, token, top)
        mx.async_eval(token, *(told.arrays if told else ()))
        return Chosen(token, told)

    def _read(self, chosen: Chosen) -> tuple[int, TokenLogprob | None]:
        """A token on the host."""
        token, text = int(np.asarray(chosen.token)[0]), self._pieces.text
        told, top = chosen.logprobs, self.asked.options.logprobs
        return token, None if told is None or top is None else told.told(0, token, top, text)

    def choose(self, logits: mx.array) -> Chosen:
        """The next token for scores (1, V), for answers in step."""
        return self._choose(logits)

    def take(self, chosen: Chosen) -> bool:
        """Take in a token; whether the answer goes on."""
        self._clock.token()
        self._answer.add(*self._read(chosen))
        if not self._answer.finish_reason and len(self._answer.tokens) >= self.most:
            self._answer.end("length")
        return self._answer.finish_reason is None


def in_step(streams: Sequence[EncDecStream]) -> None:
    """Have answers written together, a token of each at a time, to their ends.

    They are of one model, none is searched for, and their prompts are of one length, so that what they look up is.
    """
    network, running = streams[0].network, list(streams)
    read = [stream.read() for stream in running]
    memories = [_stacked(layer) for layer in zip(*read, strict=True)]
    caches = network.caches()
    logits = network.step(mx.array([stream.asked.seed for stream in running]), caches, memories)
    chosen = [stream.begin(logits[n : n + 1]) for n, stream in enumerate(running)]
    while running:
        tokens = mx.concatenate([one.token for one in chosen])
        logits = network.step(tokens[:, None], caches, memories)
        following = [stream.choose(logits[n : n + 1]) for n, stream in enumerate(running)]
        going = [n for n, (stream, one) in enumerate(zip(running, chosen, strict=True)) if stream.take(one)]
        running, chosen = [running[n] for n in going], [following[n] for n in going]
        if running and len(going) < len(following):
            rows = mx.array(going)
            memories = [Memory(keys[rows], values[rows]) for keys, values in memories]
            for cache in caches:
                cache.reorder(rows)


def _stacked(layer: Sequence[Memory]) -> Memory:
    """What one layer looks up, of several answers."""
    return Memory(mx.concatenate([m.keys for m in layer]), mx.concatenate([m.values for m in layer]))
