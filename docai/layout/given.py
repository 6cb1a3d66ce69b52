"""Detections that are given: the JSON of `docai detect`, or that of others, read within limits."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from docai.errors import InputError
from docai.layout.detections import PageDetections, on_page
from docai.layout.detector import label_named
from docai.layout.order import reading_order
from docai.types import Box, Label, Line, Page, Point, Region, Style, Word

MOST_BYTES = 32 << 20
MOST_ENTRIES = 4096  # of one page


def read_detections(data: bytes) -> list[PageDetections]:
    """Pages of detections: our own lines or list, one bare list, or `{category, score, bbox}` entries.

    An empty list tells of no page. Raises InputError naming the entry that is wrong. Unknown labels are warned about
    and taken as text.
    """
    if len(data) > MOST_BYTES:
        raise InputError(f"layout: {len(data)} bytes are more than the {MOST_BYTES} allowed")
    values = _values(data)
    if all(isinstance(v, Mapping) and ("detections" in v or "boxes" in v) for v in values):
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
    """The JSON values of a file: one, or one a line. (The standard parser: it tells NaN, which others write.)"""
    if not data.strip():
        raise InputError("layout: empty; expected the JSON that `docai detect` prints")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = list(_json_lines(data))
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, list):
        return value[0] if len(value) == 1 and isinstance(value[0], list) else value
    raise InputError("layout: expected JSON objects with `detections`, or a list of them")


def _json_lines(data: bytes) -> Iterator[Any]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"layout: line {number} is not JSON: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


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
    regions = _in_order(regions, reading=bool(entries) and all("category" in entry for entry in entries))
    page = Page(
        index, size or (0.0, 0.0), "px" if value.get("unit") == "px" else "pt", str(value.get("source", "")),
        _turn(value, where), _finite(value.get("skew", 0.0), f"{where}: skew"),
    )  # fmt: skip
    lines = value.get("lines") or []
    if not isinstance(lines, list):
        raise InputError(f"{where}: `lines` is no list")
    made = tuple(_read_line(line, f"{where}, line {n}") for n, line in enumerate(lines, 1))
    threshold = _finite(value.get("threshold") or 0.0, f"{where}: threshold")
    return PageDetections(page, str(value.get("model", "")), threshold, tuple(regions), made)


def _in_order(regions: Sequence[Region], *, reading: bool) -> list[Region]:
    """Regions by their `order`; where none has one, in the order of our own layout.

    `reading`: the file has them in reading order, as those of Falcon-OCR's pipeline do (`category`, `score`, `bbox`).
    """
    if regions and all(region.order is None for region in regions):
        places = range(len(regions)) if reading else reading_order([region.box for region in regions])
        return [replace(regions[place], order=n) for n, place in enumerate(places)]
    return sorted(regions, key=lambda region: math.inf if region.order is None else region.order)


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
    if not isinstance(size, list) or len(size) != 2:
        raise InputError(f"{where}: expected a size of [width, height]; got {_shown(size)}")
    width, height = _finite(size[0], f"{where}: width"), _finite(size[1], f"{where}: height")
    if width <= 0 or height <= 0:
        raise InputError(f"{where}: expected a size above 0; got {width:g} x {height:g}")
    return width, height


def _region(entry: Any, where: str, size: tuple[float, float] | None) -> Region:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected an object with label and box; got {type(entry).__name__}")
    box = _read_box(entry.get("box", entry.get("bbox")), where)
    if size is not None:
        box = on_page(box, size, where)
    name = entry.get("label", entry.get("category", entry.get("type")))
    if not isinstance(name, str):
        raise InputError(f"{where}: it has no label")
    score = entry.get("confidence", entry.get("score"))
    order = entry.get("order")
    return Region(
        box,
        _label(name, where),
        None if score is None else _finite(score, f"{where}: confidence"),
        order if isinstance(order, int) and not isinstance(order, bool) else None,
        _polygon(entry.get("polygon"), where),
        said if isinstance(said := entry.get("name"), str) else name,
    )


def _polygon(value: Any, where: str) -> tuple[Point, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(p, list) and len(p) == 2 for p in value):
        raise InputError(f"{where}: expected a polygon of [x, y] points; got {_shown(value)}")
    return tuple((_finite(x, f"{where}: polygon"), _finite(y, f"{where}: polygon")) for x, y in value)


def _label(name: str, where: str) -> Label:
    label = label_named(name)
    if label is None:
        warnings.warn(f"{where}: unknown label {name!r} is taken as text", stacklevel=2)
        return Label.TEXT
    return label


def _read_box(value: Any, where: str, *, flat: bool = False) -> Box:
    if isinstance(value, Mapping):
        value = [value.get(key) for key in "ltrb"]
    if not isinstance(value, list) or len(value) != 4 or any(v is None for v in value):
        raise InputError(f"{where}: expected a box of l, t, r, b; got {_shown(value)}")
    box = Box(*(_finite(v, f"{where}: box") for v in value))
    if min(box.width, box.height) < 0 or (box.area <= 0 and not flat):
        raise InputError(f"{where}: the box is inverted or empty: {box.as_tuple()}")
    return box


def _finite(value: Any, where: str) -> float:
    number = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{where}: expected a finite number; got {_shown(value)}")
    return number


def _shown(value: Any) -> str:
    """A value for an error's one line."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read_line(value: Any, where: str) -> Line:
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise InputError(f"{where}: expected an object with text and box")
    flags, words, angle = value.get("flags", []), value.get("words", []), value.get("angle", 0)
    if not isinstance(flags, list) or not isinstance(words, list) or angle not in (0, 90, 180, 270):
        raise InputError(f"{where}: expected lists of flags and words, and an angle of 0, 90, 180 or 270")
    confidence = value.get("confidence")
    return Line(
        value["text"],
        _read_box(value.get("box"), where, flat=True),
        tuple(_read_word(word, where) for word in words),
        _finite(value.get("size", 0.0), f"{where}: size"),
        None if confidence is None else _finite(confidence, f"{where}: confidence"),
        str(value.get("source", "text-layer")),
        str(value.get("font", "")),
        bold="bold" in flags,
        italic="italic" in flags,
        mono="mono" in flags,
        vertical="vertical" in flags,
        angle=int(angle),
    )


def _read_word(value: Any, where: str) -> Word:
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise InputError(f"{where}: expected words of text and box; got {_shown(value)}")
    styles = [style for style in value.get("styles") or () if style in get_args(Style)]
    return Word(value["text"], _read_box(value.get("box"), where, flat=True), frozenset(styles))
