"""Which file of a checkpoint holds its vocabulary, and how each kind is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer, normalizers

from docai.checkpoint.vocab import byte_level as words
from docai.checkpoint.vocab.sentencepiece import read_model, sentencepiece_tokenizer
from docai.checkpoint.vocab.tekken import read_tekken
from docai.checkpoint.vocab.tiktoken import read_tiktoken
from docai.errors import CheckpointError

TIKTOKEN = ("qwen.tiktoken", "tiktoken.model", "tokenizer.tiktoken")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A tokenizer as its file alone says it.

    `named` are the special tokens that the file names itself (bos_token: <s>). `complete` files say what stands around
    a text, too; with others tokenizer_config.json does, and where it is silent `adds_bos` holds.
    """

    tokenizer: Tokenizer
    named: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    adds_bos: bool = False


class Files(Protocol):
    """A checkpoint, as far as it is read here."""

    def file(self, name: str) -> Path | None:
        """A file beside the weights, where there is one."""
        ...

    def text_file(self, name: str) -> str | None:
        """The text of a file; None where there is none."""
        ...


def read_vocabulary(files: Files, config: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary of a checkpoint.

    `config` is tokenizer_config.json. tokenizer.json comes first: it says everything. Raises CheckpointError.
    """
    if text := files.text_file("tokenizer.json"):
        return Vocabulary(_parsed(text), complete=True)
    if path := files.file("tokenizer.model"):
        return _model_file(path.read_bytes(), config)
    for name in TIKTOKEN:
        if path := files.file(name):
            return Vocabulary(read_tiktoken(path.read_bytes(), name, config))
    if text := files.text_file("tekken.json"):
        return Vocabulary(read_tekken(text), {"bos_token": "<s>", "eos_token": "</s>"}, adds_bos=True)
    if (vocab := files.text_file("vocab.json")) and (merges := files.text_file("merges.txt")):
        return Vocabulary(_vocab_and_merges(vocab, merges, config))
    raise CheckpointError(
        "the checkpoint has no tokenizer: expected tokenizer.json, tokenizer.model, tekken.json, "
        f"vocab.json with merges.txt, or one of {', '.join(TIKTOKEN)} beside the weights"
    )


def _parsed(text: str) -> Tokenizer:
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        raise CheckpointError(f"tokenizer.json: cannot be read by tokenizers: {error}") from error


def _model_file(data: bytes, config: Mapping[str, Any]) -> Vocabulary:
    """A SentencePiece model; Llama 3's file of the same name is one of tiktoken."""
    if data[:1] != b"\x0a":  # the first field of a SentencePiece model is a piece
        return Vocabulary(read_tiktoken(data, "tokenizer.model", config))
    model = read_model(data)
    everywhere = config.get("legacy") is not False
    ids = {"bos_token": model.bos_id, "eos_token": model.eos_id, "unk_token": model.unk_id}
    named = {name: text for name, number in ids.items() if (text := model.piece(number)) is not None}
    tokenizer = sentencepiece_tokenizer(model, prefix_everywhere=everywhere)
    # Llama, Gemma and those after them were trained with BOS; unigram models (T5, XLM-R) were not
    return Vocabulary(tokenizer, named, adds_bos=not model.unigram and "bos_token" in named)


def _vocab_and_merges(vocab: str, merges: str, config: Mapping[str, Any]) -> Tokenizer:
    """GPT-2's two files. Qwen2 has its own way to cut words, and composes characters first."""
    lines = [line for line in merges.splitlines() if line and not line.startswith("#version")]
    try:
        pairs = [(left, right) for left, right in (line.split(" ") for line in lines)]
        entries = json.loads(vocab)
    except ValueError as error:
        raise CheckpointError(f"vocab.json, merges.txt: cannot be read: {error}") from error
    if str(config.get("tokenizer_class", "")).startswith("Qwen2"):
        tokenizer = words.byte_level(entries, pairs, words.QWEN)
        tokenizer.normalizer = normalizers.NFC()
        return tokenizer
    return words.byte_level(entries, pairs, prefix_space=bool(config.get("add_prefix_space")))
