"""Answers in JSON that follow a schema: llguidance says after each token which ones may come next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from docai.errors import DependencyMissing, UsageError
from docai.vlm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_COMPACT: dict[str, Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Vocabulary:
    """A tokenizer as llguidance needs it. Making it takes a second or so for a large vocabulary: keep it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises UsageError for tokenizers of a kind that cannot be followed."""
        guidance = _llguidance()
        stops = sorted(tokenizer.stops) or None
        try:
            self.backend: LLTokenizer = guidance.LLTokenizer(tokenizer.backend.to_str(), eos_token=stops)
        except ValueError as error:
            raise UsageError(
                f"json_schema: this model's tokenizer cannot be followed: {_first_line(str(error))}"
            ) from error


class Grammar:
    """Follows one answer. Tokens that may come next are those that can still lead to JSON of the schema."""

    def __init__(self, vocabulary: Vocabulary, schema: Mapping[str, Any]) -> None:
        """Raises UsageError for what is no schema, or has something that cannot be followed."""
        matcher = _llguidance().LLMatcher
        try:
            grammar = matcher.grammar_from_json_schema(json.dumps(schema), defaults=_COMPACT)
        except (TypeError, ValueError) as error:
            raise UsageError(f"json_schema: {error}") from error
        self._matcher = matcher(vocabulary.backend, grammar)
        if self._matcher.is_error():
            raise UsageError(f"json_schema: {_first_line(self._matcher.get_error())}")

    def allowed(self, vocab: int) -> mx.array:
        """(V,) True for each token that may come next; `vocab` may exceed the tokenizer's."""
        words = np.frombuffer(self._matcher.compute_bitmask(), dtype="<u4")
        bits = (mx.array(words)[:, None] >> mx.arange(32, dtype=mx.uint32)) & 1
        known = bits.reshape(-1)[:vocab].astype(mx.bool_)
        return mx.pad(known, (0, vocab - known.shape[0]))

    def add(self, token: int) -> None:
        """Take in the token that was chosen."""
        if not self._matcher.consume_token(token):
            raise AssertionError(f"token {token} does not follow the schema: {self._matcher.get_error()}")

    @property
    def done(self) -> bool:
        """Whether the JSON is complete and nothing can follow it."""
        return bool(self._matcher.is_stopped())


def _llguidance() -> Any:
    try:
        import llguidance
    except ImportError:
        raise DependencyMissing("JSON schemas need llguidance: pip install 'docai[structured]'") from None
    return llguidance


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "it cannot be followed"
