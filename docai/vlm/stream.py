"""Tokens into text as they come: whole characters only, in time linear in the tokens.

Most tokenizers spell a token as bytes whatever stands beside it: byte-level BPE (Qwen, Llama 3, Tekken) and
sentencepiece with byte fallback (Llama 2, Gemma). Those bytes are decoded incrementally. For any other decoder the last
tokens are decoded together with those before them, as vLLM does.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docai.vlm.tokenizer import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BROKEN = "\N{REPLACEMENT CHARACTER}"


class Pieces:
    """How the tokens of one tokenizer are spelled. Made once for a model; requests share it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        added = tokenizer.backend.get_added_tokens_decoder()
        self._special = frozenset(number for number, token in added.items() if token.special)
        self._steps = _decoder_steps(tokenizer)
        self._spell = _spelling(self._steps)
        self._known: dict[int, bytes] = {}

    @property
    def streams(self) -> bool:
        """Whether a token's bytes do not depend on those before it."""
        return self._spell is not None

    @property
    def leading(self) -> int:
        """How many spaces at the very beginning of a text are not part of it (sentencepiece puts one there)."""
        strips = (int(step.get("start", 0)) for step in self._steps if step["type"] == "Strip")
        metaspace = any(s["type"] == "Metaspace" and s.get("prepend_scheme") != "never" for s in self._steps)
        return max([*strips, int(metaspace)])

    def special(self, token: int) -> bool:
        return token in self._special

    def spelled(self, token: int) -> bytes:
        """The bytes of a token; none for an id that the vocabulary does not have."""
        if token not in self._known:
            text = self.tokenizer.token(token)
            self._known[token] = self._spell(text) if text is not None and self._spell is not None else b""
        return self._known[token]

    def text(self, token: int) -> str:
        """One token for people to read, special or not; bytes that are no whole character are replaced."""
        if self.streams:
            return self.spelled(token).decode("utf-8", "replace")
        return self.tokenizer.decode([token], skip_special=False)


class Detokenizer:
    """The text of one answer, token after token."""

    def __init__(self, pieces: Pieces, *, skip_special: bool = True) -> None:
        self._pieces, self._skip = pieces, skip_special
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._leading = pieces.leading
        self._ids: list[int] = []  # for decoders that need the tokens before: those still looked at
        self._read = 0

    def add(self, token: int) -> str:
        """What this token makes known of the text: perhaps nothing yet, perhaps more than one character."""
        if self._skip and self._pieces.special(token):
            return ""
        if not self._pieces.streams:
            return self._windowed(token)
        return self._stripped(self._utf8.decode(self._pieces.spelled(token)))

    def end(self) -> str:
        """What is left: a character that was begun and not completed shows as a replacement."""
        if not self._pieces.streams:
            return self._between(_BROKEN)
        return self._stripped(self._utf8.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        while self._leading and text:
            if not text.startswith(" "):
                self._leading = 0
            else:
                text, self._leading = text[1:], self._leading - 1
        return text

    def _windowed(self, token: int) -> str:
        self._ids.append(token)
        return self._between("")

    def _between(self, end: str) -> str:
        """The text of the tokens that were not given out yet; none while it ends within a character."""
        decode = self._pieces.tokenizer.decode
        before = decode(self._ids[: self._read], skip_special=False)
        now = decode(self._ids, skip_special=False)
        if len(now) <= len(before) or (now.endswith(_BROKEN) and not end):
            return ""
        self._ids = self._ids[self._read :]
        self._read = len(self._ids)
        return now[len(before) :]


def _decoder_steps(tokenizer: Tokenizer) -> list[Mapping[str, Any]]:
    """The decoder of a tokenizer as its file states it, a step each."""
    decoder = tokenizer.backend.decoder
    if decoder is None:
        return []
    stated = json.loads(decoder.__getstate__())
    steps: list[Mapping[str, Any]] = stated["decoders"] if stated["type"] == "Sequence" else [stated]
    return steps


def _spelling(steps: Sequence[Mapping[str, Any]]) -> Callable[[str], bytes] | None:
    """How a token is spelled as bytes; None where that depends on its neighbours, or is not known to us."""
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _byte_level
    spaces = [step for step in steps if step["type"] in ("Replace", "Metaspace")]
    if spaces and set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}:
        replaced = [_replacement(step) for step in spaces]
        if all(replaced) and ("Strip" not in kinds or "Fuse" in kinds[: kinds.index("Strip")]):
            return _fallback([pair for pair in replaced if pair], "ByteFallback" in kinds)
    return None


def _replacement(step: Mapping[str, Any]) -> tuple[str, str] | None:
    if step["type"] == "Metaspace":
        return step["replacement"], " "
    pattern = step["pattern"].get("String")
    return None if pattern is None else (pattern, step["content"])


def _fallback(replaced: Sequence[tuple[str, str]], by_bytes: bool) -> Callable[[str], bytes]:
    def spell(token: str) -> bytes:
        byte = _BYTE.fullmatch(token) if by_bytes else None
        if byte:
            return bytes([int(byte[1], 16)])
        for old, new in replaced:
            token = token.replace(old, new)
        return token.encode("utf-8", "replace")

    return spell


def _byte_level(token: str) -> bytes:
    """A token of byte-level BPE; one with other characters is an added token, which is written as it is."""
    try:
        return bytes(_BYTES[c] for c in token)
    except KeyError:
        return token.encode("utf-8", "replace")


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level BPE (GPT-2's `bytes_to_unicode`).

    Bytes that Latin-1 prints stand for themselves, the others for the characters from U+0100 on, in order.
    """
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return {chr(b): b for b in printed} | {chr(0x100 + n): b for n, b in enumerate(others)}


_BYTES = _byte_alphabet()
