"""Writes what transformers asks a GOT-OCR 2.0; run with the `oracle` extra: python -m tests.goldens.got.make

`prompts.json` has the whole text of each case, a run of image tokens as its length: <imgpad*256>.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from PIL import Image

from tests.goldens.got.cases import CASES, PREP, Asked
from tests.goldens.processors.cases import picture

HERE = Path(__file__).parent


class Words:
    """A tokenizer that keeps the text that it is given."""

    init_kwargs: dict[str, Any] = {}  # noqa: RUF012 - as the reference looks for it

    def convert_tokens_to_ids(self, _: str) -> int:
        return 0

    def __call__(self, texts: list[str], **_: Any) -> dict[str, Any]:
        (self.text,) = texts
        return {"input_ids": [[0]]}


def prompt(asked: Asked) -> str:
    module = import_module("transformers.models.got_ocr2.processing_got_ocr2")
    images = import_module("transformers.models.got_ocr2.image_processing_pil_got_ocr2")
    kind = module.GotOcr2Processor
    kind.check_argument_for_proper_class = lambda *_: None
    kind._check_special_mm_tokens = lambda *_, **__: None
    words = Words()
    processor = kind(images.GotOcr2ImageProcessorPil(**PREP), words)
    pictures = [Image.fromarray(picture(size)) for size in asked.sizes]
    processor(
        images=pictures if asked.pages else pictures[0],
        box=list(asked.box) if asked.box else None,
        format=asked.formatted,
        color=asked.colour,
        multi_page=asked.pages,
        crop_to_patches=asked.crops,
        return_mm_token_type_ids=False,
    )
    return re.sub(r"(?:<imgpad>)+", lambda run: f"<imgpad*{len(run[0]) // len('<imgpad>')}>", words.text)


def main() -> None:
    """All cases into one file."""
    made = {name: prompt(asked) for name, asked in CASES.items()}
    (HERE / "prompts.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
