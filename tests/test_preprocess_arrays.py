"""Sizing rules, resampling and cutting, beside what whole processors show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.preprocess.inputs import Pixels
from docai.preprocess.normalize import CLIP_MEAN, CLIP_STD, Normalization
from docai.preprocess.patches import flat_patches
from docai.preprocess.resample import BICUBIC, BILINEAR, interpolate, resize
from docai.preprocess.sizes import best_resolution, fit_within, longest_edge, smart_resize, unpadded
from docai.preprocess.tiles import PanAndScan, _resize_middle, center_crop, pad_to, resize_crop, split_tiles
from tests.goldens.processors.cases import picture
from tests.goldens.processors.torch_resize import CASES, array

GOLDEN = Path(__file__).parent / "goldens" / "processors" / "torch_resize.npz"


@pytest.mark.parametrize("name", CASES)
def test_interpolate_is_torchs(name: str) -> None:
    case = CASES[name]
    ours = interpolate(
        array(case.before), case.after, kind=case.kind, antialias=case.antialias, align_corners=case.align_corners
    )
    with np.load(GOLDEN) as golden:
        # float32 weights here and there, summed in another order
        np.testing.assert_allclose(ours, golden[name], rtol=0, atol=2e-6)


@pytest.mark.parametrize(("kind", "how"), [("bilinear", BILINEAR), ("bicubic", BICUBIC)])
def test_antialiasing_is_pillows(kind: str, how: int) -> None:
    for before, after in [((50, 40), (17, 23)), ((9, 30), (40, 12))]:
        rgb = picture(before) // 2 + 64  # away from 0 and 255, where Pillow clamps after each of its two passes
        ours = interpolate(rgb.astype(np.float32), after, kind=kind, antialias=True)  # type: ignore[arg-type]
        assert np.abs(ours - resize(rgb, after, how)).max() < 1.2  # it rounds after each, too  # type: ignore[arg-type]


def test_a_picture_of_the_right_size_is_not_resampled() -> None:
    rgb = picture((30, 40))
    assert resize(rgb, (30, 40), BICUBIC) is rgb


def test_smart_resize_rules() -> None:
    bounds = {"least": 56 * 56, "most": 28 * 28 * 1280}
    assert smart_resize((1, 1), 28, **bounds) == (56, 56)
    assert smart_resize((1000, 1400), 28, **bounds) == (840, 1176)
    assert smart_resize((42, 70), 28, **bounds) == (56, 56)  # 1.5 and 2.5 both round to even
    assert smart_resize((70, 98), 28, least=1, most=1 << 30) == (56, 112)  # 2.5 and 3.5: one down, one up
    height, width = smart_resize((20, 4000), 28, **bounds)
    assert height == 28
    assert width % 28 == 0


@pytest.mark.parametrize("size", [(1, 1), (5, 900), (900, 5), (1024, 1025), (3000, 2000)])
def test_longest_edge_gives_whole_patches_within_the_edge(size: tuple[int, int]) -> None:
    for side in longest_edge(size, 1024, 16):
        assert side % 16 == 0
        assert 16 <= side <= 1024


SIDES = st.tuples(st.integers(1, 5000), st.integers(1, 5000))


@given(SIDES, st.sampled_from([28, 32]))
def test_smart_resize_keeps_bounds_and_shape(size: tuple[int, int], factor: int) -> None:
    if max(size) > 200 * min(size):
        return
    height, width = smart_resize(size, factor, least=56 * 56, most=1 << 20)
    assert height % factor == width % factor == 0
    assert height * width >= 56 * 56
    assert height * width <= 1 << 20 or min(height, width) == factor  # no side is less than a block
    if min(size) > 4 * factor:
        assert 0.7 < (height / width) / (size[0] / size[1]) < 1.4


@given(SIDES)
def test_tiles_hold_the_picture(size: tuple[int, int]) -> None:
    choices = [(336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)]
    target = best_resolution(size, choices)
    assert target in choices
    height, width = fit_within(size, target)
    assert 1 <= height <= target[0]
    assert 1 <= width <= target[1]
    assert height == target[0] or width == target[1]
    top, left, rows, columns = unpadded(size, (target[0] // 14, target[1] // 14))
    assert min(top, left) == 0 <= min(rows, columns)
    assert 2 * top + rows == target[0] // 14
    assert 2 * left + columns == target[1] // 14


def test_best_resolution_keeps_pixels_then_wastes_few() -> None:
    choices = [(336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)]
    assert best_resolution((100, 100), choices) == (336, 672)  # all keep it whole: the first of the smallest
    assert best_resolution((1000, 1000), choices) == (672, 672)
    assert best_resolution((300, 2000), choices) == (336, 1008)
    assert fit_within((300, 2000), (336, 1008)) == (152, 1008)
    assert fit_within((1, 3000), (336, 672)) == (1, 672)


def test_unpadded_keeps_an_odd_rest() -> None:
    assert unpadded((100, 100), (48, 48)) == (0, 0, 48, 48)
    assert unpadded((300, 2000), (24, 72)) == (7, 0, 10, 72)
    assert unpadded((2000, 300), (72, 24)) == (0, 7, 72, 10)
    assert unpadded((33, 100), (48, 48))[2] == 48 - 2 * ((48 - 15) // 2)


def test_patches_are_channel_first_in_blocks() -> None:
    frames = np.arange(4 * 6 * 3, dtype=np.float32).reshape(1, 4, 6, 3)
    rows = flat_patches(frames, 1, merge=2)
    assert rows.shape == (24, 3)
    # the first block is the four pixels of the upper left corner
    np.testing.assert_array_equal(rows[:4, 0], [0, 3, 18, 21])
    doubled = flat_patches(frames, 2, temporal=2)
    assert doubled.shape == (6, 3 * 2 * 2 * 2)
    patch = doubled[0].reshape(3, 2, 2, 2)  # (C, T, p, p)
    np.testing.assert_array_equal(patch[:, 0], patch[:, 1])
    np.testing.assert_array_equal(patch[1, 0], frames[0, :2, :2, 1])


def test_frames_of_a_video_are_paired_and_the_last_repeats() -> None:
    frames = np.stack([np.full((2, 2, 3), value, np.float32) for value in (1, 2, 3)])
    rows = flat_patches(frames, 2, temporal=2)
    np.testing.assert_array_equal(rows.reshape(2, 3, 2, 4).mean(axis=(1, 3)), [[1, 2], [3, 3]])


def test_normalization_is_computed_as_pixels_are() -> None:
    rgb = picture((20, 30))
    scaled = (rgb.astype(np.float64) * (1 / 255)).astype(np.float32)
    expected = (scaled - np.array(CLIP_MEAN, np.float32)) / np.array(CLIP_STD, np.float32)
    np.testing.assert_array_equal(Normalization(CLIP_MEAN, CLIP_STD)(rgb), expected)


def test_crops_and_pads_of_odd_sizes() -> None:
    rgb = picture((5, 9))
    np.testing.assert_array_equal(center_crop(rgb, (3, 4)), rgb[1:4, 2:6])
    small = center_crop(rgb, (8, 9))
    np.testing.assert_array_equal(small[2:7], rgb)  # the odd row is above
    late = pad_to(rgb, (8, 9), colour=(1, 2, 3))
    np.testing.assert_array_equal(late[1:6], rgb)  # the odd row is below
    assert late[0, 0].tolist() == [1, 2, 3]


def test_tiles_go_by_rows() -> None:
    rgb = picture((4, 6))
    tiles = split_tiles(rgb, 2)
    assert len(tiles) == 6
    np.testing.assert_array_equal(tiles[4], rgb[2:4, 2:4])


def test_resizing_only_the_middle_gives_the_middle() -> None:
    rgb = picture((40, 900))
    whole = resize_crop(rgb, 64, (64, 48), BICUBIC)
    middle = _resize_middle(rgb, (64, 1440), (64, 48), BICUBIC)
    # Pillow keeps the box in float32, so that a weight may differ in its last bit
    assert np.abs(whole.astype(int) - middle).max() <= 1


def test_pan_and_scan_takes_long_pictures_only() -> None:
    pan = PanAndScan(least_side=10, most_crops=3)
    assert pan.crops(picture((100, 110))) == []
    assert pan.crops(picture((9, 400))) == []
    assert [crop.shape[:2] for crop in pan.crops(picture((100, 160)))] == [(100, 80), (100, 80)]
    assert [crop.shape[:2] for crop in pan.crops(picture((1000, 20)))] == [(334, 20), (334, 20), (332, 20)]


def test_an_empty_interpolation_of_one_pixel() -> None:
    one: Pixels = np.full((1, 1, 2), 3.0, np.float32)
    for kind in ("bilinear", "bicubic"):
        for antialias in (False, True):
            spread = interpolate(one, (3, 5), kind=kind, antialias=antialias)  # type: ignore[arg-type]
            np.testing.assert_allclose(spread, 3.0, atol=1e-6)
