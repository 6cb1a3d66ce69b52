"""What a model is asked with, and what it answers with. Nothing here needs MLX: the command line reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from docai.errors import InputError, UsageError
from docai.options import check, option

MOST_TOKENS = 1024  # of an answer, where nothing else is said

FinishReason = Literal["stop", "length", "loop", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is chosen.

    The order is that of transformers: penalties, bias and bans first, then temperature, top-k, top-p, min-p.
    """

    temperature: float = option(0.0, "0 takes the likeliest token; more is freer.", least=0, most=100)
    top_k: int = option(0, "Choose among this many of the likeliest tokens; 0 is all.", least=0)
    top_p: float = option(1.0, "Choose among the likeliest tokens that together are this probable.", least=0, most=1)
    min_p: float = option(
        0.0, "Leave out tokens less probable than this part of the likeliest one's probability.", least=0, most=1
    )
    seed: int | None = option(None, "Makes sampling repeatable. Default: a new one each time.", least=0)
    repetition_penalty: float = option(
        1.0, "Divides the score of tokens that the prompt or the answer has already; 1 is none.", least=0.01
    )
    presence_penalty: float = option(0.0, "Taken off the score of tokens that the answer has already.")
    frequency_penalty: float = option(0.0, "Taken off the score of a token for each time that the answer has it.")
    logit_bias: str | Mapping[int, float] | None = option(
        None, "Added to the scores of tokens, by id: 1734:-100,220:2.5."
    )
    no_repeat_ngram: int = option(0, "Never repeat this many tokens in a row; 0 is off.", least=0)

    def __post_init__(self) -> None:
        check(self)
        _ = self.bias  # says at once what is wrong with it

    @property
    def bias(self) -> dict[int, float]:
        """`logit_bias` as token id -> what is added. Raises UsageError."""
        given = self.logit_bias
        pairs = [part.split(":") for part in given.split(",")] if isinstance(given, str) else (given or {}).items()
        try:
            return {int(token): float(added) for token, added in pairs}
        except (TypeError, ValueError) as error:
            raise UsageError(f"logit_bias: expected TOKEN:BIAS,... with token ids; got {given!r}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOptions(Sampling):
    """How a model answers: the options of `docai chat`, `docai caption` and `Model.generate`."""

    max_tokens: int | None = option(
        None, "Most tokens of an answer, thinking included. Default: 1024, for captions by --detail.", least=1
    )
    stop: list[str] | None = option(None, "Text that ends the answer and is left out of it; may be repeated.")
    logprobs: int | None = option(
        None, "Give log probabilities: the chosen token's, and those of this many of the likeliest.", least=0, most=100
    )
    thinking: Literal["auto", "on", "off"] = option(
        "auto", "Ask a model that can think first to do so, or not to.", choices=("auto", "on", "off")
    )
    thinking_budget: int | None = option(None, "Most tokens of thinking; then the answer is begun.", least=0)
    special_tokens: bool = option(False, "Keep the model's special tokens in the text.")
    loop_guard: bool = option(True, "End an answer that only repeats itself.")
    beams: int = option(
        1,
        "Answers searched in step for the likeliest one, by encoder-decoder models such as Florence-2.",
        least=1,
        most=16,
    )
    json_schema: str | Mapping[str, Any] | None = option(
        None, "Answer in JSON that follows this schema: a file, or the schema itself."
    )
    kv_bits: int | None = option(None, "Keep the context rounded to 4 or 8 bits, to save memory.")
    kv_value_bits: int | None = option(None, "Bits for the values of a rounded context, where the keys have others.")
    kv_group: int | None = option(
        None, "Numbers of a rounded context that share a scale: 32, 64 or 128. Default: 32 for keys, 64 for values."
    )
    kv_dense_last: bool = option(False, "Round the context in all layers but the last that sees all of it.")
    kv_window: int | None = option(None, "Keep only this many tokens of the context, forgetting the oldest.", least=16)
    image_tokens: int | None = option(
        None, "Most tokens of an image: larger ones are made smaller. Default: the model's own limit.", least=16
    )
    multi_page: bool = option(False, "Read several images as the pages of one text, by GOT-OCR, which takes one.")
    crop_to_patches: bool = option(False, "Show an image in crops as well, to GOT-OCR.")
    box_decoding: Literal["hybrid", "fast", "slow"] = option(
        "hybrid",
        "How LocateAnything writes boxes: in a step each, but token by token where it is in doubt; always in a step; "
        "or always token by token.",
        choices=("hybrid", "fast", "slow"),
    )
    prefill_step: int | None = option(
        None,
        "Most tokens of the prompt read at once; less saves memory. Default: 2048 on a GPU, 512 on a CPU.",
        least=16,
    )

    guess: int = option(
        0,
        "Guess up to this many tokens at once from what the text repeats, and check them together; 0 is off. Same "
        "answers without sampling, faster where they repeat the prompt.",
        least=0,
        most=64,
    )

    def __post_init__(self) -> None:
        check(self)
        _ = self.bias
        for name in ("kv_bits", "kv_value_bits"):
            if getattr(self, name) not in (None, 4, 8):
                raise UsageError(f"{name}: expected 4 or 8; got {getattr(self, name)}")
        if self.kv_group not in (None, 32, 64, 128):
            raise UsageError(f"kv_group: expected 32, 64 or 128; got {self.kv_group}")
        if not self.kv_bits and (self.kv_value_bits or self.kv_dense_last):
            raise UsageError("kv_value_bits and kv_dense_last are about a rounded context; give kv_bits too")
        if self.kv_bits and self.kv_window:
            raise UsageError("kv_bits and kv_window do not go together; leave one of them out")
        if "" in self.stops:
            raise UsageError("stop: expected text; got nothing")

    @property
    def context_kind(self) -> tuple[int | None, ...]:
        """What has to be equal for two requests to keep their context in the same way."""
        if not self.kv_bits:
            return (None, self.kv_window)
        return (self.kv_bits, self.kv_value_bits or self.kv_bits, self.kv_group, self.kv_dense_last)

    @property
    def most_tokens(self) -> int:
        """The most tokens of an answer."""
        return self.max_tokens or MOST_TOKENS

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def schema(self) -> dict[str, Any] | None:
        """The JSON schema, read where it is a file. Raises InputError or UsageError."""
        given = self.json_schema
        if given is None or isinstance(given, Mapping):
            return None if given is None else dict(given)
        text = given if given.lstrip().startswith("{") else _read(given)
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise UsageError(f"json_schema: expected JSON: {error}") from error
        if not isinstance(schema, dict):
            raise UsageError(f"json_schema: expected an object; got {type(schema).__name__}")
        return schema


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"json_schema: cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of the answer with its log probability, and the likeliest tokens in its place.

    They are the model's own: before penalties, temperature and filters.
    """

    token: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()  # (token, text, log probability), likeliest first


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: making the prompt (images decoded, prepared and encoded, the text put into tokens), then reading it."""

    prepare_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float = 0.0  # from the call to the first token
    decode_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. `prompt` counts everything that the model reads, `images` and `audio` what stands for such in it.

    `reused` is the part of the prompt that an earlier request had left ready; `cached_images` were not encoded again.
    """

    prompt: int = 0
    images: int = 0
    generated: int = 0
    thinking: int = 0
    reused: int = 0
    cached_images: int = 0
    audio: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """An answer.

    `text` is without special tokens, thinking and what follows a stop string; `tokens` are all that were generated.
    """

    text: str
    tokens: tuple[int, ...] = ()
    finish_reason: FinishReason = "stop"
    thinking: str = ""
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    logprobs: tuple[TokenLogprob, ...] | None = None
    seed: int | None = None  # None for greedy decoding

    @property
    def prompt_tokens(self) -> int:
        return self.usage.prompt

    @property
    def image_tokens(self) -> int:
        return self.usage.images

    @property
    def prefill_rate(self) -> float:
        """Tokens of the prompt read a second."""
        return (self.usage.prompt - self.usage.reused) / max(self.timings.prefill_s, 1e-9)

    @property
    def decode_rate(self) -> float:
        """Tokens generated a second, after the first."""
        return max(0, self.usage.generated - 1) / max(self.timings.decode_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer as it comes: text, never half a character, of the answer or of the thinking before it."""

    text: str
    thinking: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()


class Answering(Protocol):
    """An answer as it comes: iterate over its pieces; `result` is the whole of it, or what there is so far."""

    def __iter__(self) -> Iterator[Piece]: ...

    def __next__(self) -> Piece: ...

    def close(self) -> None:
        """End the answer here. One that was not read to its end is `cancelled`."""
        ...

    @property
    def result(self) -> Generation: ...

    def whole(self) -> Generation:
        """Wait for the end."""
        ...
