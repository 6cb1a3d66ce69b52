"""Detections in the formats of others: a table as CSV, and COCO's JSON. (Our own JSON is in `layout/detections.py`.)"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from docai.layout.detections import PageDetections
from docai.types import Label, Point, Region
from docai.writing import storable

COLUMNS = ("source", "page", "unit", "order", "label", "name", "score", "left", "top", "right", "bottom")
_DIGITS = 3


def as_csv(pages: Iterable[PageDetections], *, header: bool = True) -> str:
    """A row for each region, in reading order; numbers in the unit of the page."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    for found in pages:
        for region in found.regions:
            writer.writerow(_row(found, region))
    return out.getvalue()


def _row(found: PageDetections, region: Region) -> tuple[Any, ...]:
    page, score = found.page, region.score
    return (
        storable(page.source), page.index + 1, page.unit, region.order, region.label.value, region.name,
        None if score is None else _rounded(score), *map(_rounded, region.box.as_tuple()),
    )  # fmt: skip


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)


def as_coco(pages: Sequence[PageDetections]) -> bytes:
    """COCO's object detection: each page is an image, in its own unit; categories are our labels, from 1 on.

    Beyond COCO's fields, images have `page` and `unit`, annotations `score`, `order` and the detector's own `name`.
    """
    images = [
        {
            "id": number, "file_name": storable(found.page.source),
            "page": found.page.index + 1, "unit": found.page.unit,
            "width": _rounded(found.page.width), "height": _rounded(found.page.height),
        }
        for number, found in enumerate(pages, 1)
    ]  # fmt: skip
    every = [(image, region) for image, found in enumerate(pages, 1) for region in found.regions]
    annotations = [_annotation(number, image, region) for number, (image, region) in enumerate(every, 1)]
    categories = [{"id": number, "name": label.value} for number, label in enumerate(Label, 1)]
    said = {"images": images, "annotations": annotations, "categories": categories}
    return orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE)


def _annotation(number: int, image: int, region: Region) -> dict[str, Any]:
    box, outline = region.box, region.polygon
    said: dict[str, Any] = {
        "id": number,
        "image_id": image,
        "category_id": list(Label).index(region.label) + 1,
        "bbox": [_rounded(value) for value in (box.l, box.t, box.width, box.height)],
        "area": _rounded(area(outline) if outline else box.area),
        "segmentation": [[_rounded(value) for point in outline for value in point]] if outline else [],
        "iscrowd": 0,
    }
    extra = {"score": region.score and _rounded(region.score), "order": region.order, "name": region.name or None}
    return said | {key: value for key, value in extra.items() if value is not None}


def area(outline: Sequence[Point]) -> float:
    """Of a polygon."""
    from shapely.geometry import Polygon

    return float(Polygon(outline).area)
