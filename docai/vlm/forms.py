"""In which form a chat template takes the content of messages, found out by rendering probes with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from docai.errors import DocaiError
from docai.vlm.ask import MEDIA
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.template import EndlessTemplate, render_template

_PROBE = "docai-probe"


@dataclass(frozen=True, slots=True)
class Forms:
    """What the template `source` takes. Templates differ: a text or parts, by role, with media or without.

    `named`: the special tokens that it may name.
    """

    source: str
    spec: PromptSpec
    named: tuple[tuple[str, str], ...]

    def fit(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """The turn with its content in a form that the template takes."""
        if "content" not in turn:
            return dict(turn)
        role, parts = turn["role"], turn["content"]
        media = [kind for kind in MEDIA if any(part["type"] == kind for part in parts)]
        if media and all(self.takes(role, kind) for kind in media):
            bare = [{"type": part["type"]} if part["type"] in MEDIA else part for part in parts]
            return {**turn, "content": bare}
        whole = "".join(part["text"] for part in parts)
        if self.takes(role, "parts"):
            if media:  # it passes over them, or prints them in another way
                return {**turn, "content": [{"type": "text", "text": whole}]}
            if len(parts) > 1 or not self.takes(role, "text"):
                return {**turn, "content": parts}
        return {**turn, "content": whole}

    def takes(self, role: str, form: str) -> bool:
        """Whether the content of a role may be a `text`, `parts` of text, or have a medium of that kind among parts."""
        return _takes(self.source, self.spec.marks_of(form) or self.spec.marks, self.named, role, form)


@lru_cache(maxsize=256)
def _takes(source: str, marks: str, named: tuple[tuple[str, str], ...], role: str, form: str) -> bool:
    content: Any = [{"type": "text", "text": _PROBE}]
    if form == "text":
        content = _PROBE
    elif form in MEDIA:
        content.insert(0, {"type": form})
    variables = {**dict(named), "add_generation_prompt": False, "tools": None, "documents": None}
    for messages in _around(source, marks, named, {"role": role, "content": content}):
        try:
            text = render_template(source, {**variables, "messages": messages})
        except EndlessTemplate:
            raise
        except DocaiError:
            continue
        printed = str(content[-1]) in text or json.dumps(content[-1]) in text  # the list itself, not what it says
        if _PROBE in text and (form == "text" or not printed):
            return form not in MEDIA or len(re.findall(marks, text)) == 1
    return False


def _around(
    source: str, marks: str, named: tuple[tuple[str, str], ...], message: dict[str, Any]
) -> Iterable[list[dict[str, Any]]]:
    """Conversations in which `message` may stand: templates want a user first, or last."""
    if message["role"] == "user":
        return ([message],)
    form = "text" if _takes(source, marks, named, "user", "text") else "parts"
    user = {"role": "user", "content": "?" if form == "text" else [{"type": "text", "text": "?"}]}
    return [message, user], [user, message], [message]
