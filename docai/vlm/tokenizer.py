"""Text into ids and back, by a checkpoint's own tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tokenizers


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A `tokenizers.Tokenizer` with what the checkpoint says beside it.

    `named` holds the texts of bos_token, eos_token and so on, as chat templates ask for them; `stops` the ids that end
    a generation.
    """

    backend: tokenizers.Tokenizer
    named: Mapping[str, str] = field(default_factory=dict)
    stops: frozenset[int] = frozenset()
    chat_template: str | None = None

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The ids of `text`; with `special`, those that the model expects around it (such as BOS) are added."""
        ids: list[int] = self.backend.encode(text, add_special_tokens=special).ids
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of `ids`, without special tokens unless they are asked for."""
        text: str = self.backend.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def token_id(self, token: str) -> int | None:
        """The id of exactly this token, or None."""
        number: int | None = self.backend.token_to_id(token)
        return number

    def token(self, number: int) -> str | None:
        """The token with this id, as the vocabulary spells it."""
        text: str | None = self.backend.id_to_token(number)
        return text

    @property
    def size(self) -> int:
        """The number of tokens, added ones too."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))
