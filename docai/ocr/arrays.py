"""What numpy has no short or no quick word for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first one does."""
    changed = np.ones(len(values), np.bool_)
    changed[1:] = values[1:] != values[:-1]
    return changed


def median(values: NDArray[Any]) -> float:
    """The median of few numbers; np.median takes longer to look at its arguments than to answer."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def medians(values: Floats, group: Ints, count: int) -> Floats:
    """The median of each of `count` groups; nan of one without values."""
    ordered = np.append(values[np.lexsort((values, group))], np.nan)
    size = np.bincount(group, minlength=count)
    start = np.cumsum(size) - size
    found: Floats = (ordered[start + (size - 1) // 2] + ordered[start + size // 2]) / 2
    found[size == 0] = np.nan
    return found
