"""Families answer wherever docai asks models: `chat`, `caption`, `ocr -m` and the server, in each of their dialects."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

import numpy as np
from PIL import Image

from docai.checkpoint.checkpoint import read_checkpoint
from docai.vlm.families import family_of
from docai.vlm.loading import resolve
from docai.vlm.spec import ModelSpec
from tests.commands import run
from tests.parity.stored import config_of, variants, weights_of, written
from tests.serving import served
from tests.test_models_families import with_words

# Of each family the cases that stand for it, in all their dialects.
FAMILIES = {
    "Cohere Compass": ("cohere_compass",),
    "Mage-VL": ("mage_vl",),
    "Bunny": ("llava_bunny", "llava_bunny-llama"),
    "Aya Vision": ("aya_vision", "cohere2_vision"),
    "LLM-jp-VL": ("llmjpvl", "llmjpvl-qwen3"),
    "Phi-3 Vision": ("phi3_v",),
    "Phi-4 SigLIP": ("phi4_siglip",),
    "LFM2-VL": ("lfm2_vl",),
    "Qwen3.5-VL": ("qwen3_5", "qwen3_5-mlx"),
    "Qwen3.5-VL with experts": ("qwen3_5_moe", "qwen3_5_moe-mlx"),
    "MiniCPM-V 4.6": ("minicpmv4_6", "minicpmv4_6-fine"),
    "Kimi-VL": ("kimi_vl", "kimi_k25"),
    "Youtu-VL": ("youtu_vl",),
    "Gemma 4": ("gemma4", "gemma4-moe", "gemma4-moe-mlx", "gemma4_unified"),
}
EVERY = [pair for names in FAMILIES.values() for pair in variants() if pair[0] in names]
FEW = ("--max-tokens", "2")


@pytest.fixture
def folder(name: str, variant: str, tmp_path: Path) -> Path:
    """A checkpoint with a tokenizer."""
    folder = written(tmp_path / "tiny", config_of(name, variant), weights_of(name, variant))
    _, spec = resolve(read_checkpoint(folder))
    assert isinstance(spec, ModelSpec)
    assert spec.image_token is not None
    with_words(folder, family_of(config_of(name, variant)), spec.image_token, spec.decoder.vocabulary)
    return folder


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_it_answers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    picture, model = tmp_path / "picture.png", str(folder)
    Image.fromarray(np.random.RandomState(1).randint(0, 256, (20, 31, 3)).astype(np.uint8)).save(picture)

    assert run("chat", str(picture), "-m", model, "-p", "w5 w6", "--json", *FEW) == 0
    chatted = json.loads(capsys.readouterr().out)
    assert (chatted["usage"]["generated"], chatted["usage"]["images"] > 0) == (2, True)

    assert run("caption", str(picture), "-m", model, "--json", *FEW) == 0
    assert json.loads(capsys.readouterr().out)["usage"]["images"] == chatted["usage"]["images"]

    assert run("ocr", str(picture), "-m", model, "-f", "json", "--guard", "off", *FEW) == 0
    (page,) = json.loads(capsys.readouterr().out)["pages"]
    assert {block["source"] for block in page["blocks"]} <= {"vlm:tiny"}
    assert page["outcome"]["status"] == "ok"

    url = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "w5 w6"}]
    body = {"model": "tiny", "messages": [{"role": "user", "content": parts}], "max_tokens": 2}
    with served(tmp_path / "state", model=[model]) as server:
        answer = server.json("POST", "/v1/chat/completions", body)
    assert answer["choices"][0]["message"]["content"].strip() == chatted["text"].strip()
    assert answer["usage"]["completion_tokens"] == 2
