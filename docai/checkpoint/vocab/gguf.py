"""Tokenizers of GGUF files, whose metadata lists tokens, kinds, scores and merges (llama.cpp's names for them)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from docai.checkpoint.vocab import byte_level as words
from docai.checkpoint.vocab.ends import surround
from docai.checkpoint.vocab.sentencepiece import Kind, Piece, SentencePieceModel, sentencepiece_tokenizer
from docai.errors import CheckpointError

Fields = Mapping[str, Any]

# How text is cut into words, by `tokenizer.ggml.pre`; names and patterns as in llama.cpp's llama-vocab.cpp.
LLAMA3 = ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "lfm2")
SPLITS: dict[str, str | None] = {
    **dict.fromkeys(("default", "gpt-2", "gpt2"), words.GPT2),
    **dict.fromkeys((*LLAMA3, "smaug-bpe"), words.LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez"), words.QWEN),
    "tekken": words.TEKKEN,
    **dict.fromkeys(("gpt-4o", "llama4"), words.GPT4O),
}
WHOLE_WORDS = (*LLAMA3, "tekken")
# SmolLM and StarCoder cut numbers into digits before GPT-2's pattern.
DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell")


def from_gguf_fields(fields: Fields) -> dict[str, str]:
    """The tokenizer.json and tokenizer_config.json that a GGUF file's metadata stands for, as texts by name.

    `fields` are the whole metadata: `tokenizer.ggml.model`, `.tokens`, and so on. Raises CheckpointError.
    """
    kind = _field(fields, "model")
    if kind == "gpt2":
        tokenizer = _byte_level(fields)
    elif kind == "llama":
        tokenizer = _sentencepiece(fields)
    else:
        raise CheckpointError(f"tokenizer.ggml.model: expected 'gpt2' or 'llama', got {kind!r}")
    _add_tokens(tokenizer, fields)
    config = _config(fields)
    # llama.cpp adds BOS to a `llama` vocabulary that says nothing of it
    before = config.get("bos_token") if fields.get("tokenizer.ggml.add_bos_token", kind == "llama") else None
    after = config.get("eos_token") if fields.get("tokenizer.ggml.add_eos_token") else None
    surround(tokenizer, before, after)
    return {"tokenizer.json": tokenizer.to_str(), "tokenizer_config.json": json.dumps(config)}


def _byte_level(fields: Fields) -> Tokenizer:
    vocab = {token: number for number, token in enumerate(_field(fields, "tokens"))}
    merges = [(left, right) for left, right in (merge.split(" ", 1) for merge in _field(fields, "merges"))]
    pre = fields.get("tokenizer.ggml.pre", "default")
    if pre in DIGITS:
        return _digits_apart(words.byte_level(vocab, merges))
    if pre not in SPLITS:
        raise CheckpointError(f"tokenizer.ggml.pre: expected one of {', '.join((*SPLITS, *DIGITS))}; got {pre!r}")
    return words.byte_level(vocab, merges, SPLITS[pre], whole_words=pre in WHOLE_WORDS)


def _digits_apart(tokenizer: Tokenizer) -> Tokenizer:
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words.pre_tokenizer(words.GPT2)])
    return tokenizer


def _sentencepiece(fields: Fields) -> Tokenizer:
    tokens: Sequence[str] = _field(fields, "tokens")
    kinds = _kinds(fields, tokens)
    scores = fields.get("tokenizer.ggml.scores") or [0.0] * len(tokens)
    pieces = tuple(Piece(*entry) for entry in zip(tokens, map(float, scores), kinds, strict=True))
    model = SentencePieceModel(
        pieces,
        unigram=False,
        byte_fallback=Kind.BYTE in kinds,
        unk_id=int(fields.get("tokenizer.ggml.unknown_token_id", 0)),
        bos_id=int(fields.get("tokenizer.ggml.bos_token_id", 1)),
        eos_id=int(fields.get("tokenizer.ggml.eos_token_id", 2)),
        charsmap=b"",
        dummy_prefix=bool(fields.get("tokenizer.ggml.add_space_prefix", True)),
        squeeze_spaces=bool(fields.get("tokenizer.ggml.remove_extra_whitespaces", False)),
        escape_spaces=True,
    )
    return sentencepiece_tokenizer(model)


def _kinds(fields: Fields, tokens: Sequence[str]) -> list[Kind]:
    numbers = fields.get("tokenizer.ggml.token_type") or [Kind.NORMAL] * len(tokens)
    return [Kind(int(number)) for number in numbers]


def _add_tokens(tokenizer: Tokenizer, fields: Fields) -> None:
    """Control tokens and the maker's own are matched whole; only the first kind is special."""
    tokens = _field(fields, "tokens")
    for token, kind in zip(tokens, _kinds(fields, tokens), strict=True):
        if kind is Kind.CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)])
        elif kind is Kind.USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=False)])


def _config(fields: Fields) -> dict[str, str]:
    """tokenizer_config.json of the same meaning."""
    tokens = _field(fields, "tokens")
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {name: fields.get(f"tokenizer.ggml.{key}_token_id") for name, key in names.items()}
    config = {f"{name}_token": str(tokens[int(number)]) for name, number in ids.items() if number is not None}
    if template := fields.get("tokenizer.chat_template"):
        config["chat_template"] = str(template)
    return config


def _field(fields: Fields, name: str) -> Any:
    value = fields.get(f"tokenizer.ggml.{name}")
    if value is None:
        raise CheckpointError(f"the GGUF file has no tokenizer.ggml.{name}; docai reads tokenizers that list it")
    return value
