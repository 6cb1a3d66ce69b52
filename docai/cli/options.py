"""Option classes as command-line parameters, and the settings that `docai.toml` and the environment give."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
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
            annotation=Annotated[_type_of(hints[f.name], f.name, f.metadata), _declared(f.name, f.metadata)],
        )
        for f in fields(cls)
    ]


def _type_of(hint: Any, name: str, metadata: Any) -> Any:
    """What typer understands: an enumeration for a choice of words."""
    choices = metadata.get("choices") or ()
    if get_origin(hint) is Literal:
        choices = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        inner = next(a for a in get_args(hint) if a is not NoneType)
        return _type_of(inner, name, metadata) | None
    return str if choices else hint


def _declared(name: str, metadata: Any) -> Any:
    choices = metadata.get("choices") or ()
    flags = metadata.get("flags") or (f"--{name.replace('_', '-')}",)
    return typer.Option(
        *flags,
        help=metadata.get("help"),
        envvar=f"DOCAI_{name.upper()}",
        show_envvar=False,
        show_default=not metadata.get("secret"),
        metavar="|".join(choices) if choices else None,
        callback=_among(name, choices) if choices else None,
        rich_help_panel=metadata.get("panel") or None,
    )


def _among(name: str, choices: Sequence[str]) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        if value is not None and value not in choices:
            raise UsageError(f"--{name.replace('_', '-')}: expected one of {', '.join(choices)}; got {value!r}")
        return value

    return check


def settings(start: Path | None = None) -> dict[str, Any]:
    """Defaults for click from the nearest `docai.toml` upwards: top-level keys for every command, tables for one.

    Raises UsageError where the file is no TOML.
    """
    folder = (start or Path.cwd()).resolve()
    path = next((p / SETTINGS for p in (folder, *folder.parents) if (p / SETTINGS).is_file()), None)
    if path is None:
        return {}
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: expected TOML: {error}") from error
    common = {key: value for key, value in said.items() if not isinstance(value, dict)}
    commands = ("ocr", "detect", "eval", "doctor")
    return {name: _underscored({**common, **said.get(name, {})}) for name in commands}


def _underscored(values: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in values.items()}
