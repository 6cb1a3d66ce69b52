"""Mistral's tekken.json: ranks as in tiktoken, after a block of special tokens, and the pattern that cuts words."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from tokenizers import AddedToken, Tokenizer

from docai.checkpoint.vocab.tiktoken import tiktoken_tokenizer
from docai.errors import CheckpointError


def read_tekken(text: str) -> Tokenizer:
    """The tokenizer of a tekken.json. Raises CheckpointError."""
    try:
        return _tokenizer(json.loads(text))
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise CheckpointError(f"tekken.json: cannot be read: {type(error).__name__}: {error}") from error


def _tokenizer(data: dict[str, Any]) -> Tokenizer:
    config = data["config"]
    named = {int(entry["rank"]): str(entry["token_str"]) for entry in data["special_tokens"]}
    count = int(config.get("default_num_special_tokens") or len(named))
    special = [named.get(rank, f"<SPECIAL_{rank}>") for rank in range(count)]
    # the list may be longer than the model's vocabulary
    size = config.get("default_vocab_size")
    tokens = data["vocab"][: int(size) - count] if size else data["vocab"]
    ranks = {base64.b64decode(entry["token_bytes"]): rank for rank, entry in enumerate(tokens)}
    tokenizer = tiktoken_tokenizer(ranks, str(config["pattern"]), special)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer
