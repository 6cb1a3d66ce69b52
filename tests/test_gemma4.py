"""Gemma 4 and Gemma 4 Unified beside parity: configs, weights, shared keys, answers."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from mlx.utils import tree_flatten  # noqa: E402
from PIL import Image  # noqa: E402

from docai.errors import CheckpointError, UsageError  # noqa: E402
from docai.nn.cache import FullCache, QuantizedCache, RotatingCache  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.moe import MoeSpec  # noqa: E402
from docai.nn.per_layer import PerLayerSpec  # noqa: E402
from docai.nn.rope import ProportionalScaling, RopeSpec  # noqa: E402
from docai.nn.twofold import TwofoldSpec  # noqa: E402
from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.preprocess.native import BudgetImages  # noqa: E402
from docai.tasks.convert import convert_model  # noqa: E402
from docai.tasks.load import load  # noqa: E402
from docai.tasks.models_options import ConvertOptions  # noqa: E402
from docai.vlm.config import Config  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.model import Model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.reading import new_caches  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from docai.vlm.spec import ModelSpec  # noqa: E402
from tests.clips import counted  # noqa: E402
from tests.commands import run  # noqa: E402
from tests.parity.stored import case_of, config_of, images_of, logits, weights_of, written  # noqa: E402
from tests.parity.weights import noise  # noqa: E402
from tests.serving import served  # noqa: E402
from tests.tiny_checkpoint import wide_gemma4  # noqa: E402

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
S, F = "sliding_attention", "full_attention"
# What is left out here is what the configuration classes fill in.
E2B = {
    "model_type": "gemma4", "vision_config": {"patch_size": 16}, "text_config": {
        "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35, "num_key_value_heads": 1,
        "num_kv_shared_layers": 20, "use_double_wide_mlp": True, "layer_types": [S, S, S, S, F] * 7,
        "final_logit_softcapping": 30.0,
    },
}  # fmt: skip
MIXED = {
    "model_type": "gemma4", "text_config": {
        "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 128, "top_k_experts": 8,
        "moe_intermediate_size": 704, "attention_k_eq_v": True, "num_global_key_value_heads": 2,
        "use_bidirectional_attention": "vision",
    },
    "vision_config": {
        "hidden_size": 1152, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 72,
        "intermediate_size": 4304, "num_hidden_layers": 27, "standardize": True,
    },
}  # fmt: skip
UNIFIED = {
    "model_type": "gemma4_unified", "vision_config": {"patch_size": 16}, "text_config": {
        "hidden_size": 3840, "intermediate_size": 15_360, "num_hidden_layers": 48, "num_attention_heads": 16,
        "num_key_value_heads": 8, "num_global_key_value_heads": 1, "attention_k_eq_v": True,
    },
}  # fmt: skip


def spec_of(config: dict[str, Any], **text: Any) -> ModelSpec:
    config = {**config, "text_config": {**config["text_config"], **text}}
    return family_of(config).spec(Config(config))


# --- configs


@pytest.mark.parametrize(
    ("config", "parameters"), [(E2B, 4_797_113_635), (MIXED, 22_242_325_582), (UNIFIED, 11_957_272_624)]
)
def test_models_have_as_many_parameters_as_those_of_the_reference(config: dict[str, Any], parameters: int) -> None:
    network = Network(spec_of(config))  # nothing is evaluated
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == parameters


def test_a_config_of_the_hub_becomes_a_spec() -> None:
    spec = spec_of(E2B)
    assert (spec.image_token, spec.video_token, spec.image_mask) == (258_880, 258_884, None)
    local, whole, borrower = (spec.decoder.layers[n] for n in (0, 4, 15))
    assert (local.attention.head_dim, local.attention.window, local.attention.ahead) == (256, 512, "in window")
    assert (whole.attention.head_dim, whole.attention.window, whole.attention.ahead) == (512, None, "never")
    assert whole.attention.rope == RopeSpec(512, 1e6, scaling=ProportionalScaling(0.25))
    assert (local.lender, borrower.lender, spec.decoder.layers[-1].lender) == (None, 13, 14)
    assert (local.mlp, borrower.mlp) == (MlpSpec(6144, "gelu_pytorch_tanh"), MlpSpec(12_288, "gelu_pytorch_tanh"))
    assert len(spec.decoder.keeping) == 15
    assert spec.decoder.per_layer == PerLayerSpec(256, 262_144)
    large = spec_of(MIXED)
    attention = large.decoder.layers[5].attention
    assert (attention.kv_heads, attention.values_are_keys, large.image_mask) == (2, True, "image")
    assert not large.decoder.layers[0].attention.values_are_keys
    assert large.decoder.layers[0].mlp == TwofoldSpec(
        MlpSpec(9216, "gelu_pytorch_tanh"), MoeSpec(128, 8, 704, "gelu_pytorch_tanh")
    )
    assert spec_of(UNIFIED).decoder.layers[0].attention.window == 1024


def test_layers_are_described_in_the_newer_form_as_well() -> None:
    newer = spec_of(E2B, global_head_dim=None, per_layer_config={str(n): {"head_dim": 512} for n in range(4, 35, 5)})
    assert newer == spec_of(E2B)


@pytest.mark.parametrize(
    ("config", "text", "message"),
    [
        (E2B, {"use_bidirectional_attention": "all"}, "writes nothing"),
        (E2B, {"num_kv_shared_layers": 31}, "leave no layer of each kind"),
        (E2B, {"layer_types": ["mamba"] * 35}, "expected layer_types of 35 layers"),
        (E2B, {"layer_types": [F]}, "expected layer_types of 35 layers"),
        (E2B, {"vocab_size_per_layer_input": 262_143}, "leaves out tokens of 262144"),
        (E2B, {"pad_token_id": 262_144}, "or the one that stands for images, 262144"),
        (E2B, {"model_type": "llama"}, "text decoder 'llama' is not supported here"),
        ({**MIXED, "vision_config": {"num_key_value_heads": 4}}, {}, "expected 12 num_key_value_heads"),
    ],
)
def test_configs_that_make_no_model_are_refused(config: dict[str, Any], text: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        spec_of(config, **text)


# --- weights


def test_files_may_have_the_keys_that_borrowing_layers_do_not_use(tmp_path: Path) -> None:
    name, more = "gemma4", {}
    for number, width in ((3, 16), (4, 32)):
        stem = f"model.language_model.layers.{number}.self_attn."
        more |= {f"{stem}{x}_proj.weight": noise(x, (width, 32), 1) for x in "kv"}
        more[f"{stem}k_norm.weight"] = noise("norm", (8,), 1)
    folder = written(tmp_path, config_of(name), weights_of(name) | more)
    with np.load(Path(__file__).parent / "parity" / "cases" / f"{name}.npz") as stored:
        expected = stored["logits"]
    ours = logits(load_network(folder), case_of(name)["tokens"], images_of(name))
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("name", ["gemma4", "gemma4_unified"])
def test_without_weights_that_see_it_is_a_text_model(name: str, tmp_path: Path) -> None:
    """mlx-lm's exports leave them out."""
    words = case_of("gemma4_text")["tokens"]
    text = {k: v for k, v in weights_of(name).items() if "language_model" in k}
    whole = load_network(written(tmp_path / "whole", config_of(name), weights_of(name)))
    alone = load_network(written(tmp_path / "text", config_of(name), text))
    assert alone.spec.vision is None
    assert alone.spec.connector is None
    np.testing.assert_array_equal(logits(alone, words), logits(whole, words))


def test_embeddings_of_layers_are_quantized_as_others_are(tmp_path: Path) -> None:
    folder = wide_gemma4(tmp_path / "m", hidden_size_per_layer_input=32)
    for name, options in (("packed", {"bits": 8, "group_size": 32, "vision": True}), ("plain", {"dequantize": True})):
        source = folder if name == "packed" else tmp_path / "packed"
        convert_model(str(source), ConvertOptions(output=str(tmp_path / name), **options))  # type: ignore[arg-type]
    packed, plain, dense = (load_network(f) for f in (tmp_path / "packed", tmp_path / "plain", folder))
    names = {name for name, _ in tree_flatten(packed.parameters()) if name.endswith("scales")}
    assert {"decoder.per_layer.embed.scales", "decoder.layers.0.inlet.gate.scales"} <= names
    images = [noise_image(4, 8)]
    tokens = [5, *[packed.spec.image_token] * 8, 7, 8, 9]
    np.testing.assert_allclose(logits(packed, tokens, images), logits(plain, tokens, images), rtol=1e-3, atol=1e-3)
    assert np.abs(logits(packed, tokens, images) - logits(dense, tokens, images)).max() > 1e-3


def noise_image(rows: int, columns: int) -> ImageInput:
    return ImageInput(noise("image", (rows * columns, 48), 1), rows * columns // 4, (1, rows, columns))


def test_images_of_one_shape_are_encoded_together(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, config_of("gemma4"), weights_of("gemma4")))
    images = [replace(noise_image(4, 6), pixels=noise(name, (24, 48), 1)) for name in "ab"]
    for one, image in zip(network.encode(images, together=True), images, strict=True):
        np.testing.assert_allclose(one.rows, network.encode([image])[0].rows, **CLOSE)


@pytest.mark.parametrize("name", ["gemma4", "gemma4_unified"])  # MLX has no experts in half precision on a CPU
def test_half_precision_stays_half_precision(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, config_of(name), weights_of(name))
    network, tokens, images = load_network(folder, dtype="bfloat16"), case_of(name)["tokens"], images_of(name)
    features, caches = network.encode(images), network.caches()
    hidden = network.prefill(network.prompt(tokens, features), caches)
    step = network.step(mx.array([[5]]), caches)
    assert {hidden.dtype, step.dtype, *(one.rows.dtype for one in features)} == {mx.bfloat16}
    half = np.asarray(network.decoder.logits(hidden).astype(mx.float32))[0]
    off = half - logits(load_network(folder), tokens, images)
    assert np.sqrt(np.mean(off**2)) < 0.2  # bfloat16 has 8 bits, and scores are not scaled


# --- pictures


@pytest.mark.parametrize("kind", ["gemma4", "gemma4_unified"])
def test_a_request_may_have_more_tokens_or_fewer(kind: str) -> None:
    images = family_of({"model_type": kind}).images
    assert images is not None
    processor, rgb = images({}, {}), np.zeros((600, 800, 3), np.uint8)
    assert isinstance(processor, BudgetImages)
    assert [processor.within(most)(rgb).tokens for most in (70, 280, 560, 5000)] == [63, 266, 540, 1064]
    assert processor(rgb).tokens == 266


def test_no_side_is_longer_than_the_table_of_positions() -> None:
    images = family_of({"model_type": "gemma4"}).images
    assert images is not None
    small = images({}, {"vision_config": {"position_embedding_size": 12}})
    for size in ((600, 800), (10, 4000), (4000, 10)):
        image = small(np.zeros((*size, 3), np.uint8))
        assert image.grid is not None
        assert max(image.grid) <= 12
    other = images({"patch_size": 8, "pooling_kernel_size": 9}, {"vision_config": {"patch_size": 4}})
    assert isinstance(other, BudgetImages)
    assert (other.patch, other.merge) == (4, 9)  # what the model says goes first
    with pytest.raises(CheckpointError, match="expected a budget"):
        images({"max_soft_tokens": -4}, {})


# --- shared keys


def test_layers_that_borrow_have_no_cache_of_their_own() -> None:
    network = Network(spec_of(E2B))
    assert [type(cache) for cache in network.caches()] == [*[RotatingCache] * 4, FullCache] * 3
    rounded = new_caches(network, GenerationOptions(kv_bits=8, kv_dense_last=True))
    assert [type(cache) for cache in rounded[4::5]] == [QuantizedCache, QuantizedCache, FullCache]
    kept = new_caches(network, GenerationOptions(kv_window=64))
    assert {type(cache) for cache in kept} == {RotatingCache}


@pytest.mark.parametrize("name", ["gemma4_text", "gemma4", "gemma4-clip", "gemma4-moe"])
def test_the_last_state_alone_is_that_of_all(name: str, tmp_path: Path) -> None:
    """Layers that keep nothing need not see the other tokens; those that keep keys are given all of them."""
    network, tokens, images = (
        load_network(written(tmp_path, config_of(name), weights_of(name))),
        case_of(name)["tokens"],
        images_of(name),
    )
    prompt = network.prompt(tokens, network.encode(images) if images else ())
    borders = [0, len(tokens)] if prompt.blocks is not None else [0, 9, 11, len(tokens)]
    whole, alone = network.caches(), network.caches()
    for start, stop in pairwise(borders):
        part = prompt.part(start, stop)
        expected, ours = network.prefill(part, whole), network.prefill(part, alone, last=True)
        assert ours.shape[1] == (1 if network.spec.decoder.layers[-1].lender is not None else stop - start)
        np.testing.assert_allclose(ours[:, -1], expected[:, -1], **CLOSE)
    np.testing.assert_allclose(network.step(mx.array([[5]]), alone), network.step(mx.array([[5]]), whole), **CLOSE)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "small": load(str(wide_gemma4(folder / "small"))),
        "unified": load(str(wide_gemma4(folder / "unified", unified=True))),
    }


TEXTS = ("Hello world, hello  twice.", "a", "a list of some words that come in any order, 1, 2, 3 and more of them, 4")


@pytest.mark.parametrize("name", ["small", "unified"])
@pytest.mark.parametrize("options", [{}, {"kv_bits": 8}, {"kv_window": 16}, {"prefill_step": 16}], ids=str)
def test_requests_of_many_lengths_are_as_if_alone(
    models: dict[str, Model], name: str, options: dict[str, Any], rgb: np.ndarray
) -> None:
    model = models[name]
    asked: list[Any] = [(text, []) for text in TEXTS] + [("What?", [rgb]), ("And these?", [rgb[:20], rgb])]
    alone = [model.generate(*one, max_tokens=12, **options) for one in asked]
    together = list(model.generate_many(iter(asked), max_tokens=12, **options))
    assert [done.tokens for done in together] == [done.tokens for done in alone]  # type: ignore[union-attr]
    model.clear()
    again = [model.generate(*one, max_tokens=12, **options) for one in asked]
    assert [done.tokens for done in again] == [done.tokens for done in alone]


@pytest.fixture
def rgb() -> np.ndarray:
    return np.random.RandomState(1).randint(0, 256, (40, 60, 3)).astype(np.uint8)


# --- answers


@pytest.mark.parametrize("unified", [False, True], ids=["tower", "unified"])
def test_commands_answer(
    unified: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], rgb: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(wide_gemma4(tmp_path / "m", unified=unified))
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.png"):
        Image.fromarray(rgb).save(name)
    Path("a.mkv").write_bytes(counted(30))
    short = ("-m", model, "--max-tokens", "4")
    assert run("chat", "a.png", "b.png", "-p", "What is this?", *short, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["usage"]["images"] == 2 * 8  # 2 x 4 of at most 12
    assert run("caption", "a.png", *short) == 0
    assert run("ocr", "a.png", *short) in (0, 1)
    capsys.readouterr()
    assert run("video", "a.mkv", "What happens?", *short, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [len(clip["frames"]) for clip in said["videos"]] == [6]
    assert said["usage"]["generated"] <= 4


def test_the_server_answers(tmp_path: Path, rgb: np.ndarray) -> None:
    folder = wide_gemma4(tmp_path / "m")
    stored = io.BytesIO()
    Image.fromarray(rgb).save(stored, "PNG")

    def part(kind: str, media: str, data: bytes) -> dict[str, Any]:
        return {"type": f"{kind}_url", f"{kind}_url": {"url": f"data:{media};base64,{base64.b64encode(data).decode()}"}}

    content = [
        part("image", "image/png", stored.getvalue()),
        part("video", "video/x-matroska", counted(30)),
        {"type": "text", "text": "Is this person in the video?"},
    ]
    asked = {"model": str(folder), "messages": [{"role": "user", "content": content}], "max_tokens": 4}
    with served(tmp_path / "state", model=[str(folder)]) as server:
        said = server.json("POST", "/v1/chat/completions", asked)
    assert said["usage"]["completion_tokens"] <= 4
    assert said["choices"][0]["message"]["role"] == "assistant"


def test_what_a_model_reads_only_it_is_told(models: dict[str, Model]) -> None:
    with pytest.raises(UsageError, match=r"<\|image\|>"):
        models["small"].generate("a text with <|image|> in it")
