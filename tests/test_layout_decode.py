"""Pages as detectors see them, and regions from raw outputs, equal to transformers' processors (goldens/detectors)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docai.errors import CheckpointError
from docai.layout.decode import Thresholds, decoded, masks_of, reading_ranks, sigmoid
from docai.layout.families import family_of
from docai.layout.masks import mask_outlines
from tests.goldens.detectors.cases import PAGES, RAW, Raw
from tests.goldens.processors.cases import picture, summary

GOLDENS = Path(__file__).parent / "goldens" / "detectors"
PIXELS, REGIONS = np.load(GOLDENS / "pixels.npz"), np.load(GOLDENS / "regions.npz")
KINDS = ("pp_doclayout_v3", "rt_detr_v2")


@pytest.mark.parametrize("size", PAGES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_pages_look_as_the_reference_has_them(kind: str, size: tuple[int, int]) -> None:
    made = summary(family_of({"model_type": kind}).images(picture(size)))
    np.testing.assert_allclose(made, PIXELS[f"{kind}/{size[0]}x{size[1]}"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: f"seed {raw.seed}")
@pytest.mark.parametrize("kind", KINDS)
def test_regions_equal_the_reference(kind: str, raw: Raw) -> None:
    family = family_of({"model_type": kind})
    outputs = raw.outputs(masks=kind == KINDS[0])
    finds = decoded(outputs, Thresholds(raw.threshold, strict=family.strict))
    key = f"{kind}/{raw.seed}"
    expected = {name: REGIONS[f"{key}/{name}"] for name in ("scores", "labels", "boxes")}
    if finds.ranks is not None:
        np.testing.assert_array_equal(finds.ranks, REGIONS[f"{key}/order_seq"])
        # a query under two labels has one rank, and torch's sort leaves it open which comes first
        ties = np.lexsort((-expected["scores"], finds.ranks))
        expected = {name: values[ties] for name, values in expected.items()}
    np.testing.assert_array_equal(finds.classes, expected["labels"])
    np.testing.assert_allclose(finds.scores, expected["scores"], rtol=1e-6)
    scale = np.array([raw.size[1], raw.size[0]] * 2, np.float32)
    np.testing.assert_allclose(finds.boxes * scale, expected["boxes"], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: f"seed {raw.seed}")
def test_outlines_equal_the_reference(raw: Raw) -> None:
    outputs, key = raw.outputs(masks=True), f"{KINDS[0]}/{raw.seed}"
    finds = decoded(outputs, Thresholds(raw.threshold))
    masks = masks_of(outputs, finds.queries, raw.threshold)
    assert masks is not None
    boxes = finds.boxes * np.array([raw.size[1], raw.size[0]] * 2, np.float32)
    shapes = mask_outlines(boxes, masks, (raw.size[1], raw.size[0]))
    assert [len(shape) for shape in shapes] == REGIONS[f"{key}/corners"].tolist()
    flat = np.array([point for shape in shapes for point in shape]).reshape(-1, 2)
    np.testing.assert_allclose(flat, REGIONS[f"{key}/polygons"], rtol=1e-6, atol=1e-3)


def test_single_thresholds_count_before_the_general_one() -> None:
    outputs = RAW[0].outputs(masks=False)
    low = decoded(outputs, Thresholds(0.9, {2: 0.3}))
    assert set(low.classes[low.scores < 0.9]) == {2}
    assert 2 in low.classes
    assert 2 not in decoded(outputs, Thresholds(0.5, {2: 0.99})).classes


def test_what_is_no_number_is_no_region() -> None:
    outputs = RAW[0].outputs(masks=False)
    boxes, logits = outputs.boxes.copy(), outputs.logits.copy()
    boxes[:20, 0], logits[20:30] = np.nan, np.nan
    assert set(decoded(replace(outputs, boxes=boxes, logits=logits), Thresholds(0.0)).queries) <= set(range(30, 40))


def test_votes_count_all_queries() -> None:
    """Three queries, certain of their order: 2 before 0 before 1. Pairs are scored once, below the diagonal never."""
    order = np.full((3, 3), -1e4, np.float32)
    order[0, 1], order[0, 2], order[1, 2] = 9, -9, -9
    assert reading_ranks(order).tolist() == [1, 2, 0]


def test_scores_of_any_size_are_finite() -> None:
    assert sigmoid(np.array([-1e9, 0, 1e9], np.float32)).tolist() == [0, 0.5, 1]


def test_what_a_checkpoint_says_of_its_pictures_counts() -> None:
    images = family_of({"model_type": "rt_detr_v2"}).images
    said = images.said({"size": {"height": 320, "width": 640}, "resample": 3, "do_normalize": True})
    assert (said.size, said.bicubic, said.normalize.mean[0]) == ((320, 640), True, 0.485)
    assert said(picture((50, 40))).shape == (320, 640, 3)
    assert images.said(None) == images
    for wrong in ({"size": {"height": 100, "width": 640}}, {"size": {"shortest_edge": 640}}, {"resample": 1}):
        with pytest.raises(CheckpointError, match="preprocessor_config"):
            images.said(wrong)
