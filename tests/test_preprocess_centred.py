"""Pages on a canvas: where they come to lie, and the way back; what OpenCV makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.errors import CheckpointError
from docai.preprocess.centred import CentredImages, Placement, shrunk
from docai.preprocess.normalize import CLIP_MEAN, CLIP_STD, Normalization
from docai.vlm.images import canvas_images
from tests.goldens.processors.cases import picture

CANVAS = (2048, 1664)
sides = st.integers(1, 6000)


@pytest.mark.parametrize(
    ("size", "fitted"),
    [
        ((100, 200), (100, 200)),  # never enlarged
        ((2048, 1664), (2048, 1664)),
        ((3508, 2480), (2048, 1447)),  # A4 at 300 dpi: the height decides
        ((1000, 4000), (416, 1664)),
        ((3000, 4000), (1248, 1664)),  # first by height, to 2730 of width, then by width
        ((5000, 1), (2048, 1)),
    ],
)
def test_sizes_are_the_reference_s(size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert Placement.of(size, CANVAS).fitted == fitted


@given(sides, sides)
def test_a_page_lies_within_its_canvas(height: int, width: int) -> None:
    placed = Placement.of((height, width), CANVAS)
    top, left = placed.corner
    assert top >= 0
    assert left >= 0
    assert top + placed.fitted[0] <= CANVAS[0]
    assert left + placed.fitted[1] <= CANVAS[1]


@given(sides, sides, st.floats(0, 1), st.floats(0, 1))
def test_places_come_back(height: int, width: int, x: float, y: float) -> None:
    placed = Placement.of((height, width), CANVAS)
    assert placed.back(*placed.forth(x, y)) == pytest.approx((x, y), abs=1e-9)


def test_what_lies_off_the_page_is_at_its_edge() -> None:
    placed = Placement.of((100, 100), CANVAS)
    assert placed.back(0, 0) == (0, 0)
    assert placed.back(1, 0.5) == pytest.approx((1, 0.5))


@pytest.mark.parametrize(("size", "after"), [((300, 200), (148, 99)), ((90, 400), (33, 147)), ((500, 70), (499, 69))])
def test_pages_shrink_as_in_opencv(size: tuple[int, int], after: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    page = picture(size)
    expected = cv2.resize(page, after[::-1], interpolation=cv2.INTER_LINEAR).astype(int)
    assert np.abs(shrunk(page, after).astype(int) - expected).max() <= 1  # it counts in whole numbers


def test_the_page_is_in_the_middle_of_white() -> None:
    processor = canvas_images()({}, {"image_size": [64, 48], "encoder": {"patch_size": 4}})
    assert isinstance(processor, CentredImages)
    page = picture((30, 20))
    seen = processor(page)
    assert (seen.pixels.shape, seen.tokens) == ((1, 64, 48, 3), 16 * 3 + 1)
    colours = Normalization(CLIP_MEAN, CLIP_STD)
    np.testing.assert_array_equal(seen.pixels[0, 17:47, 14:34], colours(page))
    frame = np.ones((64, 48), bool)
    frame[17:47, 14:34] = False
    assert np.all(seen.pixels[0][frame] == colours(np.full((1, 3), 255, np.uint8))[0])


def test_versions_have_canvases_of_their_own() -> None:
    assert canvas_images()({}, {})(picture((9, 9))).tokens == 3329
    assert canvas_images()({}, {"image_size": [2048, 1648]})(picture((9, 9))).tokens == 128 * 25 + 1
    with pytest.raises(CheckpointError):
        canvas_images()({}, {"image_size": [0, 5]})
