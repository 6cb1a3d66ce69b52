"""How options are declared: a field of a dataclass, with what the command line needs to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields
from numbers import Real
from typing import Any

from docai.errors import UsageError


def option(
    default: Any,
    help: str,
    *,
    flags: Sequence[str] = (),
    choices: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    secret: bool = False,
    variable: str = "",
) -> Any:
    """A dataclass field with what the command line needs to know of it.

    `flags` replace the flag made of the field's name; `choices` are the values allowed, `least` and `most` the
    lowest and the highest; a `secret` is shown nowhere. `variable` replaces DOCAI_NAME, for an option that other
    commands have in another sense.
    """
    metadata = {
        "help": help,
        "flags": tuple(flags),
        "choices": tuple(choices),
        "least": least,
        "most": most,
        "secret": secret,
        "variable": variable,
    }
    return field(default=default, metadata=metadata, repr=not secret)


def like(other: type, name: str) -> Any:
    """The option of that name of another class, where one class cannot inherit from both."""
    declared = next(f for f in fields(other) if f.name == name)
    return field(default=declared.default, metadata=declared.metadata, repr=declared.repr)


def check(options: Any) -> None:
    """Raise UsageError for a value that its `option` does not allow."""
    for declared in fields(options):
        value, said = getattr(options, declared.name), declared.metadata
        if value is None:
            continue
        if said["choices"] and value not in said["choices"]:
            raise UsageError(f"{declared.name}: expected one of {', '.join(said['choices'])}; got {value!r}")
        bounded = said["least"] is not None or said["most"] is not None
        if bounded and not isinstance(value, Real):
            raise UsageError(f"{declared.name}: expected a number; got {value!r}")
        if said["least"] is not None and not value >= said["least"]:  # `not >=` catches NaN
            raise UsageError(f"{declared.name}: expected {said['least']:g} or more; got {value:g}")
        if said["most"] is not None and not value <= said["most"]:
            raise UsageError(f"{declared.name}: expected {said['most']:g} or less; got {value:g}")
