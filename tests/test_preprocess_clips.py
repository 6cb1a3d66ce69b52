"""Every clip processor gives the reference's values, for clips of all shapes; and what a prompt has of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from docai.errors import CheckpointError, InputError
from docai.preprocess.clips import FramedClips, PackedClips, clip_resize, stamps
from docai.preprocess.inputs import ImageInput
from docai.render.sampling import even, frame_count
from docai.vlm.families import family_of
from docai.vlm.native_images import moonshot_images, navit_images
from docai.vlm.positions import MropeSpec
from docai.vlm.prompt import expand
from docai.vlm.videos import chunk_videos, frame_videos, qwen_videos, video_config
from tests.goldens.clips.cases import (
    CASES,
    CLIPS,
    FAMILIES,
    FRAMED,
    IMAGE,
    IMAGE_GRID,
    PER_SECOND,
    SAMPLED,
    SLICED,
    STAMPED,
    VIDEO,
    prompt,
)
from tests.goldens.processors.cases import picture, row_by_row, summary

GOLDENS = np.load(Path(__file__).parent / "goldens" / "clips" / "expected.npz")
TOLERANCE = 1e-6  # the same arithmetic on the same Pillow, but for the last bit of the mean over many floats


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_reference(name: str, clip: str) -> None:
    case, given = CASES[name], CLIPS[clip]
    processor = case.ours(case.prep, {})
    seen = processor(iter(given.frames), given.times, given.seconds)
    key = f"{name}/{clip}"
    assert seen.pixels.dtype == np.float32
    assert seen.grid == tuple(GOLDENS[f"{key}/grid"])
    assert seen.pixels.shape == tuple(GOLDENS[f"{key}/shape"])
    np.testing.assert_allclose(summary(seen.pixels), GOLDENS[f"{key}/values"], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(seen.extra["seconds"], GOLDENS[f"{key}/seconds"])
    np.testing.assert_allclose(seen.extra["stamps"], GOLDENS[f"stamps/{clip}"])
    assert seen.is_clip


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", SLICED)
def test_frames_in_slices_are_those_of_the_reference(name: str, clip: str) -> None:
    case, given, key = SLICED[name], CLIPS[clip], f"{name}/{clip}"
    seen = case.ours(case.prep, {})(iter(given.frames), given.times, given.seconds)
    assert [grid[1:] for grid in seen.grids] == [tuple(grid) for grid in GOLDENS[f"{key}/grids"]]
    np.testing.assert_array_equal(seen.extra["slices"], GOLDENS[f"{key}/slices"])
    np.testing.assert_array_equal(seen.extra["stamps"], given.times)
    pixels = row_by_row(seen, 4, 2)
    assert pixels.shape == tuple(GOLDENS[f"{key}/shape"])
    np.testing.assert_allclose(summary(pixels), GOLDENS[f"{key}/values"], rtol=0, atol=TOLERANCE)
    spec = family_of({"model_type": name}).prompt
    still = ImageInput(seen.pixels[:16], 1, extra={"grids": np.array([(1, 4, 4)])})
    text = expand("<|image_pad|>a<|video_pad|>b<|video_pad|>", [still, seen, seen], spec)
    whole = str(GOLDENS[f"{key}/text"])
    assert text == f"<image><|image_pad|></image>a<image_id>0</image_id>{whole}b<image_id>1</image_id>{whole}"


@pytest.mark.parametrize("number", range(len(SAMPLED)))
def test_frames_are_chosen_as_the_reference_does(number: int) -> None:
    """At a constant rate; least four frames, as its video processor asks for."""
    total, fps, wanted = SAMPLED[number]
    times = np.arange(total) / fps
    assert even(times, frame_count(times, total / fps, wanted, least=4)) == list(GOLDENS[f"sampled/{number}"])


def test_one_frame_is_doubled() -> None:
    for whole in (False, True):
        processor = qwen_videos(whole=whole)({"min_pixels": 3136, "max_pixels": 50_000}, {})
        seen = processor([picture((56, 84))], [0.0], 0.04)
        assert seen.grid is not None
        assert seen.grid[0] == 1
        halves = seen.pixels.reshape(len(seen.pixels), 3, 2, -1)
        np.testing.assert_array_equal(halves[:, :, 0], halves[:, :, 1])


def test_steps_are_as_large_as_asked_for() -> None:
    frames, times = [picture((300, 400))] * 5, [0.0, 1.0, 2.0, 3.0, 4.0]
    for whole in (False, True):
        processor = qwen_videos(whole=whole)({}, {}).within(40)
        seen = processor(frames, times, 5.0)
        assert seen.grid is not None
        assert 25 < seen.tokens // seen.grid[0] <= 40


def test_strips_are_named() -> None:
    with pytest.raises(InputError, match="200 times"):
        qwen_videos()({}, {})([picture((2, 500))] * 2, [0.0, 1.0], 2.0)
    with pytest.raises(InputError, match="200 times"):
        clip_resize(4, (2, 500), 28, 2, least=100, most=100_000)


def test_times_of_steps_are_in_the_middle() -> None:
    np.testing.assert_allclose(stamps([0.0, 0.5, 1.2], 2), [0.25, 1.2])
    np.testing.assert_allclose(stamps([3.0], 2), [3.0])


# --- what checkpoints say


class Files:
    def __init__(self, **files: object) -> None:
        self.files = files

    def json_file(self, name: str) -> object:
        return self.files.get(name.removesuffix(".json"))


def test_the_bounds_of_pictures_are_none_of_clips() -> None:
    picture_file = {"patch_size": 16, "min_pixels": 1, "max_pixels": 12_845_056, "image_mean": [0.5] * 3}
    assert video_config(Files(preprocessor_config=picture_file)) == {"patch_size": 16, "image_mean": [0.5] * 3}
    own = Files(preprocessor_config=picture_file, video_preprocessor_config={"patch_size": 14, "max_pixels": 9})
    assert video_config(own) == {"patch_size": 14, "max_pixels": 9}
    nested = Files(processor_config={"video_processor": {"patch_size": 3}})
    assert video_config(nested) == {"patch_size": 3}
    assert video_config(Files()) == {}


@pytest.mark.parametrize("name", ["min_frames", "max_video_tokens", "patch_size"])
def test_numbers_that_are_none_are_named(name: str) -> None:
    with pytest.raises(CheckpointError, match="from 1 to"):
        qwen_videos()({name: -1, "cap_pixels_per_frame": True}, {})


def test_families_have_the_processor_of_their_reference() -> None:
    for kind in STAMPED:
        three = family_of({"model_type": kind}).videos
        assert three is not None
        processor = three({}, {})
        assert isinstance(processor, PackedClips)
        assert (processor.patch, processor.whole, processor.least_pixels, processor.most_pixels) == (
            16, True, 128 * 32 * 32, 768 * 32 * 32,
        )  # fmt: skip
    for kind in ("qwen2_vl", "qwen2_5_vl"):
        make = family_of({"model_type": kind}).videos
        assert make is not None
        assert make({}, {}) == qwen_videos()({}, {})


# --- prompts and positions


def test_a_clip_is_a_run_or_stamped_steps() -> None:
    case, given = CASES["qwen2_vl"], CLIPS["odd"]
    seen = case.ours(case.prep, {})(given.frames, given.times, given.seconds)
    assert seen.grid is not None
    spec = family_of({"model_type": "qwen2_vl"}).prompt
    marks = ("<|vision_start|>", "<|vision_end|>")
    text = expand(f"a{marks[0]}<|video_pad|>{marks[1]}b", [seen], spec)
    assert text == f"a{marks[0]}{'<|video_pad|>' * seen.tokens}{marks[1]}b"
    spec = family_of({"model_type": "qwen3_vl"}).prompt
    text = expand(f"a{marks[0]}<|video_pad|>{marks[1]}b", [seen], spec)
    step = marks[0] + "<|video_pad|>" * (seen.tokens // 3) + marks[1]
    assert text == f"a<0.4 seconds>{step}<1.9 seconds>{step}<3.0 seconds>{step}b"


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_positions_are_those_of_the_reference(family: str, clip: str) -> None:
    """Up to the end of the clip; transformers 5 lets words begin sooner behind one that is longer than it is wide."""
    case, given = CASES[FAMILIES[family]], CLIPS[clip]
    seen = case.ours(case.prep, {})(given.frames, given.times, given.seconds)
    spec = {
        "qwen2_vl": MropeSpec(2),
        "qwen2_5_vl": MropeSpec(2, per_second=PER_SECOND),
        "qwen3_vl": MropeSpec(2, stamped=True),
        "qwen3_5": MropeSpec(2, stamped=True),
    }[family]
    still = ImageInput(np.zeros((32, 1), np.float32), 8, IMAGE_GRID)
    assert seen.grid is not None
    ids = prompt(family, seen.grid)
    found = spec.positions(ids, [IMAGE, VIDEO], [still, seen]).ids
    expected = GOLDENS[f"positions/{family}/{clip}"]
    last = len(ids) - ids[::-1].index(VIDEO)
    np.testing.assert_array_equal(found[:, :last], expected[:, :last])
    lasts = expected[0, last - 1] - expected[0, ids.index(VIDEO)]
    if family in STAMPED or lasts < max(seen.grid[1:]) // 2:
        np.testing.assert_array_equal(found, expected)


def test_positions_go_by_the_clock_where_the_family_does() -> None:
    case, given = CASES["qwen2_vl"], CLIPS["even"]
    seen = case.ours(case.prep, {})(given.frames, given.times, given.seconds)
    (box,) = MropeSpec(2, per_second=2.0).boxes(seen)  # two steps of two frames in four seconds
    assert seen.grid is not None
    times = box.positions()[0].reshape(seen.grid[0], -1)
    assert list(times[:, 0]) == [0, 4]
    assert len(MropeSpec(2, stamped=True).boxes(seen)) == seen.grid[0]


# --- frames as pictures


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("name", FRAMED)
def test_frames_of_gemma_4_are_those_of_the_reference(name: str, clip: str) -> None:
    """And so are their times in the prompt. The reference gives its patches row by row."""
    case, given, key = FRAMED[name], CLIPS[clip], f"{name}/{clip}"
    processor = case.ours(case.prep, {})
    seen = processor(iter(given.frames), given.times, given.seconds)
    assert isinstance(processor, FramedClips)
    merge = processor.frame.merge
    assert [grid[1:] for grid in seen.grids] == [tuple(grid) for grid in GOLDENS[f"{key}/grids"]]
    blocks = seen.pixels.reshape(len(seen.grids), *(side // merge for side in seen.grids[0][1:]), merge, merge, -1)
    rows = blocks.swapaxes(2, 3).reshape(seen.pixels.shape)
    assert rows.shape == tuple(GOLDENS[f"{key}/shape"])
    np.testing.assert_allclose(summary(rows), GOLDENS[f"{key}/values"], rtol=0, atol=TOLERANCE)
    family = family_of({"model_type": name.removesuffix("_default")})
    assert expand("<|video|>", [seen], family.prompt) == str(GOLDENS[f"{key}/text"])
    assert processor.least_frames == 32
    assert processor.within(20)(given.frames, given.times, given.seconds).tokens <= 20 * len(seen.grids)


def test_frames_of_kimi_vl_are_pictures_one_after_another() -> None:
    said, given = {"patch_size": 14, "in_token_limit": 60, "pad_input": True}, CLIPS["odd"]
    seen = frame_videos()(said, {})(iter(given.frames), given.times, given.seconds)
    alone = [moonshot_images()(said, {})(frame) for frame in given.frames]
    np.testing.assert_array_equal(seen.pixels, np.concatenate([one.pixels for one in alone]))
    assert seen.grids == [one.grid for one in alone]
    assert seen.tokens == sum(one.tokens for one in alone)
    text = expand(
        "<|media_start|>video<|media_content|><|media_pad|>", [seen], family_of({"model_type": "kimi_vl"}).prompt
    )
    assert text == "<|media_start|>video<|media_content|>" + "<|media_pad|>" * seen.tokens


def test_four_frames_of_kimi_k25_are_one_part_behind_its_time() -> None:
    """Texts and grids are those of Kimi_K25Processor and Kimi_K25VideoProcessor of transformers 5.24."""
    said = {"media_proc_cfg": {"patch_size": 14, "in_patch_limit": 9999, "in_patch_limit_each_frame": 60}}
    frames, times = [picture((77, 50))] * 6, [0.0, 0.5, 1.0, 1.5, 3723.25, 3724.0]
    seen = chunk_videos()(said, {})(frames, times, 3725.0)
    assert seen.grids == [(4, 6, 4), (2, 6, 4)]
    assert (seen.tokens, seen.pixels.shape) == (12, (6 * 24, 3 * 14 * 14))
    (alone,) = {navit_images()({"in_patch_limit": 60}, {})(frame).pixels.tobytes() for frame in frames}
    assert seen.pixels.tobytes() == alone * 6
    part = f"<|media_begin|>video<|media_content|>{'<|media_pad|>' * 6}<|media_end|>"
    text = expand("a<|kimi_k25_video_placeholder|>b", [seen], family_of({"model_type": "kimi_k25"}).prompt)
    assert text == f"a00:00:00.000{part}01:02:03.250{part}b"
    few = chunk_videos()(said, {}).within(4)(frames, times, 3725.0)
    assert few.tokens <= 2 * 4


@pytest.mark.parametrize(
    ("said", "patches"),
    [
        ({}, 4096),
        ({"media_proc_cfg": {"in_patch_limit": 100, "in_patch_limit_each_frame": None}}, 100),
        ({"max_patches": 200, "temporal_patch_size": 2}, 200),
    ],
)
def test_bounds_of_kimi_k25_s_frames(said: dict[str, object], patches: int) -> None:
    made = chunk_videos()(said, {})
    assert isinstance(made, FramedClips)
    assert (made.frame.most_patches, made.together) == (patches, said.get("temporal_patch_size", 4))


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"media_proc_cfg": 7}, r"video_preprocessor_config\.json: expected numbers"),
        ({"temporal_patch_size": True}, "a temporal_patch_size from 1 to"),
        ({"temporal_merge_kernel_size": 0}, "a temporal_merge_kernel_size from 1 to"),
    ],
)
def test_what_makes_no_clip_processor_is_named(said: dict[str, object], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        chunk_videos()(said, {})
