"""Tiny Gemma 4 and Gemma 4 Unified that see and hear, as they lie on disk; what they answer is noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from tests.goldens.prompts.cases import GEMMA_4
from tests.parity.stored import config_of, weights_of, written

MARKS = {
    91: "<audio|>", 92: "<|audio>", 93: "<|image>", 94: "<image|>", 95: "<|image|>", 96: "<|video|>", 97: "<|audio|>",
    98: "<|turn>", 99: "<turn|>",
}  # fmt: skip
SMALL = {"max_soft_tokens": 4}
CLIPS = {"max_soft_tokens": 2, "num_frames": 2}


def tiny_gemma4(folder: Path, *, unified: bool = False, deaf: bool = False, template: str | None = GEMMA_4) -> Path:
    """A checkpoint; `deaf`: with what its config says of sound, but without the weights for it."""
    name = "gemma4_unified-audio" if unified else "gemma4-audio"
    weights = {k: v for k, v in weights_of(name).items() if not (deaf and "audio" in k)}
    config = config_of(name)
    config["text_config"]["max_position_embeddings"] = 1024
    written(folder, config, weights)
    words = {MARKS.get(number, f"w{number}" if number else "?"): number for number in range(100)}
    backend = Tokenizer(WordLevel(words, unk_token="?"))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.add_special_tokens([AddedToken(mark, normalized=False) for mark in MARKS.values()])
    backend.save(str(folder / "tokenizer.json"))
    said: dict[str, Any] = {"bos_token": "w1", "eos_token": "w2"}
    said |= {} if template is None else {"chat_template": template}
    files = {
        "tokenizer_config.json": said,
        "processor_config.json": {"image_processor": SMALL, "video_processor": CLIPS},
    }
    for file, value in files.items():
        (folder / file).write_text(json.dumps(value))
    return folder
