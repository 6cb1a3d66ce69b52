"""A second question about the same picture: how long until the first word, against the first question.

    python benchmarks/turns.py [MODEL] [--side 1024] [--tokens 16] [--dtype bfloat16]

Random weights of full size. The picture's features and the conversation so far are kept between the turns; the same
turns are asked with both caches off, and the answers have to be the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from shapes import MODELS

QUESTIONS = ("w1 w2 w3 w4 w5", "w6 w7 w8 w9 w10")
MARKS = {
    "image_token_id": "<|image_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}


def make(name: str, folder: Path, dtype: str) -> None:
    """A checkpoint in docai's own layout: random weights, a tokenizer of numbered words."""
    import mlx.core as mx
    import tokenizers
    from mlx.utils import tree_flatten, tree_map

    from docai.vlm.config import Config
    from docai.vlm.families import family_of
    from docai.vlm.network import Network

    config = MODELS[name][1]
    mx.random.seed(0)
    network = Network(family_of(config).spec(Config(config)))
    network.update(tree_map(lambda a: a.astype(getattr(mx, dtype)), network.parameters()))
    mx.save_safetensors(
        str(folder / "model.safetensors"), dict(tree_flatten(network.parameters())), {"format": "docai"}
    )
    (folder / "config.json").write_text(json.dumps(config))
    special = {config[key]: mark for key, mark in MARKS.items()}
    words = {special.get(i, f"w{i}"): i for i in range(network.spec.decoder.vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(special.values()))
    tokenizer.save(str(folder / "tokenizer.json"))


def ask(model: Any, side: int, tokens: int) -> tuple[list[float], list[tuple[int, ...]]]:
    """Seconds to the first token of each turn, and the answers."""
    picture = np.random.RandomState(0).randint(0, 255, (side, side, 3), np.uint8)
    messages: list[dict[str, Any]] = []
    seconds, answers = [], []
    for number, question in enumerate(QUESTIONS):
        parts = [{"type": "image"}] * (number == 0) + [{"type": "text", "text": question}]
        messages.append({"role": "user", "content": parts})
        answer = model.generate(messages, [picture], max_tokens=tokens, loop_guard=False)
        messages.append({"role": "assistant", "content": answer.text})
        seconds.append(answer.timings.first_token_s)
        answers.append(answer.tokens)
    return seconds, answers


def main() -> None:
    import docai

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="qwen2.5-vl-3b", choices=[m for m in MODELS if "-vl-" in m])
    parser.add_argument("--side", type=int, default=1024, help="pixels of the picture's sides")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(options.model, Path(folder), options.dtype)
        kept = docai.load(folder, dtype=options.dtype)
        ask(kept, options.side, options.tokens)  # kernels are compiled, once
        kept.clear()
        warm, answers = ask(kept, options.side, options.tokens)
        cold, same = ask(
            docai.load(folder, dtype=options.dtype, feature_cache=0, prefix_cache=0), options.side, options.tokens
        )
    figures = {"first_s": warm[0], "second_s": warm[1], "ratio": warm[1] / warm[0], "second_without_caches_s": cold[1]}
    print(json.dumps({"model": options.model, **figures, "same_answers": answers == same}))


if __name__ == "__main__":
    main()
