"""Calls of tools: how models write them, by their templates, and how they are told apart from text as it comes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from docai.export.json import dumps


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the name of a function, and its arguments as JSON."""

    name: str
    arguments: str

    def as_json(self) -> dict[str, Any]:
        number = f"call_{secrets.token_hex(12)}"
        return {"id": number, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


Parser = Callable[[str], list[Call] | None]


@dataclass(frozen=True, slots=True)
class Manner:
    """A way to write calls: text that begins with one of `starts` is calls. `special`: these are special tokens."""

    starts: tuple[str, ...]
    parse: Parser
    special: bool = False


def tagged(text: str) -> list[Call] | None:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>` (Hermes, Qwen), or with tags inside (Qwen3-Coder, GLM)."""
    calls = []
    for part in text.split("<tool_call>")[1:]:
        inner = part.partition("</tool_call>")[0].strip()
        call = _function_tags(inner) if inner.startswith("<function=") else _object(inner)
        if call is None:
            return None
        calls.append(call)
    return calls or None


def _function_tags(text: str) -> Call | None:
    match = re.match(r"<function=([^>\n]+)>", text)
    if match is None:
        return None
    arguments: dict[str, Any] = {}
    for found in re.finditer(r"<parameter=([^>\n]+)>(.*?)</parameter>", text, re.DOTALL):
        value = found[2].strip("\n")
        try:
            arguments[found[1]] = orjson.loads(value)
        except orjson.JSONDecodeError:
            arguments[found[1]] = value
    return Call(match[1].strip(), dumps(arguments).decode())


def listed(text: str) -> list[Call] | None:
    """`[TOOL_CALLS][{"name": …, "arguments": …}]`, or `[TOOL_CALLS]name[ARGS]{…}` (Mistral)."""
    body = text.partition("[TOOL_CALLS]")[2].strip()
    if body.startswith("["):
        return _objects(body)
    calls = []
    for part in text.split("[TOOL_CALLS]")[1:]:
        name, _, arguments = part.partition("[ARGS]")
        try:
            said = orjson.loads(arguments.strip())
        except orjson.JSONDecodeError:
            return None
        calls.append(Call(name.partition("[CALL_ID]")[0].strip(), dumps(said).decode()))
    return calls or None


def bare(text: str) -> list[Call] | None:
    """Nothing but `{"name": …, "parameters": …}` (Llama 3), or a list of such."""
    body = text.strip().removeprefix("<|python_tag|>").strip()
    return _objects(body if body.startswith("[") else f"[{body}]")


def _objects(text: str) -> list[Call] | None:
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    calls = [_of(value) for value in values] if isinstance(values, list) else []
    return [call for call in calls if call is not None] if calls and None not in calls else None


def _object(text: str) -> Call | None:
    try:
        return _of(orjson.loads(text))
    except orjson.JSONDecodeError:
        return None


def _of(value: Any) -> Call | None:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    return Call(value["name"], arguments if isinstance(arguments, str) else dumps(arguments).decode())


_TAGGED = Manner(("<tool_call>",), tagged)
_LISTED = Manner(("[TOOL_CALLS]",), listed, special=True)
_BARE = Manner(("{", "[{", "<|python_tag|>"), bare)


def manner_of(template: str | None) -> Manner:
    """How a model writes calls, by what its chat template says."""
    said = template or ""
    if "[TOOL_CALLS]" in said:
        return _LISTED
    return _TAGGED if "<tool_call>" in said or "tools" not in said else _BARE


class ToolWatch:
    """Takes the text of an answer as it comes; gives out what is text, and keeps what are calls."""

    def __init__(self, manner: Manner) -> None:
        self._manner, self._held, self._began = manner, "", False
        self._first = True  # only white space so far: bare calls stand nowhere else

    def add(self, text: str) -> str:
        """The part of what has come that is text for certain."""
        self._held += text
        if self._began:
            return ""
        at = self._start()
        if at is not None:
            self._began = True
            out, self._held = self._held[:at], self._held[at:]
            return out.rstrip() if not out.strip() else out
        keep = self._doubtful()
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        self._first = self._first and not out.strip()
        return out

    def end(self) -> tuple[str, list[Call]]:
        """What is left: text, where it is no call after all, and the calls."""
        calls = self._manner.parse(self._held) if self._began else None
        return (self._held, []) if calls is None else ("", calls)

    def _start(self) -> int | None:
        if self._manner is _BARE:
            held = self._held.lstrip()
            fits = self._first and held.startswith(self._manner.starts)
            return len(self._held) - len(held) if fits else None
        places = [at for start in self._manner.starts if (at := self._held.find(start)) >= 0]
        return min(places, default=None)

    def _doubtful(self) -> int:
        """How many characters at the end may be the beginning of a call."""
        if self._manner is _BARE:
            held = self._held.lstrip()
            return len(self._held) if self._first and any(s.startswith(held) for s in self._manner.starts) else 0
        most = max(map(len, self._manner.starts)) - 1
        ends = (size for size in range(min(most, len(self._held)), 0, -1))
        return next((n for n in ends if any(s.startswith(self._held[-n:]) for s in self._manner.starts)), 0)


def forced_schema(tools: Sequence[Mapping[str, Any]], name: str | None) -> dict[str, Any]:
    """The schema of an answer that has to be a call: of the function `name`, or of any."""
    wanted = [tool["function"] for tool in tools if name in (None, tool["function"]["name"])]
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"const": function["name"]},
                "arguments": function.get("parameters") or {"type": "object"},
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for function in wanted
    ]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


FORCED = _BARE  # how an answer that follows `forced_schema` is read
