"""Images of every kind of pixel as RGB."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

_ROWS = 256  # handled at a time, so that deep images need little memory beside their own
_GLARE = 4.0  # a brightest level this many times above all but a few is a fault of the sensor
_PALE = 200  # of 255


def to_rgb(image: Image.Image, *, inverted: bool = False) -> Image.Image:
    """Any mode as RGB: deep grey levels are scaled, alpha lies on white, CMYK and Lab keep their colours.

    `inverted`: the levels of a deep grey image count from white to black.
    """
    if image.mode.startswith(("I", "F")):
        return _deep_grey(image, inverted)
    if image.mode == "LAB":
        return _from_lab(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        return _on_paper(image if image.mode == "RGBA" else image.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _on_paper(image: Image.Image) -> Image.Image:
    """An image with alpha on white; on black where all that shows is white and would be lost."""
    alpha = image.getchannel("A")
    grey = image.convert("L").histogram(alpha.point([0] * 128 + [255] * 128))
    lost = alpha.histogram()[0] > 0 and sum(grey) > 0 and sum(grey[:_PALE]) == 0
    paper = Image.new("RGB", image.size, "black" if lost else "white")
    paper.paste(image, mask=alpha)
    return paper


def _deep_grey(image: Image.Image, inverted: bool) -> Image.Image:
    """16-bit, 32-bit and float grey: black to the brightest level in use becomes 0..255, since scanners write 10 or
    12 bits into 16 and no file says so.
    """
    levels = np.asarray(image)
    black, white = _range(levels)
    grey = np.empty(levels.shape, np.uint8)
    for start in range(0, len(levels), _ROWS):
        rows = np.nan_to_num(levels[start : start + _ROWS].astype(np.float32), nan=black, posinf=white, neginf=black)
        grey[start : start + _ROWS] = np.clip((rows - black) * (255 / max(white - black, 1e-9)), 0, 255)
    return Image.fromarray(255 - grey if inverted else grey).convert("RGB")


def _range(levels: NDArray[np.generic]) -> tuple[float, float]:
    """(black, white) of grey levels. What is not finite and single glaring pixels do not count."""
    lows, highs, sample = [0.0], [0.0], []
    for start in range(0, len(levels), _ROWS):
        rows = levels[start : start + _ROWS].astype(np.float32)
        rows = rows[np.isfinite(rows)]
        if rows.size:
            lows.append(float(rows.min()))
            highs.append(float(rows.max()))
            sample.append(rows[:: max(1, rows.size // 20_000)])
    white = max(highs)
    usual = float(np.quantile(np.concatenate(sample), 0.9999)) if sample else 0.0
    return min(lows), usual if white > _GLARE * usual > 0 else white


def _from_lab(image: Image.Image) -> Image.Image:
    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    transform = ImageCms.buildTransform(lab, srgb, "LAB", "RGB")
    return ImageCms.applyTransform(image, transform) or image.convert("RGB")
