"""What the characters of a text layer stand for: ligatures, private bullets, separate accents, right-to-left order."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Symbol and Wingdings put their bullets into the private area at F000 + code.
_PRIVATE = {
    0xF0B7: "•", 0xF0A7: "▪", 0xF0A8: "▫", 0xF06C: "●", 0xF06E: "■", 0xF06F: "□", 0xF071: "❑", 0xF076: "❖",
    0xF0D8: "➢", 0xF0E0: "→", 0xF0FC: "✓", 0xF0FE: "☑", 0xF0A3: "□", 0xF0D7: "·", 0xF02D: "-", 0xF020: " ",
}  # fmt: skip
_SPECIAL = {0x02: "-", 0xFFFE: "-", 0xAD: "-", 0xA0: " ", 0x2002: " ", 0x2003: " ", 0x2009: " ", 0x200B: "", 0xFEFF: ""}
_ACCENTS = {
    "´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "^": "\u0302", "˜": "\u0303", "~": "\u0303",
    "¸": "\u0327", "ˇ": "\u030c", "˚": "\u030a", "¯": "\u0304", "˘": "\u0306", "˙": "\u0307", "˝": "\u030b",
    "˛": "\u0328",
}  # fmt: skip


def plain(code: int) -> str:
    """A code point as plain text: ligatures and presentation forms apart, odd spaces and hyphens made ordinary."""
    if code in _SPECIAL:
        return _SPECIAL[code]
    if 0xE000 <= code <= 0xF8FF:
        return _PRIVATE.get(code, chr(code))
    if 0xFB00 <= code <= 0xFDFF or 0xFE70 <= code <= 0xFEFC or 0x2F00 <= code <= 0x2FDF:
        return unicodedata.normalize("NFKC", chr(code))
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def is_bad(text: str) -> bool:
    """Whether a character says nothing: private, unassigned, replacement or control."""
    return bool(text) and (text == "\ufffd" or unicodedata.category(text[0]) in ("Co", "Cn", "Cc", "Cs"))


def is_accent(text: str) -> bool:
    """A spacing accent, which TeX draws as a glyph of its own over a letter."""
    return text in _ACCENTS


def accented(letter: str, accent: str) -> str:
    """A letter with a spacing accent put on it; a dotless i or j takes its dot's place."""
    bare = {"ı": "i", "ȷ": "j"}.get(letter, letter)
    return unicodedata.normalize("NFC", bare + _ACCENTS[accent])


def direction(text: str) -> str:
    """`R` for letters that run right to left, `L` for other letters and numbers, `N` for the rest."""
    kind = unicodedata.bidirectional(text[0]) if text else ""
    if kind in ("R", "AL"):
        return "R"
    return "L" if kind in ("L", "EN", "AN") else "N"


def logical_order(characters: Sequence[str]) -> list[int]:
    """The order in which to read characters that are given left to right as seen.

    A line with mostly right-to-left letters is read from the right; numbers and words of other scripts within it keep
    their own direction (the outcome of the Unicode bidirectional algorithm for plain lines, found backwards).
    """
    kinds = [direction(c) for c in characters]
    indices = list(range(len(characters)))
    if "R" not in kinds:
        return indices
    if kinds.count("R") * 2 < len(kinds) - kinds.count("N"):
        return _reverse_runs(indices, kinds, "R")
    return _reverse_runs(indices[::-1], kinds[::-1], "L")


def _reverse_runs(indices: list[int], kinds: list[str], of: str) -> list[int]:
    """`indices` with each run of direction `of` reversed; neutral characters inside a run belong to it."""
    out, at = list(indices), 0
    while at < len(kinds):
        if kinds[at] != of:
            at += 1
            continue
        end = last = at
        while end < len(kinds) and kinds[end] in (of, "N"):
            if kinds[end] == of:
                last = end
            end += 1
        out[at : last + 1] = reversed(out[at : last + 1])
        at = last + 1
    return out
