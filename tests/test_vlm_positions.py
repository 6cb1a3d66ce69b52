"""MRoPE positions, against those that the papers and the first implementations give."""

from __future__ import annotations

import numpy as np
import pytest

from docai.preprocess.inputs import ImageInput
from docai.vlm.positions import MropeSpec

IMAGE, CLIP = 95, 96


def picture(*grid: int, **extra: float) -> ImageInput:
    t, h, w = grid
    return ImageInput(
        np.zeros((0, 0), np.float32), t * h * w // 4, (t, h, w), {k: np.array(v) for k, v in extra.items()}
    )


def test_text_counts_on_along_all_axes() -> None:
    found = MropeSpec(2).positions([1, 2, 3], (IMAGE, CLIP), ())
    assert found.ids.tolist() == [[0, 1, 2]] * 3
    assert found.delta == 0


def test_nothing_has_no_positions() -> None:
    found = MropeSpec(2).positions([], (IMAGE,), ())
    assert found.ids.shape == (3, 0)
    assert found.delta == 0


def test_an_image_is_a_box_and_text_goes_on_behind_its_longer_side() -> None:
    found = MropeSpec(2).positions([1, 2, *(IMAGE,) * 6, 3], (IMAGE, CLIP), [picture(1, 4, 6)])
    assert found.ids.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5],
        [0, 1, 2, 2, 2, 3, 3, 3, 5],
        [0, 1, 2, 3, 4, 2, 3, 4, 5],
    ]
    assert found.delta == 6 - 9


def test_images_may_follow_each_other_directly() -> None:
    found = MropeSpec(2).positions((IMAGE,) * 3, (IMAGE,), [picture(1, 2, 4), picture(1, 2, 2)])
    assert found.ids.tolist() == [[0, 0, 2], [0, 0, 2], [0, 1, 2]]


def test_a_clip_counts_its_steps_and_text_goes_on_behind_the_last() -> None:
    found = MropeSpec(2).positions([*(CLIP,) * 8, 1], (IMAGE, CLIP), [picture(4, 2, 4)])
    assert found.ids.tolist() == [
        [0, 0, 1, 1, 2, 2, 3, 3, 4],
        [0] * 8 + [4],
        [0, 1] * 4 + [4],
    ]
    assert found.delta == 5 - 9


@pytest.mark.parametrize(
    ("seconds", "times"), [(0.5, [0, 1, 2]), (0.75, [0, 1, 3]), (2.0, [0, 4, 8]), (0.1, [0, 0, 0])]
)
def test_time_by_the_clock_is_cut_after_it_is_multiplied(seconds: float, times: list[int]) -> None:
    """Cut before, clips of less than a second a step stood still (transformers #48669)."""
    found = MropeSpec(2, per_second=2.0).positions([1, *(CLIP,) * 3, 2], (CLIP,), [picture(3, 2, 2, seconds=seconds)])
    assert found.ids[0].tolist() == [0, *(1 + t for t in times), 2 + times[-1]]


def test_stills_have_no_clock() -> None:
    found = MropeSpec(2, per_second=25.0).positions([1, IMAGE, 2], (IMAGE,), [picture(1, 2, 2)])
    assert found.ids.tolist() == [[0, 1, 2]] * 3


def test_stamped_steps_are_boxes_of_their_own() -> None:
    tokens = [1, CLIP, CLIP, 2, CLIP, CLIP, 3]
    found = MropeSpec(2, stamped=True).positions(tokens, (CLIP,), [picture(2, 2, 4)])
    assert found.ids.tolist() == [[0, 1, 1, 3, 4, 4, 6], [0, 1, 1, 3, 4, 4, 6], [0, 1, 2, 3, 4, 5, 6]]
    assert found.delta == 0
