"""Raw outputs of detectors, made from seeds: what make.py gives the reference processors, and the tests give docai."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from docai.layout.decode import Outputs
from tests.parity.weights import noise

PAGES = [(1, 1), (33, 77), (800, 800), (700, 900), (1123, 794), (640, 640), (1403, 992)]  # (height, width)


@dataclass(frozen=True)
class Raw:
    """Random outputs of `queries` for a page of `size` (height, width), and the threshold that they are seen with."""

    seed: int
    size: tuple[int, int] = (1000, 700)
    queries: int = 40
    classes: int = 7
    threshold: float = 0.5

    def outputs(self, *, masks: bool) -> Outputs:
        """Scores around the threshold, boxes that reach over the edge, masks of smooth blobs."""
        logits = noise("logits", (self.queries, self.classes), self.seed) - 1
        boxes = 1 / (1 + np.exp(-noise("boxes", (self.queries, 4), self.seed)))
        if not masks:
            return Outputs(logits, boxes)
        coarse = noise("prototypes", (10, 10, 8), self.seed)
        return Outputs(
            logits,
            boxes,
            2 * noise("order", (self.queries, self.queries), self.seed),
            noise("mixtures", (self.queries, 8), self.seed),
            np.kron(coarse, np.ones((20, 20, 1), np.float32)) + 0.3 * noise("grain", (200, 200, 8), self.seed),
        )


RAW = [Raw(1), Raw(2, (500, 1300)), Raw(3, threshold=0.3), Raw(4, (77, 33), threshold=0.6), Raw(5, threshold=0.99)]


def mask_logits(outputs: Outputs) -> np.ndarray:
    """(Q, h, w)"""
    assert outputs.prototypes is not None
    assert outputs.mixtures is not None
    height, width, count = outputs.prototypes.shape
    return (outputs.mixtures @ outputs.prototypes.reshape(-1, count).T).reshape(-1, height, width)
