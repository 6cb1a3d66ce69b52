"""Falcon-OCR beside parity: its special operations by their definitions in NumPy, published names, prompts, answers."""

from __future__ import annotations

import gc
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from mlx.utils import tree_flatten  # noqa: E402

from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint  # noqa: E402
from docai.checkpoint.load import map_weights, shapes_of  # noqa: E402
from docai.checkpoint.tensors import TensorInfo  # noqa: E402
from docai.errors import InputError, UsageError  # noqa: E402
from docai.nn.cache import FullCache, QuantizedCache  # noqa: E402
from docai.nn.golden import Golden, GoldenAttention, GoldenAttentionSpec, GoldenSpec, plane  # noqa: E402
from docai.nn.norm import rms  # noqa: E402
from docai.nn.rope import Rope, RopeSpec  # noqa: E402
from docai.nn.scores import Scoring, attend  # noqa: E402
from docai.ocr.asking import OneByOne, Question, Together  # noqa: E402
from docai.tasks.convert import convert_model  # noqa: E402
from docai.tasks.models_options import ConvertOptions  # noqa: E402
from docai.vlm.config import Config  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.families.falcon_ocr import CATEGORIES, FAMILY  # noqa: E402
from docai.vlm.job import Job  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.model import Model, as_messages, open_model  # noqa: E402
from docai.vlm.native_images import falcon_images  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.prompt import render  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions  # noqa: E402
from docai.vlm.scheduler import EngineLimits  # noqa: E402
from docai.vlm.together import readable_together  # noqa: E402
from tests.parity.stored import case_of, config_of, images_of, logits, quantized, weights_of, written  # noqa: E402
from tests.parity.weights import noise  # noqa: E402
from tests.tiny_checkpoint import tiny_falcon  # noqa: E402

# config.json of tiiuae/Falcon-OCR, as far as it is read
PUBLISHED = {
    "model_type": "falcon_ocr", "dim": 768, "n_layers": 22, "n_heads": 16, "n_kv_heads": 8, "head_dim": 64,
    "ffn_dim": 2304, "vocab_size": 65_536, "norm_eps": 1e-5, "max_seq_len": 8192, "rope_theta": 10_000,
    "channel_size": 3, "spatial_patch_size": 16, "temporal_patch_size": 1, "eos_id": 11, "img_id": 227,
}  # fmt: skip
NEWER = {
    "model_type": "falcon_ocr", "hidden_size": 768, "num_hidden_layers": 22, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 2304, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192,
}  # fmt: skip
LAYER = {
    "attention.wqkv.weight": (2048, 768), "attention.wo.weight": (768, 1024), "attention.sinks": (16,),
    "feed_forward.w13.weight": (4608, 768), "feed_forward.w2.weight": (768, 2304),
}  # fmt: skip
NAMES = {
    "tok_embeddings.weight": (65_536, 768), "output.weight": (65_536, 768), "img_projector.weight": (768, 768),
    "norm.weight": (768,), "freqs_cis_golden": (16, 16, 2),
    **{f"layers.{i}.{name}": shape for i in range(22) for name, shape in LAYER.items()},
}  # fmt: skip


# --- its operations, by their definitions


def test_the_plane_of_a_picture_keeps_its_shape_and_its_area() -> None:
    y, x = plane(3, 12)
    np.testing.assert_allclose(y.reshape(3, 12)[:, 0], [-0.5, 0, 0.5])
    np.testing.assert_allclose(x.reshape(3, 12)[1], np.linspace(-2, 2, 12), rtol=1e-6)
    np.testing.assert_allclose(plane(1, 4), [[-0.5] * 4, np.linspace(-2, 2, 4)], rtol=1e-6)  # as linspace of one


def test_heads_are_turned_by_time_and_by_their_own_view_of_the_plane() -> None:
    heads, dims, length = 3, 16, 5
    x, frequencies = noise("x", (1, heads, length, dims), 1), noise("f", (heads, 4, 2), 1)
    time, places = np.array([0, 1, 1, 1, 2]), noise("p", (2, length), 1)
    expected = np.empty_like(x)
    for head, at in product(range(heads), range(length)):
        for pair in range(8):
            spatial = frequencies[head, pair - 4] @ places[:, at] if pair >= 4 else 0.0
            angle = spatial if pair >= 4 else time[at] * 100.0 ** (-pair / 4)
            a, b = x[0, head, at, 2 * pair : 2 * pair + 2]
            turned = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
            expected[0, head, at, 2 * pair : 2 * pair + 2] = turned
    golden, rope = Golden(GoldenSpec(heads, 4)), Rope(RopeSpec(8, 100.0, interleaved=True))
    golden.weight = mx.array(frequencies)
    rotate = golden.after(rope.at(mx.array(time[None])), mx.array(places[:, None]))
    np.testing.assert_allclose(np.array(rotate(mx.array(x))), expected, atol=2e-6)
    still = golden.after(rope.counting(3, 8), mx.zeros((2, 1, length)))  # text lies at (0, 0): only time turns it
    np.testing.assert_allclose(np.array(still(mx.array(x))), np.array(rope.counting(3, 8)(mx.array(x))), atol=2e-6)


def softmax_with_sinks(q: Any, k: Any, v: Any, sinks: Any, scale: float, seen: Any) -> Any:
    """Output x sigmoid(logsumexp - sink), as the reference writes it."""
    scores = np.where(seen, scale * q @ k.swapaxes(-1, -2), -np.inf)
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    gate = 1 / (1 + np.exp(sinks[:, None, None] - (np.log(total) + top)))
    return np.exp(scores - top) / total @ v * gate


@pytest.mark.parametrize("cache", [FullCache, QuantizedCache], ids=["full", "quantized"])
@pytest.mark.parametrize("cap", [None, 1e6])
def test_sinks_take_their_share(cache: Any, cap: float | None) -> None:
    q, k, v = (noise(name, (1, 4, 6, 32), 2) for name in "qkv")
    sinks, seen = np.array([-3.0, 0.0, 1.5, 4.0], np.float32), np.tril(np.ones((6, 6), bool))
    expected = softmax_with_sinks(q, k, v, sinks, 0.2, seen)
    scoring = Scoring(0.2, cap, mx.array(sinks))
    out = cache().attend(*map(mx.array, (q, k, v)), scoring, "causal")
    np.testing.assert_allclose(np.array(out), expected, atol=2e-6 if cache is FullCache else 2e-2)
    halves = [attend(*(mx.array(a).astype(mx.bfloat16) for a in (q, k, v)), scoring, mx.array(seen))]
    assert halves[0].dtype == mx.bfloat16
    np.testing.assert_allclose(np.array(halves[0].astype(mx.float32)), expected, atol=3e-2)


def test_norms_without_weights_have_the_epsilon_of_float32() -> None:
    small = noise("x", (1, 8), 1) * np.float32(1e-3)
    exact = small / np.sqrt((small.astype(np.float64) ** 2).mean() + 2.0**-23)
    spec = family_of(PUBLISHED).spec(Config(PUBLISHED))
    attention = spec.decoder.layers[0].attention
    assert isinstance(attention, GoldenAttentionSpec)
    assert attention.eps == spec.decoder.bare_norm_eps == 2.0**-23
    assert spec.decoder.norm_eps == 1e-5
    np.testing.assert_allclose(np.array(rms(mx.array(small), attention.eps)), exact, rtol=1e-5)


def test_keys_are_kept_for_every_head() -> None:
    spec = GoldenAttentionSpec(4, 2, 16, RopeSpec(8, interleaved=True))
    attention, cache = GoldenAttention(32, spec), FullCache()
    attention(mx.array(noise("x", (1, 3, 32), 1)), None, "causal", cache)
    assert cache.state[0].shape[1] == spec.kept_heads == 4


# --- prompts


def test_an_image_and_its_marks_take_one_position() -> None:
    network = Network(family_of(FALCON).spec(Config(FALCON)))
    (image,), tokens = images_of("falcon_ocr"), case_of("falcon_ocr")["tokens"]
    positions, shift = network.positions(tokens, [image])
    assert positions is not None
    time, y, x = np.array(positions)
    assert time.tolist() == [0, 1, *[2] * 30, 3, 4, 5, 6]
    assert shift == 7 - len(tokens)
    assert not np.concatenate([y[:7], y[31:], x[:7], x[31:]]).any()
    np.testing.assert_allclose(y[7:31:4], np.linspace(-(1.5**0.5), 1.5**0.5, 6), rtol=1e-6)
    blocks = network.prompt(tokens, network.encode([image])).blocks
    assert blocks is not None
    assert np.array(blocks)[0].tolist() == [0, 0, *[1] * 29, 0, 0, 0, 0, 0]  # the end is not among those that see ahead


FALCON = config_of("falcon_ocr")


@pytest.fixture(scope="module")
def falcon(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_model(str(tiny_falcon(tmp_path_factory.mktemp("falcon"))), prefix_cache=0)


def asked(model: Model, words: str, images: int = 1) -> str:
    parts = [*[{"type": "image"}] * images, {"type": "text", "text": words}]
    return render([{"role": "user", "content": parts}], model.tokenizer, FAMILY.prompt)


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_is_asked_for_in_its_own_words(falcon: Model, category: str) -> None:
    expected = f"<|image|>Extract the {category} content from this image.\n<|OCR_PLAIN|>"
    assert asked(falcon, category) == expected
    assert asked(falcon, f" {category.upper()}\n") == expected


def test_other_words_and_none(falcon: Model) -> None:
    plain = "<|image|>Extract the text content from this image.\n<|OCR_PLAIN|>"
    assert asked(falcon, "plain") == asked(falcon, "") == plain
    assert asked(falcon, plain.removeprefix("<|image|>")) == plain  # a prompt that has the mark already
    assert asked(falcon, "Read the stamp.") == "<|image|>Read the stamp.\n<|OCR_PLAIN|>"
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    last = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "table"}]}
    text = render([{"role": "system", "content": "be brief"}, *history, last], falcon.tokenizer, FAMILY.prompt)
    assert text == "<|image|>Extract the table content from this image.\n<|OCR_PLAIN|>"


def test_an_image_is_framed_by_its_tokens(falcon: Model) -> None:
    rgb = np.full((64, 96, 3), 200, np.uint8)
    asked = falcon.request(as_messages("table", 1), [rgb], GenerationOptions())
    tokens = [falcon.tokenizer.token(number) for number in asked.ids]
    assert tokens[:6] == ["<|image_cls|>", *(f"<|image_reg_{n}|>" for n in range(1, 5)), "<|image|>"]
    assert tokens.count("<|image|>") == 24
    assert tokens[5 + 24] == "<|end_of_image|>"
    assert tokens[-1] == "<|OCR_PLAIN|>"


def test_answers_end_where_the_family_says(falcon: Model) -> None:
    words = falcon.tokenizer
    assert {words.token_id(token) for token in ("<|end_of_query|>", "<|end_of_text|>")} <= words.stops


def test_reading_in_chunks_changes_nothing(falcon: Model) -> None:
    rgb = np.random.RandomState(1).randint(0, 255, (120, 250, 3)).astype(np.uint8)
    options: dict[str, Any] = {"max_tokens": 12, "loop_guard": False}
    whole = falcon.generate("text", [rgb], **options)
    parts = falcon.generate("text", [rgb], prefill_step=16, **options)
    assert whole.tokens == parts.tokens
    assert whole.image_tokens == 8 * 16


def test_a_prompt_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    model = open_model(str(tiny_falcon(tmp_path / "m")), prefix_cache=1)
    rgb = np.random.RandomState(2).randint(0, 255, (200, 250, 3)).astype(np.uint8)
    first, again = (model.generate("title", [rgb], max_tokens=6) for _ in range(2))
    other = model.generate("table", [rgb], max_tokens=6)
    assert first.tokens == again.tokens
    assert again.usage.reused > 0
    assert other.usage.reused > other.image_tokens  # the picture with its marks
    fresh = open_model(str(tmp_path / "m"), prefix_cache=0).generate("table", [rgb], max_tokens=6)
    assert other.tokens == fresh.tokens


def test_pictures_of_unlike_sizes_are_read_in_one_pass(falcon: Model) -> None:
    """Each keeps the places of its own picture, and what sees itself in it, whoever stands beside it."""
    sizes = [(64, 96), (80, 200), (64, 64), (150, 100), (96, 64)]
    pictures = [np.random.RandomState(n).randint(0, 255, (*size, 3)).astype(np.uint8) for n, size in enumerate(sizes)]
    options = GenerationOptions(max_tokens=10, loop_guard=False)
    requests = [falcon.request(as_messages("text", 1), [picture], options) for picture in pictures]
    requests.append(falcon.request(as_messages("text", 0), [], options))  # has no places to stand beside others'
    alone = Engine(falcon.runtime, limits=EngineLimits(rows=1))
    expected = [alone.submit(request).whole().tokens for request in requests]
    beside = Engine(falcon.runtime, limits=EngineLimits(rows=8, together=True))
    assert [answer.tokens for answer in beside.answers(requests)] == expected
    first, *others = [Job(falcon.runtime, request, "", "", 0.0) for request in requests]
    group = readable_together(falcon.network, first, others, 2048)
    assert len(group) == 4, "a power of two"
    assert all(job.request.images for job in group)
    assert len({job.left for job in group}) > 1
    alone.close()
    beside.close()


def test_many_crops_leave_nothing_behind(tmp_path: Path) -> None:
    model = open_model(str(tiny_falcon(tmp_path / "m")), prefix_cache=0, feature_cache=0)
    asker = Together(model, GenerationOptions(max_tokens=4))
    crops = [np.random.RandomState(n).randint(0, 255, (64, 64 + n, 3)).astype(np.uint8) for n in range(40)]
    left = []
    for _ in range(3):
        assert len(list(asker.ask([Question("text", crop, 4) for crop in crops]))) == len(crops)
        asker._engine.close()
        assert not asker._tickets
        gc.collect()
        left.append(mx.get_active_memory())
        asker = Together(model, GenerationOptions(max_tokens=4))
    assert left[2] - left[0] < 100_000  # a crop's keys and values take as much


def test_an_answer_is_heard_as_it_grows(tmp_path: Path) -> None:
    model, heard = open_model(str(tiny_falcon(tmp_path / "m"))), list[int]()
    crop = np.random.RandomState(1).randint(0, 255, (64, 64, 3)).astype(np.uint8)
    for asker in (Together(model, GenerationOptions()), OneByOne(model, GenerationOptions())):
        heard.clear()
        question = Question("text", crop, 6, heard=lambda: heard.append(1))
        ((_, answer),) = asker.ask([question])
        assert isinstance(answer, Generation)
        assert 1 < len(heard) <= len(answer.tokens) + 1


# --- pictures


@pytest.mark.parametrize(("size", "grid"), [((224, 640), (14, 40)), ((213, 617), (13, 39))])
def test_the_sheet_s_pictures(size: tuple[int, int], grid: tuple[int, int]) -> None:
    image = falcon_images()({}, {})(np.zeros((*size, 3), np.uint8))
    assert image.grid == (1, *grid)
    assert image.tokens == grid[0] * grid[1]


@pytest.mark.parametrize("size", [(1, 90), (10, 3000), (2000, 25)])
def test_pictures_that_would_be_thinner_than_a_patch_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=rf"the image is {size[1]} x {size[0]} px.*crop or pad it"):
        falcon_images()({}, {})(np.zeros((*size, 3), np.uint8))


def test_a_picture_is_needed_for_each_place(falcon: Model) -> None:
    with pytest.raises(UsageError, match="1 time"):
        falcon.generate([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "text"}]}], [])


# --- checkpoints


def test_the_published_model_is_whole() -> None:
    spec = family_of(PUBLISHED).spec(Config(PUBLISHED))
    assert spec == family_of(NEWER).spec(Config(NEWER))
    network = Network(spec)  # nothing is evaluated
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == 269_944_416
    assert len(NAMES) == 115
    tensors = {name: TensorInfo("F32", shape) for name, shape in NAMES.items()}
    checkpoint = Checkpoint("falcon", Path("nowhere"), PUBLISHED, (), tensors)
    assert map_weights(checkpoint, FAMILY.rules, spec, shapes_of(network)).dialect == "hf"


@pytest.mark.parametrize("variant", ["", "published"])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_exports_load(variant: str, bits: int, tmp_path: Path) -> None:
    config, tokens, images = config_of("falcon_ocr", variant), case_of("falcon_ocr")["tokens"], images_of("falcon_ocr")
    packed, plain = quantized(weights_of("falcon_ocr", variant), bits, 32)
    assert sum(name.endswith(".scales") for name in packed) == 2 + 3 * 3  # not those with rows of 48
    how = {"quantization": {"group_size": 32, "bits": bits}}
    ours = load_network(written(tmp_path / "packed", {**config, **how}, packed))
    expected = logits(load_network(written(tmp_path / "plain", config, plain)), tokens, images)
    np.testing.assert_allclose(logits(ours, tokens, images), expected, rtol=1e-3, atol=1e-3)


def test_learned_turns_are_never_rounded(tmp_path: Path) -> None:
    folder = written(tmp_path / "whole", config_of("falcon_ocr"), weights_of("falcon_ocr"))
    half = load_network(folder, dtype="bfloat16")
    assert half.decoder.golden.weight.dtype == mx.float32
    assert half.decoder.embed.weight.dtype == mx.bfloat16
    convert_model(str(folder), ConvertOptions(output=str(tmp_path / "half"), dtype="float16"))
    tensors = read_checkpoint(tmp_path / "half").tensors
    assert tensors["decoder.golden.weight"].dtype == "F32"
    assert tensors["decoder.embed.weight"].dtype == "F16"


def test_it_can_be_asked_on_rounded_caches(falcon: Model, tmp_path: Path) -> None:
    model = open_model(str(tiny_falcon(tmp_path / "wide", head_dim=32)), prefix_cache=0)
    rgb = np.random.RandomState(1).randint(0, 255, (64, 96, 3)).astype(np.uint8)
    assert len(model.generate("text", [rgb], max_tokens=4, kv_bits=8).tokens) in range(1, 5)
    assert GenerationOptions(kv_bits=8).kv_bits == 8


def test_its_short_name_is_known() -> None:
    from docai.checkpoint.recipes import RECIPES

    assert RECIPES["falcon-ocr"].repo == "tiiuae/Falcon-OCR"
    assert json.loads(json.dumps(FALCON))["model_type"] == "falcon_ocr"
