"""Byte-level BPE (GPT-2's): bytes spelled as printable characters, text split by a pattern before it is merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

# The patterns by which families cut text into words. Each is written in its model's own tokenizer.json.
_END = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _END
QWEN = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _END
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_UPPER_FIRST, _LOWER_FIRST = (r"[^\r\n\p{L}\p{N}]?" + _UPPER + a + _LOWER + b for a, b in ("*+", "+*"))
_SLASHED_END = _END.replace(r"[\r\n]*|", r"[\r\n/]*|", 1)
TEKKEN = _UPPER_FIRST + "|" + _LOWER_FIRST + r"|\p{N}" + _SLASHED_END
GPT4O = "|".join(cased + _CONTRACTIONS + "?" for cased in (_UPPER_FIRST, _LOWER_FIRST)) + (
    r"|\p{N}{1,3}" + _SLASHED_END
)
# Kimi's: Chinese is cut apart, and no part of other words.
_NOT_CHINESE = r"&&[^\p{Han}]]"
KIMI = "|".join(
    (
        r"[\p{Han}]+",
        *(
            cased.replace(_UPPER, _UPPER[:-1] + _NOT_CHINESE).replace(_LOWER, _LOWER[:-1] + _NOT_CHINESE)
            + _CONTRACTIONS
            + "?"
            for cased in (_UPPER_FIRST, _LOWER_FIRST)
        ),
        r"\p{N}{1,3}" + _END,
    )
)
GPT2 = None  # the pattern that the library has itself


def spelling() -> dict[int, str]:
    """The character that spells each byte: itself where it prints, otherwise the next one from 256 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = (byte for byte in range(256) if byte not in printable)
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def byte_level(
    vocab: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    split: str | None = GPT2,
    *,
    whole_words: bool = False,
    prefix_space: bool = False,
) -> Tokenizer:
    """A byte-level tokenizer of `vocab`. With `whole_words`, a word that is a token is not put together by merges."""
    model = models.BPE(dict(vocab), list(merges), fuse_unk=False, ignore_merges=whole_words)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer(split, prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def pre_tokenizer(split: str | None, *, prefix_space: bool = False) -> pre_tokenizers.PreTokenizer:
    """What cuts text into the words of a byte-level vocabulary."""
    if split is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=False),
        ]
    )
