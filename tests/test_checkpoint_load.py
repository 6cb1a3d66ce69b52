"""From files to the weights of a network: dialects, types, quantized layers, memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten

from docai.checkpoint import backend, load
from docai.checkpoint.checkpoint import read_checkpoint
from docai.checkpoint.dialect import Drop, Rename, Split, Stack
from docai.checkpoint.quantize import MODES, chosen
from docai.checkpoint.tensors import Quantization
from docai.errors import CheckpointError, DependencyMissing, LimitExceeded, UsageError
from docai.vlm.loading import load_network
from tests import compressed

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 96,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
}  # fmt: skip
WIDTHS = {"q": (64, 64), "k": (32, 64), "v": (32, 64), "o": (64, 64)}


def llama(seed: int = 0) -> dict[str, mx.array]:
    """The tensors of a tiny checkpoint, by the names of the hub."""
    random = np.random.RandomState(seed)

    def matrix(out: int, width: int) -> mx.array:
        return mx.array(random.standard_normal((out, width)).astype(np.float32) / np.sqrt(width))

    out = {"model.embed_tokens.weight": matrix(96, 64), "model.norm.weight": mx.ones(64)}
    for i in range(2):
        layer = f"model.layers.{i}."
        out |= {f"{layer}self_attn.{x}_proj.weight": matrix(*shape) for x, shape in WIDTHS.items()}
        out |= {f"{layer}mlp.{x}_proj.weight": matrix(128, 64) for x in ("gate", "up")}
        out[f"{layer}mlp.down_proj.weight"] = matrix(64, 128)
        out |= {f"{layer}{x}_layernorm.weight": mx.ones(64) for x in ("input", "post_attention")}
    return out


def save(folder: Path, tensors: Mapping[str, mx.array], config: Mapping[str, Any], kind: str = "pt") -> Path:
    folder.mkdir(exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tensors), {"format": kind})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def packed(tensors: Mapping[str, mx.array], how: Mapping[str, Quantization]) -> dict[str, mx.array]:
    """The tensors as MLX exports them: the matrices of modules in `how` (or all, by the entry "") quantized."""
    out: dict[str, mx.array] = {}
    for name, array in tensors.items():
        module = name.removesuffix(".weight")
        said = how.get(module, how[""]) if array.ndim == 2 else None
        if said is None:
            out[name] = array
            continue
        parts = mx.quantize(array, group_size=said.group_size, bits=said.bits, mode=said.mode)
        out |= {f"{module}.{part}": a for part, a in zip(("weight", "scales", "biases"), parts, strict=False)}
    return out


def unpacked(tensors: Mapping[str, mx.array], how: Mapping[str, Quantization]) -> dict[str, mx.array]:
    """The numbers that the quantized tensors stand for."""
    out: dict[str, mx.array] = {}
    for name, array in tensors.items():
        said = how.get(name.removesuffix(".weight"), how[""]) if array.ndim == 2 else None
        if said is None:
            out[name] = array
            continue
        setting = {"group_size": said.group_size, "bits": said.bits, "mode": said.mode}
        out[name] = mx.dequantize(*mx.quantize(array, **setting), **setting).astype(mx.float32)
    return out


def logits(folder: Path, **options: Any) -> mx.array:
    network = load_network(folder, **options)
    return network.decoder.logits(network.prefill(network.prompt([5, 17, 61, 4]), network.caches()))


def setting(how: Quantization) -> dict[str, Any]:
    return {"group_size": how.group_size, "bits": how.bits, "mode": how.mode}


class TestQuantized:
    @pytest.mark.parametrize(
        "how", [chosen(mode, group, bits) for mode in MODES for group in MODES[mode][0] for bits in MODES[mode][1]
                if group <= 64], ids=str
    )  # fmt: skip
    def test_an_mlx_export_gives_what_its_numbers_stand_for(self, tmp_path: Path, how: Quantization) -> None:
        tensors = llama()
        export = save(tmp_path / "export", packed(tensors, {"": how}), {**CONFIG, "quantization": setting(how)}, "mlx")
        dense = save(tmp_path / "dense", unpacked(tensors, {"": how}), CONFIG)
        np.testing.assert_allclose(np.asarray(logits(export)), np.asarray(logits(dense)), atol=2e-5)

    def test_modules_may_be_packed_otherwise_or_not_at_all(self, tmp_path: Path) -> None:
        how: dict[str, Any] = {
            "": Quantization(64, 4),
            "model.layers.1.mlp.down_proj": Quantization(32, 8),
            "model.layers.0.self_attn.v_proj": Quantization(32, 4, "mxfp4"),
            "model.embed_tokens": None,
        }
        said = {name: False if one is None else setting(one) for name, one in how.items() if name}
        config = {**CONFIG, "quantization": {**setting(how[""]), **said}}
        export = save(tmp_path / "export", packed(llama(), how), config, "mlx")
        dense = save(tmp_path / "dense", unpacked(llama(), how), CONFIG)
        np.testing.assert_allclose(np.asarray(logits(export)), np.asarray(logits(dense)), atol=2e-5)
        network = load_network(export)
        kinds = {name: (m.bits, m.mode) for name, m in network.named_modules() if isinstance(m, nn.QuantizedLinear)}
        assert kinds["decoder.layers.1.mlp.down"] == (8, "affine")
        assert kinds["decoder.layers.0.attn.v"] == (4, "mxfp4")
        assert isinstance(network.decoder.embed, nn.Embedding)

    def test_scales_without_a_config_are_an_error(self, tmp_path: Path) -> None:
        export = save(tmp_path, packed(llama(), {"": Quantization(64, 4)}), CONFIG, "mlx")
        with pytest.raises(CheckpointError, match="has scales, but the config says nothing"):
            load_network(export)


@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 64), (8, 32)])
def test_weights_of_compressed_tensors_stay_packed(bits: int, group: int, tmp_path: Path) -> None:
    """Published so: Kimi K2.5, in 4 bits and groups of 32, all but attention and what every token passes."""
    plain = llama()
    files = dict(plain)
    for name in [name for name in plain if ".mlp." in name]:
        parts, numbers = compressed.packed(np.array(plain[name]), bits, group)
        del files[name]
        files |= {name.removesuffix("weight") + part: mx.array(array) for part, array in parts.items()}
        plain[name] = mx.array(numbers)
    said = {**CONFIG, "quantization_config": compressed.setting(bits, group)}
    folder = save(tmp_path / "packed", files, said)
    network = load_network(folder)
    down = network.decoder.layers[0].mlp.down
    assert (down.bits, down.group_size, "scales" in down) == (bits, group, True)
    expected = logits(save(tmp_path / "plain", plain, CONFIG))
    np.testing.assert_allclose(logits(folder), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("weights", "tensors"),
    [
        ({"symmetric": False}, {}), ({"strategy": "channel"}, {}), ({"type": "float"}, {}), ({"num_bits": 2}, {}),
        ({"group_size": None}, {}),
        ({}, {"a.weight_packed": mx.zeros((2, 2)), "a.weight_scale": mx.zeros((2, 1))}),
        ({}, {"a.weight_packed": mx.zeros((2, 2)), "a.weight_zero_point": mx.zeros((2, 2))}),
    ],
)  # fmt: skip
def test_other_ways_of_compressed_tensors_are_refused(
    weights: dict[str, Any], tensors: dict[str, mx.array], tmp_path: Path
) -> None:
    said = {**CONFIG, "quantization_config": compressed.setting(4, 32, **weights)}
    with pytest.raises(
        CheckpointError, match=r"compressed-tensors are not supported|only symmetric groups|words of 32 bits"
    ):
        read_checkpoint(save(tmp_path / "odd", {**llama(), **tensors}, said))


class Tiny(nn.Module):
    """Two layers and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 6)
        self.down = nn.Linear(6, 4, bias=False)
        self.norm = nn.RMSNorm(4)


RULES = {
    "fused": lambda _: (Rename("net.{rest}", "{rest}"), Drop("step")),
    "single": lambda _: (Stack("d.{i}", "down.weight"), Split("upnorm", ("up.bias", "norm.weight"), sizes=(6, 4))),
}


def tiny(folder: Path, **tensors: tuple[int, ...]) -> Path:
    return save(folder, {k.replace("__", "."): mx.full(s, i + 1.0) for i, (k, s) in enumerate(tensors.items())}, {})


OURS = {"up__weight": (6, 4), "up__bias": (6,), "down__weight": (4, 6), "norm__weight": (4,)}


class TestDialects:
    def load(self, folder: Path, **options: Any) -> tuple[dict[str, np.ndarray], load.Mapped]:
        module = Tiny()
        mapped = load.load_into(module, read_checkpoint(folder), RULES, None, **options)
        flat: list[tuple[str, mx.array]] = tree_flatten(module.parameters())  # type: ignore[assignment]
        return {name: np.asarray(array) for name, array in flat}, mapped

    def test_the_dialect_that_maps_everything_is_taken(self, tmp_path: Path) -> None:
        fused = tiny(tmp_path / "a", step=(1,), **{f"net__{name}": shape for name, shape in OURS.items()})
        arrays, mapped = self.load(fused)
        assert (mapped.dialect, mapped.map.dropped) == ("fused", ("step",))
        assert arrays["norm.weight"].tolist() == [5.0] * 4
        parts: dict[str, tuple[int, ...]] = {"d__0": (6,), "d__1": (6,), "d__2": (6,), "d__3": (6,), "upnorm": (10,)}
        arrays, mapped = self.load(tiny(tmp_path / "b", up__weight=(6, 4), **parts))
        assert mapped.dialect == "single"
        assert arrays["down.weight"][:, 0].tolist() == [2.0, 3.0, 4.0, 5.0]
        assert arrays["up.bias"].tolist() == [6.0] * 6

    def test_our_own_names_need_no_rules(self, tmp_path: Path) -> None:
        assert self.load(tiny(tmp_path, **OURS))[1].map.weights.keys() == {n.replace("__", ".") for n in OURS}

    def test_the_nearest_dialect_tells_what_is_wrong(self, tmp_path: Path) -> None:
        tensors = {f"net__{name}": shape for name, shape in OURS.items()}
        tensors["net__norm__weight"] = (5,)
        tensors["net__down__bias"] = tensors.pop("net__up__bias")
        with pytest.raises(CheckpointError) as raised:
            self.load(tiny(tmp_path, **tensors))
        lines = str(raised.value).splitlines()
        assert lines[0].endswith("(read as fused): its tensors are not what its config describes")
        assert lines[1:] == [
            "  missing: up.bias",
            "  left over: down.bias (from net.down.bias)",
            "  of another shape: norm.weight has shape (5,) in the file (net.norm.weight), the config asks for (4,)",
        ]

    def test_parts_of_a_network_are_found(self, tmp_path: Path) -> None:
        checkpoint = read_checkpoint(tiny(tmp_path, net__up__weight=(6, 4)))
        assert load.has_part(checkpoint, RULES, None, "up.")
        assert not load.has_part(checkpoint, RULES, None, "down.")

    def test_types_suit_the_device_or_are_as_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tensors = {k.replace("__", "."): mx.ones(s, mx.bfloat16) for k, s in OURS.items()}
        folder = save(tmp_path, tensors, {})
        checkpoint = read_checkpoint(folder)
        assert load.load_dtype(checkpoint, "float16") == "F16"
        for gpu, kind in ((False, "F32"), (True, "BF16")):
            monkeypatch.setattr(load, "on_gpu", lambda gpu=gpu: gpu)
            assert load.load_dtype(checkpoint) == kind
        strange = replace(checkpoint, config={"text_config": "none", "dtype": ["float16"], "torch_dtype": {}})
        assert load.load_dtype(strange) == "BF16"
        with pytest.raises(UsageError, match="expected one of float32, bfloat16, float16; got 'int8'"):
            load.load_dtype(checkpoint, "int8")
        assert self.load(folder, dtype="float16")[0]["up.bias"].dtype == np.float16

    def test_progress_is_told_in_bytes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(load, "_BATCH", 100)
        told: list[tuple[int, int]] = []
        self.load(tiny(tmp_path, **OURS), dtype="float32", on_progress=lambda *now: told.append(now))
        assert (told[0], told[-1]) == ((0, 232), (232, 232))
        assert len(told) > 1


class TestMemory:
    def test_what_does_not_fit_is_refused_before_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(backend, "free_memory", lambda: 1000)
        monkeypatch.setattr(load, "_loaded", lambda _: pytest.fail("weights were read"))
        with pytest.raises(
            LimitExceeded, match=r"needs 321 kB of memory.*but 1 kB of .* are free; weights up to 900 bytes would fit"
        ) as raised:
            load_network(save(tmp_path, llama(), CONFIG), dtype="float32")
        assert raised.value.exit_code == 7

    @pytest.mark.parametrize(("count", "text"), [(12, "12 bytes"), (3_200_000_000, "3.2 GB"), (999_000, "999 kB")])
    def test_sizes_are_readable(self, count: int, text: str) -> None:
        assert backend.in_bytes(count) == text

    def test_there_is_memory(self) -> None:
        assert 0 < backend.free_memory() <= backend.total_memory()


class TestBackend:
    def test_a_missing_backend_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "mlx.core", None)
        monkeypatch.setattr("platform.system", lambda: "Linux")
        with pytest.raises(DependencyMissing, match=r"models need MLX.*pip install 'docai\[cpu\]'"):
            backend.require_mlx()

    def test_a_library_that_is_asked_for_must_load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCAI_BLAS", "libnone.so")
        monkeypatch.setattr("sys.platform", "linux")
        with pytest.raises(DependencyMissing, match=r"DOCAI_BLAS=libnone\.so: cannot be loaded"):
            backend.preload_blas.__wrapped__()


def test_any_number_of_shapes_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX on CUDA would give up after some hundred; who wants that can have it."""
    name = "MLX_ENABLE_CACHE_THRASHING_CHECK"
    for said, expected in ((None, "0"), ("1", "1")):
        monkeypatch.delenv(name, raising=False)
        if said is not None:
            monkeypatch.setenv(name, said)
        backend.require_mlx()
        assert os.environ[name] == expected
