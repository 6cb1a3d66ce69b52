"""`python tests/parity/florence_answers.py` asks transformers what answers of Florence-2 mean, and keeps it.

Needs the `oracle` extra; the suite needs only `tests/goldens/florence2/answers.json`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace

FILE = Path(__file__).parents[1] / "goldens" / "florence2" / "answers.json"
SIZE = (640, 427)  # width, height
KINDS = {
    "quads": "ocr", "boxes": "description_with_bboxes", "proposals": "bboxes", "phrases": "phrase_grounding",
    "polygons": "polygons", "open": "description_with_bboxes_or_polygons",
}  # fmt: skip
BANNED = ["it", "the image", "a group", "one another", "lots"]


def bins(count: int, dice: random.Random) -> str:
    return "".join(f"<loc_{dice.randrange(1000)}>" for _ in range(count))


def answers() -> list[tuple[str, str]]:
    """(kind, answer): whole ones, and such as models give when they are cut off or lose count."""
    dice = random.Random(7)
    words = ["cat", "remote control", "naïve façade", " a dog ", "the image", "it", "Straße 5", "a < b"]
    out = []
    for kind in KINDS:
        for _ in range(6):
            parts = []
            for word in dice.sample(words, 3):
                if kind in ("quads", "boxes", "phrases"):
                    parts.append(word + bins(dice.choice((8, 8, 4, 12, 7, 3)), dice))
                elif kind == "proposals":
                    parts.append(bins(dice.choice((4, 8, 5, 3)), dice))
                else:
                    name = word if kind == "open" else ""
                    rings = "<sep>".join(bins(dice.choice((6, 8, 9)), dice) for _ in range(dice.choice((1, 2))))
                    closed = f"<poly>{rings}</poly>" if kind == "polygons" or dice.random() < 0.7 else bins(4, dice)
                    parts.append(name + closed * dice.choice((1, 2)))
            out.append((kind, "</s><s>" + "".join(parts) + dice.choice(("</s>", "<pad><pad>", "<loc_1"))))
        out.append((kind, "</s><s>" + ("nothing at all" if kind != "polygons" else bins(9, dice)) + "</s>"))
    return out


def main() -> None:
    from transformers.models.florence2.processing_florence2 import Florence2PostProcessor

    config = {name: {} for name in KINDS.values()}
    config["phrase_grounding"] = {"banned_grounding_tokens": BANNED}
    oracle = Florence2PostProcessor(config, SimpleNamespace(all_special_tokens=[], bos_token_id=0))
    cases = []
    for kind, answer in answers():
        task = KINDS[kind]
        found = oracle(text=answer, image_size=SIZE, parse_tasks=task)[task]
        cases.append({"kind": kind, "answer": answer, "found": found})
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps({"size": SIZE, "cases": cases}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
