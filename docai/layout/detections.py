"""What a detector found on a page, and its JSON, as `docai detect` prints it; `given.py` reads that back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from docai.errors import InputError
from docai.geometry import clip
from docai.types import Box, Label, Line, Page, Point, Region
from docai.writing import storable


@dataclass(frozen=True, slots=True)
class PageDetections:
    """The regions of one upright page, in reading order."""

    page: Page
    model: str
    threshold: float
    regions: tuple[Region, ...]
    lines: tuple[Line, ...] = ()

    @property
    def index(self) -> int:
        return self.page.index

    @property
    def rotation(self) -> int:
        return self.page.rotation

    @property
    def skew(self) -> float:
        return self.page.skew

    def fitted_to(self, page: Page) -> PageDetections:
        """These detections on the upright `page` that they are used on, in its unit.

        Detectors elsewhere see an image of the page; their boxes are scaled by its size, or taken as they are where
        it is unknown. Boxes are cut to the page. Raises InputError for a box that lies off it.
        """
        sx, sy = (page.width / self.page.width, page.height / self.page.height) if self.page.box.area else (1.0, 1.0)
        where = f"layout, page {self.index + 1}"
        regions = [
            replace(
                r, box=on_page(_scaled(r.box, sx, sy), page.size, f"{where}, entry {n}"), polygon=_points(r, sx, sy)
            )
            for n, r in enumerate(self.regions, 1)
        ]
        return replace(
            self, page=page, regions=tuple(regions), lines=tuple(_line_scaled(m, sx, sy) for m in self.lines)
        )


def on_page(box: Box, size: tuple[float, float], where: str) -> Box:
    """A box cut to a page of this size. Raises InputError, which begins with `where`, for one that lies off it."""
    clipped = clip(box, Box(0.0, 0.0, *size))
    if clipped.area <= 0:
        raise InputError(f"{where}: the box lies off the page: {box.as_tuple()}")
    return clipped


def _scaled(box: Box, sx: float, sy: float) -> Box:
    return Box(box.l * sx, box.t * sy, box.r * sx, box.b * sy)


def _points(region: Region, sx: float, sy: float) -> tuple[Point, ...] | None:
    return region.polygon and tuple((x * sx, y * sy) for x, y in region.polygon)


def _line_scaled(line: Line, sx: float, sy: float) -> Line:
    if sx == sy == 1:
        return line
    words = tuple(replace(word, box=_scaled(word.box, sx, sy)) for word in line.words)
    return replace(line, box=_scaled(line.box, sx, sy), size=line.size * sy, words=words)


def detections_json(found: PageDetections) -> bytes:
    """One JSON object: `source`, `page` (from 1), `unit`, `size`, `threshold`, `model`, `detections`, maybe `lines`."""
    page = found.page
    labels = list(Label)
    said: dict[str, Any] = {
        "source": storable(page.source),
        "page": page.index + 1,
        "unit": page.unit,
        "size": [_number(v) for v in page.size],
        "rotation": page.rotation,
        "skew": _number(page.skew),
        "threshold": found.threshold,
        "model": found.model,
        "detections": [_detection(region, labels.index(region.label)) for region in found.regions],
    }
    if found.lines:
        said["lines"] = [_line(line) for line in found.lines]
    return orjson.dumps(said)


def _detection(region: Region, label_id: int) -> dict[str, Any]:
    said: dict[str, Any] = {
        "label": region.label.value,
        "label_id": label_id,
        "confidence": None if region.score is None else _number(region.score),
        "box": _box(region.box),
    }
    if region.polygon:
        said["polygon"] = [[_number(x), _number(y)] for x, y in region.polygon]
    if region.order is not None:
        said["order"] = region.order
    if region.name and region.name != region.label.value:
        said["name"] = region.name
    return said


def _line(line: Line) -> dict[str, Any]:
    return {
        "text": line.text,
        "box": _box(line.box),
        "size": _number(line.size),
        "confidence": None if line.confidence is None else _number(line.confidence),
        "source": line.source,
        "font": line.font,
        "flags": [name for name in ("bold", "italic", "mono", "vertical") if getattr(line, name)],
        "angle": line.angle,
        "words": [{"text": w.text, "box": _box(w.box), "styles": sorted(w.styles)} for w in line.words],
    }


def _box(box: Box) -> dict[str, float]:
    return {"l": _number(box.l), "t": _number(box.t), "r": _number(box.r), "b": _number(box.b)}


def _number(value: float) -> float:
    return round(float(value), 3)
