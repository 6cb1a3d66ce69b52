"""Which model, and how it is loaded: options that every command with a model has."""

from __future__ import annotations

from dataclasses import dataclass

from docai.options import check, option


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOptions:
    """Where a model comes from."""

    revision: str | None = option(None, "Branch, tag or commit of the model's repo. Default: its newest.")
    offline: bool = option(False, "Never use the network: only models that are in the cache.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadOptions(SourceOptions):
    """How a model is loaded."""

    dtype: str | None = option(
        None,
        "Type of weights that are not quantized. Default: float32 on a CPU, as stored on a GPU.",
        choices=("float32", "bfloat16", "float16"),
    )
