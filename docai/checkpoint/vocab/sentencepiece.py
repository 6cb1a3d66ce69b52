"""SentencePiece models (`tokenizer.model`), unigram and BPE; the file is read without the package.

The format is sentencepiece_model.proto of github.com/google/sentencepiece; what follows its settings here encodes as
its SentencePieceProcessor does.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from docai.checkpoint.vocab.merges import merges_of
from docai.errors import CheckpointError

SPACE = "▁"  # how pieces spell one
Fields = dict[int, list[int | bytes]]


class Kind(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """One token."""

    text: str
    score: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """What a `tokenizer.model` says, as far as it changes how text is encoded."""

    pieces: tuple[Piece, ...]
    unigram: bool
    byte_fallback: bool
    unk_id: int
    bos_id: int
    eos_id: int
    charsmap: bytes
    dummy_prefix: bool
    squeeze_spaces: bool
    escape_spaces: bool

    def piece(self, number: int) -> str | None:
        """The text of a piece; None for the number of one that the model does not have (-1)."""
        return self.pieces[number].text if 0 <= number < len(self.pieces) else None

    def of_kind(self, kind: Kind) -> list[str]:
        """The pieces of one kind."""
        return [piece.text for piece in self.pieces if piece.kind is kind]


def read_model(data: bytes) -> SentencePieceModel:
    """The model in a `tokenizer.model`. Raises CheckpointError."""
    try:
        model = _fields(data)
        trainer, normalizer = (_fields(_bytes(model, number)) for number in (2, 3))
        pieces = tuple(_piece(_fields(part)) for part in model.get(1, ()) if isinstance(part, bytes))
    except (IndexError, ValueError, struct.error) as error:
        raise CheckpointError(f"tokenizer.model: expected a SentencePiece model: {error}") from error
    kind = _number(trainer, 3, 1)
    if kind not in (1, 2) or not pieces:
        raise CheckpointError(
            f"tokenizer.model: expected a SentencePiece model of kind unigram (1) or BPE (2), got kind {kind} with "
            f"{len(pieces)} pieces"
        )
    return SentencePieceModel(
        pieces,
        unigram=kind == 1,
        byte_fallback=bool(_number(trainer, 35, 0)),
        unk_id=_number(trainer, 40, 0),
        bos_id=_number(trainer, 41, 1),
        eos_id=_number(trainer, 42, 2),
        charsmap=_bytes(normalizer, 2),
        dummy_prefix=bool(_number(normalizer, 3, 1)),
        squeeze_spaces=bool(_number(normalizer, 4, 1)),
        escape_spaces=bool(_number(normalizer, 5, 1)),
    )


def sentencepiece_tokenizer(model: SentencePieceModel, *, prefix_everywhere: bool = True) -> Tokenizer:
    """The tokenizer of a model.

    With `prefix_everywhere`, the text after each special token begins with a space where the model adds one at the
    beginning (transformers calls it `legacy`); otherwise only the first text does.
    """
    tokenizer = Tokenizer(_unigram(model) if model.unigram else _bpe(model))
    tokenizer.normalizer = _normalizer(model, prefix_everywhere)
    steps = _pre_tokenizers(model, prefix_everywhere)
    if steps:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = _decoder(model)
    control = [AddedToken(text, normalized=False, special=True) for text in model.of_kind(Kind.CONTROL)]
    tokenizer.add_special_tokens(control)
    return tokenizer


def _unigram(model: SentencePieceModel) -> models.Unigram:
    vocab = [(piece.text, piece.score) for piece in model.pieces]
    return models.Unigram(vocab, unk_id=model.unk_id, byte_fallback=model.byte_fallback)


def _bpe(model: SentencePieceModel) -> models.BPE:
    """Merges by score, best first; pieces that are not normal are never the result of one."""
    ranks = {piece.text: -piece.score for piece in model.pieces if piece.kind is Kind.NORMAL}
    return models.BPE(
        {piece.text: number for number, piece in enumerate(model.pieces)},
        merges_of(ranks),
        unk_token=model.piece(model.unk_id),
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
        # a word that is a piece of the user's own has no merges that would make it
        ignore_merges=bool(model.of_kind(Kind.USER_DEFINED)),
    )


def _normalizer(model: SentencePieceModel, prefix_everywhere: bool) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.squeeze_spaces:  # spaces only: lines and tabs stay
        steps.append(normalizers.Replace(Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    if model.escape_spaces:
        steps.append(normalizers.Replace(" ", SPACE))
    if model.dummy_prefix and prefix_everywhere:
        # Metaspace gives no prefix to text that begins with a space; SentencePiece does
        steps.append(normalizers.Replace(Regex(rf"\A{SPACE}"), SPACE * 2))
    return normalizers.Sequence(steps)


def _pre_tokenizers(model: SentencePieceModel, prefix_everywhere: bool) -> list[pre_tokenizers.PreTokenizer]:
    steps: list[pre_tokenizers.PreTokenizer] = []
    if model.dummy_prefix:
        scheme = "always" if prefix_everywhere else "first"
        steps.append(pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False))
    own = sorted(model.of_kind(Kind.USER_DEFINED), key=len, reverse=True)
    if own:  # always whole, never part of a merge
        steps.append(pre_tokenizers.Split(Regex("|".join(map(re.escape, own))), behavior="isolated"))
    return steps


def _decoder(model: SentencePieceModel) -> decoders.Decoder:
    steps: list[decoders.Decoder] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if model.dummy_prefix:
        steps.append(decoders.Strip(content=" ", left=1))
    return decoders.Sequence(steps)


def _piece(fields: Fields) -> Piece:
    kind = _number(fields, 3, Kind.NORMAL)
    score = struct.unpack("<f", _bytes(fields, 2) or bytes(4))[0]
    return Piece(_bytes(fields, 1).decode("utf-8"), score, Kind(kind))


def _number(fields: Fields, number: int, default: int) -> int:
    value = fields.get(number, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {number} is not a number")
    return value if value < 1 << 63 else value - (1 << 64)  # int32 fields write -1 in 64 bits


def _bytes(fields: Fields, number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is not a string")
    return value


def _fields(message: bytes) -> Fields:
    """The fields of a protobuf message by number; numbers of fixed width stay bytes."""
    fields: Fields = {}
    for number, value in _entries(message):
        fields.setdefault(number, []).append(value)
    return fields


def _entries(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        if at + size > len(message):
            raise ValueError(f"it ends within a field at byte {at}")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"a number of more than 64 bits at byte {at}")
