"""Every image processor gives the reference's values, for pictures of all shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docai.errors import CheckpointError, InputError
from docai.preprocess.fixed import StretchedImages, TiledImages, cutting
from docai.preprocess.inputs import ImageInput, Pixels
from docai.preprocess.native import (
    BlockImages,
    BoundedImages,
    BudgetImages,
    ClampedImages,
    FilledImages,
    FittedImages,
    GrownImages,
    PackedImages,
    SplitImages,
)
from docai.preprocess.sizes import stepped
from docai.preprocess.sliced import SlicedImages
from docai.preprocess.tiles import CanvasCuts
from docai.vlm.images import cut_images, gemma_images, llava_images, padded_images, siglip_images, tiled_images
from docai.vlm.native_images import (
    block_images,
    bounded_images,
    locate_images,
    moonshot_images,
    navit_images,
    pixtral_images,
    qwen_images,
    sliced_images,
    split_images,
)
from docai.vlm.prep import preprocessor_config
from tests.goldens.processors.cases import CASES, picture, row_by_row, summary

GOLDENS = Path(__file__).parent / "goldens" / "processors"
# the same arithmetic on the same Pillow: equal but for the last bit of the mean over many floats
TOLERANCE = 1e-6


def from_grid(image: ImageInput, patch: int) -> Pixels:
    """The picture that patches in (p, p, 3) order came from, (1, H, W, 3)."""
    assert image.grid is not None
    _, height, width = image.grid
    blocks = image.pixels.reshape(height, width, patch, patch, 3)
    return blocks.swapaxes(1, 2).reshape(1, height * patch, width * patch, 3)


def whole_picture(image: ImageInput, patch: int, merge: int) -> Pixels:
    """The picture that packed patches came from, (1, H, W, 3)."""
    assert image.grid is not None
    _, height, width = image.grid
    blocks = image.pixels.reshape(height // merge, width // merge, merge, merge, 3, patch, patch)
    return blocks.transpose(0, 2, 5, 1, 3, 6, 4).reshape(1, height * patch, width * patch, 3)


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_reference(name: str) -> None:
    case = CASES[name]
    processor = case.ours(case.prep, case.config)
    with np.load(GOLDENS / f"{name}.npz") as golden:
        for size in case.sizes:
            key = f"{size[0]}x{size[1]}"
            image = processor(picture(size))
            pixels = image.pixels
            assert pixels.dtype == np.float32
            if isinstance(processor, FittedImages | GrownImages | FilledImages):
                pixels = whole_picture(image, processor.patch, processor.merge)
            if isinstance(processor, ClampedImages):
                pixels = from_grid(image, processor.patch)
            if isinstance(processor, BoundedImages | BudgetImages | SplitImages | SlicedImages):
                pixels = row_by_row(image, getattr(processor, "merge", 1), getattr(processor, "inner", 1))
                assert [grid[1:] for grid in image.grids] == [tuple(grid) for grid in golden[f"{key}/grids"]], key
            if isinstance(processor, BudgetImages):
                assert image.tokens == golden[f"{key}/tokens"], key
            if isinstance(processor, SlicedImages):
                assert tuple(image.extra["slices"]) == tuple(golden[f"{key}/slices"]), key
                assert image.tokens * processor.merge**2 == len(pixels)
            assert pixels.shape == tuple(golden[f"{key}/shape"]), key
            np.testing.assert_allclose(summary(pixels), golden[f"{key}/values"], rtol=0, atol=TOLERANCE, err_msg=key)
            if isinstance(processor, PackedImages | BlockImages | ClampedImages | GrownImages | FilledImages):
                assert image.grid == tuple(golden[f"{key}/grid"]), key


@pytest.mark.parametrize("name", CASES)
def test_processors_leave_the_picture_alone_and_repeat_themselves(name: str) -> None:
    case = CASES[name]
    processor = case.ours(case.prep, case.config)
    assert processor == case.ours(dict(case.prep), dict(case.config))  # data, and comparable
    rgb = picture((40, 60))
    rgb.flags.writeable = False
    np.testing.assert_array_equal(processor(rgb).pixels, processor(rgb).pixels)


def test_checkpoints_may_leave_everything_out() -> None:
    assert qwen_images()({}, {}) == PackedImages(qwen_images()({}, {}).normalize, 14, 2, 2, 3136, 1003520)  # type: ignore[attr-defined]
    gemma = gemma_images()({}, {})
    assert isinstance(gemma, StretchedImages)
    assert (gemma.size, gemma.tokens, gemma.pan) == ((896, 896), 256, None)
    tiled = tiled_images()({}, {})
    assert isinstance(tiled, TiledImages)
    assert len(tiled.choices) == 5


def test_llava_follows_its_tower() -> None:
    pixtral = {"vision_config": {"model_type": "pixtral", "patch_size": 16}}
    assert llava_images()({}, pixtral) == pixtral_images()({}, pixtral)
    siglip = {"vision_config": {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14}}
    stretched = llava_images()(
        {"size": {"height": 384, "width": 384}}, {**siglip, "vision_feature_select_strategy": "full"}
    )
    assert isinstance(stretched, StretchedImages)
    assert stretched.tokens == 27 * 27


def test_full_strategy_keeps_the_class_token() -> None:
    case = CASES["llava"]
    processor = case.ours(case.prep, {**case.config, "vision_feature_select_strategy": "full"})
    assert processor(picture((30, 30))).tokens == 577


def test_strips_are_named_where_the_model_cannot_take_them() -> None:
    with pytest.raises(InputError, match=r"1 x 300 px.*200 times"):
        qwen_images()({}, {})(picture((300, 1)))


def test_a_strip_is_not_blown_up_before_it_is_cropped() -> None:
    """336 x 1008000 px would be a gigabyte; the crop is what the reference would leave of it."""
    processor = llava_images()(CASES["llava"].prep, CASES["llava"].config)
    rgb = picture((1, 3000))
    rgb[:, 1490:1510] = 200
    image = processor(rgb)
    assert image.pixels.shape == (1, 336, 336, 3)
    assert np.ptp(image.pixels[..., 0]) < 1e-6


def test_nested_configuration_of_new_files_wins() -> None:
    class Files:
        def __init__(self, **files: object) -> None:
            self.files = files

        def json_file(self, name: str) -> object:
            return self.files.get(name.removesuffix(".json"))

    assert preprocessor_config(Files()) == {}
    alone = Files(preprocessor_config={"patch_size": 14}, processor_config={"patch_size": 3})
    assert preprocessor_config(alone) == {"patch_size": 14}
    nested = Files(preprocessor_config={"patch_size": 14}, processor_config={"image_processor": {"patch_size": 16}})
    assert preprocessor_config(nested) == {"patch_size": 16}


@pytest.mark.parametrize(
    ("prep", "what"),
    [
        ({"patch_size": "14"}, "a patch from 1 to 256, got '14'"),
        ({"patch_size": 0, "min_pixels": -3}, "a least_pixels from 1 to"),
        ({"max_pixels": 1 << 60}, "a most_pixels from 1 to"),
        ({"patch_size": True}, "a patch from 1 to 256, got True"),
        ({"patch_size": 10_000}, "a patch from 1 to 256, got 10000"),
        ({"merge_size": 100}, "a merge from 1 to 16, got 100"),
        ({"temporal_patch_size": 1000}, "a temporal from 1 to 64, got 1000"),
        ({"size": 7}, "expected numbers, sizes and colours"),
        ({"image_mean": [0.5]}, "expected numbers, sizes and colours"),
        ({"rescale_factor": "x"}, "expected numbers, sizes and colours"),
    ],
)
def test_sizes_that_are_none_are_named(prep: dict[str, object], what: str) -> None:
    with pytest.raises(CheckpointError, match=f"preprocessor_config.json: .*{what}"):
        qwen_images()(prep, {})


def test_sizes_of_tiles_are_checked() -> None:
    with pytest.raises(CheckpointError, match="choices from 1 to"):
        tiled_images()({"image_grid_pinpoints": [[336, 0]]}, {})
    with pytest.raises(CheckpointError, match="not whole tiles of 336"):
        tiled_images()({"image_grid_pinpoints": [[336, 500]]}, {})
    with pytest.raises(CheckpointError, match="a size from 1 to"):
        gemma_images()({"size": {"height": 10**6, "width": 10**6}}, {})


def test_steps_may_be_left_out() -> None:
    rgb = picture((224, 224))
    bytes_only = siglip_images()({"do_rescale": False, "do_normalize": False}, {})
    np.testing.assert_array_equal(bytes_only(rgb).pixels[0], rgb)
    one_colour = siglip_images()({"image_mean": 0.5, "image_std": 0.25, "do_rescale": None}, {})
    np.testing.assert_allclose(one_colour(rgb).pixels[0], (rgb / 255 - 0.5) / 0.25, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        qwen_images, pixtral_images, locate_images, moonshot_images, navit_images, bounded_images, block_images,
        split_images, sliced_images,
    ],
)  # fmt: skip
def test_patches_are_those_of_the_tower(make: Callable[..., Any]) -> None:
    """It could not read others, whatever the processor's file says."""
    prep = {"patch_size": 20, "encoder_patch_size": 20}
    assert make()(prep, {"vision_config": {"patch_size": 18}}).patch == 18
    assert make()(prep, {}).patch == 20


@pytest.mark.parametrize(
    ("make", "prep", "config"),
    [
        (qwen_images, {"merge_size": 4}, {"vision_config": {"spatial_merge_size": 3}}),
        (locate_images, {"merge_kernel_size": [4, 4]}, {"vision_config": {"merge_kernel_size": [3, 3]}}),
        (moonshot_images, {"merge_kernel_size": [4, 4]}, {"vision_config": {"merge_kernel_size": [3, 3]}}),
        (navit_images, {"merge_size": 4}, {"vision_config": {"merge_kernel_size": [3, 3]}}),
        (split_images, {"downsample_factor": 4}, {"downsample_factor": 3}),
    ],
)
def test_as_many_patches_become_a_token_as_the_tower_has_it(
    make: Callable[..., Any], prep: dict[str, object], config: dict[str, object]
) -> None:
    assert (make()(prep, config).merge, make()(prep, {}).merge) == (3, 4)


def test_an_unknown_filter_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"filter 17.*3 \(bicubic\)"):
        qwen_images()({"resample": 17}, {})


@pytest.mark.parametrize(
    "make",
    [qwen_images, pixtral_images, llava_images, locate_images, moonshot_images, navit_images, sliced_images],
)
@pytest.mark.parametrize("most", [16, 30, 100])
def test_images_of_at_most_so_many_tokens(make: Callable[..., Any], most: int) -> None:
    plain = make()({}, {})
    for size in ((700, 500), (90, 1400), (30, 40)):
        rgb = np.zeros((*size, 3), np.uint8)
        image, whole = plain.within(most)(rgb), plain(rgb)
        if make is llava_images:  # its images are all of one size
            assert image.tokens == whole.tokens
        else:
            assert image.tokens <= min(most, whole.tokens)


def test_the_sheet_s_picture_of_locateanything() -> None:
    image = locate_images()({}, {})(np.zeros((480, 640, 3), np.uint8))
    assert (image.grid, image.tokens) == ((1, 36, 46), 414)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (28, 28), (29, 1), (13, 400)])
def test_locateanything_takes_pictures_smaller_than_a_block(size: tuple[int, int]) -> None:
    """Each side has a whole block at least, so that patches can be joined."""
    image = locate_images()({}, {})(np.zeros((*size, 3), np.uint8))
    assert image.grid is not None
    assert image.tokens == -(-size[0] // 28) * -(-size[1] // 28) == image.grid[1] * image.grid[2] // 4


@pytest.mark.parametrize("most", [313, 500, 1000, 2000])
@pytest.mark.parametrize("size", [(300, 400), (2000, 300), (90, 1200), (500, 500)])
def test_tiles_of_phi_3_vision_are_as_many_as_there_may_be_tokens(size: tuple[int, int], most: int) -> None:
    plain = padded_images()({}, {})
    few, whole = plain.within(most)(np.zeros((*size, 3), np.uint8)), plain(np.zeros((*size, 3), np.uint8))
    assert few.tokens <= min(most, whole.tokens)
    assert len(few.pixels) >= 2, "a tile, and the whole picture"
    assert plain.within(99_999) == plain


def test_strips_that_locateanything_has_no_turns_for_are_named() -> None:
    with pytest.raises(InputError, match=r"10000 x 2 px: a side would have 716 patches.*at most 511"):
        locate_images()({}, {})(np.zeros((2, 10000, 3), np.uint8))
    few = locate_images()({}, {}).within(100)
    assert few(np.zeros((2, 10000, 3), np.uint8)).tokens <= 100


def test_crops_are_had_where_they_are_asked_for() -> None:
    plain = cut_images()({}, {})
    cut = cutting(plain)
    assert cut is not None
    wide = np.zeros((100, 200, 3), np.uint8)
    assert (plain(wide).tokens, plain(wide).pixels.shape) == (256, (1, 1024, 1024, 3))
    assert (cut(wide).tokens, cut(wide).pixels.shape) == (3 * 256, (3, 1024, 1024, 3))  # two, and the whole
    assert cutting(qwen_images()({}, {})) is None


@pytest.mark.parametrize(("most", "tiles"), [(1, 1), (300, 1), (767, 1), (768, 2), (1279, 3), (99_999, 12)])
def test_crops_are_as_many_as_there_may_be_tokens(most: int, tiles: int) -> None:
    """The whole picture counts as one of them, where there are several."""
    aya = cut_images(edge=64, patch=2, merge=2, cut=True)({}, {})
    wide = np.zeros((90, 1200, 3), np.uint8)
    assert aya.within(most)(wide).tokens == 256 * (tiles + (tiles > 1))
    plain = cut_images(edge=64, patch=2, merge=2)({}, {})
    assert plain.within(most) == plain


@pytest.mark.parametrize(
    ("make", "prep", "what"),
    [
        (split_images, {"max_image_tokens": -4}, "a most_tokens from 1 to 16384, got -4"),
        (split_images, {"max_image_tokens": "many"}, "a most_tokens from 1 to 16384, got 'many'"),
        (split_images, {"downsample_factor": 10_000}, "a merge from 1 to 16, got 10000"),
        (moonshot_images, {"merge_kernel_size": [0, 0]}, "a merge from 1 to 16, got 0"),
        (navit_images, {"media_proc_cfg": {"merge_kernel_size": {"side": 2}}}, "expected numbers"),
        (navit_images, {"media_proc_cfg": 7}, "expected numbers"),
        (sliced_images, {"scale_resolution": 1.5}, "a scale from 1 to 16384, got 1.5"),
    ],
)
def test_what_makes_no_processor_is_named(make: Callable[..., Any], prep: dict[str, object], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        make()(prep, {})


@pytest.mark.parametrize(
    "prep",
    [{"max_patches": 10**6}, {"min_patches": 9, "max_patches": 4}, {"min_patches": -1}, {"max_patches": 2.5}],
)
def test_bounds_of_crops_are_checked(prep: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="not from 1 to 64"):
        cut_images()(prep, {})


def test_command_a_vision_cuts_into_the_grid_that_grows_a_picture_least() -> None:
    """As get_optimal_tiled_canvas of transformers 5.24, whose processor needs torchvision, has them."""
    grids = {
        (1, 1): (1, 1), (3, 600): (1, 10), (64, 64): (1, 1), (64, 65): (1, 2), (150, 40): (3, 1), (480, 701): (3, 4),
        (1200, 250): (6, 2), (250, 1200): (2, 6), (2000, 2000): (3, 3),
    }  # fmt: skip
    assert {size: CanvasCuts().grid(size, 64) for size in grids} == grids


def test_youtu_vl_rounds_up_to_blocks_and_shrinks_by_fiftieths() -> None:
    """The rule of image_processing_siglip2_fast.py in tencent/Youtu-VL-4B-Instruct."""
    processor = block_images()({"max_num_patches": 256}, {})
    assert [processor(picture(size)).grid for size in ((1, 1), (32, 33), (100, 257))] == [
        (1, 2, 2),
        (1, 2, 4),
        (1, 8, 18),
    ]
    assert stepped((3000, 4000), 16, 2, 36_864) == (2656, 3520)  # at 0.88
    assert stepped((4, 80_000), 16, 2, 36_864) == (32, 80_000)
    image = processor(picture((64, 64)))
    first = image.pixels.reshape(-1, 16, 16, 3)[:4]  # the first block, row by row
    whole = np.concatenate([np.concatenate(first[:2], axis=1), np.concatenate(first[2:], axis=1)])
    np.testing.assert_allclose(whole, (picture((64, 64))[:32, :32] / 255 - 0.5) / 0.5, atol=1e-6)
    few = processor.within(4)(picture((200, 300)))
    assert few.tokens <= 4


def test_kimi_fills_up_with_black_to_the_right_and_below() -> None:
    for make in (moonshot_images, navit_images):
        image = make()({}, {})(np.full((30, 50, 3), 255, np.uint8))
        whole = whole_picture(image, 14, 2)[0]
        assert (image.grid, image.tokens) == ((1, 4, 4), 4)
        assert (whole[:30, :50] == 1).all()
        assert (whole[30:] == -1).all()
        assert (whole[:, 50:] == -1).all()


def test_kimi_vl_cuts_where_its_file_does_not_say_that_it_fills_up() -> None:
    cut = moonshot_images()({"patch_size": 14}, {})
    assert cut(picture((60, 90))).grid == (1, 4, 6)
    with pytest.raises(InputError, match=r"90 x 20 px: at 90 x 20, a side has less than the 28"):
        cut(picture((20, 90)))


def test_sides_of_kimi_s_pictures() -> None:
    with pytest.raises(InputError, match=r"8000 x 20 px: a side would have 572 patches.*at most 511"):
        moonshot_images()({}, {})(np.zeros((20, 8000, 3), np.uint8))
    assert navit_images()({}, {})(np.zeros((20, 8000, 3), np.uint8)).grid == (1, 2, 512)


def test_what_transformers_saves_of_kimi_k25_is_read_as_well() -> None:
    saved = {"max_patches": 300, "size": {"max_height": 40, "max_width": 40}, "patch_size": 14, "merge_size": 2}
    prep = CASES["kimi_k25"].prep
    assert navit_images()({**saved, "resample": 3}, {}) == navit_images()(prep, {})
