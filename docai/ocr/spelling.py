"""Small repairs of recognised text, by what a script allows."""

from __future__ import annotations

from docai.writing import is_cjk

_WIDE = str.maketrans("，。：；（）！？“”‘’【】、％＆／＋－＝", ",.:;()!?\"\"''[],%&/+-=")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def plain_signs(text: str) -> str:
    """The text, as many characters long; full-width signs become plain ones where no CJK letters are around."""
    if any(is_cjk(char) and char.isalpha() for char in text):
        return text
    return text.translate(_WIDE).translate(_FULL_WIDTH).replace("\u3000", " ")
