"""Turning pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def turn(pixels: NDArray[np.uint8], rotation: int, skew: float) -> NDArray[np.uint8]:
    """Pixels turned clockwise by `rotation` (0/90/180/270), then back by `skew` degrees around the centre, on white."""
    if not rotation % 360 and not skew:
        return pixels
    import cv2  # only here: it takes longer to load than most pages to decode

    steps = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
    turned = cv2.rotate(pixels, steps[rotation % 360]) if rotation % 360 else pixels
    if skew:
        height, width = turned.shape[:2]
        centre = (width - 1) / 2, (height - 1) / 2  # counted from the middle of the first pixel
        matrix = cv2.getRotationMatrix2D(centre, skew, 1.0)
        white = (255, 255, 255)
        turned = cv2.warpAffine(turned, matrix, (width, height), flags=cv2.INTER_CUBIC, borderValue=white)
    return np.ascontiguousarray(turned, np.uint8)
