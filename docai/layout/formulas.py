"""Display formulas: rows of signs, symbols and the fonts of mathematics, with hardly a word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from docai.types import Line

_FONTS = re.compile(
    r"cmmi|cmsy|cmex|cambriamath|mathematical|msbm|msam|euex|mtmi|mtsy|mtex|xits|stixmath|txsy|mathjax", re.I
)
_WORD = re.compile(r"[^\W\d_]{4,}")
# Words that stand in formulas: functions, and the few between their parts
_FUNCTIONS = re.compile(
    r"arcsin|arccos|arctan|argmax|argmin|diag|dist|else|from|grad|image|kern|otherwise|rank|sign|sinh|span|such|that"
    r"|tanh|trace|where|with|const|cosh|infinity",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^\(?[A-Z]?\d+(?:[.\-–]\d+)*[a-z]?\)$")  # of an equation
_PROOF_END = frozenset("■□∎◻◼")
_REACH = 1.0  # sizes between a formula and its limits, numerators and parts
_CODE = re.compile(r"[;{}]\s*$|\b(?:return|def|import|void|int|var|let|const)\b")


def split_formulas(lines: Sequence[Line]) -> list[tuple[bool, list[Line]]]:
    """Lines of a column cut into runs: (whether it is a display formula, its lines)."""
    strong = [_is_strong(line) for line in lines]
    if not any(strong):
        return [(False, list(lines))]
    part = [
        yes or (_is_weak(line) and _near(lines, strong, n))
        for n, (yes, line) in enumerate(zip(strong, lines, strict=True))
    ]
    part = [yes and not _beside_text(lines, part, n) for n, yes in enumerate(part)]
    runs: list[tuple[bool, list[Line]]] = []
    for line, formula in zip(lines, part, strict=True):
        if runs and runs[-1][0] == formula and (not formula or _follows(runs[-1][1], line)):
            runs[-1][1].append(line)
        else:
            runs.append((formula, [line]))
    return runs


def _has_word(text: str) -> bool:
    return any(_FUNCTIONS.fullmatch(word[0]) is None for word in _WORD.finditer(text))


def _is_strong(line: Line) -> bool:
    """A line that only a formula has."""
    text = line.text
    if len(text) < 3 or line.mono or not any(c.isalnum() for c in text) or _has_word(text):
        return False
    if any("\u3040" <= c <= "\u9fff" or "\uac00" <= c <= "\ud7af" for c in text):
        return False
    symbols = sum(map(_is_symbol, text))
    in_fonts = bool(_FONTS.search(line.font.rpartition("+")[2]))
    if not in_fonts and _CODE.search(text):
        return False
    return symbols >= 1 and (in_fonts or symbols >= 0.08 * len(text)) and ("=" in text or symbols > 1 or in_fonts)


def _is_symbol(char: str) -> bool:
    """Operators, Greek, and the letters that Unicode has for formulas."""
    if char < "\x80":
        return char in "=+^"
    greek_or_math = "\u0370" <= char <= "\u03ff" or "\U0001d400" <= char <= "\U0001d7ff"
    return greek_or_math or unicodedata.category(char) == "Sm"


def _is_weak(line: Line) -> bool:
    """What may be a part of a formula: a numerator, limits, the number of an equation."""
    text = line.text.strip()
    plain = len(text) <= 40 and not _has_word(text) and not text.endswith((":", ";")) and not line.mono
    return plain and text not in _PROOF_END


def _near(lines: Sequence[Line], strong: Sequence[bool], n: int) -> bool:
    """Whether a strong line stands right above or below, or on the same level."""
    line = lines[n]
    for m in range(max(0, n - 6), min(len(lines), n + 7)):
        other = lines[m]
        gap = max(other.box.t - line.box.b, line.box.t - other.box.b)
        if strong[m] and gap < (0.0 if _NUMBER.match(line.text) else _REACH * other.size):
            return True
    return False


def _beside_text(lines: Sequence[Line], part: Sequence[bool], n: int) -> bool:
    """Whether a line that is no formula stands on the same level: then it is a formula within running text."""
    box = lines[n].box
    for m in range(max(0, n - 4), min(len(lines), n + 5)):
        other = lines[m].box
        if not part[m] and min(box.b, other.b) - max(box.t, other.t) > 0.6 * min(box.height, other.height):
            return True
    return False


def _follows(run: Sequence[Line], line: Line) -> bool:
    """Whether a line belongs to the formula before it: on its level, or close below."""
    return line.box.t - max(other.box.b for other in run) < _REACH * max(line.size, run[0].size)
