"""Tokens into text as they come, against decoding the whole; stop strings across the borders of tokens."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from docai.vlm.stop import StopStrings
from docai.vlm.stream import Detokenizer, Pieces
from docai.vlm.tokenizer import Tokenizer
from tests.tiny_checkpoint import TEXTS, byte_level


def byte_fallback(*, strip: bool) -> tokenizers.Tokenizer:
    """As in Llama 2 (`strip`) and Gemma: characters of the vocabulary, bytes for all others."""
    letters = [chr(c) for c in range(33, 127)] + ["▁", "\n", "ö", "he", "ll", "▁h"]
    names = ["<unk>", *(f"<0x{b:02X}>" for b in range(256)), *letters]
    vocab = {name: number for number, name in enumerate(dict.fromkeys(names))}
    made = tokenizers.Tokenizer(
        models.BPE(vocab, [("h", "e"), ("l", "l"), ("▁", "h")], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    prepend = [normalizers.Prepend("▁")] if strip else []
    made.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if strip else [])])
    return made


def metaspace() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    return made


def word_piece() -> tokenizers.Tokenizer:
    """A decoder that looks at neighbours."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=300, show_progress=False))
    return made


def odd_byte_level() -> tokenizers.Tokenizer:
    """Byte-level in a sequence that is not known, so that the tokens before have to be looked at."""
    made = byte_level()
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse(), decoders.Replace("qqq", "q")])
    return made


KINDS = {
    "byte_level": byte_level(),
    "byte_fallback": byte_fallback(strip=False),
    "byte_fallback_strip": byte_fallback(strip=True),
    "metaspace": metaspace(),
    "word_piece": word_piece(),
    "odd_byte_level": odd_byte_level(),
}


def with_added(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    backend.add_special_tokens([AddedToken("<|end of it|>", special=True)])
    backend.add_tokens([AddedToken("<my tool>", special=False)])
    return backend


for _backend in KINDS.values():
    with_added(_backend)


def streamed(pieces: Pieces, ids: Iterable[int], **options: bool) -> list[str]:
    detokenizer = Detokenizer(pieces, **options)
    return [*(detokenizer.add(token) for token in ids), detokenizer.end()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_streamed_text_is_the_decoded_text(kind: str, text: str) -> None:
    tokenizer = Tokenizer(KINDS[kind])
    ids = tokenizer.encode(text, special=False)
    parts = streamed(Pieces(tokenizer), ids)
    assert "".join(parts) == tokenizer.decode(ids)
    if "\N{REPLACEMENT CHARACTER}" not in tokenizer.decode(ids):
        assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)


@pytest.mark.parametrize("kind", ["byte_level", "odd_byte_level"])
def test_any_bytes_at_all_decode_as_the_whole_does(kind: str) -> None:
    tokenizer = Tokenizer(KINDS[kind])
    pieces, chance = Pieces(tokenizer), random.Random(4)
    for _ in range(200):
        ids = [chance.randrange(tokenizer.size) for _ in range(chance.randrange(12))]
        assert "".join(streamed(pieces, ids)) == tokenizer.decode(ids)


def test_characters_of_several_tokens_come_whole() -> None:
    tokenizer = Tokenizer(KINDS["byte_fallback"])
    ids = tokenizer.encode("a東b", special=False)
    assert len(ids) == 5
    assert streamed(Pieces(tokenizer), ids) == ["a", "", "", "東", "b", ""]


def test_a_character_that_is_not_completed_is_replaced() -> None:
    tokenizer = Tokenizer(KINDS["byte_fallback"])
    ids = tokenizer.encode("a東", special=False)[:-1]
    assert "".join(streamed(Pieces(tokenizer), ids)) == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_left_out_unless_asked_for(kind: str) -> None:
    tokenizer = Tokenizer(KINDS[kind])
    ids = [*tokenizer.encode("he", special=False), tokenizer.token_id("<my tool>"), tokenizer.token_id("<|end of it|>")]
    pieces = Pieces(tokenizer)
    assert "".join(streamed(pieces, ids)) == tokenizer.decode(ids)
    assert "".join(streamed(pieces, ids, skip_special=False)) == tokenizer.decode(ids, skip_special=False)
    assert pieces.text(ids[-1]) == "<|end of it|>"


def test_ids_beyond_the_vocabulary_say_nothing() -> None:
    """Models have more rows than their tokenizer has tokens."""
    tokenizer = Tokenizer(KINDS["byte_level"])
    assert streamed(Pieces(tokenizer), [tokenizer.size + 7]) == ["", ""]


class Counting(Tokenizer):
    """Adds up how many tokens are decoded."""

    decoded = 0

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        type(self).decoded += len(ids)
        return Tokenizer.decode(self, ids, skip_special=skip_special)


@pytest.mark.parametrize("kind", ["byte_level", "word_piece"])
def test_the_work_grows_with_the_tokens_only(kind: str) -> None:
    tokenizer = Counting(KINDS[kind])
    ids = tokenizer.encode(" ".join(TEXTS) * 40, special=False)
    Counting.decoded = 0
    text = "".join(streamed(Pieces(tokenizer), ids))
    assert Counting.decoded <= 6 * len(ids)
    assert text == tokenizer.decode(ids)


def stopped(parts: Sequence[str], stops: Sequence[str]) -> tuple[str, bool]:
    watch, out = StopStrings(stops), ""
    for part in parts:
        out += watch.add(part)
        if watch.stopped:
            return out, True
    return out + watch.end(), False


@given(st.text("ab|", max_size=12), st.lists(st.text("ab|", min_size=1, max_size=4), max_size=3), st.data())
def test_stop_strings_do_not_depend_on_the_parts(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    expected = (text[: min(ends)[1]], True) if ends else (text, False)
    assert stopped(parts, stops) == expected
    assert stopped(list(text), stops) == expected


def test_nothing_is_held_back_longer_than_needed() -> None:
    watch = StopStrings(["\n\nUser:", "END"])
    assert [watch.add(part) for part in ("one\n", "\nUs", "ed E", "N", "O", "END", "x")][:5] == [
        "one", "", "\n\nUsed ", "", "ENO",
    ]  # fmt: skip
    assert watch.stopped
