"""Families of layout detectors that run on MLX. Each is data in a module of its own, found by its `model_type`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from docai.checkpoint.config import Config
from docai.errors import CheckpointError

if TYPE_CHECKING:
    from docai.checkpoint.dialect import Rule
    from docai.layout.pixels import PageImages
    from docai.layout.spec import DetectorSpec
    from docai.layout.suppress import Suppression

Rules = Callable[["DetectorSpec"], "tuple[Rule, ...]"]


@dataclass(frozen=True, slots=True)
class LayoutFamily:
    """`spec` reads a config, `rules` gives the weight rules of each dialect, `images` what pages look like to it.

    `threshold`: the score from which its reference keeps a region; `strict`: it must be higher. `suppress`: which of
    overlapping regions stay, where nobody says otherwise.
    """

    name: str
    model_types: tuple[str, ...]
    spec: Callable[[Config], DetectorSpec]
    rules: Mapping[str, Rules]
    images: PageImages
    suppress: Suppression
    threshold: float = 0.5
    strict: bool = False


# model_type -> the module of its family.
FAMILIES: dict[str, str] = {
    "pp_doclayout_v3": "pp_doclayout_v3",
    "rt_detr": "rt_detr_v2",
    "rt_detr_v2": "rt_detr_v2",
}


def family_of(config: Mapping[str, Any]) -> LayoutFamily:
    """The family that a config.json names. Raises CheckpointError for one that is no layout detector."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        near = difflib.get_close_matches(str(kind), FAMILIES, n=2)
        hint = f" (near it: {', '.join(near)})" if near else ""
        raise CheckpointError(
            f"model_type {kind!r} is no layout detector that is supported{hint}; supported: {', '.join(FAMILIES)}"
        )
    family: LayoutFamily = import_module(f"docai.layout.{FAMILIES[kind]}").FAMILY
    return family


def labels_of(config: Mapping[str, Any], classes: int) -> tuple[str, ...]:
    """The names of a detector's classes by id. Raises CheckpointError where `id2label` does not name each."""
    table = config.get("id2label")
    if not isinstance(table, Mapping):
        raise CheckpointError("config.json: expected id2label, the names of the detector's classes; found none")
    names = {str(key): str(value) for key, value in table.items()}
    missing = [str(number) for number in range(classes) if str(number) not in names]
    if missing:
        raise CheckpointError(f"config.json: expected id2label to name {classes} classes; {missing[0]} is missing")
    return tuple(names[str(number)] for number in range(classes))
