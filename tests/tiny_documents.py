"""Tiny random GOT-OCR and LocateAnything checkpoints as they lie on disk, with the names and vocabularies of published
files. What they answer is noise, always the same.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from docai.checkpoint.vocab.tiktoken import QWEN_SPECIAL
from tests.parity.recipes.documents import FLAT_GOT, LOCATE
from tests.parity.stored import case_of, changes
from tests.parity.weights import as_variant, tensors
from tests.tiny_checkpoint import byte_level

TIKTOKEN = Path(__file__).parent / "goldens" / "tokenizers" / "qwen_tiktoken" / "qwen.tiktoken"


def _weights(name: str, variant: str, vocabulary: int, table: str) -> dict[str, np.ndarray]:
    """Those of a case of the parity tests, with a vocabulary of another size."""
    case, changed = case_of(name), changes(name, variant)
    shapes = {**case["tensors"], table: [vocabulary, case["tensors"][table][1]]}
    layout = {key: changed.get(key, False) for key in ("channels_last", "channels_first")}
    return as_variant(tensors(shapes, 1), changed.get("renames", ()), changed.get("copies", {}), **layout)


def _written(folder: Path, weights: dict[str, np.ndarray], files: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    for name, value in files.items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def tiny_got(folder: Path, *, converted: bool = False) -> Path:
    """A GOT-OCR 2.0 as published, its vocabulary a qwen.tiktoken alone; `converted`: as transformers has it."""
    ranks = len(TIKTOKEN.read_bytes().splitlines())
    ids = {token: ranks + number for number, token in enumerate(QWEN_SPECIAL)}
    vocabulary, end = ranks + len(QWEN_SPECIAL), ids["<|endoftext|>"]
    weights = _weights(
        "got_ocr2", "" if converted else "original", vocabulary, "language_model.model.embed_tokens.weight"
    )
    if converted:
        said = case_of("got_ocr2")["config"]
        text = {**said["text_config"], "vocab_size": vocabulary, "max_position_embeddings": 2048, "eos_token_id": end}
        config = {**said, "text_config": text, "image_token_index": ids["<imgpad>"]}
        size = {"preprocessor_config.json": {"size": {"height": 64, "width": 64}}}
    else:
        more = {"vocab_size": vocabulary, "max_position_embeddings": 2048, "im_patch_token": ids["<imgpad>"]}
        config, size = {**FLAT_GOT, **more, "eos_token_id": end}, {}
    _written(folder, weights, {"config.json": config, "generation_config.json": {"eos_token_id": end}, **size})
    shutil.copy(TIKTOKEN, folder / TIKTOKEN.name)
    return folder


LOCATE_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<box>", "</box>", "<ref>",
    "</ref>", "<text_mask>", *(f"<{number}>" for number in range(1001)), "<null>", "<switch>", "</c>",
)  # fmt: skip
# Numbers images, and takes a text or parts.
LOCATE_TEMPLATE = (
    "{% set seen = namespace(count=0) %}{% for message in messages %}{% if loop.first and message.role != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}{% set seen.count = seen.count + 1 %}<image-{{ seen.count }}>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_locate(folder: Path, *, exported: bool = False, template: bool = True) -> Path:
    """A LocateAnything as published, its vocabulary in three files; `exported`: as mlx-vlm has it."""
    words = json.loads(byte_level().to_str())["model"]
    start = len(words["vocab"])
    added = {token: start + number for number, token in enumerate(LOCATE_SPECIAL)}
    vocabulary = start + len(added)
    text = {
        **LOCATE["text_config"], "vocab_size": vocabulary, "max_position_embeddings": 2048,
        "null_token_id": added["<null>"], "text_mask_token_id": added["<text_mask>"],
    }  # fmt: skip
    ids = {
        "box_start_token_id": "<box>", "box_end_token_id": "</box>", "ref_start_token_id": "<ref>",
        "ref_end_token_id": "</ref>", "coord_start_token_id": "<0>", "coord_end_token_id": "<1000>",
        "image_token_index": "<IMG_CONTEXT>", "eos_token_id": "<|im_end|>",
    }  # fmt: skip
    known = {**added, **words["vocab"]}
    config = {**LOCATE, "text_config": text, "none_token_id": known.get("None", known["N"])}
    config |= {name: known[token] for name, token in ids.items()}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in words["merges"]]
    files = {
        "config.json": config,
        "generation_config.json": {"eos_token_id": added["<|im_end|>"]},
        "vocab.json": words["vocab"],
        "merges.txt": "\n".join(["#version: 0.2", *merges]) + "\n",
        "added_tokens.json": added,
        "tokenizer_config.json": {
            "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
            "additional_special_tokens": list(LOCATE_SPECIAL),
        },
        "preprocessor_config.json": {"patch_size": 4, "merge_kernel_size": [2, 2], "in_token_limit": 200},
        **({"chat_template.json": {"chat_template": LOCATE_TEMPLATE}} if template else {}),
    }  # fmt: skip
    table = "language_model.model.embed_tokens.weight"
    return _written(folder, _weights("locateanything", "" if exported else "published", vocabulary, table), files)
