"""Writes the goldens of the sound processors; run with the `oracle` extra (transformers 5.24).

    python -m tests.goldens.sounds.make

For each case and length: the frames that the reference does not mask (their number and a sample of their values), and
how many tokens its processor writes for them. docai's own code is used for nothing but the table of cases.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.goldens.processors.cases import summary
from tests.goldens.sounds.cases import CASES, LENGTHS, Case, sound

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


def main() -> None:
    """Every case into one file."""
    arrays: dict[str, Any] = {}
    for name, case in CASES.items():
        arrays |= golden(name, case)
    np.savez_compressed(HERE / "expected.npz", **arrays)


if __name__ == "__main__":
    main()
