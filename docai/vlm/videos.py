"""Clip processors made from a checkpoint's files; each function here gives a family its `videos`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from docai.errors import CheckpointError
from docai.preprocess.clips import ClipProcessor, FramedClips, PackedClips, SlicedClips
from docai.preprocess.native import BudgetImages, FilledImages, PackedImages
from docai.preprocess.normalize import CLIP_MEAN, CLIP_STD, Colour
from docai.preprocess.sliced import SlicedImages
from docai.vlm.native_images import moonshot_images, navit_images, qwen_images, sliced_images
from docai.vlm.prep import Config, HasFiles, Images, Prep, preprocessor_config, sensible

Videos: TypeAlias = Callable[[Prep, Config], ClipProcessor]  # (what the files say, config) -> processor

MOST = 1 << 24  # tokens or frames: more would only take memory


def video_config(checkpoint: HasFiles) -> Prep:
    """What a checkpoint says of its video processor: in a file of its own, nested, or by that of its image processor.

    The last says nothing of the size of frames: its bounds are those of pictures, and a clip of frames that large would
    take many times as long as those the models were trained with.
    """
    own: Any = checkpoint.json_file("video_preprocessor_config.json")
    nested: Any = (checkpoint.json_file("processor_config.json") or {}).get("video_processor")
    said = own or nested
    if said is not None:
        return dict(said)
    bounds = ("min_pixels", "max_pixels", "size", "max_patches", "max_soft_tokens")
    return {name: value for name, value in preprocessor_config(checkpoint).items() if name not in bounds}


def qwen_videos(
    *,
    patch: int = 14,
    mean: Colour = CLIP_MEAN,
    std: Colour = CLIP_STD,
    whole: bool = False,
    most_tokens: int = 128_000,
) -> Videos:
    """The Qwen-VL line; the arguments are what its files may leave out. `whole`: bounds are of all frames together.

    `most_tokens` counts where a checkpoint asks to cap what a clip may take.
    """
    token = (patch * 2) ** 2
    images = qwen_images(patch=patch, mean=mean, std=std, least_pixels=128 * token, most_pixels=768 * token)

    def build(prep: Prep, config: Config) -> ClipProcessor:
        frame = images(prep, config)
        assert isinstance(frame, PackedImages)
        capped = _number(prep, "max_video_tokens", most_tokens) if prep.get("cap_pixels_per_frame") else None
        return PackedClips(
            frame.normalize,
            frame.patch,
            frame.merge,
            frame.temporal,
            frame.least_pixels,
            frame.most_pixels,
            frame.how,
            whole=whole,
            most_tokens=capped,
            least_frames=_number(prep, "min_frames", 4),
        )

    return checked(build)


def frame_videos() -> Videos:
    """Kimi-VL, which sees each frame as a picture."""

    def build(prep: Prep, config: Config) -> ClipProcessor:
        frame = moonshot_images()(prep, config)
        assert isinstance(frame, FilledImages)
        return FramedClips(frame)

    return checked(build)


def chunk_videos(*, together: int = 4, most: int = 4096) -> Videos:
    """Kimi K2.5, which sees some frames at once; the arguments are what its files may leave out."""

    def build(prep: Prep, config: Config) -> ClipProcessor:
        said = prep.get("media_proc_cfg") or prep
        limits = (said.get(name) for name in ("in_patch_limit_each_frame", "in_patch_limit", "max_patches"))
        frame = navit_images()({**said, "in_patch_limit": next((n for n in limits if n), most)}, config)
        assert isinstance(frame, FilledImages)
        steps = _number(said, "temporal_patch_size", _number(said, "temporal_merge_kernel_size", together))
        return FramedClips(frame, steps)

    return checked(build)


def budget_videos(images: Images, *, tokens: int = 70, frames: int = 32) -> Videos:
    """Gemma 4: each frame is a picture of a smaller budget; `images` make those."""

    def build(prep: Prep, config: Config) -> ClipProcessor:
        frame = images({**prep, "max_soft_tokens": prep.get("max_soft_tokens") or tokens}, config)
        assert isinstance(frame, BudgetImages)
        return FramedClips(frame, least_frames=_number(prep, "num_frames", frames))

    return checked(build)


def sliced_videos() -> Videos:
    """MiniCPM-V 4.6, which sees each frame as a picture, in slices where it is large."""

    def build(prep: Prep, config: Config) -> ClipProcessor:
        if (stacked := _number(prep, "stack_frames", 1)) > 1:
            raise CheckpointError(
                f"video_preprocessor_config.json: expected stack_frames 1, got {stacked}; frames between the "
                "sampled ones are not put together into pictures: set it to 1"
            )
        frame = sliced_images()(prep, config)
        assert isinstance(frame, SlicedImages)
        return SlicedClips(frame)

    return checked(build)


def checked(build: Videos) -> Videos:
    """`build` with errors that name the file."""

    def made(prep: Prep, config: Config) -> ClipProcessor:
        with sensible("video_preprocessor_config.json"):
            return build(prep, config)

    return made


def _number(prep: Prep, name: str, default: int) -> int:
    value = default if prep.get(name) is None else prep[name]
    if type(value) is not int or not 0 < value <= MOST:
        raise CheckpointError(f"video_preprocessor_config.json: expected a {name} from 1 to {MOST}, got {value!r}")
    return value
