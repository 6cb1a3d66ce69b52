"""The LLaVA line, PaliGemma, Gemma 3, Pixtral and Mistral 3 beside parity: configs as published, quantized exports,
what their image processors make for their towers, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from PIL import Image

import docai
from docai.checkpoint.dialect import own_names_matched
from docai.errors import CheckpointError
from docai.nn.axial import AxialRope
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.nn.vit import Vit, VitSpec
from docai.preprocess.inputs import ImageInput
from docai.vlm.config import Config
from docai.vlm.connector import ImageFeatures, JoinerSpec, PoolerSpec, ProjectorSpec, in_place
from docai.vlm.families import family_of
from docai.vlm.loading import load_network
from docai.vlm.network import Network
from docai.vlm.spec import ModelSpec
from tests.parity.stored import case_of, config_of, images_of, logits, quantized, weights_of, written
from tests.parity.weights import tensors
from tests.tiny_checkpoint import byte_level

EXPORTS = ["llava", "llava_next", "paligemma", "paligemma2", "gemma3", "pixtral", "mistral3"]
KINDS = [*EXPORTS, "llava-layers", "llava-siglip", "pixtral-inner"]


def loaded(name: str, folder: Path) -> Network:
    return load_network(written(folder, config_of(name), weights_of(name)))


def spec_of(config: dict[str, Any]) -> ModelSpec:
    return family_of(config).spec(Config(config))


# --- configs as the hub has them; what is left out here is what the configuration classes fill in

CLIP_LARGE = {
    "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "model_type": "clip_vision_model",
    "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32_000,
}  # fmt: skip
SO400M = {
    "hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16,
    "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
}  # fmt: skip
LLAVA_7B = {
    "model_type": "llava", "image_token_index": 32_000, "vision_feature_layer": -2, "vision_config": CLIP_LARGE,
    "vision_feature_select_strategy": "default", "text_config": {
        "model_type": "llama", "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "vocab_size": 32_064,
    },
}  # fmt: skip
LLAVA_NEXT_7B = {
    "model_type": "llava_next", "image_token_index": 32_000, "vision_config": CLIP_LARGE, "text_config": {
        "model_type": "mistral", "intermediate_size": 14_336, "max_position_embeddings": 32_768,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None, "vocab_size": 32_064,
    },
}  # fmt: skip
PALIGEMMA_3B = {
    "model_type": "paligemma", "image_token_index": 257_152, "projection_dim": 2048, "vision_config": SO400M,
    "text_config": {
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16_384, "num_attention_heads": 8,
        "num_hidden_layers": 18, "num_key_value_heads": 1, "vocab_size": 257_216,
    },
}  # fmt: skip
PALIGEMMA_2_3B = {
    "model_type": "paligemma", "image_token_index": 257_152, "projection_dim": 2304, "vision_config": SO400M,
    "text_config": {
        "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_attention_heads": 8,
        "num_hidden_layers": 26, "num_key_value_heads": 4, "vocab_size": 257_216, "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
    },
}  # fmt: skip
GEMMA_3_4B = {
    "model_type": "gemma3", "image_token_index": 262_144, "mm_tokens_per_image": 256,
    "vision_config": {**SO400M, "image_size": 896}, "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    },
}  # fmt: skip
NEMO = {
    "model_type": "mistral", "head_dim": 128, "hidden_size": 5120, "num_hidden_layers": 40, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5, "rope_theta": 1e9, "sliding_window": None, "vocab_size": 131_072,
}  # fmt: skip
PIXTRAL_12B = {
    "model_type": "llava", "image_token_index": 10, "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full", "text_config": {**NEMO, "intermediate_size": 14_336},
    "vision_config": {
        "model_type": "pixtral", "head_dim": 64, "hidden_act": "silu", "image_size": 1024, "patch_size": 16,
        "rope_theta": 10_000.0,
    },
}  # fmt: skip
MISTRAL_3_24B = {
    "model_type": "mistral3", "image_token_index": 10, "multimodal_projector_bias": False, "spatial_merge_size": 2,
    "text_config": {**NEMO, "intermediate_size": 32_768}, "vision_config": {
        "model_type": "pixtral", "head_dim": 64, "hidden_act": "silu", "hidden_size": 1024, "image_size": 1540,
        "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14,
    },
}  # fmt: skip
LAST_OF_CLIP = 12_598_272  # numbers in CLIP's last layer and last norm, which LLaVA does not use
PUBLISHED = [LLAVA_7B, LLAVA_NEXT_7B, PALIGEMMA_3B, PALIGEMMA_2_3B, GEMMA_3_4B, PIXTRAL_12B, MISTRAL_3_24B]


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAVA_7B, 7_063_427_072 - LAST_OF_CLIP),
        (LLAVA_NEXT_7B, 7_566_747_648 - LAST_OF_CLIP),
        (PALIGEMMA_3B, 2_923_466_480),
        (PALIGEMMA_2_3B, 3_032_242_416),
        (GEMMA_3_4B, 4_300_079_472),
        (PIXTRAL_12B, 12_682_739_712),
        (MISTRAL_3_24B, 24_011_361_280),
    ],
)
def test_published_models_have_as_many_parameters_as_their_cards_say(config: dict[str, Any], parameters: int) -> None:
    network = Network(spec_of(config))  # nothing is evaluated
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == parameters


def test_configs_of_the_hub_become_specs() -> None:
    mlp = MlpSpec(4096, "quick_gelu", gated=False, bias=True)
    clip = VitSpec(
        1024, 23, 16, mlp, 336, 14, (23,), norm_eps=1e-5, patch_bias=False, class_row=True, pre_norm=True, unused=1
    )  # fmt: skip
    assert spec_of(LLAVA_7B).vision == clip
    assert spec_of(LLAVA_7B).connector == ProjectorSpec(1024, 4096)
    assert spec_of(LLAVA_NEXT_7B).connector == ProjectorSpec(1024, 4096, tiled=True)
    paligemma = spec_of(PALIGEMMA_3B)
    assert isinstance(paligemma.vision, VitSpec)
    assert (paligemma.vision.rows, paligemma.vision.post_norm, paligemma.image_mask) == (256, True, "prompt")
    gemma = spec_of(GEMMA_3_4B)
    assert (gemma.connector, gemma.image_mask) == (PoolerSpec(1152, 2560, 4), "image")
    tower = spec_of(MISTRAL_3_24B).vision
    assert tower == PackedVitSpec(
        1024, 24, 16, MlpSpec(4096), 14, frames=1, norm="rms", norm_eps=1e-5, attention_bias=False, pre_norm=True,
        rope=AxialRope(staggered=True),
    )  # fmt: skip
    assert spec_of(MISTRAL_3_24B).connector == JoinerSpec(1024, 5120)
    assert spec_of(PIXTRAL_12B).connector == ProjectorSpec(1024, 5120)
    assert [spec_of(config).decoder.tied for config in PUBLISHED] == [False, False, True, True, True, False, False]


def test_gemma_s_layers_turn_by_two_angles() -> None:
    attention = [layer.attention for layer in spec_of(GEMMA_3_4B).decoder.layers[4:6]]
    assert [a.window for a in attention] == [1024, None]
    assert [a.rope.theta for a in attention if a.rope] == [1e4, 1e6]
    assert [a.rope.scaling is None for a in attention if a.rope] == [True, False]


def test_a_llava_with_pixtral_s_tower_is_a_pixtral() -> None:
    assert family_of(PIXTRAL_12B).name == "pixtral"
    assert family_of({**PIXTRAL_12B, "model_type": "pixtral"}).name == "pixtral"
    assert family_of(LLAVA_7B).name == "llava"


# --- weights


@pytest.mark.parametrize("config", PUBLISHED, ids=lambda config: config["model_type"])
def test_no_rule_matches_a_name_of_ours(config: dict[str, Any]) -> None:
    spec = spec_of(config)
    ours = [name for name, _ in tree_flatten(Network(spec).parameters())]
    for rules in family_of(config).rules.values():
        assert own_names_matched(rules(spec), ours) == []


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("tower", [True, False], ids=["tower too", "text"])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_exports_load(name: str, tower: bool, bits: int, tmp_path: Path) -> None:
    config, tokens, images = config_of(name, "mlx"), case_of(name)["tokens"], images_of(name)
    packed, plain = quantized(
        weights_of(name, "mlx"), bits, 32, dense=lambda key: not tower and not key.startswith("language_model.")
    )
    assert any(key.endswith(".scales") and key.startswith("vision_tower.") for key in packed) == tower
    how = {"quantization": {"group_size": 32, "bits": bits}}
    ours = load_network(written(tmp_path / "packed", {**config, **how}, packed))
    expected = logits(load_network(written(tmp_path / "plain", config, plain)), tokens, images)
    np.testing.assert_allclose(logits(ours, tokens, images), expected, rtol=1e-3, atol=1e-3)


def test_layers_without_features_are_left_out(tmp_path: Path) -> None:
    network = loaded("llava", tmp_path)
    assert len(network.vision.blocks) == 2  # of 3
    assert "post_norm" not in network.vision


def test_a_missing_tower_is_an_error(tmp_path: Path) -> None:
    text = {k: v for k, v in weights_of("llava").items() if not k.startswith("vision_tower.")}
    with pytest.raises(CheckpointError, match="expected the weights of a vision tower"):
        load_network(written(tmp_path, config_of("llava"), text))
    with pytest.raises(CheckpointError, match="expected a vision_config"):
        spec_of({**LLAVA_7B, "vision_config": None})


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (LLAVA_7B, {"vision_config": {**CLIP_LARGE, "model_type": "sam"}}, "vision tower 'sam' is not supported"),
        (LLAVA_7B, {"text_config": {"model_type": "gemma"}}, "text decoder 'gemma' is not supported here"),
        (LLAVA_7B, {"vision_feature_layer": 25}, "vision_feature_layer 25 is none of the tower's 24 layers"),
        (LLAVA_7B, {"vision_feature_layer": [-26, -1]}, "is none of the tower's 24 layers"),
        (PIXTRAL_12B, {"vision_feature_layer": [-2, -1]}, "expected one vision_feature_layer"),
        (GEMMA_3_4B, {"mm_tokens_per_image": 200}, "64 x 64 patches cannot be pooled to mm_tokens_per_image 200"),
        (GEMMA_3_4B, {"mm_tokens_per_image": 9}, "64 x 64 patches cannot be pooled to mm_tokens_per_image 9"),
    ],
)
def test_configs_that_make_no_model_are_refused(config: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        spec_of({**config, **change})


# --- pictures


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [(40, 30), (16, 70), (5, 5)])
def test_a_picture_takes_as_many_tokens_as_it_gives_rows(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    network, config = loaded(name, tmp_path), config_of(name)
    process = family_of(config).images
    assert process is not None
    rgb = np.random.RandomState(1).randint(0, 256, (*size, 3)).astype(np.uint8)
    image = process({}, Config(config))(rgb)
    (features,) = network.encode([image])
    assert features.rows.shape == (image.tokens, network.spec.decoder.dims)


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_s_features_do_not_depend_on_its_company(name: str, tmp_path: Path) -> None:
    network, images = loaded(name, tmp_path), images_of(name)
    together = network.encode(images)
    for one, image in zip(together, images, strict=True):
        (alone,) = network.encode([image])
        np.testing.assert_array_equal(np.asarray(one.rows), np.asarray(alone.rows))


def test_pictures_of_another_size_are_refused(tmp_path: Path) -> None:
    network = loaded("llava", tmp_path)
    with pytest.raises(CheckpointError, match="expects pictures of 18 x 18 px, got 20 x 24"):
        network.encode([ImageInput(np.zeros((1, 24, 20, 3), np.float32), 16)])


def test_tiles_are_put_where_they_lie() -> None:
    height, width, side, across = 6, 9, 3, 3
    picture = np.arange(height * width).reshape(height, width, 1)
    tiles = [
        picture[y : y + side, x : x + side].reshape(-1, 1)
        for y in range(0, height, side)
        for x in range(0, width, side)
    ]
    placed = in_place(mx.array(np.stack(tiles)), across)
    np.testing.assert_array_equal(np.asarray(placed), picture)


def test_a_tower_with_its_class_row() -> None:
    spec = VitSpec(8, 1, 2, MlpSpec(8, "gelu", gated=False, bias=True), 8, 4, (1,), class_row=True, keep_class_row=True)
    assert Vit(spec).encode(mx.zeros((2, 8, 8, 3))).shape == (2, 5, 8)


@pytest.mark.parametrize("name", KINDS)
def test_half_precision_stays_half_precision(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, config_of(name), weights_of(name))
    network, tokens, images = load_network(folder, dtype="bfloat16"), case_of(name)["tokens"], images_of(name)
    features = network.encode(images)
    hidden = network.prefill(network.prompt(tokens, features), network.caches())
    assert {hidden.dtype, *(one.rows.dtype for one in features)} == {mx.bfloat16}
    half = np.asarray(network.decoder.logits(hidden).astype(mx.float32))[0]
    off = half - logits(load_network(folder), tokens, images)
    assert np.sqrt(np.mean(off**2)) < 0.04  # bfloat16 has 8 bits; logits are 1 to 5


# --- masks


def test_crops_of_a_picture_do_not_see_each_other(tmp_path: Path) -> None:
    """Gemma 3's pan and scan gives one image several runs of tokens; each sees itself only."""
    network = loaded("gemma3", tmp_path)
    one_image = ImageFeatures(mx.zeros((8, network.spec.decoder.dims)))
    prompt = network.prompt([5, *(95,) * 4, 94, 93, *(95,) * 4, 6], [one_image])
    assert prompt.blocks is not None
    assert prompt.blocks.tolist() == [[0, 1, 1, 1, 1, 0, 0, 2, 2, 2, 2, 0]]


def test_reading_up_to_pictures_and_on_changes_nothing(tmp_path: Path) -> None:
    network, tokens, images = loaded("gemma3", tmp_path), case_of("gemma3")["tokens"], images_of("gemma3")
    prompt, caches = network.prompt(tokens, network.encode(images)), network.caches()
    borders = [0, 2, 7, 11, 15, 20, len(tokens)]  # none within a picture
    parts = [network.prefill(prompt.part(a, b), caches) for a, b in pairwise(borders)]
    read = np.asarray(network.decoder.logits(mx.concatenate(parts, axis=1)))[0]
    np.testing.assert_allclose(read, logits(network, tokens, images), rtol=1e-3, atol=2e-4)


def test_an_image_token_may_lie_beyond_the_vocabulary(tmp_path: Path) -> None:
    config, tokens, images = config_of("paligemma"), case_of("paligemma")["tokens"], images_of("paligemma")
    expected = logits(loaded("paligemma", tmp_path / "within"), tokens, images)
    outside = written(tmp_path / "beyond", {**config, "image_token_index": 1000}, weights_of("paligemma"))
    beyond = [1000 if token == 95 else token for token in tokens]
    np.testing.assert_array_equal(logits(load_network(outside), beyond, images), expected)


# --- answers


def answering(name: str, folder: Path) -> Path:
    """A case as a checkpoint with a tokenizer, and no template of its own."""
    config, prompt = config_of(name), family_of(config_of(name)).prompt
    backend = byte_level()
    marks = {prompt.placeholder, prompt.token, "<bos>", "<end_of_image>", "[IMG_BREAK]", "[IMG_END]", "</s>"}
    backend.add_special_tokens(sorted(marks))
    text = {**config["text_config"], "vocab_size": backend.get_vocab_size(), "max_position_embeddings": 512}
    config = {**config, "text_config": text, "image_token_index": backend.token_to_id(prompt.token)}
    shapes = {key: array.shape for key, array in tree_flatten(Network(spec_of(config)).parameters())}
    written(folder, config, tensors(shapes, 1), {"format": "docai"})
    backend.save(str(folder / "tokenizer.json"))
    said = {"bos_token": "<bos>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_questions_about_pictures_are_answered(name: str, tmp_path: Path) -> None:
    model = docai.load(str(answering(name, tmp_path)))
    pictures = [Image.new("RGB", (40, 30), "red"), Image.new("RGB", (20, 40), "blue")]
    alone = model.generate("Which colour?", pictures[:1], max_tokens=3)
    both = model.generate("Which colour?", pictures, max_tokens=3)
    assert (alone.usage.generated, both.usage.generated) == (3, 3)
    assert both.usage.images > alone.usage.images > 0
    assert both.usage.cached_images == 1
    assert (
        model.generate("Which colour?", pictures[:1], max_tokens=3, template=False).usage.images == alone.usage.images
    )
