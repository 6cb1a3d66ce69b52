"""Option classes as command-line parameters, and the settings that `docai.toml` and the environment give."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from docai.errors import UsageError

SETTINGS = "docai.toml"


def takes(*classes: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of option classes as parameters.

    The decorated function gets an instance of each class, in order, before its own parameters, which are passed by
    name. Fields of one name in several classes are one parameter.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(run, eval_str=True).parameters.values())[len(classes) :]

        def command(**values: Any) -> None:
            made = [cls(**{f.name: values[f.name] for f in fields(cls)}) for cls in classes]
            run(*made, **{p.name: values[p.name] for p in own})

        shared = {p.name: p for cls in classes for p in _parameters(cls)}
        everything = [*own, *shared.values()]
        everything.sort(key=lambda p: p.default is not inspect.Parameter.empty)
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in everything]
        command.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in keyword}
        command.__name__, command.__doc__ = run.__name__, run.__doc__
        return command

    return decorate


def _parameters(cls: type) -> list[inspect.Parameter]:
    hints = get_type_hints(cls)
    return [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=f.default,
            annotation=Annotated[_type_of(hints[f.name]), _declared(f.name, hints[f.name], f.metadata)],
        )
        for f in fields(cls)
    ]


def _type_of(hint: Any) -> Any:
    """What typer understands: a word for a choice of words, whose option class checks it, and text for a mapping."""
    if get_origin(hint) is Literal:
        return str
    kinds = get_args(hint)
    plain = tuple(kind for kind in kinds if get_origin(kind) is not Mapping)
    return hint if len(plain) == len(kinds) else Union[plain]  # noqa: UP007 - made of what is left


def _declared(name: str, hint: Any, metadata: Mapping[str, Any]) -> Any:
    flag, choices = f"--{name.replace('_', '-')}", metadata["choices"]
    flags = metadata["flags"] or (f"{flag}/--no-{flag[2:]}" if hint is bool else flag,)
    return typer.Option(
        *flags,
        help=metadata["help"],
        envvar=metadata["variable"] or variable_of(name),
        show_envvar=False,
        show_default=not metadata["secret"] and hint is not bool,
        metavar="|".join(choices) or None,
        autocompletion=(lambda: list(choices)) if choices else None,
    )


def variable_of(name: str) -> str:
    """The environment variable of an option."""
    return f"DOCAI_{name.upper()}"


def settings(command: Any, start: Path | None = None) -> dict[str, Any]:
    """Defaults for the commands under `command` from the nearest `docai.toml` upwards, as click takes them.

    Top-level keys are for every command that has the option in the same sense (that is, with the same environment
    variable), tables for one command, as in [ocr] or [models.pull]. Raises UsageError where the file is no TOML or
    names no option.
    """
    path = _settings_file((start or Path.cwd()).resolve())
    if path is None:
        return {}
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: expected TOML: {error}") from error
    commands = dict(_commands(command))
    groups = {name.partition(".")[0] for name in commands if "." in name}
    tables = dict(_tables(said, groups))
    common = _names({name: value for name, value in said.items() if not isinstance(value, dict)})
    variables = {name: {p.name: p.envvar for p in sub.params} for name, sub in commands.items()}
    _check_names(path, variables, common, tables)
    out: dict[str, Any] = {}
    for name, sub in commands.items():
        own = variables[name]
        chosen = {key: value for key, value in common.items() if own.get(key) == variable_of(key)} | tables.get(
            name, {}
        )
        group, _, inner = name.rpartition(".")
        place = out.setdefault(group, {}) if group else out
        place[inner] = _values(chosen, {p.name for p in sub.params if getattr(p, "multiple", False)})
    return out


def _commands(command: Any) -> Iterator[tuple[str, Any]]:
    """The commands by name; those of a group as `models.pull`."""
    for name, sub in command.commands.items():
        if hasattr(sub, "commands"):
            yield from ((f"{name}.{inner}", one) for inner, one in _commands(sub))
        else:
            yield name, sub


def _tables(said: Mapping[str, Any], groups: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of a file by the command that they are for: [models.pull] is within [models]."""
    for name, value in said.items():
        if isinstance(value, dict) and name in groups:
            for inner, values in value.items():
                yield f"{name}.{inner}", _names(values) if isinstance(values, dict) else {}
        elif isinstance(value, dict):
            yield name, _names(value)


def _settings_file(folder: Path) -> Path | None:
    return next((p / SETTINGS for p in (folder, *folder.parents) if (p / SETTINGS).is_file()), None)


def _check_names(
    path: Path, known: Mapping[str, Mapping[str, Any]], common: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    for table, values in tables.items():
        if table not in known:
            raise UsageError(f"{path}: expected a table of {', '.join(known)}; got [{table}]")
        for name in values:
            if name not in known[table]:
                raise UsageError(f"{path}: {table} has no option {name!r} (see docai {table.replace('.', ' ')} --help)")
    for name in common:
        if not any(name in names for names in known.values()):
            raise UsageError(f"{path}: no command has an option {name!r}")


def _names(values: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in values.items()}


def _values(values: dict[str, Any], several: Collection[str]) -> dict[str, Any]:
    """Values as click takes them: a list for an option that may be repeated, else the words of it with commas."""
    return {key: _value(value, several=key in several) for key, value in values.items()}


def _value(value: Any, *, several: bool) -> Any:
    if several:
        return value if isinstance(value, list) else [value]
    return ",".join(map(str, value)) if isinstance(value, list) else value
