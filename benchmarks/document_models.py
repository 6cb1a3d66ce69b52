"""Document models of full size with random weights, each on docai and on its reference implementation, in one run.

    python benchmarks/document_models.py [MODEL...] [--pictures 8] [--tokens 128] [--tiny] [--rounds 2]

MODEL: florence-2, got-ocr (both beside transformers), nemotron-parse, locate-anything (both beside mlx-vlm); all of
them by default. Needs torch and transformers, or mlx-vlm, beside docai. A checkpoint is made once by the peer's own
classes; then each side loads it in a process of its own and prints a JSON object: answers and tokens a second, from
prepared pictures to the last token. docai answers as `docai ocr` has it, equal questions together; peers answer one
after the other. Random weights never end an answer, so each has exactly so many tokens. A peer whose torch sees a GPU
uses it. (Falcon-OCR is in `documents.py`.)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

Read = Callable[[], int]  # reads all pictures once; the number of tokens that were written

BART = {
    "model_type": "bart", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
    "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "vocab_size": 51_328,
    "max_position_embeddings": 1024, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
    "decoder_start_token_id": 2,
}  # fmt: skip
FLORENCE = {
    "text_config": BART, "image_token_id": 51_289,
    "vision_config": {
        "depths": [1, 1, 9, 1], "embed_dim": [128, 256, 512, 1024], "num_heads": [4, 8, 16, 32],
        "num_groups": [4, 8, 16, 32], "window_size": 12, "projection_dim": 768, "max_position_embeddings": 50,
    },
}  # fmt: skip
GOT = {
    "image_token_index": 151_859,
    "text_config": {
        "model_type": "qwen2", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 2816, "vocab_size": 151_860, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32_768, "tie_word_embeddings": True,
    },
}  # fmt: skip
NEMOTRON = {
    "model_type": "nemotron_parse", "image_size": [2048, 1664], "max_sequence_length": 9000,
    "decoder_start_token_id": 2, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "vocab_size": 72_256,
    "encoder": {
        "hidden_size": 1280, "num_heads": 16, "mlp_ratio": 4.0, "num_layers": 32, "patch_size": 16, "neck_dim": 1024,
    },
    "decoder": {
        "d_model": 1024, "decoder_layers": 10, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
        "vocab_size": 72_256, "scale_embedding": True, "max_position_embeddings": 9000,
    },
}  # fmt: skip
LOCATE = {
    "model_type": "locateanything", "image_token_index": 151_665, "eos_token_id": [151_645],
    "vision_config": {
        "model_type": "moonvit", "hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16,
        "intermediate_size": 4304, "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
        "merge_kernel_size": [2, 2],
    },
    "text_config": {
        "model_type": "qwen2", "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 2, "intermediate_size": 11_008, "vocab_size": 152_681, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "max_position_embeddings": 32_768, "tie_word_embeddings": True,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model: its config, who else reads it, and what a picture is for its tower.

    `pixels`: the shape of a prepared picture; `rows`: image tokens that it makes. `prompt`: ids, in which None stands
    for the picture. `begin`: ids with which an answer of an encoder-decoder model begins. `small`: what else a picture
    is, and the config, for a look at the benchmark itself; layers are two then.
    """

    peer: str
    oracle: str
    config: dict[str, Any]
    pixels: tuple[int, ...]
    rows: int
    prompt: tuple[int | None, ...]
    begin: tuple[int, ...] = ()
    grid: tuple[int, int, int] | None = None
    small: Mapping[str, Any] = field(default_factory=dict)

    def cut(self) -> Case:
        """The small one."""
        more = dict(self.small)
        return replace(self, config={**_cut(self.config), **more.pop("config", {})}, **more)


def _cut(config: dict[str, Any]) -> dict[str, Any]:
    names = ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers")
    cut = {key: _cut(said) if isinstance(said, dict) else 2 if key in names else said for key, said in config.items()}
    return cut | ({"depths": [1, 1, 2, 1]} if "depths" in config else {})


WORDS = tuple(range(100, 120))
CASES = {
    "florence-2": Case(
        "transformers", "Florence2ForConditionalGeneration", FLORENCE, (1, 768, 768, 3), 577, (0, *WORDS, 2), (2,),
        small={"pixels": (1, 96, 96, 3), "rows": 10},
    ),
    "got-ocr": Case(
        "transformers", "GotOcr2ForConditionalGeneration", GOT, (1, 1024, 1024, 3), 256, (*WORDS, None, *WORDS),
        small={
            "pixels": (1, 256, 256, 3), "rows": 16,
            "config": {"vision_config": {"num_hidden_layers": 2, "image_size": 256, "global_attn_indexes": [1]}},
        },
    ),
    "nemotron-parse": Case(
        "mlx_vlm", "nemotron_parse", NEMOTRON, (1, 2048, 1664, 3), 3329, (), (2, 0, 7, 8, 9, 10),
        small={"pixels": (1, 256, 256, 3), "rows": 65, "config": {"image_size": [256, 256]}},
    ),
    "locate-anything": Case(
        "mlx_vlm", "locateanything", LOCATE, (36 * 46, 588), 414, (*WORDS, None, *WORDS), grid=(1, 36, 46),
        small={"pixels": (24, 588), "rows": 6, "grid": (1, 4, 6)},
    ),
}  # fmt: skip


def pictures(case: Case, count: int) -> list[np.ndarray]:
    random = np.random.RandomState(1)
    return [random.standard_normal(case.pixels).astype(np.float32) for _ in range(count)]


# --- checkpoints


def make(case: Case, folder: Path) -> None:
    """A random checkpoint as the peer writes it."""
    if case.peer == "transformers":
        import transformers

        kind = getattr(transformers, case.oracle)
        kind(kind.config_class(**case.config)).save_pretrained(folder)
        return
    import mlx.core as mx
    from mlx.utils import tree_flatten

    model = mlx_model(case)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(case.config))


def mlx_model(case: Case) -> Any:
    from importlib import import_module

    from mlx_vlm.utils import update_module_configs

    module, said = import_module(f"mlx_vlm.models.{case.oracle}"), json.loads(json.dumps(case.config))
    made = module.ModelConfig.from_dict(said)
    if case.oracle == "nemotron_parse":
        return module.Model(made)
    return module.Model(update_module_configs(made, module, said, ["text", "vision"]))


# --- sides


def ours(case: Case, folder: Path, count: int, tokens: int) -> Read:
    from docai.checkpoint.backend import require_mlx

    mx = require_mlx()
    import tokenizers

    from docai.vlm.encdec import EncDecNetwork
    from docai.vlm.loading import load_network
    from docai.vlm.request import GenerationOptions
    from docai.vlm.tokenizer import Tokenizer

    network = load_network(folder)
    network.fuse()
    mx.eval(network.parameters())
    words = {f"w{i} ": i for i in range(network.spec.vocabulary if isinstance(network, EncDecNetwork) else 160_000)}
    tokenizer = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0 ")))
    options = GenerationOptions(max_tokens=tokens, loop_guard=False)
    answers = encdec if isinstance(network, EncDecNetwork) else causal
    return answers(case, network, tokenizer, options, pictures(case, count))


def causal(case: Case, network: Any, tokenizer: Any, options: Any, seen: list[np.ndarray]) -> Read:
    from docai.ocr.asking import reading_limits
    from docai.vlm.engine import Engine
    from docai.vlm.generate import Request, RequestImage, Runtime
    from docai.vlm.stream import Pieces

    engine = Engine(Runtime(network, Pieces(tokenizer)), limits=reading_limits())

    def request(number: int, pixels: np.ndarray) -> Request:
        image = image_of(case, pixels)
        ids = [i for one in case.prompt for i in ([one] if one is not None else network.image_tokens[:1] * case.rows)]
        return Request(ids, [RequestImage((number,), image, lambda: network.encode([image])[0])], options)

    def read() -> int:
        asked = [request(number, pixels) for number, pixels in enumerate(seen)]
        return sum(len(answer.tokens) for answer in engine.answers(asked))

    return read


def encdec(case: Case, network: Any, tokenizer: Any, options: Any, seen: list[np.ndarray]) -> Read:
    from docai.vlm.encdec_generate import EncDecRequest, EncDecStream, EndPieces, Habits, in_step
    from docai.vlm.generate import RequestImage

    pieces, prompt = EndPieces(tokenizer), tuple(i for i in case.prompt if i is not None)

    def stream(number: int, pixels: np.ndarray) -> EncDecStream:
        image = image_of(case, pixels)
        asked = RequestImage((number,), image, lambda: network.encode([image])[0])
        return EncDecStream(
            network, pieces, EncDecRequest(asked, prompt, case.begin, options), Habits(), time.perf_counter()
        )

    def read() -> int:
        streams = [stream(number, pixels) for number, pixels in enumerate(seen)]
        for at in range(0, len(streams), 8):
            in_step(streams[at : at + 8])
        return sum(len(one.result.tokens) for one in streams)

    return read


def image_of(case: Case, pixels: np.ndarray) -> Any:
    from docai.preprocess.inputs import ImageInput

    return ImageInput(pixels, case.rows, case.grid)


def by_transformers(case: Case, folder: Path, count: int, tokens: int) -> Read:
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    model = getattr(transformers, case.oracle).from_pretrained(folder, dtype=kind).to(device).eval()
    token = getattr(model.config, "image_token_id", None) or model.config.image_token_index
    ids = [i for one in case.prompt for i in ([one] if one is not None else [token] * case.rows)]
    ids = ids if None in case.prompt else [*[token] * case.rows, *ids]
    seen = [torch.from_numpy(np.moveaxis(p, -1, 1).copy()).to(device, kind) for p in pictures(case, count)]
    asked = {"input_ids": torch.tensor([ids], device=device), "do_sample": False, "num_beams": 1}
    asked |= {"attention_mask": torch.ones((1, len(ids)), device=device, dtype=torch.long)}

    def read() -> int:
        with torch.no_grad():
            for pixels in seen:
                model.generate(**asked, pixel_values=pixels, max_new_tokens=tokens, min_new_tokens=tokens)
        return tokens * len(seen)

    return read


def by_mlx_vlm(case: Case, folder: Path, count: int, tokens: int) -> Read:
    import mlx.core as mx

    model = mlx_model(case)
    model.load_weights(str(folder / "model.safetensors"))
    mx.eval(model.parameters())
    seen = pictures(case, count)

    def nemotron(pixels: np.ndarray) -> int:
        states = model.vision_tower(mx.array(np.moveaxis(pixels, -1, 1)))
        ids, cache = mx.array([case.begin]), model.make_cache()
        for _ in range(tokens):
            logits = model.language_model(encoder_outputs=states, decoder_input_ids=ids, cache=cache).logits
            ids = mx.argmax(logits[:, -1:], axis=-1)
            mx.eval(ids)
        return tokens

    def locate(pixels: np.ndarray) -> int:
        token, grid = model.config.image_token_index, mx.array([case.grid[1:]] if case.grid else [])
        ids = mx.array([[i for one in case.prompt for i in ([one] if one is not None else [token] * case.rows)]])
        patches = pixels.reshape(len(pixels), 3, 14, 14)
        return len(model.pbd_generate(ids, mx.array(patches), "hybrid", tokens, image_grid_hws=grid))

    one = nemotron if case.oracle == "nemotron_parse" else locate
    return lambda: sum(one(pixels) for pixels in seen)


SIDES: dict[str, Callable[[Case, Path, int, int], Read]] = {
    "docai": ours, "transformers": by_transformers, "mlx_vlm": by_mlx_vlm,
}  # fmt: skip


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one side, in this process: the best of some rounds behind one that warms up."""
    case = CASES[name].cut() if options.tiny else CASES[name]
    count = options.pictures if options.side == "docai" else max(1, options.pictures // 4)
    read = SIDES[options.side](case, options.folder, count, options.tokens)
    read()
    best = 0.0, 0.0
    for _ in range(options.rounds):
        start = time.perf_counter()
        tokens = read()
        seconds = time.perf_counter() - start
        best = max(best, (count / seconds, tokens / seconds))
    return {"model": name, "side": options.side, "answers_a_second": best[0], "tokens_a_second": best[1]}


def put(**figures: Any) -> None:
    print(json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in figures.items()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--pictures", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--tiny", action="store_true", help="small models and pictures, for a look at the benchmark itself"
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.models if name not in CASES]:
        parser.error(f"expected some of {', '.join(CASES)}; got {unknown[0]}")
    if options.side:
        put(**measure(options.models[0], options))
        return
    for name in options.models or CASES:
        case = CASES[name].cut() if options.tiny else CASES[name]
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            checkpoint = Path(folder) / "model"
            make(case, checkpoint)
            more = ["--pictures", options.pictures, "--tokens", options.tokens, "--rounds", options.rounds]
            more += ["--tiny"] * options.tiny
            for side in ("docai", case.peer):
                command = [sys.executable, __file__, name, *map(str, more), "--side", side, "--folder", str(checkpoint)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(f"{name}: {side} failed ({done.returncode}):\n{done.stdout[-500:]}{done.stderr[-3000:]}")
                print(done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
