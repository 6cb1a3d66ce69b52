"""Location tokens: what answers mean, and that places come back from where they were put."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.vlm.locations import Located, florence, florence_region, referred
from docai.vlm.markers import BINS

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "goldens" / "florence2" / "answers.json").read_text())
WIDTH, HEIGHT = GOLDEN["size"]
shares = st.floats(0, 1)


def _expected(kind: str, found: list[dict[str, Any]]) -> list[tuple[str, list[list[int]]]]:
    """(label, rings in whole pixels) of what transformers' processor made of an answer."""
    out = []
    for one in found:
        label = one.get("cat_name", one.get("text", ""))
        if "quad_box" in one:
            out.append((label, [one["quad_box"]]))
        elif "polygons" in one:
            out.append((label, [ring for ring in one["polygons"] if len(ring) >= 6]))
        else:
            boxes = one["bbox"] if kind == "phrases" else [one["bbox"]]
            out += [(label, [_ordered(box)]) for box in boxes]
    return [(label, rings) for label, rings in out if rings]


def _ordered(box: list[int]) -> list[int]:
    left, right = sorted(box[::2])
    top, bottom = sorted(box[1::2])
    return [left, top, right, bottom]


def _pixels(one: Located) -> list[list[int]]:
    return [[int(v) for x, y in ring for v in (x * WIDTH + 1e-6, y * HEIGHT + 1e-6)] for ring in one.rings]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["kind"])
def test_answers_mean_what_the_reference_says(case: dict[str, Any]) -> None:
    found = florence(case["answer"], case["kind"])
    assert [(one.label, _pixels(one)) for one in found] == _expected(case["kind"], case["found"])


def test_text_has_no_places() -> None:
    assert florence("</s><s>hello<loc_1></s>", "text") == []


def test_a_box_within_a_bin_is_as_wide_as_that() -> None:
    (one,) = florence("speck<loc_10><loc_20><loc_10><loc_20>", "boxes")
    assert one.rings == (((0.010, 0.020), (0.011, 0.021)),)


@given(shares, shares, shares, shares)
def test_a_region_comes_back_within_its_bins(a: float, b: float, c: float, d: float) -> None:
    left, right, top, bottom = *sorted((a, c)), *sorted((b, d))
    (one,) = florence(florence_region(left, top, right, bottom), "proposals")
    (corners,) = one.rings
    for place, share in zip((v for corner in corners for v in corner), (left, top, right, bottom), strict=True):
        assert abs(place - share) <= 1 / BINS + 1e-9


@given(st.text())
def test_any_text_is_an_answer(text: str) -> None:
    for kind in ("text", "quads", "boxes", "proposals", "phrases", "polygons", "open"):
        florence(text, kind)  # type: ignore[arg-type]
    referred(text)


def test_locate_anything_writes_names_boxes_and_points() -> None:
    answer = (
        "<ref>cat</ref><box><64><152><273><244></box><box><520><160><580><392></box><ref>dot</ref><box><5><7></box>"
    )
    assert referred(answer) == [
        Located("cat", "box", (((0.064, 0.152), (0.273, 0.244)),)),
        Located("cat", "box", (((0.52, 0.16), (0.58, 0.392)),)),
        Located("dot", "point", (((0.005, 0.007),),)),
    ]
    assert referred("<box><541><49><1000><778></box>", "the cat") == [
        Located("the cat", "box", (((0.541, 0.049), (1.0, 0.778)),))
    ]


@pytest.mark.parametrize(
    "answer", ["<box>None</box>", "<box><5><6><4><7></box>", "<box><1><2><3></box>", "<box><1><2><3><1001></box>"]
)
def test_boxes_that_are_none_are_left_out(answer: str) -> None:
    assert referred(f"<ref>cat</ref>{answer}") == []


def test_repetitions_are_one() -> None:
    assert len(referred("<ref>cat</ref>" + "<box><1><2><3><4></box>" * 50)) == 1
