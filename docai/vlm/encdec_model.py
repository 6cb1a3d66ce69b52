"""An encoder-decoder model that answers: one picture and one question a request, with the face of `Model`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np
from tokenizers import AddedToken

from docai.checkpoint.checkpoint import Checkpoint
from docai.errors import LimitExceeded, UsageError
from docai.nn.cross import Memory
from docai.preprocess.centred import CentredImages
from docai.preprocess.inputs import ImageInput, ImageProcessor
from docai.vlm.answer import Answer
from docai.vlm.ask import Asked, Setting
from docai.vlm.beams import Search, searched
from docai.vlm.clips import MediumLike, medium_of, settle
from docai.vlm.connector import ImageFeatures
from docai.vlm.encdec import EncDecNetwork
from docai.vlm.families import Family
from docai.vlm.features import FeatureCache
from docai.vlm.generate import Chosen, Clock, RequestImage, Stream
from docai.vlm.model import Model
from docai.vlm.pictures import Picture
from docai.vlm.prompt import Message
from docai.vlm.request import Generation, GenerationOptions, Piece, TokenLogprob, Usage
from docai.vlm.sample import Sampler, logprobs
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
        options = request.options
        room = network.spec.context - len(request.seed)
        self._network, self._asked, self._habits, self._pieces = network, request, habits, pieces
        self._clock, self._most = Clock(started), min(options.max_tokens or room, room)
        self._answer = Answer(options, pieces, Thinking(None, request.seed, None))
        self._sampler = Sampler(options, request.seed, self._most)
        self._run_on = self._run()

    @property
    def result(self) -> Generation:
        """The answer so far. An answer that was not read to its end is `cancelled`."""
        answer, asked = self._answer, self._asked
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
        asked, network = self._asked, self._network
        features = asked.image.features()
        self._clock.prepared()
        memories = network.read(features, asked.prompt)
        mx.eval(memories)
        self._clock.prompt_done()
        yield from self._told(self._searched(memories) if asked.options.beams > 1 else self._greedy(memories))

    def _told(self, tokens: Iterator[tuple[int, TokenLogprob | None]]) -> Iterator[Piece]:
        for token, logprob in tokens:
            self._clock.token()
            yield from self._answer.add(token, logprob)
            if self._answer.finish_reason:
                return
        yield from self._answer.end("length")

    def _searched(self, memories: Sequence[Memory]) -> Iterator[tuple[int, None]]:
        options, habits = self._asked.options, self._habits
        how = Search(
            options.beams,
            self._most,
            self._asked.seed,
            self._pieces.tokenizer.stops,
            self._network.spec.first,
            options.no_repeat_ngram,
            options.repetition_penalty,
            habits.length_penalty,
            habits.early,
        )
        yield from ((token, None) for token in searched(self._network, memories, how)[0].tokens)

    def _greedy(self, memories: Sequence[Memory]) -> Iterator[tuple[int, TokenLogprob | None]]:
        """Token after token; the step behind each is queued before the host reads it."""
        network, caches = self._network, self._network.caches()
        chosen = self._choose(network.step(mx.array([self._asked.seed]), caches, memories), self._network.spec.first)
        for place in range(1, self._most + 1):
            following = None
            if place < self._most:
                following = self._choose(network.step(chosen.token[:, None], caches, memories))
            yield self._read(chosen)
            chosen = following or chosen
            if place % _SWEEP == 0:
                mx.clear_cache()

    def _choose(self, logits: mx.array, forced: int | None = None) -> Chosen:
        """The next token, on its way, and what is told of it."""
        token = self._sampler(logits) if forced is None else self._sampler.force(forced)
        top = self._asked.options.logprobs
        told = None if top is None else logprobs(logits, token, top)
        mx.async_eval(token, *(told or ()))
        return Chosen(token, told)

    def _read(self, chosen: Chosen) -> tuple[int, TokenLogprob | None]:
        """A token on the host."""
        token, text = int(np.asarray(chosen.token)[0]), self._pieces.text
        if chosen.logprobs is None:
            return token, None
        own, likeliest, values = (np.asarray(array) for array in chosen.logprobs)
        top = tuple((int(t), text(int(t)), float(v)) for t, v in zip(likeliest, values, strict=True))
        return token, TokenLogprob(token, text(token), float(own[0]), top)


class EncDecModel(Model):
    """Answers one question about one picture. Nothing of a request stays here but the picture's features."""

    network: EncDecNetwork  # type: ignore[assignment]  # it has what is asked of one here

    def __init__(
        self,
        name: str,
        network: EncDecNetwork,
        family: Family,
        tokenizer: Tokenizer,
        processor: ImageProcessor | None,
        habits: Habits,
        *,
        feature_cache: int = 20,
    ) -> None:
        tokenizer = completed(tokenizer, family.added_tokens)
        self.name, self.network, self.family, self.tokenizer = name, network, family, tokenizer
        self._processor, self._habits = processor, habits
        self._features: FeatureCache[tuple[ImageInput, ImageFeatures]] = FeatureCache(feature_cache)
        self._pieces = EndPieces(tokenizer)

    @property
    def thinks(self) -> bool:
        return False

    @property
    def context(self) -> int:
        """The longest answer, in tokens."""
        return self.network.spec.context

    @property
    def canvas(self) -> tuple[int, int] | None:
        """The size (height, width) in pixels of the canvas in whose middle it puts pictures; None without one."""
        return self._processor.size if isinstance(self._processor, CentredImages) else None

    def clear(self) -> None:
        """Forget all features."""
        self._features.clear()
        mx.clear_cache()

    def answer(
        self,
        messages: Sequence[Message],
        images: Sequence[MediumLike],
        options: GenerationOptions,
        *,
        template: bool = True,  # noqa: ARG002 - it has none
        tools: Sequence[Mapping[str, Any]] | None = None,  # noqa: ARG002
        most_images: int | None = None,  # noqa: ARG002 - it is one
    ) -> Stream:
        """The answer to the last question of a conversation, about its picture; what was said before does not count.

        It is the likeliest one, so temperature and the like have no effect. Raises UsageError for another number of
        pictures than one and for prompts that the model was not taught, LimitExceeded for one that is too long.
        """
        started = time.perf_counter()
        media = [medium_of(image) for image in images]
        settle(messages, media, model=self.name, family=self.family, sees=True)  # refuses videos
        if len(images) != 1:
            raise UsageError(f"{self.name} looks at one image at a time; got {len(images)}")
        self._check_setting(1, Setting(options.multi_page, options.crop_to_patches))
        if options.json_schema is not None:
            raise UsageError(f"json_schema: {self.name} writes locations and text, no JSON")
        assert self.family.asked is not None
        asked = self.family.asked(question_in(messages), self.tokenizer)
        (picture,) = media
        assert isinstance(picture, Picture)
        image = self._image(picture, None)
        request = EncDecRequest(image, asked.prompt, self._seed(asked), self._settled(options))
        self._check(request)
        return EncDecStream(self.network, self._pieces, request, self._habits, started)

    def _seed(self, asked: Asked) -> tuple[int, ...]:
        start = self.network.spec.start
        return asked.seed if asked.seed[:1] == (start,) else (start, *asked.seed)

    def _settled(self, options: GenerationOptions) -> GenerationOptions:
        ngram = options.no_repeat_ngram or self._habits.no_repeat_ngram
        return replace(options, temperature=0.0, seed=None, no_repeat_ngram=ngram)

    def _check(self, request: EncDecRequest) -> None:
        """Raise LimitExceeded for a prompt that is too long."""
        spec, rows = self.network.spec, request.image.input.tokens
        read = rows + len(request.prompt)
        if spec.encoder is not None and spec.encoder.positions and read > spec.encoder.positions:
            raise LimitExceeded(
                f"the prompt has {len(request.prompt)} tokens behind an image of {rows}, but the model reads "
                f"{spec.encoder.positions} in all; ask with less text"
            )
        if len(request.seed) >= spec.context:
            raise LimitExceeded(f"the prompt has {len(request.seed)} tokens, but the model's context is {spec.context}")


def question_in(messages: Sequence[Message]) -> str:
    """The text of the last message of a user. Raises UsageError where there is none."""
    content = next((m.get("content") for m in reversed(messages) if m.get("role") == "user"), None)
    if content is None:
        raise UsageError("messages: expected one of a user, got none")
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)


def completed(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """The tokenizer with tokens that its files may have left out, behind its vocabulary in their order."""
    missing = [token for token in tokens if tokenizer.token_id(token) is None]
    tokenizer.backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in missing])
    return tokenizer
