"""tiktoken files (Qwen 1, GOT-OCR, Llama 3's original, Kimi): a line `base64 rank` for each token."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer

from docai.checkpoint.vocab.byte_level import KIMI, LLAMA3, QWEN, byte_level, spelling
from docai.checkpoint.vocab.merges import merges_of
from docai.errors import CheckpointError

SPLITS = {"qwen.tiktoken": QWEN, "tiktoken.model": KIMI}  # how words are cut, by the file's name
# Qwen-VL's and GOT's special tokens follow the 151643 of qwen.tiktoken in this order; they stand in no file.
QWEN_SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *(f"<|extra_{number}|>" for number in range(205)),
    *("<ref>", "</ref>", "<box>", "</box>", "<quad>", "</quad>", "<img>", "</img>", "<imgpad>"),
)
KIMI_RESERVED = 256  # special tokens behind those of a tiktoken.model; tokenizer_config.json names some by their ids


def read_tiktoken(data: bytes, name: str, config: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a tiktoken file; its name says how it cuts words. Raises CheckpointError.

    `config` is tokenizer_config.json.
    """
    ranks = _ranks(data, name)
    tokenizer = tiktoken_tokenizer(ranks, SPLITS.get(name, LLAMA3))
    if name == "qwen.tiktoken":
        tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in QWEN_SPECIAL])
    if name == "tiktoken.model":
        _add_reserved(tokenizer, len(ranks), config.get("added_tokens_decoder") or {})
    return tokenizer


def _add_reserved(tokenizer: Tokenizer, first: int, named: Mapping[str, Any]) -> None:
    """Kimi's tokens from id `first` on: those that have names, and between them those that are kept free.

    Raises CheckpointError for one that there is already: the ids of all behind it would be others.
    """
    tokens: list[AddedToken] = []
    for number in range(first, first + KIMI_RESERVED):
        said = named.get(str(number))
        said = said if isinstance(said, Mapping) else {}
        text = said.get("content") or f"<|reserved_token_{number}|>"
        tokens.append(AddedToken(str(text), normalized=False, special=bool(said.get("special", not said))))
    tokenizer.add_tokens(tokens)  # all at once, which is much faster
    texts = enumerate((token.content for token in tokens), first)
    if (twice := next((text for number, text in texts if tokenizer.token_to_id(text) != number), None)) is not None:
        raise CheckpointError(f"tokenizer_config.json: expected tokens of their own; {twice!r} is there twice")


def tiktoken_tokenizer(ranks: Mapping[bytes, int], split: str, before: Sequence[str] = ()) -> Tokenizer:
    """The tokenizer in which `ranks` says which pair is merged first, and the id of a token after those `before`."""
    letters = spelling()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges = [(spelled(left), spelled(right)) for left, right in merges_of(ranks)]
    vocab = {token: number for number, token in enumerate(before)}
    vocab |= {spelled(token): rank + len(before) for token, rank in ranks.items()}
    return byte_level(vocab, merges, split, whole_words=True)


def _ranks(data: bytes, name: str) -> dict[bytes, int]:
    ranks = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise CheckpointError(f"{name}, line {number}: expected a token in base64 and its rank: {error}") from error
    return ranks
