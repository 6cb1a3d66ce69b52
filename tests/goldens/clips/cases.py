"""The clip processors that have goldens, and clips that try the corners of their rules.

Used by make.py (with the reference) and by tests/test_preprocess_clips.py (with docai), so that both see the same
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.preprocess.normalize import HALF as HALVES
from docai.vlm import videos
from docai.vlm.families import family_of
from tests.goldens.processors.cases import CLIP, COMMON, HALF, QWEN, picture


def of_family(kind: str) -> videos.Videos:
    """The maker of a family's clip processor."""
    made = family_of({"model_type": kind}).videos
    assert made is not None
    return made


WHOLE = {"patch_size": 16, "size": {"longest_edge": 200_000, "shortest_edge": 4096}}
EACH = {"size": {"longest_edge": 100_000, "shortest_edge": 56 * 56}}


@dataclass(frozen=True)
class Case:
    """A processor: its reference class in transformers, what the checkpoint says, and ours."""

    reference: str
    ours: videos.Videos
    prep: dict[str, Any]


_QWEN_2 = "qwen2_vl.video_processing_qwen2_vl.Qwen2VLVideoProcessor"
_QWEN_3 = "qwen3_vl.video_processing_qwen3_vl.Qwen3VLVideoProcessor"
_OURS_3 = videos.qwen_videos(patch=16, mean=HALVES, std=HALVES, whole=True, most_tokens=768)

CASES = {
    "qwen2_vl": Case(_QWEN_2, videos.qwen_videos(), {**COMMON, **QWEN, **CLIP, **EACH}),
    "qwen2_vl_default": Case(_QWEN_2, videos.qwen_videos(), {}),
    "qwen2_vl_capped": Case(
        _QWEN_2,
        videos.qwen_videos(),
        {**COMMON, **QWEN, **CLIP, **EACH, "cap_pixels_per_frame": True, "max_video_tokens": 160},
    ),
    "qwen3_vl": Case(_QWEN_3, _OURS_3, {**COMMON, **QWEN, **HALF, **WHOLE}),
    "qwen3_vl_default": Case(_QWEN_3, _OURS_3, {}),
    "qwen3_vl_capped": Case(
        _QWEN_3,
        _OURS_3,
        {**COMMON, **QWEN, **HALF, **WHOLE, "cap_pixels_per_frame": True, "max_video_tokens": 20},
    ),
}


_BUDGET = {**COMMON, "image_mean": [0.0] * 3, "image_std": [1.0] * 3, "resample": 3, "max_soft_tokens": 70}
FRAMED = {
    "gemma4": Case("gemma4.video_processing_gemma4.Gemma4VideoProcessor", of_family("gemma4"), _BUDGET),
    "gemma4_default": Case("gemma4.video_processing_gemma4.Gemma4VideoProcessor", of_family("gemma4"), {}),
    "gemma4_unified": Case(
        "gemma4_unified.video_processing_gemma4_unified.Gemma4UnifiedVideoProcessor",
        of_family("gemma4_unified"),
        _BUDGET,
    ),
}

# Frames in slices; what is kept of them is another. They are smaller than published ones.
SLICED = {
    "minicpmv4_6": Case(
        "minicpmv4_6.video_processing_minicpmv4_6.MiniCPMV4_6VideoProcessor",
        videos.sliced_videos(),
        {**COMMON, **HALF, "resample": 3, "patch_size": 14, "scale_resolution": 112, "max_slice_nums": 6},
    )
}


@dataclass(frozen=True)
class Clip:
    """Frames of `size` that stand at these places of a video of `total` frames, `fps` a second."""

    size: tuple[int, int]
    total: int
    fps: float
    places: tuple[int, ...]

    @property
    def frames(self) -> list[NDArray[np.uint8]]:
        whole = picture(self.size)
        return [np.roll(whole, 3 * number, axis=1) for number in range(len(self.places))]

    @property
    def times(self) -> list[float]:
        return [place / self.fps for place in self.places]

    @property
    def seconds(self) -> float:
        return self.total / self.fps


CLIPS = {  # even and odd, a single pair, growing and shrinking, smaller than a patch, a strip
    "even": Clip((120, 200), 100, 25.0, (0, 33, 66, 99)),
    "odd": Clip((77, 50), 90, 30.0, (0, 22, 44, 67, 89)),
    "pair": Clip((33, 90), 2, 2.0, (0, 1)),
    "large": Clip((360, 640), 48, 23.976, (0, 9, 19, 28, 38, 47)),
    "small": Clip((10, 24), 60, 10.0, (0, 59)),
    "strip": Clip((20, 300), 30, 15.0, (0, 10, 19, 29)),
}
SAMPLED = [(90, 30.0, 2.0), (1000, 23.976, 2.0), (7, 25.0, 2.0), (3, 30.0, 1.0), (300, 29.97, 0.5), (41, 10.0, 1.5)]


# --- positions of a prompt with an image and a clip: ids of the tokens that stand for them, and of the marks
IMAGE, VIDEO, START, END = 95, 96, 93, 94
IMAGE_GRID = (1, 8, 4)
PER_SECOND = 2.0
# family -> its case
FAMILIES = {"qwen2_vl": "qwen2_vl", "qwen2_5_vl": "qwen2_vl", "qwen3_vl": "qwen3_vl", "qwen3_5": "qwen3_vl"}
STAMPED = ("qwen3_vl", "qwen3_5")


def prompt(family: str, grid: tuple[int, int, int]) -> list[int]:
    """Words, the image, words, the clip (in stamped steps since Qwen3-VL), words."""
    steps, step = grid[0], grid[1] * grid[2] // 4
    whole = [START, *[VIDEO] * (steps * step), END]
    stamped = [token for _ in range(steps) for token in (20, 21, START, *[VIDEO] * step, END)]
    image = [START, *[IMAGE] * (IMAGE_GRID[1] * IMAGE_GRID[2] // 4), END]
    return [5, 6, *image, 7, *(stamped if family in STAMPED else whole), 8, 9]
