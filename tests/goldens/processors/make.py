"""Writes the goldens of the image processors; run with transformers 5.24, torch and Pillow, without torchvision.

    python -m tests.goldens.processors.make

For each case and picture size: the shape of what the reference gives, its grid or size where it says one, and a
sample of its values. docai's own code is used for nothing but the table of cases.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.goldens.processors.cases import CASES, Case, picture, summary

HERE = Path(__file__).parent


def reference(case: Case) -> Any:
    """The reference's processor with the case's configuration."""
    module, _, name = case.reference.rpartition(".")
    return getattr(import_module(f"transformers.models.{module}"), name)(**case.prep)


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
    """Every case into its file."""
    for name, case in CASES.items():
        np.savez_compressed(HERE / f"{name}.npz", **golden(case))


if __name__ == "__main__":
    main()
