"""XML and HTML elements, with everything escaped that has to be."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What XML 1.0 cannot hold, escaped or not
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&#39;"}


def escaped(text: str) -> str:
    """Text for an element or a quoted attribute; characters that XML cannot hold are replaced."""
    return _ILLEGAL.sub("\ufffd", text).translate(_ESCAPES)


def element(name: str, attributes: Mapping[str, object], *content: str) -> str:
    """An element around content that is markup already. Attributes that are None are left out."""
    said = "".join(f' {key}="{escaped(str(value))}"' for key, value in attributes.items() if value is not None)
    inner = "".join(content)
    return f"<{name}{said}>{inner}</{name}>" if inner else f"<{name}{said}/>"
