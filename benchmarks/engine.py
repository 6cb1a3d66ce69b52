"""docai's engine against mlx-vlm's, on the same random weights of full size, in one run.

    python benchmarks/engine.py clients MODEL... [--clients 1,4,8,16,32] [--prompt 512] [--tokens 128] [--folder DIR]
    python benchmarks/engine.py prefix MODEL...  [--shared 8192]
    python benchmarks/engine.py kv MODEL...      [--prompt 2048]
    python benchmarks/engine.py guess MODEL...   [--prompt 2048] [--tokens 256]

Needs mlx-vlm beside docai. Each side runs in a process of its own and prints a JSON object.

`clients`: so many requests come in at once, of different lengths, every second one with an image where the model sees.
Tokens a second are those of all answers by the time from the first submission to the last token; seconds to the first
token are the median and the worst of the clients. mlx-vlm's side is the generator that its server runs, driven as the
server drives it. `in_turn` is docai answering one request after the other: what clients would wait without batching;
`steady`, on request (--sides), docai with 8 rows and the same bits in any company.
`prefix`: seconds to the first token of a prompt, of one that shares its beginning from memory, and from disk in a new
process. `kv`: bytes of the caches, dense and rounded. `guess`: tokens a second with and without n-gram guessing. (What
random weights say repeats itself soon, so that guesses are often right: an upper bound, not what a page of text gives.)
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from runtime import LLAMA_1B, MODELS, QWEN_2_5_VL_3B, make, put

MODELS["smollm2-135m"] = (
    "mlx_vlm",
    {
        **LLAMA_1B, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192, "rope_theta": 1e5,
    },
)  # fmt: skip
MODELS["tiny-vl"] = (  # for a look at the benchmark itself
    "mlx_vlm",
    {
        **QWEN_2_5_VL_3B, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 152000,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32768,
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
        "vision_config": {
            **QWEN_2_5_VL_3B["vision_config"], "depth": 2, "hidden_size": 160, "intermediate_size": 320, "num_heads": 2,
            "out_hidden_size": 256, "fullatt_block_indexes": [1],
        },
    },
)  # fmt: skip
GRID = (1, 36, 36)  # patches of an image


@dataclass(frozen=True)
class Asked:
    """A request: its ids, with the places of an image where it has one."""

    ids: list[int]
    image: int | None
    tokens: int


@dataclass
class Heard:
    """When a client got its first token, and how many in all."""

    first: float
    tokens: int


def requests(config: dict[str, Any], clients: int, prompt: int, tokens: int) -> list[Asked]:
    """Prompts of `prompt` tokens, give or take a third; none begins as another one does."""
    made = []
    for number in range(clients):
        length = prompt * (4 + number % 5) // 6
        ids = [(7 * i + 13 * number) % 1000 + 10 for i in range(length)]
        image = number if number % 2 and "vision_config" in config else None
        if image is not None:
            room = GRID[1] * GRID[2] // 4
            marks = config["vision_start_token_id"], config["vision_end_token_id"]
            ids[4:4] = [marks[0], *[config["image_token_id"]] * room, marks[1]]
        made.append(Asked(ids, image, tokens - number % 7))
    return made


# --- docai


class Docai:
    """docai's engine over a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        rows: int | None = None,
        steady: bool = False,
        memory: int = 0,
        shelf: Path | None = None,
    ) -> None:
        from docai.checkpoint.backend import require_mlx

        self.mx = require_mlx()
        import tokenizers

        from docai.vlm.engine import Engine
        from docai.vlm.generate import Runtime
        from docai.vlm.loading import load_network
        from docai.vlm.prefix import BlockStore
        from docai.vlm.scheduler import EngineLimits
        from docai.vlm.shelf import DiskShelf
        from docai.vlm.stream import Pieces
        from docai.vlm.tokenizer import Tokenizer

        self.network = load_network(folder)
        self.network.fuse()
        self.mx.eval(self.network.parameters())
        words = {f"w{i} ": i for i in range(self.network.spec.decoder.vocabulary)}
        tokenizer = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0 ")))
        self.shelf = None if shelf is None else DiskShelf(shelf, "benchmark")
        store = BlockStore(memory, self.shelf)
        self.engine = Engine(
            Runtime(self.network, Pieces(tokenizer)), store=store, limits=EngineLimits(rows=rows, steady=steady)
        )

    def submit(self, asked: Asked, **options: Any) -> Any:
        from docai.vlm.generate import Request
        from docai.vlm.request import GenerationOptions

        images = [] if asked.image is None else [self._image(asked.image)]
        chosen = GenerationOptions(max_tokens=asked.tokens, loop_guard=False, **options)
        return self.engine.submit(Request(asked.ids, images, chosen))

    def _image(self, number: int) -> Any:
        import numpy as np

        from docai.preprocess.inputs import ImageInput
        from docai.vlm.generate import RequestImage

        pixels = np.full((GRID[1] * GRID[2], self.network.spec.vision.patch_values), number / 100, np.float32)
        image = ImageInput(pixels, GRID[1] * GRID[2] // 4, GRID)
        return RequestImage((number,), image, lambda: self.network.encode([image])[0], keep=lambda _: None)

    def answer(self, all_asked: list[Asked]) -> list[Heard]:
        tickets = [self.submit(asked) for asked in all_asked]
        done = [ticket.whole() for ticket in tickets]
        return [Heard(each.timings.first_token_s, len(each.tokens)) for each in done]


def docai_side(folder: Path) -> Callable[[list[Asked]], list[Heard]]:
    return Docai(folder).answer


def docai_steady_side(folder: Path) -> Callable[[list[Asked]], list[Heard]]:
    return Docai(folder, rows=8, steady=True).answer


def docai_in_turn_side(folder: Path) -> Callable[[list[Asked]], list[Heard]]:
    return Docai(folder, rows=1).answer


# --- mlx-vlm


def mlx_vlm_side(folder: Path) -> Callable[[list[Asked]], list[Heard]]:
    """The generator of mlx-vlm's server: each request is embedded and put in, then all go on together."""
    import mlx.core as mx
    from mlx_vlm.generate.ar import BatchGenerator
    from mlx_vlm.utils import load_model

    model = load_model(folder)
    never = SimpleNamespace(add_eos_token_ids=lambda _: None, eos_token_ids=[])
    processor = SimpleNamespace(stopping_criteria=_Never(never))

    def embedded(asked: Asked) -> dict[str, Any]:
        ids = mx.array([asked.ids])
        more: dict[str, Any] = {}
        pixels = None
        if asked.image is not None:
            config = model.config.vision_config
            values = config.patch_size**2 * 3 * config.temporal_patch_size
            pixels = mx.full((GRID[1] * GRID[2], values), asked.image / 100)
            more = {"image_grid_thw": mx.array([GRID])}
        embeddings = model.get_input_embeddings(ids, pixels, mask=mx.ones_like(ids), **more)
        return {**more, **{k: v for k, v in embeddings.to_dict().items() if v is not None}}

    def answer(all_asked: list[Asked]) -> list[Heard]:
        start = time.perf_counter()
        generator = BatchGenerator(
            model.language_model, processor, stop_tokens=set(), compute_logprobs=False, greedy_sampling=True
        )
        numbers = [
            generator.insert([asked.ids], max_tokens=asked.tokens, prompt_kwargs=[embedded(asked)])[0]
            for asked in all_asked
        ]
        heard: dict[int, Heard] = {}
        left = set(numbers)
        while left:
            for response in generator.next()[1]:
                known = heard.setdefault(response.uid, Heard(time.perf_counter() - start, 0))
                known.tokens += 1
                if response.finish_reason:
                    left.discard(response.uid)
        return [heard[number] for number in numbers]

    return answer


class _Never:
    """Stopping criteria that never stop."""

    def __init__(self, said: Any) -> None:
        self.add_eos_token_ids, self.eos_token_ids = said.add_eos_token_ids, said.eos_token_ids

    def __call__(self, _: int) -> bool:
        return False


SIDES = {
    "docai": docai_side,
    "mlx_vlm": mlx_vlm_side,
    "in_turn": docai_in_turn_side,
    "steady": docai_steady_side,
}


def measure_clients(side: str, folder: Path, config: dict[str, Any], options: argparse.Namespace) -> None:
    """Figures of one side, for each number of clients; the first round of each number warms up."""
    answer = SIDES[side](folder)
    import mlx.core as mx

    for clients in options.clients:
        rounds = []
        for _ in range(options.rounds + 1):
            mx.reset_peak_memory()
            start = time.perf_counter()
            heard = answer(requests(config, clients, options.prompt, options.tokens))
            seconds = time.perf_counter() - start
            rounds.append((sum(each.tokens for each in heard) / seconds, sorted(each.first for each in heard)))
        rate = statistics.median(rate for rate, _ in rounds[1:])
        firsts = min((firsts for _, firsts in rounds[1:]), key=lambda firsts: firsts[-1])
        figures = {"tokens_s": rate, "first_s": statistics.median(firsts), "worst_first_s": firsts[-1]}
        put(clients=clients, side=side, **figures, peak_gb=mx.get_peak_memory() / 1e9)


# --- the engine's parts


def measure_prefix(side: str, folder: Path, _: dict[str, Any], options: argparse.Namespace) -> None:
    """`side`: `first`, in a process that has nothing, or `disk`, in one that finds its files."""
    docai = Docai(folder, memory=8 << 30, shelf=folder / "blocks")
    shared = [(7 * i) % 1000 + 10 for i in range(options.shared)]

    def first_token(beginning: list[int], end: list[int]) -> float:
        done = docai.submit(Asked([*beginning, *end], None, 8)).whole()
        return float(done.timings.first_token_s)

    other = [(11 * i) % 1000 + 10 for i in range(options.shared)]
    first_token(other, [5, 6] * 16)  # warms up all shapes, with another beginning
    first_token(other, [7, 8] * 16)
    figures = {"s": first_token(shared, [1, 2] * 16)}
    if side == "first":
        figures["memory_s"] = min(first_token(shared, [3, 4 + n] * 16) for n in range(3))
    put(side=side, shared=options.shared, **figures, **_only(docai.engine.store.stats(), "resident_bytes", "disk_hits"))
    assert docai.shelf is not None
    docai.shelf.flush()


def measure_kv(side: str, folder: Path, _: dict[str, Any], options: argparse.Namespace) -> None:
    """The bytes of a request's caches; `side` is the number of bits, 0 for none."""
    docai = Docai(folder)
    caches = docai.network.caches(bits=int(side) or None)
    prompt = docai.network.prompt([(7 * i) % 1000 + 10 for i in range(options.prompt)])
    docai.network.prefill(prompt, caches)
    put(bits=int(side) or "dense", tokens=options.prompt, bytes=sum(a.nbytes for c in caches for a in c.state))


def measure_guess(side: str, folder: Path, _: dict[str, Any], options: argparse.Namespace) -> None:
    """Tokens a second of one client; `side` is the most tokens that are guessed at once, 0 for none."""
    docai = Docai(folder)
    ids = [(7 * i) % 1000 + 10 for i in range(options.prompt)]
    rates = [
        docai.submit(Asked(ids, None, options.tokens), guess=int(side)).whole().decode_rate
        for _ in range(options.rounds + 1)
    ]
    put(guess=int(side), tokens_s=statistics.median(rates[1:]))


def _only(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


MEASURED: dict[str, tuple[tuple[str, ...], Callable[..., None]]] = {  # what -> its sides, each a process of its own
    "clients": (("docai", "mlx_vlm", "in_turn"), measure_clients),
    "prefix": (("first", "disk"), measure_prefix),
    "kv": (("0", "8", "4"), measure_kv),
    "guess": (("0", "4", "8"), measure_guess),
}


def run(what: str, name: str, folder: Path, options: argparse.Namespace) -> None:
    """All sides of a measurement, one after the other; their lines with the model's name."""
    for side in options.sides or MEASURED[what][0]:
        command = [sys.executable, __file__, what, name, "--side", side, "--folder", str(folder)]
        for option in ("prompt", "tokens", "rounds", "shared"):
            command += [f"--{option}", str(getattr(options, option))]
        command += ["--clients", ",".join(map(str, options.clients))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{side} failed:\n{done.stderr[-3000:]}")
        for line in done.stdout.splitlines():
            put(**{"model": name, "bits": options.bits or 16, **json.loads(line)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASURED)
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 8, 16, 32])
    parser.add_argument("--bits", type=int, default=0, help="4 or 8; 0 is bfloat16")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--shared", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sides", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        (name,) = options.models
        MEASURED[options.what][1](options.side, options.folder, MODELS[name][1], options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.models:
            make(name, Path(folder) / name, options.bits)
            run(options.what, name, Path(folder) / name, options)


if __name__ == "__main__":
    main()
