"""The Qwen-VL families beside parity: configs as published, text-only and quantized checkpoints, hub experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten
from safetensors.numpy import save_file

from docai.checkpoint.dialect import own_names_matched
from docai.errors import CheckpointError
from docai.nn.axial import AxialRope
from docai.nn.mlp import MlpSpec
from docai.nn.moe import MoeSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.preprocess.inputs import ImageInput
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import family_of
from docai.vlm.loading import load_network
from docai.vlm.network import Network
from docai.vlm.positions import MropeSpec
from docai.vlm.spec import ModelSpec
from tests.parity.stored import case_of, images_of, logits, quantized, weights_of, written

KINDS = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"]
EXPORTS = [f"{kind}-mlx" for kind in KINDS]


def parts_of(name: str) -> tuple[dict[str, Any], dict[str, np.ndarray], list[int], list[ImageInput]]:
    """Config, tensors, tokens and images of a parity case."""
    return case_of(name)["config"], weights_of(name), case_of(name)["tokens"], images_of(name)


def is_vision(name: str) -> bool:
    return "visual." in name or "vision_tower." in name


# --- configs as the hub has them; what is left out here is what the configuration classes fill in

MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}
VISION_2 = {
    "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3, "patch_size": 14,
    "spatial_merge_size": 2, "spatial_patch_size": 14, "temporal_patch_size": 2,
}  # fmt: skip
VISION_2_5 = {
    "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "in_chans": 3,
    "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2,
}  # fmt: skip
VISION_3 = {
    "deepstack_visual_indexes": [5, 11, 17], "depth": 24, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1024,
    "in_channels": 3, "intermediate_size": 4096, "num_heads": 16, "num_position_embeddings": 2304, "patch_size": 16,
    "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip
VISION_3_LARGE = {
    **VISION_3, "deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
}  # fmt: skip


def text(hidden: int, width: int, layers: int, heads: int, kv_heads: int, vocabulary: int = 151_936) -> dict[str, Any]:
    return {
        "hidden_size": hidden, "intermediate_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": vocabulary,
    }  # fmt: skip


QWEN_2_VL_2B = {
    "model_type": "qwen2_vl", **text(1536, 8960, 28, 12, 2), "rope_scaling": MROPE, "tie_word_embeddings": True,
    "vision_config": {**VISION_2, "hidden_size": 1536},
}  # fmt: skip
QWEN_2_5_VL_7B = {
    "model_type": "qwen2_5_vl", **text(3584, 18_944, 28, 28, 4, 152_064), "rope_scaling": MROPE,
    "tie_word_embeddings": False, "vision_config": {**VISION_2_5, "out_hidden_size": 3584},
}  # fmt: skip
QWEN_3_VL_4B = {
    "model_type": "qwen3_vl", "tie_word_embeddings": True, "text_config": {
        **text(2560, 9728, 36, 32, 8), "head_dim": 128, "rope_theta": 5e6, "rope_scaling": {
            "mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default",
        },
    }, "vision_config": {**VISION_3, "out_hidden_size": 2560},
}  # fmt: skip
QWEN_3_VL_30B = {
    "model_type": "qwen3_vl_moe", "tie_word_embeddings": False, "text_config": {
        **text(2048, 6144, 48, 32, 4), "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    }, "vision_config": {**VISION_3_LARGE, "out_hidden_size": 2048},
}  # fmt: skip


def spec_of(config: dict[str, Any]) -> ModelSpec:
    return family_of(config).spec(Config(config))


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (QWEN_2_VL_2B, 2_208_985_600),
        (QWEN_2_5_VL_7B, 8_292_166_656),
        (QWEN_3_VL_4B, 4_437_815_808),
        (QWEN_3_VL_30B, 31_070_754_032),
    ],
)
def test_published_models_have_as_many_parameters_as_their_cards_say(config: dict[str, Any], parameters: int) -> None:
    network = Network(spec_of(config))  # nothing is evaluated
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == parameters


def test_a_config_of_the_hub_becomes_a_spec() -> None:
    spec = spec_of(QWEN_2_5_VL_7B)
    assert spec.vision == PackedVitSpec(
        1280, 32, 16, MlpSpec(3420, bias=True), 14, norm="rms", window=4, full_layers=(7, 15, 23, 31), rope=AxialRope()
    )
    assert spec.connector == MergerSpec(1280, 3584, norm="rms")
    assert spec.mrope == MropeSpec(2, per_second=2)
    assert (spec.image_token, spec.video_token) == (151_655, 151_656)
    rope = spec.decoder.layers[0].attention.rope
    assert rope is not None
    assert (rope.theta, rope.sections, rope.sections_mixed) == (1e6, (16, 24, 24), False)


def test_experts_count_under_either_name() -> None:
    newer = {**QWEN_3_VL_30B["text_config"], "num_local_experts": 64}  # type: ignore[dict-item]
    mlp = spec_of({**QWEN_3_VL_30B, "text_config": newer}).decoder.layers[0].mlp
    assert isinstance(mlp, MoeSpec)
    assert (mlp.experts, mlp.normalized) == (64, True)


def test_a_head_is_tied_where_the_top_of_the_config_says_so() -> None:
    older = {k: v for k, v in QWEN_3_VL_4B.items() if k != "tie_word_embeddings"}
    said = {**QWEN_3_VL_4B["text_config"], "tie_word_embeddings": True}  # type: ignore[dict-item]
    assert spec_of({**older, "text_config": said}).decoder.tied
    assert not spec_of({**older, "text_config": said, "tie_word_embeddings": False}).decoder.tied
    assert not spec_of(older).decoder.tied


def test_sections_have_to_fit_a_head() -> None:
    wrong = {"type": "mrope", "mrope_section": [16, 24, 25]}
    with pytest.raises(CheckpointError, match=r"mrope_section \(16, 24, 25\) does not divide 64 pairs"):
        spec_of({**QWEN_2_VL_2B, "rope_scaling": wrong})


# --- weight rules


@pytest.mark.parametrize("config", [QWEN_2_VL_2B, QWEN_2_5_VL_7B, QWEN_3_VL_4B, QWEN_3_VL_30B])
@pytest.mark.parametrize("sees", [True, False])
def test_no_rule_matches_a_name_of_ours(config: dict[str, Any], sees: bool) -> None:
    spec = spec_of(config if sees else {**config, "vision_config": None})
    ours = [name for name, _ in tree_flatten(Network(spec).parameters())]
    for rules in family_of(config).rules.values():
        assert own_names_matched(rules(spec), ours) == []


def test_published_experts_are_stored_the_other_way_round(tmp_path: Path) -> None:
    config, weights, tokens, images = parts_of("qwen3_vl_moe")
    saved = load_network(written(tmp_path / "saved", config, weights))
    turned = {k: v.swapaxes(1, 2) if ".mlp.experts." in k else v for k, v in weights.items()}
    hub = load_network(written(tmp_path / "hub", config, turned))
    np.testing.assert_array_equal(logits(hub, tokens, images), logits(saved, tokens, images))


# --- text-only checkpoints

TOWERLESS: dict[str, dict[str, Any]] = {
    "no vision_config": {},
    "null vision_config": {"vision_config": None},
    "empty vision_config": {"vision_config": {}},
    "language_model_only": {"language_model_only": True},
}


@pytest.mark.parametrize("name", [*KINDS, *EXPORTS])
@pytest.mark.parametrize("change", TOWERLESS)
@pytest.mark.parametrize("ships", [True, False], ids=["with weights", "without weights"])
def test_text_only_checkpoints_load(
    name: str, change: str, ships: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, weights, tokens, _ = parts_of(name)
    words = [token for token in tokens if token < 90]
    expected = logits(load_network(written(tmp_path / "whole", config, weights)), words)
    kept = config if change == "language_model_only" else {k: v for k, v in config.items() if k != "vision_config"}
    left = weights if ships else {k: v for k, v in weights.items() if not is_vision(k)}
    folder = written(tmp_path / "text", {**kept, **TOWERLESS[change]}, left)
    network = load_network(folder)
    assert network.spec.vision is None
    np.testing.assert_array_equal(logits(network, words), expected)
    assert ("language_model_only is set: loaded text-only" in caplog.text) == (change == "language_model_only")


@pytest.mark.parametrize("name", [*KINDS, *EXPORTS])
def test_an_index_without_a_tower_is_text_only(name: str, tmp_path: Path) -> None:
    config, weights, tokens, _ = parts_of(name)
    left = {k: v for k, v in weights.items() if not is_vision(k)}
    network = load_network(written(tmp_path, config, left))
    assert network.spec.vision is None
    assert logits(network, [t for t in tokens if t < 90]).shape[1] == 100


@pytest.mark.parametrize("name", KINDS)
def test_our_own_checkpoints_may_be_loaded_text_only(name: str, tmp_path: Path) -> None:
    config, weights, tokens, _ = parts_of(name)
    whole, words = load_network(written(tmp_path / "whole", config, weights)), [t for t in tokens if t < 90]
    ours = {key: np.array(array) for key, array in tree_flatten(whole.parameters())}
    folder = written(tmp_path / "ours", {**config, "language_model_only": True}, ours)
    save_file(ours, folder / "model.safetensors", {"format": "docai"})
    network = load_network(folder)
    assert network.spec.vision is None
    np.testing.assert_array_equal(logits(network, words), logits(whole, words))


def test_half_a_tower_is_an_error(tmp_path: Path) -> None:
    config, weights, _, _ = parts_of("qwen2_vl")
    left = {k: v for k, v in weights.items() if not k.startswith("visual.blocks.1.")}
    with pytest.raises(CheckpointError, match=r"vision\.blocks\.1\."):
        load_network(written(tmp_path, config, left))


@pytest.mark.parametrize("said", ["true", 1, 0, "", []])
def test_language_model_only_is_a_boolean(said: object) -> None:
    with pytest.raises(CheckpointError, match="expected language_model_only to be true or false"):
        spec_of({**QWEN_2_VL_2B, "language_model_only": said})


def test_language_model_only_may_be_false() -> None:
    assert spec_of({**QWEN_2_VL_2B, "language_model_only": False}).vision is not None


# --- quantized exports


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("tower", [True, False], ids=["tower too", "text"])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_exports_load(name: str, tower: bool, bits: int, tmp_path: Path) -> None:
    config, weights, tokens, images = parts_of(name)
    packed, plain = quantized(weights, bits, 32, dense=lambda key: is_vision(key) and not tower)
    assert any(key.endswith(".scales") and is_vision(key) for key in packed) == tower
    how = {"quantization": {"group_size": 32, "bits": bits}}
    ours = load_network(written(tmp_path / "packed", {**config, **how}, packed))
    expected = logits(load_network(written(tmp_path / "plain", config, plain)), tokens, images)
    np.testing.assert_allclose(logits(ours, tokens, images), expected, rtol=1e-3, atol=1e-3)
