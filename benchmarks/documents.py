"""Pages read region by region by Falcon-OCR of full size with random weights: docai against mlx-vlm, in one run.

    python benchmarks/documents.py [--pages 8] [--regions 10] [--tokens 200] [--rows N] [--layout] [--tiny]

Needs mlx-vlm beside docai. A checkpoint in MLX's layout is made once; then each side loads it in a process of its own
and prints a JSON object: pages and tokens a second, from pictures of regions to the last token of their answers. docai
has all regions of all pages answered by its engine, as `docai ocr --layout` does; mlx-vlm reads one crop after the
other, as its `generate_with_layout` does (of fewer pages, since each takes as long as the others). Random weights never
end an answer, so each has exactly so many tokens. `--layout` adds PP-DocLayoutV3, of full size too, to docai's side.

The published figure to look at is 2.9 pages a second at 5,825 tokens a second, layout included, on an A100 with vLLM.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

FALCON = {
    "model_type": "falcon_ocr", "dim": 768, "n_layers": 22, "n_heads": 16, "n_kv_heads": 8, "head_dim": 64,
    "ffn_dim": 2304, "vocab_size": 65_536, "norm_eps": 1e-5, "max_seq_len": 8192, "rope_theta": 10_000,
    "channel_size": 3, "spatial_patch_size": 16, "temporal_patch_size": 1, "img_id": 227, "image_cls_token_id": 244,
    "img_end_id": 230,
}  # fmt: skip
TINY = {**FALCON, "dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "ffn_dim": 96}
MARKS = (244, 245, 246, 247, 248)
# (height, width) in pixels of the regions of a page of two columns at 200 dpi: a title, headings, paragraphs, a table
SHAPES = (
    (96, 1024),
    (48, 512),
    (192, 768),
    (256, 768),
    (320, 768),
    (48, 512),
    (256, 768),
    (160, 768),
    (416, 768),
    (64, 640),
)
QUESTION = tuple(range(300, 310))
Side = Callable[[Path, list[np.ndarray], int, int | None], Callable[[], int]]


def make(folder: Path, config: dict[str, Any]) -> None:
    """A random checkpoint in bfloat16, as mlx-vlm writes it."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    model = _peer(config)
    weights = {key: _random(key, value.shape) for key, value in tree_flatten(model.parameters())}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))


def _random(name: str, shape: tuple[int, ...]) -> Any:
    import mlx.core as mx

    scale = 0.1 if len(shape) == 1 else shape[-1] ** -0.5
    around = 1.0 if name.endswith("norm.weight") else 0.0
    kind = mx.float32 if "golden" in name or name.endswith(("cos_1d", "sin_1d")) else mx.bfloat16
    return (around + scale * mx.random.normal(shape)).astype(kind)


def _peer(config: dict[str, Any]) -> Any:
    from mlx_vlm.models import falcon_ocr
    from mlx_vlm.utils import update_module_configs

    said = dict(config)
    return falcon_ocr.Model(
        update_module_configs(falcon_ocr.ModelConfig.from_dict(said), falcon_ocr, said, ["text", "vision"])
    )


def crops(regions: int) -> list[np.ndarray]:
    """Pictures of regions, all different."""
    random = np.random.RandomState(1)
    return [random.randint(0, 256, (*shape, 3)).astype(np.uint8) for shape in islice(cycle(SHAPES), regions)]


# --- the sides: each gives a function that reads all crops once, and says how many tokens it wrote


def docai_side(folder: Path, pictures: list[np.ndarray], tokens: int, rows: int | None) -> Callable[[], int]:
    from docai.checkpoint.backend import require_mlx

    mx = require_mlx()
    import tokenizers

    from docai.ocr.asking import reading_limits
    from docai.vlm.engine import Engine
    from docai.vlm.generate import Request, RequestImage, Runtime
    from docai.vlm.loading import load_network
    from docai.vlm.native_images import falcon_images
    from docai.vlm.request import GenerationOptions
    from docai.vlm.stream import Pieces
    from docai.vlm.tokenizer import Tokenizer

    network = load_network(folder)
    network.fuse()
    mx.eval(network.parameters())
    words = {f"w{i} ": i for i in range(network.spec.decoder.vocabulary)}
    tokenizer = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0 ")))
    limits = reading_limits()
    engine = Engine(Runtime(network, Pieces(tokenizer)), limits=replace(limits, rows=rows or limits.rows))
    processor = falcon_images()({}, {})
    options = GenerationOptions(max_tokens=tokens, loop_guard=False, logprobs=0)

    def request(number: int, picture: np.ndarray) -> Request:
        image = processor(picture)
        ids = [*MARKS, *(227,) * image.tokens, 230, *QUESTION]
        seen = RequestImage((number,), image, lambda: network.encode([image])[0])
        return Request(ids, [seen], options)

    def read() -> int:
        ordered = sorted(pictures, key=lambda picture: -picture.size)
        tickets = [engine.submit(request(number, picture)) for number, picture in enumerate(ordered)]
        return sum(len(ticket.whole().tokens) for ticket in tickets)

    return read


def mlx_vlm_side(folder: Path, pictures: list[np.ndarray], tokens: int, _: int | None) -> Callable[[], int]:
    import mlx.core as mx
    from mlx_vlm.generate.ar import generate_step
    from mlx_vlm.models.falcon_ocr.processing_falcon_ocr import preprocess_image
    from mlx_vlm.utils import load_model
    from PIL import Image

    model = load_model(folder)
    mx.eval(model.parameters())

    def answered(picture: np.ndarray) -> int:
        pixels, height, width = preprocess_image(Image.fromarray(picture))
        ids = mx.array([[*MARKS, *(227,) * (height * width), 230, *QUESTION]])
        grid = mx.array([[height, width]])
        steps = generate_step(
            ids, model, mx.array(pixels[None]), None, max_tokens=tokens, temperature=0.0, image_grid_hw=grid
        )
        return sum(1 for _ in steps)

    return lambda: sum(answered(picture) for picture in pictures)


SIDES: dict[str, Side] = {"docai": docai_side, "mlx_vlm": mlx_vlm_side}


def layout_seconds(pages: int) -> float:
    """Seconds that PP-DocLayoutV3 of full size takes for so many pages, eight at a time."""
    import mlx.core as mx

    from docai.checkpoint.config import Config
    from docai.layout.network import Network
    from docai.layout.pp_doclayout_v3 import FAMILY

    network = Network(FAMILY.spec(Config({"model_type": "pp_doclayout_v3", "num_labels": 25})))
    network.set_dtype(mx.bfloat16)
    mx.eval(network.parameters())
    random = np.random.RandomState(1)
    pictures = [random.randint(0, 256, (2200, 1700, 3)).astype(np.uint8) for _ in range(pages)]

    def look() -> float:
        start = time.perf_counter()
        for at in range(0, pages, 8):
            mx.eval(network(mx.array(np.stack([FAMILY.images(p) for p in pictures[at : at + 8]]))).arrays)
        return time.perf_counter() - start

    look()
    return look()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one side, in this process; the first reading warms up."""
    pages = options.pages if options.side == "docai" else max(1, options.pages // 8)
    pictures = crops(pages * options.regions)
    read = SIDES[options.side](options.folder, pictures, options.tokens, options.rows)
    read()
    start = time.perf_counter()
    tokens = read()
    seconds = time.perf_counter() - start
    found: dict[str, Any] = {"side": options.side, "pages": pages, "tokens": tokens}
    found |= {"pages_a_second": pages / seconds, "tokens_a_second": tokens / seconds}
    if options.layout and options.side == "docai":
        layout = layout_seconds(pages)
        found |= {"layout_s_a_page": layout / pages, "pages_a_second_with_layout": pages / (seconds + layout)}
    import mlx.core as mx

    return found | {"peak_gb": mx.get_peak_memory() / 1e9}


def put(**figures: Any) -> None:
    print(json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in figures.items()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=8)
    parser.add_argument("--regions", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rows", type=int, help="requests that run at once; default: as docai ocr has it")
    parser.add_argument("--layout", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="for a look at the benchmark itself")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        put(**measure(options))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        checkpoint = Path(folder) / "falcon"
        make(checkpoint, TINY if options.tiny else FALCON)
        said = [arg for arg in sys.argv[1:] if not arg.startswith("--folder")]
        for side in SIDES:
            command = [sys.executable, __file__, *said, "--side", side, "--folder", str(checkpoint)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{side} failed ({done.returncode}):\n{done.stdout[-500:]}{done.stderr[-3000:]}")
            print(done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
