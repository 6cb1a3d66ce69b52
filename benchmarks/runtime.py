"""docai's model runtime against mlx-vlm and mlx-lm, on the same random weights of full size, in one run.

    python benchmarks/runtime.py MODEL... [--bits 4] [--dtype float32] [--prompt 512] [--tokens 128]
        [--rounds 3] [--no-images]

Needs mlx-vlm and mlx-lm beside docai. A checkpoint in MLX's layout is made in DIR once; then each side loads it in a
process of its own, in turn, and prints a JSON object: seconds to load, tokens a second of reading a prompt and of
answering, milliseconds of encoding an image, and the most memory that MLX had. Ratios are docai's figure over the
peer's; the first round of each process warms up and is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shapes import MODELS

GRID = (1, 72, 72)  # patches of the image, for those that take it as one
PACKED = ("qwen2_5_vl", "qwen3_vl", "qwen3_5")


# --- the checkpoint


def make(name: str, folder: Path, bits: int, dtype: str = "bfloat16") -> None:
    """Random weights of a published shape, in this type or quantized, as mlx-vlm and mlx-lm write them."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten, tree_map

    peer, config = MODELS[name]
    model = _peer_model(peer, json.loads(json.dumps(config)))
    model.update(tree_map(lambda a: a.astype(getattr(mx, dtype)), model.parameters()))
    written = dict(config)
    if bits:
        nn.quantize(model, 64, bits, class_predicate=_language_only)
        written["quantization"] = {"group_size": 64, "bits": bits}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(written))


def _language_only(path: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and not path.startswith("vision_tower")


def _peer_model(peer: str, config: dict[str, Any]) -> Any:
    from importlib import import_module

    kind = config["model_type"]
    if peer == "mlx_lm":
        module = import_module(f"mlx_lm.models.{kind}")
        return module.Model(module.ModelArgs.from_dict(config))
    from mlx_vlm.utils import MODEL_REMAPPING, update_module_configs

    module = import_module(f"mlx_vlm.models.{MODEL_REMAPPING.get(kind, kind)}")
    config.setdefault("text_config", {k: v for k, v in config.items() if k != "vision_config"})
    return module.Model(update_module_configs(module.ModelConfig.from_dict(config), module, config, ["text", "vision"]))


# --- the sides: each gives a function that reads a prompt and yields tokens, and one that encodes an image


Side = tuple[Callable[[list[int], int], Iterator[int]], Callable[[], Any] | None]


def docai_side(folder: Path) -> Side:
    import mlx.core as mx
    import numpy as np
    import tokenizers

    from docai.preprocess.inputs import ImageInput
    from docai.vlm.engine import Engine
    from docai.vlm.generate import Request, Runtime
    from docai.vlm.loading import load_network
    from docai.vlm.request import GenerationOptions
    from docai.vlm.stream import Pieces
    from docai.vlm.tokenizer import Tokenizer

    network = load_network(folder)
    network.fuse()
    mx.eval(network.parameters())
    words = {f"w{i} ": i for i in range(network.spec.decoder.vocabulary)}
    tokenizer = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0 ")))
    engine = Engine(Runtime(network, Pieces(tokenizer)))

    def answer(prompt: list[int], count: int) -> Iterator[int]:
        stream = engine.submit(Request(prompt, options=GenerationOptions(max_tokens=count, loop_guard=False)))
        for _ in stream:
            yield 0

    def see() -> Any:
        pixels = np.zeros((GRID[1] * GRID[2], network.spec.vision.patch_values), np.float32)
        features = network.encode([ImageInput(pixels, GRID[1] * GRID[2] // 4, GRID)])
        mx.eval(features[0].rows)

    return answer, see if _is_packed(folder) else None


def mlx_lm_side(folder: Path) -> Side:
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)

    def answer(prompt: list[int], count: int) -> Iterator[int]:
        for token, _ in generate_step(mx.array(prompt), model, max_tokens=count):
            yield int(token)

    return answer, None


def mlx_vlm_side(folder: Path) -> Side:
    import mlx.core as mx
    import numpy as np
    from mlx_vlm.generate.ar import generate_step
    from mlx_vlm.utils import load_model

    model = load_model(folder)

    def answer(prompt: list[int], count: int) -> Iterator[int]:
        ids = mx.array([prompt])
        for token, _ in generate_step(ids, model, None, None, max_tokens=count, temperature=0.0):
            yield int(token.item() if hasattr(token, "item") else token)

    def see() -> Any:
        config = model.config.vision_config
        size = config.patch_size**2 * 3 * config.temporal_patch_size
        pixels = mx.array(np.zeros((GRID[1] * GRID[2], size), np.float32)).astype(mx.bfloat16)
        mx.eval(model.vision_tower(pixels, mx.array([GRID]), output_hidden_states=False))

    return answer, see if _is_packed(folder) else None


def _is_packed(folder: Path) -> bool:
    return json.loads((folder / "config.json").read_text())["model_type"] in PACKED


SIDES: dict[str, Callable[[Path], Side]] = {"docai": docai_side, "mlx_lm": mlx_lm_side, "mlx_vlm": mlx_vlm_side}


def measure(side: str, folder: Path, prompt: int, tokens: int, rounds: int, images: bool) -> dict[str, float]:
    """The figures of one side, in this process."""
    if side == "docai":
        from docai.checkpoint.backend import require_mlx

        mx = require_mlx()
    else:
        import mlx.core as mx
    start = time.perf_counter()
    answer, see = SIDES[side](folder)
    load = time.perf_counter() - start
    figures: dict[str, list[float]] = {"prefill": [], "decode": [], "image_ms": []}
    for number in range(rounds + 1):
        ids = [(7 * i + number) % 1000 + 10 for i in range(prompt)]
        start = time.perf_counter()
        marks = [time.perf_counter() - start for _ in answer(ids, tokens)]
        if see is not None and images:
            begun = time.perf_counter()
            see()
            figures["image_ms"].append(1000 * (time.perf_counter() - begun))
        figures["prefill"].append(prompt / marks[0])
        figures["decode"].append((len(marks) - 1) / (marks[-1] - marks[0]))
    medians = {name: statistics.median(values[1:]) for name, values in figures.items() if values}
    return {"load_s": load, **medians, "peak_gb": mx.get_peak_memory() / 1e9}


def compare(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Both sides, twice in turn; the better run of each counts."""
    said = {"model": name, "weights": f"{options.bits} bits" if options.bits else options.dtype}
    peer = MODELS[name][0]
    found: dict[str, dict[str, float]] = {}
    for side in ("docai", peer) * options.turns:
        command = [sys.executable, __file__, name, "--side", side, "--folder", str(folder), "--prompt", options.prompt]
        command += ["--tokens", options.tokens, "--rounds", options.rounds]
        command += [] if options.images else ["--no-images"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{side} failed ({done.returncode}):\n{done.stdout[-500:]}{done.stderr[-3000:]}")
        figures = json.loads(done.stdout.splitlines()[-1])
        found[side] = _better(found.get(side), figures)
    ratios = {f"x_{key}": found["docai"][key] / found[peer][key] for key in found[peer] if key in found["docai"]}
    put(**said, side="docai", **found["docai"])
    put(**said, side=peer, **found[peer])
    put(**said, side="ratio", **ratios)


def _better(one: dict[str, float] | None, other: dict[str, float]) -> dict[str, float]:
    if one is None:
        return other
    return {key: (max if key in ("prefill", "decode") else min)(one[key], other[key]) for key in one}


def put(**figures: Any) -> None:
    print(json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in figures.items()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--bits", type=int, default=0, help="4 or 8; 0 leaves weights as they are")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of weights in the files")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--images", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        put(**measure(options.side, options.folder, options.prompt, options.tokens, options.rounds, options.images))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.models:
            make(name, Path(folder) / name, options.bits, options.dtype)
            compare(name, Path(folder) / name, options)


if __name__ == "__main__":
    main()
