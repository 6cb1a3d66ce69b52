"""Kimi-VL and Kimi K2.5 beside parity: configs as published, quantized exports, answers everywhere with a checkpoint
whose files are those of the hub: tiktoken.model, published names, published processor settings."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from PIL import Image  # noqa: E402

from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint  # noqa: E402
from docai.checkpoint.config import Config  # noqa: E402
from docai.checkpoint.load import map_weights, shapes_of  # noqa: E402
from docai.checkpoint.recipes import RECIPES, later_family  # noqa: E402
from docai.checkpoint.tensors import TensorInfo  # noqa: E402
from docai.errors import CheckpointError  # noqa: E402
from docai.nn.mla import LatentSpec, QuantizedHeadLinear  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.moe import MoeSpec, QuantizedExpertLinear  # noqa: E402
from docai.nn.packed_vit import PackedVitSpec  # noqa: E402
from docai.tasks.convert import convert_model  # noqa: E402
from docai.tasks.models_options import ConvertOptions  # noqa: E402
from docai.vlm.clips import clip_of  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.loading import load_network, resolve  # noqa: E402
from docai.vlm.model import open_model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from docai.vlm.spec import ModelSpec  # noqa: E402
from tests import compressed  # noqa: E402
from tests.commands import run  # noqa: E402
from tests.goldens.prompts import cases as prompts  # noqa: E402
from tests.parity.stored import case_of, config_of, images_of, logits, quantized, weights_of, written  # noqa: E402
from tests.parity.weights import noise  # noqa: E402
from tests.serving import Served, served  # noqa: E402

# --- configs as the hub has them

KIMI_VL: dict[str, Any] = {
    "model_type": "kimi_vl", "ignore_index": -100, "media_placeholder_token_id": 163_605, "pad_token_id": 0,
    "vision_config": {
        "model_type": "moonvit", "patch_size": 14, "num_attention_heads": 16, "num_hidden_layers": 27,
        "hidden_size": 1152, "intermediate_size": 4304, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
        "merge_kernel_size": [2, 2],
    },
    "text_config": {
        "model_type": "deepseek_v3", "vocab_size": 163_840, "hidden_size": 2048, "intermediate_size": 11_264,
        "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
        "n_shared_experts": 2, "n_routed_experts": 64, "routed_scaling_factor": 2.446, "kv_lora_rank": 512,
        "q_lora_rank": None, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128,
        "topk_method": "noaux_tc", "n_group": 1, "topk_group": 1, "num_experts_per_tok": 6, "moe_layer_freq": 1,
        "first_k_dense_replace": 1, "norm_topk_prob": True, "scoring_func": "sigmoid", "hidden_act": "silu",
        "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "rope_theta": 800_000.0, "rope_scaling": None,
        "attention_bias": False, "num_nextn_predict_layers": 0, "tie_word_embeddings": False,
    },
}  # fmt: skip
YARN = {
    "beta_fast": 32.0, "beta_slow": 1.0, "factor": 64.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "yarn",
    "original_max_position_embeddings": 4096,
}  # fmt: skip
KIMI_K25: dict[str, Any] = {
    "model_type": "kimi_k25", "media_placeholder_token_id": 163_605, "tie_word_embeddings": False,
    "use_unified_vision_chunk": True, "video_placeholder": "<|kimi_k25_video_placeholder|>",
    "vision_config": {
        "init_pos_emb_height": 64, "init_pos_emb_width": 64, "init_pos_emb_time": 4, "merge_kernel_size": [2, 2],
        "merge_type": "sd2_tpool", "mm_hidden_size": 1152, "mm_projector_type": "patchmerger", "patch_size": 14,
        "pos_emb_type": "divided_fixed", "projector_hidden_act": "gelu", "projector_ln_eps": 1e-5,
        "text_hidden_size": 7168, "vt_hidden_size": 1152, "vt_intermediate_size": 4304, "vt_num_attention_heads": 16,
        "vt_num_hidden_layers": 27, "video_attn_type": "spatial_temporal",
    },
    "text_config": {
        "model_type": "kimi_k2", "vocab_size": 163_840, "hidden_size": 7168, "intermediate_size": 18_432,
        "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
        "n_shared_experts": 1, "n_routed_experts": 384, "routed_scaling_factor": 2.827, "kv_lora_rank": 512,
        "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "n_group": 1,
        "topk_group": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "norm_topk_prob": True,
        "max_position_embeddings": 262_144, "rms_norm_eps": 1e-5, "rope_theta": 50_000.0, "rope_scaling": YARN,
    },
}  # fmt: skip


def spec_of(config: dict[str, Any]) -> ModelSpec:
    spec = family_of(config).spec(Config(config))
    assert isinstance(spec, ModelSpec)
    return spec


def test_kimi_vl_as_published() -> None:
    spec = spec_of(KIMI_VL)
    assert spec.image_token == 163_605
    first, second = spec.decoder.layers[:2]
    assert isinstance(first.mlp, MlpSpec)
    assert first.mlp.width == 11_264
    assert second.mlp == MoeSpec(64, 6, 1408, shared=MlpSpec(2816), scoring="sigmoid", scale=2.446)
    attention = first.attention
    assert isinstance(attention, LatentSpec)
    assert (attention.rank, attention.plain, attention.value, attention.query_rank) == (512, 128, 128, None)
    assert attention.rope is not None
    assert (attention.rope.dims, attention.rope.theta, attention.rope.interleaved) == (64, 8e5, True)
    assert attention.scale == pytest.approx(192**-0.5)
    vision = spec.vision
    assert isinstance(vision, PackedVitSpec)
    assert (vision.hidden, vision.layers, vision.positions, vision.averaged) == (1152, 27, 64, False)
    count = sum(int(np.prod(shape)) for shape in shapes_of(Network(spec)).values())
    assert 16.3e9 < count < 16.5e9


def test_kimi_k25_as_published() -> None:
    spec = spec_of(KIMI_K25)
    vision, attention = spec.vision, spec.decoder.layers[5].attention
    assert isinstance(vision, PackedVitSpec)
    assert (vision.hidden, vision.mlp.width, vision.heads, vision.averaged) == (1152, 4304, 16, True)
    assert isinstance(attention, LatentSpec)
    assert attention.scale == pytest.approx(192**-0.5 * (0.1 * np.log(64) + 1) ** 2)
    assert attention.query_rank == 1536
    assert (spec.image_token, spec.video_token) == (163_605, None)
    assert [isinstance(layer.mlp, MoeSpec) for layer in spec.decoder.layers[:3]] == [False, True, True]


def published_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of Kimi-VL's files, written down by the names of its code."""
    block: dict[str, tuple[int, ...]] = {}
    for name in ("pre_norm.weight", "pre_norm.bias"):
        block[f"multi_modal_projector.{name}"] = (1152,)
    for name, out in (("linear_1", 4608), ("linear_2", 2048)):
        block |= {f"multi_modal_projector.{name}.weight": (out, 4608), f"multi_modal_projector.{name}.bias": (out,)}
    tower = "vision_tower."
    block |= {
        f"{tower}patch_embed.proj.weight": (1152, 3, 14, 14), f"{tower}patch_embed.proj.bias": (1152,),
        f"{tower}patch_embed.pos_emb.weight": (64, 64, 1152), f"{tower}encoder.final_layernorm.weight": (1152,),
        f"{tower}encoder.final_layernorm.bias": (1152,),
    }  # fmt: skip
    for n in range(27):
        at = f"{tower}encoder.blocks.{n}."
        for name, shape in {
            "norm0": (1152,), "norm1": (1152,), "mlp.fc0": (4304, 1152), "mlp.fc1": (1152, 4304), "wqkv": (3456, 1152),
            "wo": (1152, 1152),
        }.items():  # fmt: skip
            block |= {f"{at}{name}.weight": shape, f"{at}{name}.bias": shape[:1]}
    model = "language_model.model."
    block |= {
        f"{model}embed_tokens.weight": (163_840, 2048), f"{model}norm.weight": (2048,),
        "language_model.lm_head.weight": (163_840, 2048),
    }  # fmt: skip
    for n in range(27):
        at = f"{model}layers.{n}."
        block |= {
            f"{at}input_layernorm.weight": (2048,), f"{at}post_attention_layernorm.weight": (2048,),
            f"{at}self_attn.q_proj.weight": (3072, 2048), f"{at}self_attn.kv_a_proj_with_mqa.weight": (576, 2048),
            f"{at}self_attn.kv_a_layernorm.weight": (512,), f"{at}self_attn.kv_b_proj.weight": (4096, 512),
            f"{at}self_attn.o_proj.weight": (2048, 2048),
        }  # fmt: skip
        experts = {f"experts.{e}": 1408 for e in range(64)} | {"shared_experts": 2816} if n else {"": 11_264}
        for name, width in experts.items():
            part = f"{at}mlp.{name}." if name else f"{at}mlp."
            block |= {f"{part}{x}_proj.weight": (width, 2048) for x in ("gate", "up")}
            block[f"{part}down_proj.weight"] = (2048, width)
        if n:
            block |= {f"{at}mlp.gate.weight": (64, 2048), f"{at}mlp.gate.e_score_correction_bias": (64,)}
    return block


def test_the_published_names_of_kimi_vl_map_completely() -> None:
    spec = spec_of(KIMI_VL)
    tensors = {name: TensorInfo("BF16", shape) for name, shape in published_shapes().items()}
    found = map_weights(
        Checkpoint("kimi", Path(), KIMI_VL, (), tensors), family_of(KIMI_VL).rules, spec, shapes_of(Network(spec))
    )
    assert (found.dialect, found.map.dropped) == ("hf", ())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ({"scoring_func": "softmax"}, "expected scoring_func 'sigmoid', got 'softmax'"),
        ({"topk_method": "greedy"}, "expected topk_method 'noaux_tc', got 'greedy'"),
        ({"n_group": 5, "topk_group": 2}, "2 of 5 groups do not divide 64 experts"),
        ({"num_experts_per_tok": 65}, "a token cannot have 65 of 64 experts"),
        ({"model_type": "llama"}, "text decoder 'llama' is not supported here"),
    ],
)
def test_what_is_no_decoder_of_this_kind(text: dict[str, Any], what: str) -> None:
    config = {**KIMI_VL, "text_config": {**KIMI_VL["text_config"], **text}}
    with pytest.raises(CheckpointError, match=what):
        resolve(Checkpoint("kimi", Path(), config, (), {}))


def test_heads_that_do_not_divide_the_tower_are_named() -> None:
    with pytest.raises(CheckpointError, match="7 heads do not divide 1152"):
        spec_of({**KIMI_VL, "vision_config": {**KIMI_VL["vision_config"], "num_attention_heads": 7}})


@pytest.mark.parametrize("field", ["merge_type", "pos_emb_type", "video_attn_type", "mm_projector_type"])
def test_another_way_of_seeing_than_kimi_k25_s_is_refused(field: str) -> None:
    assert field in KIMI_K25["vision_config"]
    with pytest.raises(CheckpointError, match=f"vision_config: expected {field} '.*', got 'another'"):
        spec_of({**KIMI_K25, "vision_config": {**KIMI_K25["vision_config"], field: "another"}})


def test_they_have_short_names_and_are_no_longer_to_come() -> None:
    assert {"kimi-vl", "kimi-vl-thinking", "kimi-k2.5"} <= RECIPES.keys()
    assert later_family("kimi_vl") is None
    assert later_family("kimi_k3") == "Kimi K3"


# --- exports


def test_a_quantized_matrix_of_keys_and_values_stays_as_it_is(tmp_path: Path) -> None:
    """mlx-vlm's exports of Kimi-VL have it whole; it is cut into heads, and not unpacked."""
    packed, plain = quantized(weights_of("kimi_vl"), 4, 32, dense=lambda name: name.endswith("gate.weight"))
    config = {**config_of("kimi_vl"), "quantization": {"group_size": 32, "bits": 4}}
    network = load_network(written(tmp_path / "packed", config, packed))
    attention = network.decoder.layers[0].attn
    assert isinstance(attention.key_down, QuantizedHeadLinear)
    assert isinstance(attention.value_up, QuantizedHeadLinear)
    whole = load_network(written(tmp_path / "plain", config_of("kimi_vl"), plain))
    tokens, images = case_of("kimi_vl")["tokens"], images_of("kimi_vl")
    np.testing.assert_allclose(logits(network, tokens, images), logits(whole, tokens, images), rtol=1e-3, atol=1e-3)
    convert_model(str(tmp_path / "packed"), ConvertOptions(output=str(tmp_path / "ours")))
    again = load_network(tmp_path / "ours")
    np.testing.assert_array_equal(logits(again, tokens, images), logits(network, tokens, images))


@pytest.mark.parametrize("name", ["kimi_vl", "kimi_k25"])
def test_a_head_that_is_not_there_is_the_embedding(name: str, tmp_path: Path) -> None:
    weights = weights_of(name)
    weights["language_model.lm_head.weight"] = weights["language_model.model.embed_tokens.weight"]
    both = load_network(written(tmp_path / "both", config_of(name), weights))
    del weights["language_model.lm_head.weight"]
    tied = load_network(written(tmp_path / "tied", config_of(name), weights))
    assert (both.spec.decoder.tied, tied.spec.decoder.tied) == (False, True)
    tokens, images = case_of(name)["tokens"], images_of(name)
    np.testing.assert_allclose(logits(tied, tokens, images), logits(both, tokens, images), rtol=1e-5, atol=1e-5)


def test_exports_without_the_tower_are_text_models(tmp_path: Path) -> None:
    """As mlx-lm makes them of Kimi K2.5."""
    weights = {n: a for n, a in weights_of("kimi_k25", "mlx").items() if n.startswith("language_model.")}
    network = load_network(written(tmp_path / "text", config_of("kimi_k25", "mlx"), weights))
    whole = load_network(written(tmp_path / "whole", config_of("kimi_k25"), weights_of("kimi_k25")))
    assert network.spec.vision is None
    tokens = [5, 6, 7, 8, 9]
    np.testing.assert_allclose(logits(network, tokens), logits(whole, tokens), rtol=1e-4, atol=1e-5)


def test_experts_of_kimi_k25_are_read_as_they_are_published(tmp_path: Path) -> None:
    """Packed by compressed-tensors, one by one; the way to pack is said in the text's config."""
    plain = weights_of("kimi_k25", "published")
    files = dict(plain)
    for name in [name for name in plain if ".mlp.experts." in name and "down_proj" not in name]:
        parts, plain[name] = compressed.packed(plain[name], 4, 32)
        del files[name]
        files |= {name.removesuffix("weight") + part: array for part, array in parts.items()}
    config = config_of("kimi_k25", "published")
    said = {**config, "text_config": {**config["text_config"], "quantization_config": compressed.setting(4, 32)}}
    network = load_network(written(tmp_path / "packed", said, files))
    assert isinstance(network.decoder.layers[1].mlp.experts.gate, QuantizedExpertLinear)
    whole = load_network(written(tmp_path / "plain", config, plain))
    tokens, images = case_of("kimi_k25")["tokens"], images_of("kimi_k25")
    np.testing.assert_allclose(logits(network, tokens, images), logits(whole, tokens, images), rtol=1e-3, atol=1e-3)


# --- answers, with the files of a published checkpoint

WORDS = Path(__file__).parent / "goldens" / "tokenizers" / "kimi_tiktoken" / "tiktoken.model"
TEMPLATES = {"kimi_vl": prompts.KIMI_VL, "kimi_k25": prompts.KIMI_K25}
PREPARED: dict[str, dict[str, Any]] = {
    "kimi_vl": {
        "patch_size": 4, "in_token_limit": 60, "pad_input": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    },
    "kimi_k25": {
        "media_proc_cfg": {
            "patch_size": 4, "in_patch_limit": 60, "in_patch_limit_each_frame": 24, "patch_limit_on_one_side": 512,
            "merge_kernel_size": 2, "temporal_merge_kernel_size": 4, "sample_fps": 2.0,
        }
    },
}  # fmt: skip
NAMED = (*prompts.KIMI_TOKENS, "[EOS]", "<think>", "</think>")


def tiny(kind: str, folder: Path, *, template: bool = True) -> Path:
    """A checkpoint as it is published, of a tiny model with the vocabulary of the golden tiktoken.model."""
    first = len(WORDS.read_bytes().splitlines())
    ids = {text: first + 1 + 2 * number for number, text in enumerate(NAMED)}  # not one after another
    config, weights = config_of(kind, "published"), weights_of(kind, "published")
    size = first + 256
    text = {**config["text_config"], "vocab_size": size, "max_position_embeddings": 4096}
    config = {**config, "text_config": text, "media_placeholder_token_id": ids["<|media_pad|>"]}
    for name in ("model.embed_tokens", "lm_head"):
        weights[f"language_model.{name}.weight"] = noise(name, (size, 32), 3)
    written(folder, config, weights, {"format": "pt"})
    shutil.copy(WORDS, folder / "tiktoken.model")
    added = {str(n): {"content": text, "special": "think" not in text} for text, n in ids.items()}
    said = {
        "added_tokens_decoder": added,
        "eos_token": "[EOS]",
        **({"chat_template": TEMPLATES[kind]} if template else {}),
    }
    for name, value in {
        "tokenizer_config.json": said,
        "preprocessor_config.json": PREPARED[kind],
        "generation_config.json": {"eos_token_id": ids["[EOS]"]},
    }.items():
        (folder / name).write_text(json.dumps(value))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kimi")
    for kind in TEMPLATES:
        tiny(kind, made / kind)
    pixels = np.random.RandomState(1).randint(0, 256, (30, 44, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(made / "a.png")
    return made


KINDS = pytest.mark.parametrize("kind", TEMPLATES)


@KINDS
def test_the_tokenizer_and_the_stops_are_those_of_its_files(kind: str, folder: Path) -> None:
    model = open_model(str(folder / kind))
    words = model.tokenizer
    # the former by its files, the latter by the family: it ends turns, which some files leave out
    assert words.stops == {words.token_id("[EOS]"), words.token_id("<|im_end|>")}
    assert read_checkpoint(folder / kind).config["media_placeholder_token_id"] == words.token_id("<|media_pad|>")


@KINDS
def test_it_answers_in_every_way_of_reading(kind: str, folder: Path) -> None:
    model = open_model(str(folder / kind))
    options: dict[str, Any] = {"max_tokens": 8, "loop_guard": False}
    whole = model.generate("Hello, what is this?", [folder / "a.png"], **options)
    assert whole.image_tokens == 4 * 5  # of 26 x 38 pixels, which are 60 patches at most, filled up to 32 x 40
    parts = model.generate("Hello, what is this?", [folder / "a.png"], prefill_step=16, **options)
    assert whole.tokens == parts.tokens
    few = model.generate("Hello, what is this?", [folder / "a.png"], image_tokens=16, **options)
    assert few.image_tokens <= 16
    assert model.generate("Hello", [folder / "a.png"], kv_window=16, **options).tokens


@KINDS
def test_it_sees_clips(kind: str, folder: Path, tmp_path: Path) -> None:
    from tests.clips import counted

    (tmp_path / "a.mkv").write_bytes(counted(30))  # three seconds, 48 x 64
    model = open_model(str(folder / kind))
    said = model.generate("What happens?", [clip_of(tmp_path / "a.mkv")], max_tokens=4, loop_guard=False)
    frames, tokens = 6, (6 if kind == "kimi_k25" else 20)  # 24 patches of a frame, or 60, at most
    parts = -(-frames // 4) if kind == "kimi_k25" else frames
    assert said.image_tokens == parts * tokens
    assert len(said.tokens) == 4


@KINDS
def test_a_checkpoint_without_a_template_is_asked_in_its_turns(kind: str, folder: Path, tmp_path: Path) -> None:
    bare = open_model(str(tiny(kind, tmp_path / "bare", template=False)))
    message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Look."}]}
    text = bare.tokenizer.decode(
        bare.request([message], [folder / "a.png"], GenerationOptions()).ids, skip_special=False
    )
    seen = f"image<|media_content|>{'<|media_pad|>' * 20}<|media_end|>"
    begin, end = ("<|media_start|>", "") if kind == "kimi_vl" else ("<|media_begin|>", "\n")
    assert text == (
        "<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>"
        f"<|im_user|>user<|im_middle|>{begin}{seen}{end}Look.<|im_end|><|im_assistant|>assistant<|im_middle|>"
    )


@KINDS
def test_the_command_line(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.clips import counted

    (tmp_path / "a.mkv").write_bytes(counted(20))
    shutil.copy(folder / "a.png", tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    model = ("-m", str(folder / kind), "--max-tokens", "4")
    assert run("chat", "a.png", "-p", "What is this?", "--json", *model) == 0
    assert json.loads(capsys.readouterr().out)["usage"]["generated"] <= 4
    assert run("caption", "a.png", *model) == 0
    assert run("ocr", "a.png", "--guard", "off", *model) == 0
    assert run("video", "a.mkv", "What happens?", "--json", *model) == 0
    (clip,) = json.loads(capsys.readouterr().out.splitlines()[-1])["videos"]
    assert len(clip["frames"]) == 4


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder / "state", model=[str(folder / kind) for kind in TEMPLATES], max_models=2) as running:
        yield running


@KINDS
def test_the_server(kind: str, folder: Path, server: Served) -> None:
    from tests.clips import counted

    def asked(part: str, data: bytes, mime: str) -> dict[str, Any]:
        url = {"url": f"data:{mime};base64,{base64.b64encode(data).decode()}"}
        parts = [{"type": part, part: url}, {"type": "text", "text": "What?"}]
        body = {"model": kind, "messages": [{"role": "user", "content": parts}], "max_tokens": 3}
        said: dict[str, Any] = server.json("POST", "/v1/chat/completions", body)
        return said

    said = asked("image_url", (folder / "a.png").read_bytes(), "image/png")
    assert said["usage"]["prompt_tokens_details"]["image_tokens"] == 20
    said = asked("video_url", counted(10), "video/x-matroska")
    assert said["usage"]["prompt_tokens_details"]["image_tokens"] == (6 if kind == "kimi_k25" else 2 * 20)
