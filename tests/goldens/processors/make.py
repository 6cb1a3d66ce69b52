"""Writes the goldens of the image processors; run with the `oracle` extra (transformers 5.24), without torchvision.

    python -m tests.goldens.processors.make

Where the reference would use torchvision, what stands in for it is that of the clips' goldens. For each case and
picture size: the shape of what the reference gives, its grid or size where it says one, and a sample of its values.
docai's own code is used for nothing but the table of cases.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.goldens.clips.make import stand_in
from tests.goldens.processors import stated
from tests.goldens.processors.cases import CASES, Case, picture, summary

HERE = Path(__file__).parent
OF_ANY_SIZE = ("mlx_vlm.lfm2_vl", "lfm2_vl.image_processing_lfm2_vl", "siglip2.image_processing_pil_siglip2")

PLACED = ("gemma4.image_processing_pil_gemma4", "gemma4_unified.image_processing_gemma4_unified")


def reference(case: Case) -> Any:
    """The reference's processor with the case's configuration."""
    module, _, name = case.reference.rpartition(".")
    if module.startswith("mlx_vlm."):
        module = module.replace("mlx_vlm.", "mlx_vlm.models.", 1)
    else:
        module = f"transformers.models.{module}"
        if "_pil_" not in module:
            stand_in()
    return getattr(import_module(module), name)(**case.prep)


def in_patches(case: Case) -> dict[str, Any]:
    """Of Falcon-OCR's reference, a function: whole pictures, and their grids, which are those of its patches."""
    name, _, function = case.reference.rpartition(".")
    prepare = getattr(import_module(name.replace("mlx_vlm.", "mlx_vlm.models.", 1)), function)
    arrays: dict[str, Any] = {}
    for size in case.sizes:
        pixels, height, width = prepare(Image.fromarray(picture(size)))
        key = f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(pixels).astype(np.float32)
        arrays[f"{key}/shape"] = np.array((1, *pixels.shape), np.int32)
        arrays[f"{key}/grid"] = np.array((1, height, width), np.int32)
    return arrays


def native(case: Case) -> dict[str, Any]:
    """Of the references of Moonshot's line: whole pictures put together of their patches, and the grids of those."""
    processor = reference(case)
    arrays: dict[str, Any] = {}
    for size in case.sizes:
        out = processor(Image.fromarray(picture(size)))
        ((height, width),) = np.array(out["image_grid_hws"])
        patches = np.array(out["pixel_values"])  # (N, 3, p, p), row by row
        side = patches.shape[-1]
        whole = patches.reshape(height, width, 3, side, side).transpose(0, 3, 1, 4, 2)
        whole = whole.reshape(1, height * side, width * side, 3)
        key = f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(whole).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(whole.shape, np.int32)
        arrays[f"{key}/grid"] = np.array((1, height, width), np.int32)
    return arrays


def of_any_size(case: Case) -> dict[str, Any]:
    """Of references that give patches of parts of pictures, filled up, and the grids of those (SigLIP 2, LFM2-VL)."""
    processor = reference(case)
    arrays: dict[str, Any] = {}
    for size in case.sizes:
        bounds = case.prep.get("min_num_patches"), case.prep.get("max_num_patches")
        own = (size[0] // 16) * (size[1] // 16)
        most = {} if bounds[0] is None else {"max_num_patches": min(max(own, bounds[0]), bounds[1])}
        out = processor(images=[Image.fromarray(picture(size))], return_tensors="np", **most)
        grids = np.array(out["spatial_shapes"])
        parts = [np.array(part)[: h * w] for part, (h, w) in zip(out["pixel_values"], grids, strict=True)]
        patches, key = np.concatenate(parts), f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(patches).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(patches.shape, np.int32)
        arrays[f"{key}/grids"] = grids.astype(np.int32)
    return arrays


def sliced(case: Case) -> dict[str, Any]:
    """Of MiniCPM-V, which gives the patches of all parts of a picture beside each other: row by row, and the grids."""
    processor = reference(case)
    mode = case.config.get("downsample_mode", "16x")
    arrays: dict[str, Any] = {}
    for size in case.sizes:
        out = processor(images=[Image.fromarray(picture(size))], return_tensors="np", downsample_mode=mode)
        strip, grids = np.array(out["pixel_values"])[0], np.array(out["target_sizes"])  # (3, p, N * p)
        patches = strip.reshape(*strip.shape[:2], -1, strip.shape[1]).transpose(2, 0, 1, 3)
        patches, key = patches.reshape(len(patches), -1), f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(patches).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(patches.shape, np.int32)
        arrays[f"{key}/grids"] = grids.astype(np.int32)
        arrays[f"{key}/slices"] = np.array(out["grids"][0], np.int32)
    return arrays


def placed(case: Case) -> dict[str, Any]:
    """Of Gemma 4, whose patches come row by row with their places, filled up: those that are there, and the grids."""
    processor = reference(case)
    arrays: dict[str, Any] = {}
    for size in case.sizes:
        out = processor(images=[Image.fromarray(picture(size))], return_tensors="np")
        places, key = np.array(out["image_position_ids"][0]), f"{size[0]}x{size[1]}"
        patches = np.array(out["pixel_values"][0])[places[:, 0] >= 0]
        arrays[f"{key}/values"] = summary(patches).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(patches.shape, np.int32)
        arrays[f"{key}/grids"] = (places.max(axis=0) + 1)[None, ::-1].astype(np.int32)
        arrays[f"{key}/tokens"] = np.array(out["num_soft_tokens_per_image"][0])
    return arrays


def padded(case: Case) -> dict[str, Any]:
    """Phi-3 Vision's, whose code is in its repo: what image_processing_phi3_v.py does, with torch and Pillow.

    mlx-vlm stretches pictures where that code pads them with white.
    """
    import torch

    arrays: dict[str, Any] = {}
    mean, std = (torch.tensor(case.prep[name])[:, None, None] for name in ("image_mean", "image_std"))
    for size in case.sizes:
        image = Image.fromarray(picture(size))
        turned = image.width < image.height
        image = image.transpose(Image.Transpose.TRANSPOSE) if turned else image
        ratio, scale = image.width / image.height, 1
        while scale * np.ceil(scale / ratio) <= case.prep["num_crops"]:
            scale += 1
        width = (scale - 1) * 336
        image = image.resize((width, max(1, int(width / ratio))), Image.Resampling.BILINEAR)
        whole = Image.new("RGB", (width, -(-image.height // 336) * 336), (255, 255, 255))
        whole.paste(image, (0, (whole.height - image.height) // 2))
        whole = whole.transpose(Image.Transpose.TRANSPOSE) if turned else whole
        pixels = (torch.from_numpy(np.array(whole)).permute(2, 0, 1).float() / 255 - mean) / std
        small = torch.nn.functional.interpolate(pixels[None], size=(336, 336), mode="bicubic")
        rows, columns = pixels.shape[1] // 336, pixels.shape[2] // 336
        tiles = pixels.reshape(3, rows, 336, columns, 336).permute(1, 3, 0, 2, 4).reshape(-1, 3, 336, 336)
        out = channels_last(torch.cat([small, tiles]).numpy())
        key = f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(out).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(out.shape, np.int32)
    return arrays


def as_stated(case: Case) -> dict[str, Any]:
    """Of processors that are in a checkpoint's own repo: what stated.py says that they do."""
    prepare = getattr(stated, case.reference.rpartition(".")[2])
    arrays: dict[str, Any] = {}
    for size in case.sizes:
        pixels, *grid = prepare(Image.fromarray(picture(size)), {**case.prep, **case.config})
        key = f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(pixels).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(pixels.shape, np.int32)
        if grid:
            arrays[f"{key}/grid"] = np.array(grid[0], np.int32)
    return arrays


def channels_last(pixels: Any) -> Any:
    """Pictures as docai has them; flattened patches stay as they are."""
    return np.moveaxis(pixels, -3, -1) if pixels.ndim >= 3 else pixels


def golden(case: Case) -> dict[str, Any]:
    """Arrays by `<height>x<width>/<what>`."""
    processor, arrays = reference(case), {}
    for size in case.sizes:
        out = processor(images=Image.fromarray(picture(size)), return_tensors="np")
        pixels = channels_last(out["pixel_values"])
        pixels = pixels[0] if pixels.ndim == 5 else pixels
        key = f"{size[0]}x{size[1]}"
        arrays[f"{key}/values"] = summary(pixels).astype(np.float32)
        arrays[f"{key}/shape"] = np.array(pixels.shape, np.int32)
        if "image_grid_thw" in out:
            arrays[f"{key}/grid"] = np.array(out["image_grid_thw"][0], np.int32)
    return arrays


def main() -> None:
    """Every case into its file, or those that are named."""
    for name in sys.argv[1:] or CASES:
        case = CASES[name]
        makers = {"mlx_vlm.falcon_ocr": in_patches}
        makers |= dict.fromkeys(("mlx_vlm.locateanything", "mlx_vlm.kimi_vl", "mlx_vlm.kimi_k25"), native)
        makers |= {"microsoft.phi3_v": padded, "minicpmv4_6.image_processing_pil_minicpmv4_6": sliced}
        makers |= dict.fromkeys(OF_ANY_SIZE, of_any_size) | dict.fromkeys(PLACED, placed)
        stated_only = case.reference.startswith("published.")
        make = as_stated if stated_only else makers.get(".".join(case.reference.split(".")[:2]), golden)
        made = make(case)
        np.savez_compressed(HERE / f"{name}.npz", **made)


if __name__ == "__main__":
    main()
