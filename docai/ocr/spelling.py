"""Small repairs of recognised text, by what a script allows."""

from __future__ import annotations

import re

from docai.writing import is_cjk

_WIDE = str.maketrans("，。：；（）！？“”‘’【】、％＆／＋－＝", ",.:;()!?\"\"''[],%&/+-=")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def tidy(text: str) -> str:
    """A recognised line with single spaces; full-width signs become plain ones where no CJK letters are around."""
    text = " ".join(text.split())
    if any(is_cjk(c) and c.isalpha() for c in text):
        return text
    text = text.translate(_WIDE).translate(_FULL_WIDTH)
    return re.sub(r"([,;:!?])(?=[^\W\d_])", r"\1 ", text)
