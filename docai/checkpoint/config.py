"""A checkpoint's config.json, read with errors that say what is missing. Foreign field names end where it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docai.errors import CheckpointError


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

    def with_defaults(self, defaults: Mapping[str, Any]) -> Config:
        """The same object over other defaults."""
        return Config(self._values, defaults, self._where)
