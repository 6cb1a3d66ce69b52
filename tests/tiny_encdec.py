"""Tiny random encoder-decoder models as they lie on disk. What they answer is noise, always the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken

from tests.parity.encdec import BART, DAVIT, MBART, RADIO
from tests.parity.weights import tensors
from tests.tiny_checkpoint import byte_level

ENDS = ("<s>", "<pad>", "</s>")
CONTROLS = (
    "<predict_bbox>", "<predict_classes>", "<output_markdown>", "<predict_no_text_in_pic>", "<predict_text_in_pic>",
    "<no_bbox>", "<class_Text>", "<class_Table>", *(f"<x_{n / 10}>" for n in range(10)),
    *(f"<y_{n / 10}>" for n in range(10)),
)  # fmt: skip
LOCATIONS = 1024  # tokens that Florence-2 has behind BART's


def tiny_florence2(folder: Path, **text: Any) -> Path:
    """A model with a tokenizer that lacks the location tokens, as some repos have it."""
    backend = _tokenizer(ENDS)
    ids = _ids(backend)
    said = {**BART, **ids, "vocab_size": backend.get_vocab_size() + LOCATIONS, "max_position_embeddings": 256, **text}
    config = {"model_type": "florence2", "text_config": said, "vision_config": DAVIT}
    prepare = {"size": {"height": 96, "width": 96}, "resample": 3}
    return _written(folder, config, backend, {"preprocessor_config.json": prepare})


def tiny_nemotron(folder: Path, controls: tuple[str, ...] = CONTROLS, **config: Any) -> Path:
    backend = _tokenizer((*ENDS, *controls))
    ids = _ids(backend)
    decoder = {**MBART, "vocab_size": backend.get_vocab_size()}
    whole = {"model_type": "nemotron_parse", "encoder": RADIO, "decoder": decoder, "image_size": [40, 32], **ids}
    return _written(folder, {**whole, **config}, backend, {})


def _tokenizer(special: tuple[str, ...]) -> tokenizers.Tokenizer:
    backend = byte_level()
    backend.add_special_tokens([AddedToken(name, special=True) for name in special])
    return backend


def _ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    begin, pad, end = (backend.token_to_id(name) for name in ENDS)
    return {"bos_token_id": begin, "pad_token_id": pad, "eos_token_id": end, "decoder_start_token_id": end}


def _written(folder: Path, config: dict[str, Any], backend: tokenizers.Tokenizer, more: dict[str, Any]) -> Path:
    from docai.checkpoint.load import shapes_of
    from docai.vlm.config import Config
    from docai.vlm.families import family_of
    from docai.vlm.loading import build_network

    folder.mkdir(parents=True, exist_ok=True)
    shapes = shapes_of(build_network(family_of(config).spec(Config(config))))
    save_file(tensors(shapes, 1), folder / "model.safetensors", metadata={"format": "docai"})
    backend.save(str(folder / "tokenizer.json"))
    said = {"bos_token": ENDS[0], "pad_token": ENDS[1], "eos_token": ENDS[2]}
    for name, value in {"config.json": config, "tokenizer_config.json": said, **more}.items():
        (folder / name).write_text(json.dumps(value))
    return folder
