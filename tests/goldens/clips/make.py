"""Writes the goldens of the clip processors; run with the `oracle` extra (transformers 5.24), without torchvision.

    python -m tests.goldens.clips.make

The reference's video processors import torchvision for three functions: resizing, which is Pillow's here as in its
image processors, normalising, and making grey frames colourful. They stand in for it; all else is the reference's own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers.image_processing_utils  # looks for torchvision while it is not there
import transformers.processing_utils  # noqa: F401
from PIL import Image
from transformers import utils
from transformers.utils import import_utils
from transformers.video_utils import VideoMetadata

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
    VIDEO,
    Case,
    Clip,
    prompt,
)
from tests.goldens.processors.cases import summary

HERE = Path(__file__).parent
ENDS = ("start", "end")


def resize(frames: torch.Tensor, size: list[int], interpolation: Any = None, antialias: bool = True) -> torch.Tensor:
    """Frames (..., C, H, W) of bytes at `size`, by Pillow."""
    flat = frames.numpy().reshape(-1, *frames.shape[-3:])
    small = [np.asarray(Image.fromarray(np.moveaxis(f, 0, -1)).resize((size[1], size[0]), interpolation)) for f in flat]
    stacked = np.moveaxis(np.stack(small), -1, -3)
    return torch.from_numpy(stacked.copy()).reshape(*frames.shape[:-3], *stacked.shape[1:])


def normalize(frames: torch.Tensor, mean: Any, std: Any, inplace: bool = False) -> torch.Tensor:
    """(frames - mean) / std, channel by channel."""
    middle, spread = (torch.as_tensor(numbers, dtype=frames.dtype).view(-1, 1, 1) for numbers in (mean, std))
    return (frames - middle) / spread


def stand_in() -> None:
    """Put the functions where the reference looks for them."""
    names = ("torchvision", "torchvision.transforms", "torchvision.transforms.v2")
    functional = "torchvision.transforms.v2.functional"
    for name in (*names, functional):
        module: Any = sys.modules.setdefault(name, ModuleType(name))
        module.__spec__, module.__path__ = ModuleSpec(name, None), []
        if "." in name:
            setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)
    module = sys.modules[functional]
    module.resize, module.normalize, module.grayscale_to_rgb = resize, normalize, lambda frames: frames
    module.InterpolationMode = SimpleNamespace(LANCZOS="lanczos", BILINEAR="bilinear", BICUBIC="bicubic")
    for name in ("is_torchvision_available", "is_torchvision_v2_available"):
        for where in (utils, import_utils):
            setattr(where, name, lambda: True)
    import_utils.BACKENDS_MAPPING["torchvision"] = (lambda: True, "")
    utils.auto_docstring = lambda given=None, **_: given if given is not None else (lambda later: later)
    backends = import_module("transformers.image_processing_backends")
    backends.pil_torch_interpolation_mapping = {how: how for how in Image.Resampling}
    backends.tvF = import_module("transformers.video_processing_utils").tvF = module


def reference(case: Case) -> Any:
    """The reference's processor with the case's configuration."""
    module, _, name = case.reference.rpartition(".")
    return getattr(import_module(f"transformers.models.{module}"), name)(**case.prep)


def golden(processor: Any, clip: Clip) -> dict[str, Any]:
    """What the reference makes of a clip whose frames are chosen already."""
    height, width = clip.size
    said = VideoMetadata(clip.total, clip.fps, width, height, clip.seconds, frames_indices=list(clip.places))
    out = processor(
        videos=[np.stack(clip.frames)], video_metadata=[said], do_sample_frames=False, return_metadata=True,
        return_tensors="np",
    )  # fmt: skip
    pixels = np.asarray(out["pixel_values_videos"])
    return {
        "values": summary(pixels).astype(np.float32),
        "shape": np.array(pixels.shape, np.int32),
        "grid": np.asarray(out["video_grid_thw"])[0].astype(np.int32),
        "seconds": np.array(processor.temporal_patch_size / said.sampled_fps),  # as Qwen2_5_VLProcessor has it
    }


def framed(name: str, processor: Any, clip: Clip) -> dict[str, Any]:
    """What Gemma 4's makes of such a clip: the patches of all frames, their grids, and what its prompt has of it."""
    height, width = clip.size
    said = VideoMetadata(clip.total, clip.fps, width, height, clip.seconds, frames_indices=list(clip.places))
    out = processor(
        videos=[np.stack(clip.frames)], video_metadata=[said], do_sample_frames=False, return_metadata=True,
        return_tensors="np",
    )  # fmt: skip
    places = np.asarray(out["video_position_ids"])
    rows = [rows[place[:, 0] >= 0] for rows, place in zip(out["pixel_values_videos"], places, strict=True)]
    patches, kind = np.concatenate(rows), name.removesuffix("_default")
    tokens = {"boi_token": "<|image>", "video_token": "<|video|>", "eoi_token": "<image|>"}
    whole = import_module(f"transformers.models.{kind}.processing_{kind}")
    writer = getattr(whole, "Gemma4Processor" if kind == "gemma4" else "Gemma4UnifiedProcessor")
    return {
        "values": summary(patches).astype(np.float32),
        "shape": np.array(patches.shape, np.int32),
        "grids": (places.max(axis=1) + 1)[:, ::-1].astype(np.int32),
        "text": np.array(writer.replace_video_token(SimpleNamespace(**tokens), out, 0)),
    }


def sliced(processor: Any, clip: Clip) -> dict[str, Any]:
    """Of MiniCPM-V: patches of all parts row by row, their grids, the layouts of the frames, and the prompt's text."""
    from transformers.models.minicpmv4_6.processing_minicpmv4_6 import MiniCPMV4_6Processor

    height, width = clip.size
    said = VideoMetadata(clip.total, clip.fps, width, height, clip.seconds, frames_indices=list(clip.places))
    out = processor(videos=[np.stack(clip.frames)], video_metadata=[said], do_sample_frames=False, return_tensors="pt")
    strip = out["pixel_values_videos"][0].numpy()  # (3, p, N * p)
    patches = strip.reshape(*strip.shape[:2], -1, strip.shape[1]).transpose(2, 0, 1, 3)
    tokens = {f"{part}_{end}_token": f"<{'/' * (end == 'end')}{part}>" for part in ("image", "slice") for end in ENDS}
    writer = SimpleNamespace(video_token="<|video_pad|>", video_slice_mode=True, **tokens)
    text = MiniCPMV4_6Processor.replace_video_token(writer, out, 0, video_token_divisor=16)
    return {
        "values": summary(patches.reshape(len(patches), -1)).astype(np.float32),
        "shape": np.array((len(patches), patches[0].size), np.int32),
        "grids": out["target_sizes_videos"].numpy(),
        "slices": np.array(out["grids_videos"], np.int32),
        "text": np.array(text),
    }


def stamps(clip: Clip) -> np.ndarray:
    """The times that Qwen3-VL's processor writes before the steps of a clip."""
    from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor

    return np.array(Qwen3VLProcessor._calculate_timestamps(None, list(clip.places), clip.fps, 2))


def positions(family: str, made: dict[str, Any]) -> np.ndarray:
    """(3, L) of the prompt with a clip of which `made` is golden."""
    module = import_module(f"transformers.models.{family}.modeling_{family}")
    names = {
        "qwen2_vl": "Qwen2VLModel", "qwen2_5_vl": "Qwen2_5_VLModel", "qwen3_vl": "Qwen3VLModel",
        "qwen3_5": "Qwen3_5Model",
    }  # fmt: skip
    kind = getattr(module, names[family])
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=PER_SECOND)
    model = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    model.get_vision_position_ids = MethodType(kind.get_vision_position_ids, model)
    ids = prompt(family, tuple(made["grid"]))
    kinds = [[{IMAGE: 1, VIDEO: 2}.get(token, 0) for token in ids]]
    found, _ = kind.get_rope_index(
        model, torch.tensor([ids]), torch.tensor(kinds), torch.tensor([IMAGE_GRID]), torch.tensor([made["grid"]]),
        second_per_grid_ts=torch.tensor([float(made["seconds"])]),
    )  # fmt: skip
    return found[:, 0].numpy().astype(np.int32)


def main() -> None:
    """All cases into one file."""
    stand_in()
    arrays: dict[str, Any] = {}
    for name, case in CASES.items():
        processor = reference(case)
        for clip_name, clip in CLIPS.items():
            arrays |= {f"{name}/{clip_name}/{key}": value for key, value in golden(processor, clip).items()}
    for name, case in FRAMED.items():
        for clip_name, clip in CLIPS.items():
            made = framed(name, reference(case), clip)
            arrays |= {f"{name}/{clip_name}/{key}": value for key, value in made.items()}
    for name, case in SLICED.items():
        processor = reference(case)
        for clip_name, clip in CLIPS.items():
            arrays |= {f"{name}/{clip_name}/{key}": value for key, value in sliced(processor, clip).items()}
    arrays |= {f"stamps/{name}": stamps(clip) for name, clip in CLIPS.items()}
    for family, case in FAMILIES.items():
        for clip in CLIPS:
            made = {key: arrays[f"{case}/{clip}/{key}"] for key in ("grid", "seconds")}
            arrays[f"positions/{family}/{clip}"] = positions(family, made)
    sampler = reference(CASES["qwen3_vl"])
    for number, (total, fps, wanted) in enumerate(SAMPLED):
        arrays[f"sampled/{number}"] = sampler.sample_frames(VideoMetadata(total, fps), fps=wanted).astype(np.int32)
    np.savez_compressed(HERE / "expected.npz", **arrays)


if __name__ == "__main__":
    main()
