"""Qwen3.5 beside parity: configs as published, thinking, videos, and what a state allows and does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from mlx.utils import tree_flatten  # noqa: E402
from PIL import Image  # noqa: E402

import docai  # noqa: E402
from docai.checkpoint.options import LoadOptions  # noqa: E402
from docai.errors import CheckpointError  # noqa: E402
from docai.nn.cache import QuantizedCache, RotatingCache, StateCache  # noqa: E402
from docai.nn.delta import DeltaSpec  # noqa: E402
from docai.nn.gated_attention import GatedAttentionSpec  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.moe import MoeSpec  # noqa: E402
from docai.tasks.load import load  # noqa: E402
from docai.tasks.models import show_model  # noqa: E402
from docai.vlm.config import Config  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.generate import Request  # noqa: E402
from docai.vlm.job import Job  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.model import Model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.prefix import BlockStore  # noqa: E402
from docai.vlm.reading import new_caches  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from docai.vlm.scheduler import EngineLimits, Scheduler  # noqa: E402
from docai.vlm.spec import ModelSpec  # noqa: E402
from docai.vlm.together import readable_together  # noqa: E402
from tests.clips import counted  # noqa: E402
from tests.commands import run  # noqa: E402
from tests.goldens.prompts.cases import QWEN_3_5  # noqa: E402
from tests.parity.stored import case_of, config_of, images_of, logits, quantized, weights_of, written  # noqa: E402
from tests.tiny_checkpoint import tiny_qwen3_5  # noqa: E402

# What is left out here is what the configuration classes fill in.
SMALL = {"model_type": "qwen3_5", "text_config": {}, "vision_config": {"out_hidden_size": 4096}}
LARGE = {
    "model_type": "qwen3_5", "vision_config": {"out_hidden_size": 5120}, "text_config": {
        "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24, "intermediate_size": 17_408,
        "linear_num_value_heads": 48, "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
    },
}  # fmt: skip
EXPERTS = {"model_type": "qwen3_5_moe", "text_config": {}, "vision_config": {"out_hidden_size": 2048}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a template that begins the thinking, or closes it."""
    folder = tiny_qwen3_5(tmp_path_factory.mktemp("model") / "tiny")
    said = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**said, "chat_template": QWEN_3_5}))
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(str(folder))


def spec_of(config: dict[str, Any]) -> ModelSpec:
    return family_of(config).spec(Config(config))


# --- configs


@pytest.mark.parametrize(
    ("config", "parameters"), [(SMALL, 9_409_813_744), (LARGE, 27_356_728_560), (EXPERTS, 35_107_181_936)]
)
def test_models_have_as_many_parameters_as_those_of_the_reference(config: dict[str, Any], parameters: int) -> None:
    network = Network(spec_of(config))  # nothing is evaluated
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == parameters


def test_a_config_of_the_hub_becomes_a_spec() -> None:
    spec = spec_of(LARGE)
    assert (spec.image_token, spec.video_token) == (248_056, 248_057)
    first, last = (spec.decoder.layers[n].attention for n in (0, 3))
    assert first == DeltaSpec.of(48, 16, value_dim=128, key_dim=128, kernel=4)
    assert isinstance(last, GatedAttentionSpec)
    assert last.rope is not None
    assert (last.rope.dims, last.rope.theta, last.rope.sections, last.rope.sections_mixed) == (
        64, 1e7, (11, 11, 10), True,
    )  # fmt: skip
    assert [layer.attention.state_size > 0 for layer in spec.decoder.layers] == [True, True, True, False] * 16
    mlp = spec_of(EXPERTS).decoder.layers[0].mlp
    assert mlp == MoeSpec(256, 8, 512, shared=MlpSpec(512), shared_gate=True)


def test_another_kind_of_layer_is_named() -> None:
    with pytest.raises(CheckpointError, match="mamba"):
        spec_of({**SMALL, "text_config": {"num_hidden_layers": 1, "layer_types": ["mamba"]}})


def test_a_text_model_needs_no_sections() -> None:
    said = {"model_type": "qwen3_5_text", "num_hidden_layers": 4, "head_dim": 64}
    rope = spec_of(said).decoder.layers[3].attention.rope
    assert rope is not None
    assert (rope.dims, rope.sections) == (16, ())
    with pytest.raises(CheckpointError, match="does not divide 8 pairs"):
        spec_of({**SMALL, "text_config": said})


def test_a_layout_of_the_other_dialect_is_refused(tmp_path: Path) -> None:
    """It tells whether norms have their 1; names alone would make a model of wrong numbers."""
    weights = {name: a.swapaxes(1, 2) if "conv1d" in name else a for name, a in weights_of("qwen3_5_text").items()}
    with pytest.raises(CheckpointError, match="conv1d"):
        load_network(written(tmp_path, config_of("qwen3_5_text"), weights))


def test_how_fast_states_fade_stays_exact(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, config_of("qwen3_5_text"), weights_of("qwen3_5_text")), dtype="bfloat16")
    types = {name.rpartition(".")[2]: a.dtype for name, a in tree_flatten(network.decoder.layers[0].attn.parameters())}
    assert types["log_rate"] == mx.float32
    assert types["step_bias"] == mx.bfloat16
    out = network.step(mx.array([[5]]), network.caches())
    assert out.dtype == mx.bfloat16
    assert mx.isfinite(out).all().item()


# --- what a state allows


def test_only_keys_and_values_are_rounded_or_let_go_of(tmp_path: Path) -> None:
    rope = {**config_of("qwen3_5_text")["rope_parameters"], "mrope_section": [4, 2, 2]}
    rounded = {**config_of("qwen3_5_text"), "head_dim": 32, "rope_parameters": rope}
    network = Network(spec_of(rounded))
    for options, kind in (({"kv_window": 16}, RotatingCache), ({"kv_bits": 8}, QuantizedCache)):
        caches = new_caches(network, GenerationOptions(**options))  # type: ignore[arg-type]
        assert [type(cache) for cache in caches] == [StateCache, kind, StateCache]
    model = load(str(tiny_qwen3_5(tmp_path / "tiny")))
    assert len(model.generate("Hello there", max_tokens=20, kv_window=16).tokens) == 20


def request(model: Model, text: str, **options: Any) -> Request:
    chosen = {"max_tokens": 12, "prefill_step": None, "loop_guard": False, **options}
    return model.request([{"role": "user", "content": text}], [], GenerationOptions(**chosen))


def test_nothing_is_guessed_and_no_prompt_filled_up(model: Model) -> None:
    jobs = [Job(model.runtime, request(model, text, guess=4), "", "", 0.0) for text in ("one two one two", "one")]
    assert [job.guess for job in jobs] == [0, 0]
    assert len(readable_together(model.network, jobs[0], jobs[1:], 4096)) < 2
    engine = Engine(model.runtime, limits=EngineLimits(together=True))
    requests = [request(model, "one two " * n, guess=4) for n in range(1, 6)]
    alone = [engine.answers([each])[0].tokens for each in requests]
    assert [done.tokens for done in engine.answers(requests)] == alone
    engine.close()


def test_one_that_is_cancelled_leaves_the_others_as_they_are(model: Model) -> None:
    engine = Engine(model.runtime)
    alone = engine.answers([request(model, "Hello there", max_tokens=40)])[0].tokens
    kept = engine.submit(request(model, "Hello there", max_tokens=40))
    gone = engine.submit(request(model, "Something else that is longer", max_tokens=400))
    for number, _ in enumerate(gone):
        if number == 3:
            gone.cancel()
    assert kept.whole().tokens == alone
    assert gone.whole().finish_reason == "cancelled"
    engine.close()


def test_what_is_kept_is_counted(model: Model) -> None:
    network, budget = model.network, Scheduler(model.runtime, BlockStore(0), EngineLimits()).budget
    states = sum(layer.attention.state_size for layer in network.spec.decoder.layers)
    for text in ("Hello", "Hello " * 300):
        job = Job(model.runtime, request(model, text), "", "", 0.0)
        caches = network.caches()
        network.prefill(network.prompt(job.request.ids), caches)
        held = sum(int(a.nbytes) for cache in caches for a in cache.state)
        assert held <= budget.needed([job])
        assert (
            sum(int(a.nbytes) for cache in caches if isinstance(cache, StateCache) for a in cache.state) == 4 * states
        )


def test_states_are_told_beside_what_a_token_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = show_model(str(folder), LoadOptions())["memory"]
    assert memory["cache_per_1000_tokens"] == 2 * 2 * 16 * 1000 * 4  # keys and values, heads, numbers, bytes
    assert memory["states"] == 4 * 2 * (4 * 8 * 12 + 3 * (2 * 2 * 8 + 4 * 12))  # two layers
    assert run("models", "show", str(folder)) == 0
    assert "for the states of a request" in " ".join(capsys.readouterr().out.split())


# --- answers


BEGUN, CLOSED = "assistant\n<think>\n", "assistant\n<think>\n\n</think>\n\n"


@pytest.mark.parametrize(("thinking", "ends"), [("auto", BEGUN), ("on", BEGUN), ("off", CLOSED)])
def test_it_thinks_or_not(model: Model, thinking: str, ends: str) -> None:
    asked = request(model, "Hello", thinking=thinking)
    assert model.tokenizer.decode(asked.ids, skip_special=False).endswith(ends)
    budget = None if thinking == "off" else 4
    done = model.generate("Hello", max_tokens=9, thinking=thinking, thinking_budget=budget)
    assert done.usage.thinking == (budget or 0)
    assert len(done.tokens) == 9


def test_reading_and_captions_do_without_thinking(folder: Path, tmp_path: Path) -> None:
    """Although the template thinks where nothing is said: it would take all the tokens that there are."""
    picture = tmp_path / "picture.png"
    Image.fromarray(np.random.RandomState(1).randint(0, 256, (40, 62, 3)).astype(np.uint8)).save(picture)
    model = load(str(folder))
    assert model.generate("Hello", [picture], max_tokens=5).usage.thinking == 5
    (caption,) = docai.caption(picture, model, max_tokens=5)
    assert caption.generation.usage.thinking == 0
    assert docai.caption(picture, model, max_tokens=5, thinking="on")[0].generation.usage.thinking == 5
    (page,) = docai.ocr(picture, model=str(folder), max_tokens=12, guard="off").pages
    assert "".join(block.text for block in page.blocks)


def test_a_question_about_a_video(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.mp4").write_bytes(counted(50, container="mp4"))
    words = ("video", str(tmp_path / "a.mp4"), "What happens?", "-m", str(folder), "--max-tokens", "4", "--json")
    assert run(*words) == 0
    said = json.loads(capsys.readouterr().out)
    (seen,) = said["videos"]
    assert len(seen["frames"]) == 10
    assert said["usage"]["images"] == 5 * 6 * 4  # pairs of frames of 48 x 64 pixels, in blocks of 8 x 8
    assert said["usage"]["generated"] == 4


def test_exports_may_round_routers_and_gates_in_their_own_way(tmp_path: Path) -> None:
    """As mlx-vlm does: 8 bits where the rest has 4; they are named in the config."""
    name = "qwen3_5_moe-mlx"
    weights = weights_of(name)

    def own(weight: str) -> bool:
        return weight.endswith(("mlp.gate.weight", "shared_expert_gate.weight"))

    rest, plain = quantized(weights, 4, 32, dense=own)
    gates, plain_gates = quantized({key: a for key, a in weights.items() if own(key)}, 8, 64)
    modules = {key.removesuffix(".scales"): {"group_size": 64, "bits": 8} for key in gates if key.endswith(".scales")}
    assert len(modules) == 2 * 4
    said = {**config_of(name), "quantization": {"group_size": 32, "bits": 4, **modules}}
    packed = {**{key: a for key, a in rest.items() if not own(key)}, **gates}
    found = [
        logits(load_network(written(tmp_path / "packed", said, packed)), case_of(name)["tokens"], images_of(name)),
        logits(
            load_network(written(tmp_path / "plain", config_of(name), {**plain, **plain_gates})),
            case_of(name)["tokens"],
            images_of(name),
        ),
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-3)
