"""What `docai models` prints for people: tables of what the tasks found."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from docai.checkpoint.backend import in_bytes

_WIDE = 200  # columns where no terminal says how many there are
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def list_report(found: Mapping[str, Any]) -> str:
    """The cache, short names and families."""
    models = _table("model", "type", "size", "status")
    for one in found["models"]:
        models.add_row(*map(_text, (one["repo"], one["model_type"] or "?", in_bytes(one["bytes"]), one["status"])))
    names = _table("short name", "repo", "what")
    for name, one in found["names"].items():
        names.add_row(*map(_text, (name, one["repo"], one["about"])))
    families = _table("family", "model_type")
    for name, types in found["families"].items():
        families.add_row(*map(_text, (name, ", ".join(types))))
    later = "; ".join(f"{name} ({', '.join(types)})" for name, types in found["not_yet"].items())
    cache = models if found["models"] else "(empty)"
    return _printed(f"In the cache, {found['cache']}:", cache, "", names, "", families, "", f"Not yet: {later}")


def show_report(found: Mapping[str, Any]) -> str:
    """Everything of a model, with layers of one kind on one line."""
    return _printed(
        _facts(found),
        "",
        "Spec",
        *(f"  {_text(line)}" for line in _outline(found["spec"])),
        "",
        _modules(found["modules"]),
        "",
        _weights(found["weights"]),
        *([f"Not used: {_text(', '.join(found['dropped']))}"] if found["dropped"] else []),
    )


def _facts(found: Mapping[str, Any]) -> Table:
    memory, files = found["memory"], found["files"]
    size = in_bytes(sum(file["bytes"] for file in files))
    facts = {
        "model": found["name"],
        "path": found["path"],
        "type": f"{found['model_type']}, read by the family {found['family']}, dialect {found['dialect']}",
        "made from": (found["made_from"] or {}).get("name"),
        "files": f"{len(files)}, {size}",
        "parameters": f"{found['parameters'] / 1e6:,.1f} million",
        "sees images": "yes" if found["sees"] else "no",
        "hears audio": "yes" if found["hears"] else "no",
        "memory": f"{in_bytes(memory['weights'])} for the weights (floats as {memory['dtype']}), and "
        f"{in_bytes(memory['cache_per_1000_tokens'])} for every 1000 tokens"
        + (f", {in_bytes(memory['states'])} for the states of a request" if memory["states"] else ""),
        "device": f"{memory['device']}, {in_bytes(memory['free'])} free: "
        + ("it fits" if memory["fits"] else "it does not fit"),
        "note": "; ".join(found["notices"]),
    }
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        if fact:
            table.add_row(name, _text(fact))
    return table


def _outline(value: Any, indent: str = "") -> Iterator[str]:
    """A spec as indented lines; what is none, empty or off is left out."""
    for key, inner in value.items():
        if inner in (None, False, "", [], {}) or key == "kind":
            continue
        objects = [one for one in inner if isinstance(one, Mapping)] if isinstance(inner, list) else []
        if isinstance(inner, Mapping):
            yield f"{indent}{key}: {inner.get('kind', '')}"
            yield from _outline(inner, indent + "  ")
        elif objects:
            for one in objects:
                times = f"{one['times']} x " if "times" in one else ""
                yield f"{indent}{key}: {times}{one.get('kind', '')}"
                yield from _outline({k: v for k, v in one.items() if k != "times"}, indent + "  ")
        else:
            yield f"{indent}{key}: {', '.join(map(str, inner)) if isinstance(inner, list) else inner}"


def _modules(modules: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("module", "kind", "parameters", "times")
    rows = ((_pattern(m["name"]), m["kind"], f"{m['parameters']:,}") for m in modules)
    for row, times in _counted(rows):
        table.add_row(*map(_text, row), str(times))
    return table


def _weights(weights: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("weight", "made from", "shape", "stored as", "times")
    rows = (
        (_pattern(w["name"]), _sources(w["from"]), " x ".join(map(str, w["shape"])) or "1", w["stored"])
        for w in weights
    )
    for row, times in _counted(rows):
        table.add_row(*map(_text, row), str(times))
    return table


def _sources(names: Sequence[str]) -> str:
    patterns = list(dict.fromkeys(map(_pattern, names)))
    return " + ".join(patterns) + (f" ({len(names)})" if len(names) > len(patterns) else "")


def _pattern(name: str) -> str:
    """A name with its numbers left open, so that all layers are one."""
    return _NUMBER.sub("N", name)


def _counted(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], int]]:
    counts: dict[tuple[str, ...], int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    yield from counts.items()


def verify_report(found: Mapping[str, Any]) -> str:
    """Files with what their hashes say, and what is wrong."""
    table = _table("file", "size", "hash")
    for one in found["files"]:
        size = "" if one["bytes"] is None else in_bytes(one["bytes"])
        table.add_row(*map(_text, (one["name"], size, one["status"])))
    lines = [f"wrong: {_text(problem)}" for problem in found["problems"]]
    if "weights" in found:
        lines.insert(0, f"{found['weights']} weights, all mapped from the dialect {found['dialect']}")
    return _printed(table, *lines, *([] if found["problems"] else ["nothing is wrong"]))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _text(value: object) -> str:
    return escape(str(value))


def _printed(*parts: RenderableType) -> str:
    """The parts as text, with colours where a terminal shows them."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=None if terminal else _WIDE, highlight=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))
    return re.sub(r" +$", "", out.getvalue(), flags=re.MULTILINE)
