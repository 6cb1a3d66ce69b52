"""Writes docs/cli.md from the command line itself, and the table of families in docs/models.md from theirs.

`python scripts/gen_docs.py`; with `--check` it only compares.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from docai.cli.app import app
from docai.vlm.families import FAMILIES

ROOT = Path(__file__).parent.parent
COMMANDS, MODELS = ROOT / "docs" / "cli.md", ROOT / "docs" / "models.md"
FIRST, LAST = "<!-- families: written by scripts/gen_docs.py -->", "<!-- end of families -->"
HEAD = """\
# Command line

<!-- written by scripts/gen_docs.py; a test compares it with the commands -->

Data goes to standard output, everything else to standard error; `-` is standard input or output. Every option with a
name in the column *variable* can also be set there, or in a `docai.toml` (see the [README](../README.md#settings)).
[Exit codes](errors.md) are the same for all commands. `docai --install-completion` sets up the shell's completion.
"""


def main() -> int:
    pages = {COMMANDS: page(), MODELS: with_families(MODELS.read_text(encoding="utf-8"))}
    if "--check" in sys.argv[1:]:
        stale = [p.name for p, text in pages.items() if not p.is_file() or p.read_text(encoding="utf-8") != text]
        print(f"not up to date: {', '.join(stale)}; run python scripts/gen_docs.py" if stale else "all up to date")
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


def with_families(text: str) -> str:
    """The page about models with its table of families, made of the first line that each says of itself."""
    kinds: dict[str, list[str]] = {}
    for kind, module in FAMILIES.items():
        kinds.setdefault(module, []).append(f"`{kind}`")
    rows = sorted(f"| {about(module)} | {', '.join(names)} |" for module, names in kinds.items())
    table = "\n".join(["| family | `model_type` |", "| --- | --- |", *rows])
    return re.sub(f"(?s)(?<={re.escape(FIRST)}).*(?={re.escape(LAST)})", lambda _: f"\n\n{table}\n\n", text)


def about(module: str) -> str:
    """The first line of a family's own words; nothing is imported, so it needs no MLX."""
    source = (ROOT / "docai" / "vlm" / "families" / f"{module}.py").read_text(encoding="utf-8")
    return str(ast.get_docstring(ast.parse(source))).splitlines()[0].rstrip(".")


def page() -> str:
    """The whole page."""
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance]
    inner = (section(command, f"{group.info.name} ") for group in groups for command in group.registered_commands)
    return "\n".join([HEAD, *(section(command) for command in app.registered_commands), *inner])


def section(command: CommandInfo, group: str = "") -> str:
    """What one command says about itself."""
    run = command.callback
    assert run is not None
    name = group + (command.name or run.__name__)
    parameters = list(inspect.signature(run, eval_str=True).parameters.values())
    arguments = [p for p in parameters if isinstance(info(p), ArgumentInfo)]
    options = sorted((p for p in parameters if isinstance(info(p), OptionInfo)), key=is_limit)
    usage = " ".join(["docai", name, "[OPTIONS]", *(argument(p) for p in arguments)])
    lines = [f"## docai {name}", "", str(run.__doc__).strip(), "", "```", usage, "```", ""]
    lines += [f"- `{p.name.upper()}`: {info(p).help}" for p in arguments] + [""] * bool(arguments)
    lines += ["| option | values | default | variable | |", "| --- | --- | --- | --- | --- |", *map(row, options), ""]
    return "\n".join(lines)


def info(parameter: inspect.Parameter) -> Any:
    """What typer is told about a parameter."""
    return parameter.annotation.__metadata__[0]


def is_limit(parameter: inspect.Parameter) -> bool:
    return bool(info(parameter).rich_help_panel)


def argument(parameter: inspect.Parameter) -> str:
    several = "list" in str(parameter.annotation)
    return f"[{parameter.name.upper()}]..." if several else parameter.name.upper()


def row(parameter: inspect.Parameter) -> str:
    """One option as a row of the table."""
    said = info(parameter)
    flags = ", ".join(f"`{flag}`" for flag in flags_of(said))
    default = "" if parameter.default in (None, False) or said.count else f"`{parameter.default}`"
    variable = f"`{said.envvar}`" if said.envvar else ""
    return f"| {flags} | {values(parameter)} | {default} | {variable} | {said.help} |"


def flags_of(said: OptionInfo) -> list[str]:
    """An option's flags; in an annotation, typer has the first of them in the place of the default."""
    return [flag for flag in (said.default, *(said.param_decls or ())) if isinstance(flag, str)]


def values(parameter: inspect.Parameter) -> str:
    """What an option takes."""
    said, kind = info(parameter), kind_of(parameter.annotation)
    if said.metavar:
        return " ".join(f"`{word}`" for word in said.metavar.split("|"))
    if kind is bool or said.count:
        return ""
    return {int: "number", float: "number"}.get(kind, "text")


def kind_of(annotation: Any) -> Any:
    """The plain type of an annotation."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    inner: Iterator[Any] = (kind for kind in get_args(annotation) if kind is not NoneType)
    return next(inner, annotation)


if __name__ == "__main__":
    sys.exit(main())
