"""`python tests/parity/locate_boxes.py` has mlx-vlm write answers of LocateAnything in its three ways, and keeps them.

Needs the `oracle` extra; the suite needs only `tests/goldens/locate/boxes.json`. Weights are random, but the scores are
made peaked and the tokens of places likely, so that boxes, points, names and doubts come up.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.recipes.documents import LOCATE  # noqa: E402
from tests.parity.weights import noise, tensors  # noqa: E402

FILE = HERE.parent / "goldens" / "locate" / "boxes.json"
VOCABULARY, TOKENS = 224, 48
NEAR_TIE = 1e-3  # two best scores closer than this are no test
CONFIG: dict[str, Any] = {
    **LOCATE,
    "box_start_token_id": 200, "box_end_token_id": 201, "ref_start_token_id": 202, "ref_end_token_id": 203,
    "coord_start_token_id": 40, "coord_end_token_id": 190, "none_token_id": 5, "eos_token_id": [206],
    "text_config": {
        **LOCATE["text_config"], "vocab_size": VOCABULARY, "null_token_id": 204, "text_mask_token_id": 205,
        "switch_token_id": 207,
    },
}  # fmt: skip
# How much likelier than others a token is made: by the length of its row in the embedding.
LIKELY = {200: 2.2, 201: 2.0, 202: 1.6, 203: 1.6, 204: 1.5, 206: 1.1, 5: 1.6}
PEAKS = (3.0, 6.0, 12.0)
WAYS = ("hybrid", "fast", "slow")


def weights_for(shapes: dict[str, list[int]], seed: int, peak: float) -> dict[str, np.ndarray]:
    """The tensors of a case."""
    made = tensors(shapes, seed)
    table = made["language_model.model.embed_tokens.weight"]
    for token, factor in LIKELY.items():
        table[token] *= factor
    made["language_model.model.norm.weight"] *= peak
    return made


def prompt_of(seed: int) -> list[int]:
    """Some words, as ids."""
    return (6 + np.abs(noise("prompt", (9,), seed) * 10).astype(int) % 30).tolist()


def main() -> None:
    import mlx.core as mx
    from mlx_vlm.models.locateanything import pbd

    from tests.parity.make import mlx_vlm_model, shapes_of

    model = mlx_vlm_model("locateanything", CONFIG)
    shapes = {name: list(shape) for name, shape in shapes_of(model).items()}
    kinds: Counter[str] = Counter()
    handle = pbd.handle_pattern

    def counted(*how: Any) -> dict[str, Any]:
        found = handle(*how)
        kinds[found["type"]] += 1
        return found

    margins: list[float] = []
    sample, single = pbd.sample_block, pbd.PBDDecoder._sample_ar

    def margin(logits: Any) -> None:
        best = np.sort(np.array(logits).reshape(-1, VOCABULARY), axis=-1)[:, -2:]
        margins.append(float((best[:, 1] - best[:, 0]).min()))

    pbd.handle_pattern = counted
    pbd.sample_block = lambda logits, *how: (margin(logits), sample(logits, *how))[1]
    pbd.PBDDecoder._sample_ar = lambda self, logits: (margin(logits), single(self, logits))[1]
    cases = []
    for seed in range(1, 41):
        peak = PEAKS[seed % len(PEAKS)]
        model.load_weights([(name, mx.array(value)) for name, value in weights_for(shapes, seed, peak).items()])
        prompt = mx.array([prompt_of(seed)])
        margins.clear()
        said = {way: model.pbd_generate(prompt, None, way, TOKENS) for way in WAYS}
        if min(margins) > NEAR_TIE:
            cases.append({"seed": seed, "peak": peak, **said})
    print(len(cases), dict(kinds))  # noqa: T201
    FILE.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n  ".join(json.dumps(case) for case in cases)
    FILE.write_text(f'{{"tensors": {json.dumps(shapes)},\n "cases": [\n  {rows}\n ]}}\n')


if __name__ == "__main__":
    main()
