"""Requests to a model, and answers that come piece by piece."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mlx.core as mx

from docai.errors import LimitExceeded
from docai.preprocess.inputs import ImageInput
from docai.vlm.connector import ImageFeatures
from docai.vlm.features import FeatureCache, Key
from docai.vlm.logprobs import Logprobs
from docai.vlm.network import Network
from docai.vlm.request import Generation, GenerationOptions, Piece, Timings
from docai.vlm.stream import Pieces
from docai.vlm.structured import Grammar
from docai.vlm.thinking import ThinkingMarks


@dataclass(frozen=True, slots=True, eq=False)
class RequestImage:
    """An image of a request. `input` tells its size in tokens; `features` encodes it, unless it is `cached`.

    `keep` hears of features that somebody else has made of `input`, together with others.
    """

    key: Key
    input: ImageInput
    features: Callable[[], ImageFeatures]
    cached: bool = False
    keep: Callable[[ImageFeatures], None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a model is to answer: the ids of a prompt with room for its images, and how."""

    ids: Sequence[int]
    images: Sequence[RequestImage] = ()
    options: GenerationOptions = field(default_factory=GenerationOptions)
    grammar: Grammar | None = None


class Chosen(NamedTuple):
    """A token (1,) that is on its way, and its log probabilities where they are asked for."""

    token: mx.array
    logprobs: Logprobs | None


class Runtime:
    """A network with what answering needs of its tokenizer. Requests share it; none leaves anything in it.

    `features`: where what was made of images is kept, whose bytes count as taken.
    """

    def __init__(
        self,
        network: Network,
        pieces: Pieces,
        marks: ThinkingMarks | None = None,
        features: FeatureCache[Any] | None = None,
    ) -> None:
        self.network, self.pieces, self.marks, self.features = network, pieces, marks, features

    @property
    def context(self) -> int:
        """The longest prompt and answer together, in tokens."""
        return self.network.spec.decoder.context

    def check_length(self, ids: Sequence[int], images: Sequence[RequestImage]) -> None:
        """Raise LimitExceeded for a prompt that leaves no room for an answer."""
        if len(ids) < self.context:
            return
        seen = [image.input.tokens for image in images if image.input.kind != "audio"]
        heard = [image.input.tokens for image in images if image.input.kind == "audio"]
        parts = f", {sum(seen)} of them for {len(seen)} image{'s' * (len(seen) != 1)}" if seen else ""
        parts += f", {sum(heard)} of them for audio" if heard else ""
        advice = "fewer or smaller images (image_tokens)" if seen else "shorter audio" if heard else "less text"
        raise LimitExceeded(
            f"the prompt has {len(ids)} tokens{parts}, but the model's context is {self.context}, answer included; ask "
            f"with {advice}"
        )


class Stream:
    """An answer that is made while it is iterated over; `result` is the whole of it, or what there is so far.

    Closing it, or an interrupt while it is being iterated over, ends the answer.
    """

    _run_on: Generator[Piece]

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
        raise NotImplementedError

    def whole(self) -> Generation:
        """Read to the end."""
        for _ in self:
            pass
        return self.result


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
