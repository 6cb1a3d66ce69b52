"""Every family's checkpoints become our own and stay the same model; every one can be explained and quantized."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

import numpy as np
from PIL import Image
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from docai import load
from docai.checkpoint.checkpoint import read_checkpoint
from docai.checkpoint.dialect import own_names_matched
from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.tasks.convert import convert_model
from docai.tasks.models import Resolved, show_model, verify_model
from docai.tasks.models_options import ConvertOptions
from docai.vlm.families import Family, family_of
from docai.vlm.loading import load_network
from tests.parity.stored import (
    CASES,
    case_of,
    config_of,
    images_of,
    logits,
    quantized,
    variants,
    weights_of,
    written,
)

EVERY = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    """A case of the parity tests as a checkpoint."""
    return written(tmp_path / "checkpoint", config_of(name), weights_of(name))


def answer(name: str, folder: Path) -> np.ndarray:
    return logits(load_network(folder), case_of(name)["tokens"], images_of(name))


@EVERY
def test_converted_it_is_the_same_model(name: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert_model(str(folder), ConvertOptions(output=str(out), shard_size="50kB"))
    assert len(list(out.glob("*.safetensors"))) > 1
    np.testing.assert_array_equal(answer(name, out), answer(name, folder))
    assert verify_model(str(out), SourceOptions())["problems"] == []


@EVERY
def test_quantized_it_is_what_its_numbers_stand_for(name: str, folder: Path, tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    convert_model(str(folder), ConvertOptions(output=str(packed), bits=8, group_size=32, vision=True))
    assert read_checkpoint(packed).quantization is not None
    convert_model(str(packed), ConvertOptions(output=str(plain), dequantize=True))
    np.testing.assert_allclose(answer(name, packed), answer(name, plain), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_it_is_explained(name: str, variant: str, tmp_path: Path) -> None:
    weights = weights_of(name, variant)
    folder = written(tmp_path / "checkpoint", config_of(name, variant), weights)
    found = json.loads(json.dumps(show_model(str(folder), LoadOptions())))
    used = {source for weight in found["weights"] for source in weight["from"]}
    assert used | set(found["dropped"]) == set(weights)
    assert found["sees"] == any(weight["name"].startswith(("vision.", "connector.")) for weight in found["weights"])
    assert sum(module["parameters"] for module in found["modules"]) == found["parameters"]


@EVERY
def test_no_rule_matches_a_name_of_ours(name: str, folder: Path) -> None:
    resolved = Resolved.of(read_checkpoint(folder))
    for rules in resolved.family.rules.values():
        assert own_names_matched(rules(resolved.spec), resolved.mapped.map.weights) == []


@pytest.mark.parametrize("name", [name for name in CASES if case_of(name)["images"]])
def test_pictures_become_as_many_rows_as_there_are_tokens_for_them(name: str, folder: Path) -> None:
    """The processor of a checkpoint without a preprocessor_config.json fits the tower that its config describes."""
    network, config = load_network(folder), config_of(name)
    images = family_of(config).images
    assert images is not None
    processor = images({}, config)
    for height, width in ((40, 31), (24, 130)):
        image = processor(np.random.RandomState(height).randint(0, 256, (height, width, 3)).astype(np.uint8))
        (features,) = network.encode([image])
        assert features.rows.shape == (image.tokens, network.spec.decoder.dims)


SEEING = [name for name in CASES if case_of(name)["images"] and not name.endswith("-clip")]


def with_words(folder: Path, family: Family, image_token: int, size: int) -> None:
    """A tokenizer of so many words, the family's image token among them, and an image processor for small pictures."""
    words = {f"w{number}" if number else "?": number for number in range(size)}
    if family.prompt.token_id is None:
        words = {word: number for word, number in words.items() if number != image_token}
        words[family.prompt.token] = image_token
    backend = Tokenizer(WordLevel(words, unk_token="?"))
    backend.pre_tokenizer = WhitespaceSplit()
    if family.prompt.token_id is None:
        backend.add_special_tokens([AddedToken(family.prompt.token, normalized=False)])
    backend.save(str(folder / "tokenizer.json"))
    small = {
        "min_pixels": 64, "max_pixels": 1024, "min_image_tokens": 2, "max_image_tokens": 8, "min_num_patches": 4,
        "max_num_patches": 64, "scale_resolution": 24, "max_soft_tokens": 8,
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(small))


@pytest.mark.parametrize("name", SEEING)
def test_it_answers_about_a_picture(name: str, folder: Path, tmp_path: Path) -> None:
    config = config_of(name)
    spec = load_network(folder).spec
    assert spec.image_token is not None
    with_words(folder, family_of(config), spec.image_token, spec.decoder.vocabulary)
    picture = tmp_path / "picture.png"
    Image.fromarray(np.random.RandomState(1).randint(0, 256, (20, 31, 3)).astype(np.uint8)).save(picture)
    answer = load(str(folder)).generate("w5 w6", [picture], max_tokens=3)
    assert len(answer.tokens) <= 3
    assert answer.usage.images > 0


def exports() -> list[tuple[str, str]]:
    """Cases whose names are those of mlx-vlm's exports."""
    asked = [(name, "") for name in CASES if case_of(name)["oracle"].startswith("mlx_vlm")]
    return asked + [(name, variant) for name, variant in variants() if variant == "mlx"]


@pytest.mark.parametrize(("name", "variant"), exports())
def test_quantized_exports_are_what_their_numbers_stand_for(name: str, variant: str, tmp_path: Path) -> None:
    packed, plain = quantized(weights_of(name, variant), 8, 32, dense=lambda weight: weight.endswith("gate.weight"))
    assert any(key.endswith(".scales") for key in packed)
    config = config_of(name, variant)
    said = {**config, "quantization": {"group_size": 32, "bits": 8}}
    networks = [
        load_network(written(tmp_path / "packed", said, packed)),
        load_network(written(tmp_path / "plain", config, plain)),
    ]
    answers = [logits(network, case_of(name)["tokens"], images_of(name)) for network in networks]
    np.testing.assert_allclose(*answers, rtol=1e-3, atol=1e-3)
