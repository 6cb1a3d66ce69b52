"""Which recognised lines are set in bold: a recogniser tells letters, not how heavy they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from docai.layout.body import usual
from docai.types import Line, Page

if TYPE_CHECKING:
    from docai.types import RGB

_HEAVIER = (1.15, 1.25)  # times the usual stroke, for its size; bold weights are drawn 1.3 to 1.8 times as thick
_SPREAD = 3.5  # times by which it must pass what the heavier lines of running text differ from the usual
_PROSE = 20  # letters of a line that tells how much the running text varies
_FEWEST = 6  # lines that tell what is usual
_LOWEST = 6  # pixels; strokes of smaller lines are a blur
_WIDEST = 600  # pixels of a line that are looked at


def weighed(page: Page, lines: Sequence[Line], pixels: RGB) -> list[Line]:
    """The lines, those marked bold whose strokes are heavier than is usual on the page. `pixels`: (H, W, 3)."""
    seen = [n for n, line in enumerate(lines) if line.source != "text-layer" and not line.angle and not line.vertical]
    if len(seen) < _FEWEST:
        return list(lines)
    scale = pixels.shape[1] / max(page.width, 1e-6)
    green = pixels[:, :, 1]
    strokes = {n: _stroke(_crop(green, lines[n], scale)) / max(lines[n].box.height * scale, 1.0) for n in seen}
    typical = usual((stroke, len(lines[n].text)) for n, stroke in strokes.items() if stroke > 0)
    least = _threshold([strokes[n] for n in seen if len(lines[n].text) >= _PROSE], typical)
    heavy = {n for n, stroke in strokes.items() if stroke > least > 0 and len(lines[n].text) > 2}
    return [replace(line, bold=True) if n in heavy else line for n, line in enumerate(lines)]


def _threshold(strokes: Sequence[float], typical: float) -> float:
    """The stroke from which on a line is bold: the less the running text varies, the nearer to its own."""
    if len(strokes) < _FEWEST or typical <= 0:
        return _HEAVIER[1] * typical
    heavier = sorted(strokes)[int(0.85 * len(strokes))] / typical - 1
    return min(max(1 + _SPREAD * heavier, _HEAVIER[0]), _HEAVIER[1]) * typical


def _crop(grey: NDArray[np.uint8], line: Line, scale: float) -> NDArray[np.uint8]:
    left, top, right, bottom = (round(v * scale) for v in line.box.as_tuple())
    return grey[max(top, 0) : bottom, max(left, 0) : min(right, left + _WIDEST)]


def _stroke(crop: NDArray[np.uint8]) -> float:
    """Mean width of the strokes of a line, in pixels: all its ink over the number of strokes that rows cut.

    Ink is counted in shades of grey, so that strokes thinner than a pixel are measured too. 0 where there is no text.
    """
    if min(crop.shape) < _LOWEST:
        return 0.0
    low, paper = np.percentile(crop, (2, 80))
    if paper - low < 40:
        return 0.0
    ink = np.clip((paper - crop) / (paper - low), 0.0, 1.0)
    dark = ink > 0.5
    strokes = int((dark[:, 1:] & ~dark[:, :-1]).sum()) + int(dark[:, 0].sum())
    return float(ink.sum()) / strokes if strokes else 0.0
