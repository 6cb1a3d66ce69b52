"""Writes what the reference processors make of pages and of raw outputs; run with the `oracle` extra and OpenCV.

    python -m tests.goldens.detectors.make

transformers' processor of PP-DocLayoutV3 imports torchvision, which is not needed for what is asked of it here: an
empty module stands in. It resizes by torch's `interpolate` over bytes, which is called as torchvision calls it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.goldens.detectors.cases import PAGES, RAW, mask_logits
from tests.goldens.processors.cases import picture, summary

HERE = Path(__file__).parent


def layout_processor() -> Any:
    """The class PPDocLayoutV3ImageProcessor, without torchvision."""
    import transformers.image_processing_backends as backends

    import_module("transformers.models.rt_detr.image_processing_pil_rt_detr")  # before torchvision seems to be there
    for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.v2"):
        sys.modules.setdefault(name, ModuleType(name))
    sys.modules["torchvision.transforms.v2"].functional = SimpleNamespace()  # type: ignore[attr-defined]
    backends.TorchvisionBackend = type("TorchvisionBackend", (backends.PilBackend,), {})  # type: ignore[misc]
    from transformers.models.pp_doclayout_v3.image_processing_pp_doclayout_v3 import PPDocLayoutV3ImageProcessor

    return PPDocLayoutV3ImageProcessor


def pixels() -> dict[str, Any]:
    """Pages as the processors give them, by `<processor>/<height>x<width>`."""
    from transformers.models.rt_detr.image_processing_pil_rt_detr import RTDetrImageProcessorPil

    out = {}
    for height, width in PAGES:
        page = picture((height, width))
        planes = torch.from_numpy(page).permute(2, 0, 1)[None]
        shrunk = torch.nn.functional.interpolate(planes, (800, 800), mode="bicubic", antialias=False)
        out[f"pp_doclayout_v3/{height}x{width}"] = summary((shrunk[0].permute(1, 2, 0).float() / 255).numpy())
        made = RTDetrImageProcessorPil()(images=Image.fromarray(page), return_tensors="np")["pixel_values"][0]
        out[f"rt_detr_v2/{height}x{width}"] = summary(np.moveaxis(made, 0, -1))
    return out


def regions() -> dict[str, Any]:
    """What the processors make of raw outputs, by `<processor>/<seed>/<what>`."""
    from transformers.models.rt_detr.image_processing_pil_rt_detr import RTDetrImageProcessorPil

    layout, plain = layout_processor(), RTDetrImageProcessorPil()
    layout.size = {"width": 800, "height": 800}
    out: dict[str, Any] = {}
    for raw in RAW:
        given = raw.outputs(masks=True)
        tensors = SimpleNamespace(
            logits=torch.from_numpy(given.logits)[None],
            pred_boxes=torch.from_numpy(given.boxes)[None],
            order_logits=torch.from_numpy(given.order)[None],
            out_masks=torch.from_numpy(mask_logits(given))[None],
        )
        sizes = torch.tensor([raw.size])
        (found,) = layout().post_process_object_detection(tensors, raw.threshold, sizes)
        key = f"pp_doclayout_v3/{raw.seed}"
        out |= {f"{key}/{name}": found[name].numpy() for name in ("scores", "labels", "boxes", "order_seq")}
        shapes = [np.asarray(points, np.float32) for points in found["polygon_points"]]
        out[f"{key}/corners"] = np.array([len(points) for points in shapes], np.int32)
        out[f"{key}/polygons"] = np.concatenate(shapes) if shapes else np.zeros((0, 2), np.float32)
        (found,) = plain.post_process_object_detection(tensors, raw.threshold, sizes)
        out |= {f"rt_detr_v2/{raw.seed}/{name}": found[name].numpy() for name in ("scores", "labels", "boxes")}
    return out


if __name__ == "__main__":
    np.savez_compressed(HERE / "pixels.npz", **pixels())
    np.savez_compressed(HERE / "regions.npz", **regions())
