"""Which glyphs say what the page shows: fonts whose map to Unicode is broken, and single characters without meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docai.ocr.code_sets import CodeSet, is_bad, is_blank, is_private
from docai.ocr.letter_pairs import ENOUGH, IMPLAUSIBLE, UNUSUALNESS, letter_numbers
from docai.ocr.symbol_fonts import symbol, tex_sign
from docai.types import Glyphs

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BROKEN = 0.3  # share of a font's characters without meaning from which on none of them is believed
_PLAUSIBLE = 5.0  # mean unusualness of letter pairs up to which even a font without a map is believed
_SIGNS_IN_SOUP = 0.4  # share of a font's characters that are signs
_ASSORTED = 10  # kinds of signs
_LETTERS_IN_SOUP = 0.15  # share of a font's characters that are letters
# Parts of the names of fonts of signs.
_SIGNS = ("math", "symbol", "dings", "cmsy", "cmex", "cmmi", "msam", "msbm", "extra", "awesome", "icon", "music")

# ASCII signs other than those of numbers, dates and sentences.
_is_sign = CodeSet("!\"#$%&'*+-/;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True, slots=True)
class Doubts:
    """`unreadable`: characters that must be read from pixels. `unknown`: single signs that say nothing in text."""

    unreadable: Mask
    unknown: Mask


def doubts(glyphs: Glyphs, keep: Mask) -> Doubts:
    """Which of the kept characters cannot be believed. Formula and symbol fonts are never worth reading again."""
    drawn = keep & ~is_blank(glyphs.codepoints)
    unknown = drawn & _says_nothing(glyphs)
    rows = np.flatnonzero(drawn)
    if not len(rows):
        return Doubts(unknown, unknown)
    fonts = np.maximum(glyphs.fonts, 0).astype(np.int64)
    count = int(fonts.max()) + 1
    total = np.maximum(np.bincount(fonts[rows], minlength=count), 1)
    letters = _of_letters(glyphs, count)
    unusual, pairs = _unusualness(glyphs, rows, count)
    unmapped = np.bincount(fonts[drawn & ((glyphs.flags & Glyphs.UNMAPPED) > 0)], minlength=count) / total
    broken = np.bincount(fonts[unknown], minlength=count) / total > _BROKEN
    broken |= (pairs >= ENOUGH) & (unusual > IMPLAUSIBLE + 4 / np.sqrt(np.maximum(pairs, 1)))
    broken |= (unmapped > _BROKEN) & ~((pairs >= ENOUGH / 2) & (unusual < _PLAUSIBLE))
    broken |= _soup(glyphs, rows, total)
    # A font of one or two signs has bullets or arrows, which no engine reads better.
    letters &= np.bincount(np.unique(fonts[rows] << 32 | glyphs.codepoints[rows]) >> 32, minlength=count) > 2
    unreadable = (unknown | (drawn & broken[fonts])) & letters[fonts]
    return Doubts(unreadable, unknown)


def _of_letters(glyphs: Glyphs, count: int) -> Mask:
    """By font: whether it is one of letters, as far as its name tells."""
    names = [font.name.lower() for font in glyphs.font_table[:count]]
    letters = [not any(part in name for part in _SIGNS) for name in names]
    return np.array(letters + [True] * (count - len(letters)), np.bool_)


def _says_nothing(glyphs: Glyphs) -> Mask:
    """Controls, U+FFFD, and private characters and bare positions whose sign is not known."""
    codes = glyphs.codepoints
    hyphen = (glyphs.flags & Glyphs.HYPHEN) > 0
    bad = (is_bad(codes) | is_private(codes)) & ~hyphen & ((codes < 0xD800) | (codes >= 0xE000))
    for i in np.flatnonzero(bad).tolist():
        name = glyphs.font_table[glyphs.fonts[i]].name if glyphs.fonts[i] < len(glyphs.font_table) else ""
        bad[i] = not (tex_sign(int(codes[i]), name) or symbol(int(codes[i]), name))
    return bad


def _unusualness(glyphs: Glyphs, rows: Ints, fonts: int) -> tuple[Floats, Ints]:
    """By font: how unusual its pairs of neighbouring letters are on average, and the number of different ones.

    Only words of four letters and more count: abbreviations and part numbers follow no language.
    """
    letters, font = letter_numbers(glyphs.codepoints[rows]), np.maximum(glyphs.fonts[rows], 0).astype(np.int64)
    linked = (letters[1:] >= 0) & (letters[:-1] >= 0) & (np.diff(rows) == 1) & (np.diff(font) == 0)
    word = np.concatenate(([0], np.cumsum(~linked)))
    pair = np.flatnonzero(linked & (np.bincount(word)[word[1:]] >= 4))
    score = UNUSUALNESS[letters[pair], letters[pair + 1]]
    count = np.bincount(font[pair], minlength=fonts)
    different = np.unique((font[pair] * 26 + letters[pair]) * 26 + letters[pair + 1])
    mean = np.bincount(font[pair], weights=score, minlength=fonts) / np.maximum(count, 1)
    return mean, np.bincount(different // 676, minlength=fonts)


def _soup(glyphs: Glyphs, rows: Ints, total: Ints) -> Mask:
    """Fonts that show hardly more than assorted signs, as glyph numbers taken for characters do."""
    soup = np.zeros(len(total), np.bool_)
    codes, fonts = glyphs.codepoints[rows], np.maximum(glyphs.fonts[rows], 0)
    plain = np.bincount(fonts[_is_sign(codes)], minlength=len(total))
    for font in np.flatnonzero((total >= 4) & (plain > _SIGNS_IN_SOUP * total)).tolist():
        known = glyphs.font_table[font] if font < len(glyphs.font_table) else None
        if known is not None and known.mono:
            continue
        own = codes[fonts == font]
        signs = np.unique(own[_is_sign(own)])
        few = plain[font] > 0.5 * total[font] and len(signs) >= 4 and len(signs) > 0.3 * len(own)
        letters = sum(chr(code).isalpha() for code in own.tolist())
        # of longer texts: formulas have fewer kinds of signs, programs more letters
        soup[font] = few or (len(signs) >= _ASSORTED and letters < _LETTERS_IN_SOUP * len(own))
    return soup
