"""A checkpoint's config.json, read with errors that say what is missing. Foreign field names end where it is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from docai.checkpoint.checkpoint import Checkpoint
from docai.errors import CheckpointError

_MOST_LAYERS = 10_000


class Config:
    """A JSON object of config.json. `defaults` fill what a file may leave out because its class knows it.

    A null stays one: for some fields it says "none of this" where the default is a number.
    """

    def __init__(
        self, values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, where: str = "config.json"
    ) -> None:
        self._values = {**(defaults or {}), **values}
        self._where = where

    def __getitem__(self, name: str) -> Any:
        """A field that must be there. Raises CheckpointError."""
        if self._values.get(name) is None:
            raise CheckpointError(f"{self._where}: expected a field {name!r}, found none; the checkpoint is incomplete")
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or `default` where it is missing or null."""
        value = self._values.get(name)
        return default if value is None else value

    def section(self, name: str, defaults: Mapping[str, Any] | None = None) -> Config:
        """An object within this one; an empty one where it is missing."""
        value = self.get(name, {})
        if not isinstance(value, Mapping):
            raise CheckpointError(f"{self._where}: expected {name!r} to be an object, got {value!r}")
        return Config(value, defaults, f"{self._where}, {name}")

    def expect(self, **only: Any) -> None:
        """Raise CheckpointError where a field has another value than the one that is read here."""
        for name, value in only.items():
            if (said := self.get(name, value)) != value:
                raise CheckpointError(f"{self._where}: expected {name} {value!r}, got {said!r}; docai reads no other")

    def with_defaults(self, defaults: Mapping[str, Any]) -> Config:
        """The same object over other defaults."""
        return Config(self._values, defaults, self._where)


@contextlib.contextmanager
def sensible(checkpoint: Checkpoint, file: str = "config.json", what: str = "network") -> Iterator[None]:
    """What fails within is said to be the config's fault: its values come from strangers, and can be anything."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, MemoryError, RuntimeError) as error:
        lines = str(error).strip().splitlines()  # MLX lists all that it would have taken
        said = lines[0] if lines else "no more is known"
        raise CheckpointError(
            f"{checkpoint.name}: its {file} describes no {what} ({type(error).__name__}: {said})"
        ) from error


def check_depth(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for so many layers that their description alone could fill the memory."""
    _check_depth(checkpoint, checkpoint.config)


def _check_depth(checkpoint: Checkpoint, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Mapping):
            _check_depth(checkpoint, value)
        elif isinstance(value, int | float) and ("layers" in name or "depth" in name) and value > _MOST_LAYERS:
            raise CheckpointError(f"{checkpoint.name}: config.json says {name} = {value}; expected a few dozen")
