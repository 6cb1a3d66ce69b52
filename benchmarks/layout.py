"""Layout detectors of full size with random weights: docai against transformers on torch, and mlx-vlm, in one run.

    python benchmarks/layout.py [MODEL...] [--batch 1 --batch 4] [--rounds 3] [--dtype float32] [--folder DIR] [--check]

Needs torch, transformers and mlx-vlm beside docai. A checkpoint under transformers' names is made in DIR once; then
each side loads it in a process of its own, in turn, and prints a JSON object a batch size: seconds a page, by the clock
and on all processors. Each does the whole network only; the others make masks of every query in every layer,
docai those of the regions that are kept, afterwards. Where a GPU is there, each side is on it.

`--check` compares docai's outputs with those of transformers instead, on one page of slopes and lines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MODELS = {  # name -> (class of transformers, classes, side of a page)
    "pp_doclayout_v3": ("PPDocLayoutV3ForObjectDetection", 25, 800),
    "rt_detr_v2": ("RTDetrV2ForObjectDetection", 17, 640),
}
Run = Callable[[Any], Any]


def make(name: str, folder: Path) -> None:
    """A checkpoint of the published shape, all of it random."""
    import transformers
    from safetensors import safe_open
    from safetensors.numpy import save_file

    from tests.parity.detectors import weights

    kind, classes, _ = MODELS[name]
    model = getattr(transformers, kind)
    model(model.config_class(num_labels=classes)).save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "np") as opened:
        shapes = {key: list(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118 - no dict
    made = weights(shapes, 1)
    made |= {key: np.full_like(value, 0.25) for key, value in made.items() if key.endswith("n_points_scale")}
    save_file(made, folder / "model.safetensors", {"format": "pt"})


def docai(_: str, folder: Path, dtype: str) -> Run:
    from docai.checkpoint.checkpoint import read_checkpoint
    from docai.layout.loading import load_network

    network = load_network(read_checkpoint(folder), dtype=dtype)
    import mlx.core as mx

    def run(pages: np.ndarray) -> Any:
        found = network(mx.array(pages))
        mx.eval(found.arrays)
        return found

    return run


def torch(name: str, folder: Path, dtype: str) -> Run:
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype)
    model = getattr(transformers, MODELS[name][0]).from_pretrained(folder, dtype=kind).eval().to(device)

    def run(pages: np.ndarray) -> Any:
        with torch.no_grad():
            found = model(torch.from_numpy(np.ascontiguousarray(np.moveaxis(pages, -1, 1))).to(device, kind))
        if device == "cuda":
            torch.cuda.synchronize()
        return found

    return run


def mlx_vlm(name: str, folder: Path, dtype: str) -> Run:
    from importlib import import_module

    from docai.checkpoint.backend import preload_blas

    preload_blas()  # by itself MLX is many times slower on a CPU
    import mlx.core as mx

    module = import_module(f"mlx_vlm.models.{name}")
    config = json.loads((folder / "config.json").read_text())
    model = module.Model(module.ModelConfig.from_dict(config | {"num_labels": MODELS[name][1]}))
    values = model.sanitize(mx.load(str(folder / "model.safetensors")))
    model.load_weights([(key, value.astype(getattr(mx, dtype))) for key, value in values.items()], strict=False)
    model.eval()

    def run(pages: np.ndarray) -> Any:
        found = model(mx.array(pages).astype(getattr(mx, dtype)))
        mx.eval(list(found.values()))
        return found

    return run


SIDES: dict[str, Callable[[str, Path, str], Run]] = {"docai": docai, "torch": torch, "mlx_vlm": mlx_vlm}


def measure(side: str, name: str, folder: Path, dtype: str, batch: int, rounds: int) -> dict[str, Any]:
    """The best of some rounds, after one that warms up."""
    run = SIDES[side](name, folder, dtype)
    edge = MODELS[name][2]
    pages = np.random.RandomState(0).rand(batch, edge, edge, 3).astype(np.float32)
    run(pages)
    walls, used = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), _cpu()
        run(pages)
        walls.append(time.perf_counter() - wall)
        used.append(_cpu() - cpu)
    return {
        "side": side, "model": name, "dtype": dtype, "batch": batch,
        "seconds_a_page": round(min(walls) / batch, 4), "cpu_seconds_a_page": round(min(used) / batch, 3),
    }  # fmt: skip


def _cpu() -> float:
    times = os.times()
    return times.user + times.system


def check(name: str, folder: Path) -> dict[str, Any]:
    """The largest differences between docai and transformers over one page."""
    from tests.goldens.processors.cases import picture

    edge = MODELS[name][2]
    pages = picture((edge, edge))[None].astype(np.float32) / 255
    ours, theirs = docai(name, folder, "float32")(pages), torch(name, folder, "float32")(pages)
    logits, boxes = np.array(ours.logits[0]), np.array(ours.boxes[0])
    # queries of nearly equal score may come in another order: each of ours is compared with its nearest
    other_boxes, other_logits = theirs.pred_boxes[0].numpy(), theirs.logits[0].numpy()
    apart = np.abs(boxes[:, None] - other_boxes[None]).max(-1) + np.abs(logits[:, None] - other_logits[None]).max(-1)
    nearest = apart.argmin(1)
    close = apart.min(1) < 1e-2
    said = {
        "model": name,
        "queries": len(boxes),
        "matched": int(close.sum()),
        "in_place": int((nearest == np.arange(len(nearest)))[close].sum()),
        "boxes": float(np.abs(boxes - other_boxes[nearest])[close].max()),
        "logits": float(np.abs(logits - other_logits[nearest])[close].max()),
    }
    if ours.order is not None:
        places = np.flatnonzero(close & (nearest == np.arange(len(nearest))))
        pairs = np.ix_(places, places)
        said["order"] = float(np.abs(np.array(ours.order[0])[pairs] - theirs.order_logits[0].numpy()[pairs]).max())
        masks = np.einsum("qp,hwp->qhw", np.array(ours.mixtures[0])[close], np.array(ours.prototypes[0]))
        others = theirs.out_masks[0].numpy()[nearest[close]]
        said["masks"] = float(np.abs(masks - others).max() / np.abs(others).max())
    return said


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], metavar="MODEL")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true")
    said = parser.parse_args(arguments)
    root = said.folder or Path(tempfile.mkdtemp())
    for name in said.models or MODELS:
        folder = root / name
        if not (folder / "model.safetensors").is_file():
            make(name, folder)
        if said.check:
            print(json.dumps(check(name, folder)), flush=True)
            continue
        for batch in said.batch or (1,):
            if said.side:
                print(json.dumps(measure(said.side, name, folder, said.dtype, batch, said.rounds)), flush=True)
                continue
            for side in SIDES:
                words = [name, f"--batch={batch}", f"--rounds={said.rounds}", f"--dtype={said.dtype}"]
                subprocess.run([sys.executable, __file__, *words, f"--folder={root}", f"--side={side}"], check=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
