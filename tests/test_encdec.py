"""Encoder-decoder models equal their oracles on tiny checkpoints, in each dialect, loaded from files as published ones
are. `tests/parity/encdec.py` made the cases.

Tolerances are those of `test_parity.py`: float32 in another order of additions.
"""

from __future__ import annotations

import json
import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parity import radio
from tests.parity.encdec import BEAMS, CASES, PENALTY, STEPS, original, original_config, picture, source, weights

mx = pytest.importorskip("mlx.core")

from docai.checkpoint.dialect import apply_rules, own_names_matched  # noqa: E402
from docai.checkpoint.load import shapes_of  # noqa: E402
from docai.checkpoint.tensors import TensorInfo  # noqa: E402
from docai.errors import CheckpointError  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.radio import Radio, RadioSpec  # noqa: E402
from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.beams import Search, searched  # noqa: E402
from docai.vlm.config import Config  # noqa: E402
from docai.vlm.encdec import EncDecNetwork  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.loading import build_network, load_network  # noqa: E402
from docai.vlm.request import Sampling  # noqa: E402
from docai.vlm.sample import Sampler  # noqa: E402
from tests.parity.stored import Tensors, quantized, written  # noqa: E402
from tests.parity.weights import tensor  # noqa: E402

CLOSE = {"rtol": 1e-4, "atol": 5e-5}
NAMES = sorted(path.stem for path in CASES.glob("*.json"))
DIALECTS = {"florence2": ("transformers", "hf", "mlx"), "nemotron_parse": ("mlx", "hf")}
VARIANTS = [(name, dialect) for name in NAMES for dialect in DIALECTS[name.partition("-")[0]]]


def _said(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    return found


def _checkpoint(name: str, dialect: str) -> tuple[dict[str, Any], Tensors]:
    """The config and the tensors of a case in a dialect."""
    case = _said(name)
    config, tied = case["config"], case["config"].get("tie_word_embeddings", True)
    values = weights(case["tensors"], case["seed"], tied=tied)
    if dialect == "transformers" or (dialect, config["model_type"]) == ("mlx", "nemotron_parse"):
        return config, values
    if config["model_type"] == "nemotron_parse":
        return config, source(values, tied=tied)
    return {**original_config(config), "tie_word_embeddings": tied}, original(values, channels_last=dialect == "mlx")


class Case:
    """A case on disk, its network loaded, and what the oracle gave."""

    def __init__(self, name: str, dialect: str, folder: Path) -> None:
        said = _said(name)
        network = load_network(written(folder, *_checkpoint(name, dialect)))
        assert isinstance(network, EncDecNetwork)
        self.network = network
        self.image = ImageInput(picture(said["picture"], said["seed"]), 0)
        self.prompt, self.begin, self.beams = tuple(said["prompt"]), tuple(said["begin"]), said["beams"]
        with np.load(CASES / f"{name}.npz") as stored:
            self.expected: dict[str, np.ndarray] = dict(stored)

    def memories(self) -> Any:
        (features,) = self.network.encode([self.image])
        return self.network.read(features, self.prompt)

    def fed(self) -> list[int]:
        """The answer that the oracle was given."""
        return [*self.begin, *range(20, 30)][: len(self.expected["logits"])]


@pytest.fixture(params=VARIANTS, ids="-".join, scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(*request.param, tmp_path_factory.mktemp("checkpoint"))


def close(ours: mx.array, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(ours), expected, **CLOSE)


def test_features_are_the_reference_s(case: Case) -> None:
    (features,) = case.network.encode([case.image])
    close(features.rows, case.expected["features"])


def test_logits_are_the_reference_s_however_the_answer_is_read(case: Case) -> None:
    network, memories, tokens = case.network, case.memories(), case.fed()
    whole = network.decoder(mx.array([tokens]), network.caches(), memories)
    close(network.decoder.logits(whole)[0], case.expected["logits"])
    caches = network.caches()
    steps = [network.step(mx.array([[token]]), caches, memories)[0] for token in tokens]
    close(mx.stack(steps), case.expected["logits"])
    if "logits_torch" in case.expected:
        close(mx.stack(steps), case.expected["logits_torch"])


def test_greedy_answers_are_the_reference_s(case: Case) -> None:
    """With penalties over what the answer begins with: 3 tokens that may not come twice, or scores divided."""
    network, caches, memories = case.network, case.network.caches(), case.memories()
    first = network.spec.first
    penalties = Sampling(no_repeat_ngram=3) if first is not None else Sampling(repetition_penalty=PENALTY)
    sampler = Sampler(penalties, case.begin, STEPS)
    logits = network.step(mx.array([case.begin]), caches, memories)
    for place, expected in enumerate(case.expected["step_logits"]):
        close(logits[0], expected)
        token = sampler.force(first) if place == 0 and first is not None else sampler(logits)
        assert token.item() == case.expected["tokens"][place]
        logits = network.step(token[:, None], caches, memories)


def test_beams_are_the_reference_s(case: Case) -> None:
    if "beams" not in case.expected:
        pytest.skip("an oracle that searches nothing")
    how = Search(
        BEAMS,
        STEPS,
        case.begin,
        {2},
        case.network.spec.first,
        ngram=3,
        length_penalty=case.beams.get("length_penalty", 1.0),
        early=case.beams["early_stopping"],
    )
    found = searched(case.network, case.memories(), how)
    expected = [tuple(t for t in line if t != 1) for line in case.expected["beams"].tolist()]
    assert [beam.tokens for beam in found] == expected
    np.testing.assert_allclose([beam.score for beam in found], case.expected["beam_scores"], **CLOSE)


def test_one_beam_is_the_greedy_answer(case: Case) -> None:
    memories = case.memories()
    (found,) = searched(case.network, memories, Search(1, 6, case.begin, {2}))
    caches, tokens = case.network.caches(), []
    logits = case.network.step(mx.array([case.begin]), caches, memories)
    for _ in found.tokens:
        tokens.append(int(mx.argmax(logits).item()))
        logits = case.network.step(mx.array([[tokens[-1]]]), caches, memories)
    assert found.tokens == tuple(tokens)


def test_joined_layers_change_nothing(case: Case) -> None:
    case.network.fuse()
    test_features_are_the_reference_s(case)
    test_logits_are_the_reference_s_however_the_answer_is_read(case)


def _dense(name: str) -> bool:
    """What mlx-community's exports leave as it is: see `image_projection`; the rest is no matrix."""
    return not name.endswith("weight") or "visual_temporal" in name


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["florence2", "nemotron_parse", "nemotron_parse-untied"])
def test_quantized_exports_are_their_own_numbers(name: str, bits: int, tmp_path: Path) -> None:
    """All matrices are packed, tables of embeddings and of positions too; a tied head is there a second time."""
    config, values = _checkpoint(name, "mlx")
    packed, plain = quantized(values, bits, 32, dense=_dense)
    assert {"language_model.model.shared.scales", "language_model.lm_head.scales"} <= packed.keys()
    assert name != "florence2" or "language_model.model.encoder.embed_positions.scales" in packed
    said = _said(name)
    image = ImageInput(picture(said["picture"], said["seed"]), 0)
    rows = []
    for folder, tensors, settings in (
        ("packed", packed, {**config, "quantization": {"group_size": 32, "bits": bits}}),
        ("plain", plain, config),
    ):
        network = load_network(written(tmp_path / folder, settings, tensors, {"format": "mlx"}))
        assert isinstance(network, EncDecNetwork)
        network.fuse()
        memories = network.read(network.encode([image])[0], said["prompt"])
        rows.append(np.asarray(network.step(mx.array([[2, 0, 5]]), network.caches(), memories)))
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_matches_our_own_names(name: str) -> None:
    config = _said(name)["config"]
    family = family_of(config)
    spec = family.spec(Config(config))
    names = shapes_of(build_network(spec))
    for rules in family.rules.values():
        assert own_names_matched(rules(spec), names) == []


def test_what_a_config_says_otherwise_is_an_error() -> None:
    config = original_config(_said("florence2")["config"])
    vision = config["vision_config"]
    for wrong in (
        {"image_pos_embed": {"type": "sine"}},
        {"image_feature_source": ["first_frame"]},
        {"num_heads": [2, 2]},
    ):
        with pytest.raises(CheckpointError):
            family_of(config).spec(Config({**config, "vision_config": {**vision, **wrong}}))


def test_an_exact_decoder_computes_in_float32(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, *_checkpoint("nemotron_parse", "mlx")), dtype="bfloat16")
    assert isinstance(network, EncDecNetwork)
    network.fuse()
    image = ImageInput(picture(_said("nemotron_parse")["picture"], 1), 0)
    (features,) = network.encode([image])
    assert features.rows.dtype == mx.bfloat16
    assert network.step(mx.array([[2, 0, 7]]), network.caches(), network.read(features)).dtype == mx.float32


def _original_names() -> dict[str, tuple[int, ...]]:
    """The tensors of microsoft/Florence-2-base, as its files list them."""
    widths, depths, kernels = (128, 256, 512, 1024), (1, 1, 9, 1), (7, 3, 3, 3)
    out: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *shape: int) -> None:
        out[f"{name}.weight"], out[f"{name}.bias"] = shape, shape[:1]

    for stage, (width, before, kernel) in enumerate(zip(widths, (3, *widths), kernels, strict=False)):
        layer(f"vision_tower.convs.{stage}.proj", width, before, kernel, kernel)
        layer(f"vision_tower.convs.{stage}.norm", width if stage == 0 else before)
        for block in range(depths[stage]):
            for kind, attention in (("spatial", "window"), ("channel", "channel")):
                prefix = f"vision_tower.blocks.{stage}.{block}.{kind}_block."
                for number in "12":
                    layer(f"{prefix}conv{number}.fn.dw", width, 1, 3, 3)
                layer(f"{prefix}{attention}_attn.norm", width)
                layer(f"{prefix}{attention}_attn.fn.qkv", 3 * width, width)
                layer(f"{prefix}{attention}_attn.fn.proj", width, width)
                layer(f"{prefix}ffn.norm", width)
                layer(f"{prefix}ffn.fn.net.fc1", 4 * width, width)
                layer(f"{prefix}ffn.fn.net.fc2", width, 4 * width)
    out["image_projection"], out["visual_temporal_embed.pos_idx_to_embed"] = (1024, 768), (100, 1024)
    layer("image_proj_norm", 768)
    out |= {f"image_pos_embed.{line}_embeddings.weight": (50, 512) for line in ("row", "column")}
    out |= {f"language_model.{name}.weight": (51289, 768) for name in ("model.shared", "lm_head")}
    for side, parts in (("encoder", ["self"]), ("decoder", ["self", "encoder"])):
        out[f"language_model.model.{side}.embed_positions.weight"] = (1026, 768)
        layer(f"language_model.model.{side}.layernorm_embedding", 768)
        for number in range(6):
            prefix = f"language_model.model.{side}.layers.{number}."
            for part in parts:
                layer(f"{prefix}{part}_attn_layer_norm", 768)
                for matrix in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    layer(f"{prefix}{part}_attn.{matrix}", 768, 768)
            layer(f"{prefix}fc1", 3072, 768)
            layer(f"{prefix}fc2", 768, 3072)
            layer(f"{prefix}final_layer_norm", 768)
    return out


@pytest.mark.parametrize("dialect", ["hf", "mlx"])
@pytest.mark.parametrize("said", [None, False])
def test_a_head_in_the_file_counts(tmp_path: Path, dialect: str, said: bool | None) -> None:
    """1.x has a head of its own, whether its config says so or not."""
    config, values = _checkpoint("nemotron_parse-untied", dialect)
    config = {name: value for name, value in config.items() if name != "tie_word_embeddings"}
    network = load_network(
        written(tmp_path, config if said is None else {**config, "tie_word_embeddings": said}, values)
    )
    assert "head" in network.decoder


def test_a_copy_of_the_embedding_is_no_head(tmp_path: Path) -> None:
    config, values = _checkpoint("nemotron_parse", "mlx")
    network = load_network(written(tmp_path / "tied", {**config, "tie_word_embeddings": True}, values))
    assert "head" not in network.decoder
    config, values = _checkpoint("nemotron_parse", "hf")
    assert "head" not in load_network(written(tmp_path / "source", config, values)).decoder


def test_the_names_and_shapes_of_the_published_base_model() -> None:
    names = _original_names()
    assert len(names) == 666  # with two more for each of 198 matrices, the 1062 of its 4-bit export
    text = {
        "model_type": "florence2_language", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6,
        "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072,
        "decoder_ffn_dim": 3072, "vocab_size": 51289,
    }  # fmt: skip
    config = {"model_type": "florence2", "vision_config": {"model_type": "davit"}, "text_config": text}
    family = family_of(config)
    spec = family.spec(Config(config))
    tensors = {name: TensorInfo("F16", shape, None, 0) for name, shape in names.items()}
    found = apply_rules(tensors, family.rules["hf"](spec))
    network = build_network(spec)
    assert found.problems(shapes_of(network)) == ()
    assert 231e6 < sum(weight.size for weight in found.weights.values()) < 233e6


def test_the_size_of_the_published_parse_model() -> None:
    tower = {"args": {"model": "vit_huge_patch16_224"}}
    config = {"model_type": "nemotron_parse", "encoder": tower, "decoder": {"d_model": 1024}}
    shapes = shapes_of(build_network(family_of(config).spec(Config(config))))
    assert round(sum(map(prod, shapes.values())) / 1e6) == 903


def test_the_tower_is_that_of_transformers_too() -> None:
    """mlx-vlm's is a translation; this one is not. Positions are cut out of their table, as for whole pages."""
    spec = RadioSpec(32, 2, 4, MlpSpec(64, "gelu", gated=False, bias=True), 4, grid=radio.SIDE)
    tower = Radio(spec)
    weights = []
    for name, shape in shapes_of(tower).items():
        theirs = name
        for ours, other in radio.NAMES:
            theirs = re.sub(ours, other, theirs)
        shape = (1, *shape) if name == "positions" else shape
        values = mx.array(tensor(theirs, shape, radio.SEED))
        weights.append((name, values[0] if name == "positions" else values))
    tower.load_weights(weights)
    rows, summary = tower.encode(mx.array(radio.picture()[0]))
    with np.load(radio.FILE) as expected:
        close(rows.reshape(-1, 32), expected["features"][0])
        close(summary.reshape(-1), expected["summary"][0])
