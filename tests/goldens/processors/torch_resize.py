"""The resizings of float arrays that have a golden made by torch; `python -m` with torch writes it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Resize:
    """Arguments of torch.nn.functional.interpolate; sizes are (height, width)."""

    before: tuple[int, int]
    after: tuple[int, int]
    kind: Literal["bilinear", "bicubic"]
    antialias: bool
    align_corners: bool


CHANGES = {"grow": ((5, 7), (12, 9)), "shrink": ((30, 20), (7, 3)), "one": ((1, 9), (4, 5)), "mixed": ((6, 24), (9, 5))}
CASES = {
    f"{kind}{'-antialias' * antialias}{'-corners' * corners}-{name}": Resize(before, after, kind, antialias, corners)
    for kind, antialias, corners, (name, (before, after)) in product(
        ("bilinear", "bicubic"), (False, True), (False, True), CHANGES.items()
    )
    if not (antialias and corners)
}


def array(size: tuple[int, int]) -> NDArray[np.float32]:
    """Noise of (H, W, 2)."""
    return np.random.RandomState(size[0] * 100 + size[1]).standard_normal((*size, 2)).astype(np.float32)


def main() -> None:
    """Every case by torch."""
    import torch
    from torch.nn.functional import interpolate

    results = {}
    for name, case in CASES.items():
        planes = torch.from_numpy(array(case.before)).permute(2, 0, 1)[None]
        out = interpolate(
            planes, case.after, mode=case.kind, antialias=case.antialias, align_corners=case.align_corners
        )
        results[name] = out[0].permute(1, 2, 0).numpy()
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **results)


if __name__ == "__main__":
    main()
