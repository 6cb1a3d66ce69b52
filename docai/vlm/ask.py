"""What a model is asked, before and after it is put into ids."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docai.errors import UsageError

MOST_BYTES = 1024  # of a prompt
MEDIA = ("image", "video", "audio")  # kinds of parts of a message that are no text


@dataclass(frozen=True, slots=True)
class Asked:
    """`prompt` is read behind the picture; `seed` is what the answer begins with, its start token aside."""

    prompt: tuple[int, ...] = ()
    seed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """How pictures are read that a question is about: several as the `pages` of one text, each cut into `crops`."""

    pages: bool = False
    crops: bool = False


def plain(text: str) -> str:
    """A prompt without white space around it. Raises UsageError for one that is too long or has control characters."""
    text = text.strip()
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise UsageError(f"prompt: expected at most {MOST_BYTES} bytes; got {size}")
    odd = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if odd is not None:
        raise UsageError(f"prompt: expected text; got the control character U+{ord(odd):04X}")
    return text


def medium_kind(part: Any) -> str:
    """Which of `MEDIA` a part of a message is, whatever protocol it is from; nothing for a part of text."""
    said = str(part.get("type", "")) if isinstance(part, Mapping) else ""
    return next((kind for kind in MEDIA if said in (kind, f"{kind}_url", f"input_{kind}")), "")
