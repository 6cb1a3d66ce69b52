"""Writes the goldens of the sound processors; run with the `oracle` extra (transformers 5.24).

    python -m tests.goldens.sounds.make

For each case and length: the frames that the reference does not mask (their number and a sample of their values), and
how many tokens its processor writes for them, into `expected.npz`; into `prompts.json` what its processors make of
conversations with a sound. docai's own code is used for nothing but the tables of cases.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from tests.goldens.processors.cases import picture, summary
from tests.goldens.prompts import cases as prompts_cases
from tests.goldens.prompts.make import flat, reference, runs
from tests.goldens.sounds.cases import CASES, CONVERSATIONS, LENGTHS, SAID, Case, sound

HERE = Path(__file__).parent


def golden(name: str, case: Case) -> dict[str, Any]:
    """Arrays by `<case>/<length>/<what>`."""
    module, _, kind = case.reference.rpartition(".")
    extractor = getattr(import_module(f"transformers.models.{module}"), kind)(**case.prep)
    family = module.partition(".")[0]
    processor = getattr(
        import_module(f"transformers.models.{family}.processing_{family}"),
        "Gemma4UnifiedProcessor" if "unified" in family else "Gemma4Processor",
    )
    writer = SimpleNamespace(boa_token="<", audio_token="a", eoa_token=">")
    arrays: dict[str, Any] = {}
    for length in LENGTHS:
        out = extractor([sound(length)], return_tensors="np")
        mask = np.asarray(out["input_features_mask"][0], bool)
        frames = np.asarray(out["input_features"][0])[mask]
        written = processor.replace_audio_token(writer, {"input_features_mask": [mask]}, 0)
        key = f"{name}/{length}"
        arrays[f"{key}/shape"] = np.array(frames.shape, np.int32)
        arrays[f"{key}/values"] = summary(frames).astype(np.float32) if frames.size else np.zeros(0, np.float32)
        arrays[f"{key}/tokens"] = np.array(written.count("a"), np.int32)
    return arrays


def prompts(name: str) -> dict[str, Any]:
    """Text and ids of each conversation, as in tests.goldens.prompts."""
    case = prompts_cases.CASES[name]
    processor = reference(case)
    module, _, kind = CASES[name].reference.rpartition(".")
    processor.feature_extractor = getattr(import_module(f"transformers.models.{module}"), kind)()
    said: dict[str, Any] = {}
    for what, conversation in CONVERSATIONS.items():
        text = processor.apply_chat_template(conversation.messages, add_generation_prompt=True)
        images = [Image.fromarray(picture(size)) for size in conversation.images]
        out = processor(
            text=text, images=[images] if images else None, audio=[sound(SAID)], padding=False, add_special_tokens=False
        )
        said[what] = {"text": text, "ids": runs(flat(out["input_ids"]))}
    return said


def main() -> None:
    """Every case into one file, and the prompts of both families."""
    arrays: dict[str, Any] = {}
    for name, case in CASES.items():
        arrays |= golden(name, case)
    np.savez_compressed(HERE / "expected.npz", **arrays)
    told = {name: prompts(name) for name in ("gemma4", "gemma4_unified")}
    (HERE / "prompts.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
