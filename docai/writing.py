"""How writing works: scripts without spaces, scripts from right to left, words split at a line end, times, what files
can hold."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

# Chinese and Japanese characters and their full-width signs: scripts written without spaces.
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_ROMAN = re.compile(r"^[ivxlc]+$", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_SUSPENDED = re.compile(r"[^\W\d_][-\u2010],? (?:and|or|to) [^\W\d_]+[-\u2010]$")  # as "light- and heavy-"
_NEAR = 80  # characters before a hyphen
_WORD_BEFORE_HYPHEN = re.compile(r"([^\W\d_]+(?:[-\u2010][^\W\d_]+)*)[-\u2010\u00ad]$")


def is_cjk(char: str) -> bool:
    """Whether a character is Chinese or Japanese, or one of their full-width signs."""
    return _CJK.match(char) is not None


def count_cjk(text: str) -> int:
    """How many characters of a text are Chinese, Japanese or their full-width signs."""
    return 0 if text.isascii() else len(_CJK.findall(text))


def storable(text: str) -> str:
    """Text without lone surrogates, which no file can hold; names of files that are no UTF-8 have such."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_rtl(text: str) -> bool:
    """Whether most letters of a text run right to left."""
    if text.isascii():
        return False
    letters = [unicodedata.bidirectional(c) for c in text if c.isalpha()]
    return sum(kind in ("R", "AL") for kind in letters) * 2 > len(letters)


def counted(count: int, name: str) -> str:
    """`1 page`, `2 pages`: of English names that take an s."""
    return f"{count} {name}{'' if count == 1 else 's'}"


def whole_words(text: str) -> frozenset[str]:
    """The words of a text, folded, with the hyphens within them."""
    return frozenset(_WORD.findall(text.casefold().replace("\u2010", "-")))


def glue(before: str, after: str, printed: Container[str] = ()) -> tuple[int, str]:
    """How two consecutive lines join: (characters to drop from the first, what to put between them).

    A hyphen that only splits a word at the line end goes; the hyphen of a compound ("state-of-the-") stays. Which of
    the two it is tells the text around, where it has the word in one line: `printed`, see `whole_words`. Chinese and
    Japanese join without a space.
    """
    if not before or not after:
        return 0, ""
    # most lines end without a hyphen: looking at the last character first saves a search through each of them
    word = _WORD_BEFORE_HYPHEN.search(before) if before[-1] in "-\u2010\u00ad" else None
    if word and after[0].isalpha():
        return int(_only_splits(before, word[1], after, printed)), ""
    if is_cjk(before[-1]) and is_cjk(after[0]):
        return 0, ""
    return 0, " "


def _only_splits(before: str, word: str, after: str, printed: Container[str]) -> bool:
    """Whether the hyphen at the end of `before`, behind `word`, is none of the word's own."""
    if before[-1] == "\u00ad":
        return True
    rest = _WORD.match(after)
    first, second = (text.casefold().replace("\u2010", "-") for text in (word, rest[0] if rest else after))
    joined, compound = first + second in printed, f"{first}-{second}" in printed
    if joined != compound:
        return joined
    return after[0].islower() and "-" not in word and not word.isupper() and not _SUSPENDED.search(before[-_NEAR:])


def page_number(text: str) -> int | None:
    """The number that a text consists of ("12", "- 12 -", "Page 12 of 30", "xii"), if it is one."""
    bare = re.sub(r"^(?:page|seite|p\.?)\s*", "", text.strip().strip("-–—[]()|· ").casefold())
    bare = re.sub(r"\s*(?:/|of|von)\s*\d+$", "", bare)
    if bare.isascii() and bare.isdigit() and len(bare) <= 4:
        return int(bare)
    return _roman(bare) if _ROMAN.match(bare) else None


def _roman(text: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[c] for c in text.casefold()]
    return sum(-v if any(v < after for after in values[i + 1 : i + 2]) else v for i, v in enumerate(values))


def clock(seconds: float, digits: int = 0) -> str:
    """A time of a recording as players show it, 01:02:03: cut, not rounded, to so many digits of a second."""
    scale: int = 10**digits
    whole, part = divmod(int(max(0.0, seconds) * scale + 1e-6), scale)
    minutes, rest = divmod(whole, 60)
    behind = f".{part:0{digits}d}" if digits else ""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}{behind}"
