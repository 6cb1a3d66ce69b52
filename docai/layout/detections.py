"""Detections as JSON: one object a page, as `docai detect` prints them; and reading them back, from others too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from docai.errors import InputError
from docai.geometry import clip
from docai.layout.detector import label_named
from docai.types import Box, Label, Line, Page, Region, Word

MOST_BYTES = 32 << 20
MOST_ENTRIES = 4096  # of one page


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


def detections_json(found: PageDetections) -> bytes:
    """One JSON object: `source`, `page` (from 1), `unit`, `size`, `threshold`, `model`, `detections`, maybe `lines`."""
    page = found.page
    labels = list(Label)
    said: dict[str, Any] = {
        "source": page.source,
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


# --- reading


def read_detections(data: bytes) -> list[PageDetections]:
    """Pages of detections: our own lines or list, one bare list, or `{category, score, bbox}` entries.

    Raises InputError naming the entry that is wrong. Unknown labels are warned about and taken as text.
    """
    if len(data) > MOST_BYTES:
        raise InputError(f"layout: {len(data)} bytes are more than the {MOST_BYTES} allowed")
    values = _values(data)
    if values and all(isinstance(v, Mapping) and ("detections" in v or "boxes" in v) for v in values):
        pages = [_page(value, at) for at, value in enumerate(values)]
    else:
        pages = [_page({"detections": values}, 0)]
    seen: set[int] = set()
    for page in pages:
        if page.index in seen:
            raise InputError(f"layout: page {page.index + 1} comes twice")
        seen.add(page.index)
    return pages


def source_of(data: bytes) -> str:
    """The document that detections were made from. Raises InputError where they name none that can be opened."""
    names = {str(v["source"]) for v in _values(data) if isinstance(v, Mapping) and v.get("source")}
    if len(names) != 1 or names == {"<stdin>"}:
        raise InputError("layout: it names no single document (its `source`); name the document on the command line")
    return names.pop()


def _values(data: bytes) -> list[Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = list(_json_lines(data))
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, list):
        return value[0] if len(value) == 1 and isinstance(value[0], list) else value
    raise InputError("layout: expected JSON objects with `detections`, or a list of them")


def _json_lines(data: bytes) -> Iterator[Any]:
    if not data.strip():
        raise InputError("layout: empty; expected the JSON that `docai detect` prints")
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"layout: line {number} is not JSON: {error}") from error


def _page(value: Mapping[str, Any], at: int) -> PageDetections:
    index = _page_index(value, at)
    where = f"layout, page {index + 1}"
    size = _size(value, where)
    entries = value.get("detections", value.get("boxes"))
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise InputError(f"{where}: `detections` is no list")
    if len(entries) > MOST_ENTRIES:
        raise InputError(f"{where}: {len(entries)} entries are more than the {MOST_ENTRIES} allowed")
    regions = [_region(entry, f"{where}, entry {n}", size) for n, entry in enumerate(entries, 1)]
    regions.sort(key=lambda region: math.inf if region.order is None else region.order)
    page = Page(
        index, size or (0.0, 0.0), "px" if value.get("unit") == "px" else "pt", str(value.get("source", "")),
        _turn(value, where), _finite(value.get("skew", 0.0), f"{where}: skew"),
    )  # fmt: skip
    lines = value.get("lines") or ()
    made = tuple(_read_line(line, f"{where}, line {n}") for n, line in enumerate(lines, 1))
    return PageDetections(page, str(value.get("model", "")), 0.0, tuple(regions), made)


def _page_index(value: Mapping[str, Any], at: int) -> int:
    page = value.get("page", at + 1)
    if not isinstance(page, int) or isinstance(page, bool) or page < 1:
        raise InputError(f"layout, object {at + 1}: expected a page from 1 on; got {page!r}")
    return page - 1


def _turn(value: Mapping[str, Any], where: str) -> int:
    rotation = value.get("rotation", 0)
    if rotation not in (0, 90, 180, 270):
        raise InputError(f"{where}: expected a rotation of 0, 90, 180 or 270; got {rotation!r}")
    return int(rotation)


def _size(value: Mapping[str, Any], where: str) -> tuple[float, float] | None:
    size = value.get("size", value.get("image_size"))
    if size is None:
        return None
    if not isinstance(size, Sequence) or len(size) != 2:
        raise InputError(f"{where}: expected a size of [width, height]; got {size!r}")
    return _finite(size[0], f"{where}: width"), _finite(size[1], f"{where}: height")


def _region(entry: Any, where: str, size: tuple[float, float] | None) -> Region:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected an object with label and box; got {type(entry).__name__}")
    box = _read_box(entry.get("box", entry.get("bbox")), where)
    if size is not None:
        box = _on_page(box, size, where)
    name = entry.get("label", entry.get("category", entry.get("type")))
    if not isinstance(name, str):
        raise InputError(f"{where}: it has no label")
    score = entry.get("confidence", entry.get("score"))
    order = entry.get("order")
    return Region(
        box,
        _label(name, where),
        None if score is None else _finite(score, f"{where}: confidence"),
        order if isinstance(order, int) else None,
        name=name,
    )


def _label(name: str, where: str) -> Label:
    label = label_named(name)
    if label is None:
        warnings.warn(f"{where}: unknown label {name!r} is taken as text", stacklevel=2)
        return Label.TEXT
    return label


def _read_box(value: Any, where: str) -> Box:
    if isinstance(value, Mapping):
        value = [value.get(key) for key in "ltrb"]
    if not isinstance(value, Sequence) or len(value) != 4 or any(v is None for v in value):
        raise InputError(f"{where}: expected a box of l, t, r, b; got {value!r}")
    box = Box(*(_finite(v, f"{where}: box") for v in value))
    if box.width <= 0 or box.height <= 0:
        raise InputError(f"{where}: the box is inverted or empty: {box.as_tuple()}")
    return box


def _on_page(box: Box, size: tuple[float, float], where: str) -> Box:
    clipped = clip(box, Box(0.0, 0.0, *size))
    if clipped.area <= 0:
        raise InputError(f"{where}: the box lies off the page: {box.as_tuple()}")
    return clipped


def _finite(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{where}: expected a finite number; got {value!r}")
    return float(value)


def _read_line(value: Any, where: str) -> Line:
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise InputError(f"{where}: expected an object with text and box")
    flags = set(value.get("flags", ()))
    words = tuple(
        Word(str(w["text"]), _read_box(w.get("box"), where), frozenset(w.get("styles", ())))
        for w in value.get("words", ())
    )
    return Line(
        value["text"],
        _read_box(value.get("box"), where),
        words,
        _finite(value.get("size", 0.0), where),
        value.get("confidence"),
        str(value.get("source", "text-layer")),
        str(value.get("font", "")),
        bold="bold" in flags,
        italic="italic" in flags,
        mono="mono" in flags,
        vertical="vertical" in flags,
        angle=int(value.get("angle", 0)),
    )
