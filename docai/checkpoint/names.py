"""Templates of tensor names, as weight rules are written with; `docai.checkpoint.dialect` says how to read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


@lru_cache(maxsize=4096)
def _regex(template: str) -> re.Pattern[str]:
    """The expression that matches what a template stands for, with a group per placeholder."""
    out, at, seen = "", 0, set()
    for found in _PLACEHOLDER.finditer(template):
        out += re.escape(template[at : found.start()]) + _group(found[1], found[2], again=found[1] in seen)
        seen.add(found[1])
        at = found.end()
    return re.compile(out + re.escape(template[at:]))


def _group(name: str, words: str | None, *, again: bool) -> str:
    if again:
        return f"(?P={name})"
    if words is not None:
        return f"(?P<{name}>{'|'.join(map(re.escape, words.split('|')))})"
    kind = r"\d+" if len(name) == 1 else ".+" if name == "rest" else "[^.]+"
    return f"(?P<{name}>{kind})"


def match(template: str, name: str) -> dict[str, str] | None:
    """What the placeholders of a template stand for in a name; None where it does not match."""
    found = _regex(template).fullmatch(name)
    return found.groupdict() if found else None


def matches(template: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The names that a template matches, and what its placeholders stand for in each."""
    fullmatch = _regex(template).fullmatch
    return {name: found.groupdict() for name in names if (found := fullmatch(name))}


def first_match(templates: Sequence[str], name: str) -> tuple[str, dict[str, str] | None]:
    """The first template that matches a name, and what its placeholders stand for."""
    for template in templates:
        if (values := match(template, name)) is not None:
            return template, values
    return "", None


def fill(template: str, values: Mapping[str, str]) -> str:
    """The name that a template makes of the placeholders' values."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


def placeholders(template: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found[1] for found in _PLACEHOLDER.finditer(template)))
