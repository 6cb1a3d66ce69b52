"""Nemotron-Parse's prompts: control tokens that say what is to be written. It was taught no other words."""

from __future__ import annotations

import logging
import re
from itertools import combinations

from docai.errors import UsageError
from docai.vlm.ask import Asked, plain
from docai.vlm.tokenizer import Tokenizer

_LOG = logging.getLogger(__name__)

STARTS = ("</s>", "<s>")
# Of each row one at most; of the last one exactly one, where the vocabulary has it.
CHOICES = (
    ("<predict_bbox>", "<no_bbox>"),
    ("<predict_classes>", "<no_classes>"),
    ("<output_markdown>", "<output_plain>", "<output_no_text>"),
    ("<predict_no_text_in_pic>", "<predict_text_in_pic>"),
)
DEFAULT = "".join((*STARTS, *(row[0] for row in CHOICES)))
_TOKEN = re.compile(r"<[^<>\s]+>")


def asked(text: str, tokenizer: Tokenizer) -> Asked:
    """The tokens of a prompt, with which the answer begins. Raises UsageError for anything but control tokens."""
    text = plain(text)
    if not text:
        _LOG.warning("an empty prompt makes this model repeat itself; asking for %s", DEFAULT)
    known = [token for row in CHOICES for token in row if tokenizer.token_id(token) is not None]
    names = _TOKEN.findall(text or DEFAULT)
    if text in ("", DEFAULT):  # 1.x has no word for text in pictures
        names = [name for name in names if name in (*STARTS, *known)]
    rest = _TOKEN.sub("", text).strip()
    wrong = rest or next((name for name in names if name not in (*STARTS, *known)), None)
    if wrong:
        raise UsageError(f"prompt: this model takes control tokens only ({' '.join(known)}); got {wrong[:80]!r}")
    _check_choices([name for name in names if name not in STARTS], known)
    ids = (tokenizer.token_id(name) for name in names)
    return Asked(seed=tuple(token for token in ids if token is not None))


def _check_choices(names: list[str], known: list[str]) -> None:
    for row in CHOICES:
        chosen = [name for name in names if name in row]
        for one, other in combinations(chosen, 2):
            raise UsageError(f"prompt: {one} and {other} do not go together; leave one of them out")
    last = CHOICES[-1]
    if any(token in known for token in last) and not any(name in last for name in names):
        raise UsageError(f"prompt: expected one of {' and '.join(last)}, got neither")
