"""Checkpoints on disk: which files belong to one, and what a broken one is told."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from docai.checkpoint.checkpoint import read_checkpoint
from docai.checkpoint.files import INDEX, read_folder, read_header, weight_files
from docai.checkpoint.quantize import chosen, quantization_of
from docai.checkpoint.tensors import Quantization
from docai.errors import CheckpointError, UsageError


def write(folder: Path, name: str = "model.safetensors", **tensors: tuple[int, ...]) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    arrays = {key.replace("__", "."): np.ones(shape, np.float32) for key, shape in tensors.items()}
    save_file(arrays, folder / name, {"format": "pt"})
    return folder / name


def write_index(folder: Path, **files: str) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": files}))


def raw(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


class TestFolders:
    def test_names_types_shapes_and_places_are_read(self, tmp_path: Path) -> None:
        path = write(tmp_path, a__weight=(2, 3), b=(4,))
        found = read_folder(tmp_path)
        info = found.tensors["a.weight"]
        assert (info.dtype, info.shape, info.file, info.nbytes) == ("F32", (2, 3), path, 24)
        assert found.metadata == {"format": "pt"}
        assert path.read_bytes()[info.offset : info.offset + 24] == np.ones(6, np.float32).tobytes()

    def test_the_index_says_which_shards_there_are(self, tmp_path: Path) -> None:
        write(tmp_path, "one.safetensors", a=(1,))
        write(tmp_path, "two.safetensors", b=(1,))
        write(tmp_path, "other.safetensors", a=(2,))
        write_index(tmp_path, a="one.safetensors", b="two.safetensors")
        assert {n: t.shape for n, t in read_folder(tmp_path).tensors.items()} == {"a": (1,), "b": (1,)}

    def test_a_missing_shard_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, "model-00001-of-00002.safetensors", a=(1,))
        with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors is missing") as without:
            read_folder(tmp_path)
        write_index(tmp_path, a="model-00001-of-00002.safetensors", b="model-00002-of-00002.safetensors")
        with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors is missing"):
            read_folder(tmp_path)
        assert without.value.exit_code == 3

    def test_the_first_shard_may_be_the_missing_one(self, tmp_path: Path) -> None:
        write(tmp_path, "model-00002-of-00002.safetensors", a=(1,))
        with pytest.raises(CheckpointError, match=r"model-00001-of-00002\.safetensors is missing"):
            read_folder(tmp_path)

    def test_a_tensor_that_only_the_index_has_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, "one.safetensors", a=(1,))
        write_index(tmp_path, a="one.safetensors", c="one.safetensors")
        with pytest.raises(CheckpointError, match=r"tensor c should be in one\.safetensors"):
            read_folder(tmp_path)

    def test_a_tensor_in_two_files_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, "one.safetensors", a=(1,))
        write(tmp_path, "two.safetensors", a=(1,))
        with pytest.raises(CheckpointError, match=r"tensor a is in .*one\.safetensors too"):
            read_folder(tmp_path)

    @pytest.mark.parametrize("file", ["../x.safetensors", "/etc/x.safetensors", "x.bin"])
    def test_an_index_names_only_files_beside_it(self, tmp_path: Path, file: str) -> None:
        write_index(tmp_path, a=file)
        with pytest.raises(CheckpointError, match="names of safetensors files beside it"):
            weight_files(tmp_path)

    def test_weights_that_are_there_twice_are_read_once(self, tmp_path: Path) -> None:
        write(tmp_path, "consolidated.safetensors", a=(1,))
        assert [f.name for f in weight_files(tmp_path)[0]] == ["consolidated.safetensors"]
        write(tmp_path, a=(1,))
        assert [f.name for f in weight_files(tmp_path)[0]] == ["model.safetensors"]

    def test_pickles_are_refused_with_what_to_do(self, tmp_path: Path) -> None:
        (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
        with pytest.raises(CheckpointError, match=r"pickle \(pytorch_model\.bin\).*convert it"):
            read_folder(tmp_path)

    def test_other_formats_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "weights.npz").write_bytes(b"")
        with pytest.raises(CheckpointError, match=r"expected \*\.safetensors files; got weights\.npz"):
            read_folder(tmp_path)


TENSOR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


class TestHeaders:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "cut off within its header"),
            (struct.pack("<Q", 50) + b"{", "cut off within its header"),
            (struct.pack("<Q", 1 << 62) + b"{}", "cut off within its header"),
            (struct.pack("<Q", 2) + b"[]", "expected an object"),
            (struct.pack("<Q", 2) + b"\xff\xff", "header is corrupt"),
        ],
    )
    def test_a_broken_start_is_told(self, tmp_path: Path, data: bytes, message: str) -> None:
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(CheckpointError, match=message):
            read_header(tmp_path / "x")

    @pytest.mark.parametrize(
        "value",
        [
            {},
            7,
            {**TENSOR, "dtype": "F128"},
            {**TENSOR, "shape": [-2]},
            {**TENSOR, "shape": [2.0]},
            {**TENSOR, "data_offsets": [0]},
            {**TENSOR, "data_offsets": [0, 9]},
            {**TENSOR, "data_offsets": [8, 0]},
        ],
    )
    def test_a_broken_entry_is_named(self, tmp_path: Path, value: Any) -> None:
        with pytest.raises(CheckpointError, match=r"header is corrupt.*\bw\b"):
            read_header(raw(tmp_path / "x", {"w": value}, b"\0" * 8))

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4))
    def test_damage_is_no_mistake_of_ours(self, tmp_path: Path, damage: list[tuple[int, int]]) -> None:
        path = raw(tmp_path / "x", {"w": TENSOR, "__metadata__": {"format": "pt"}}, b"\0" * 8)
        data = bytearray(path.read_bytes())
        for at, value in damage:
            data[at % len(data)] = value
        path.write_bytes(data)
        with contextlib.suppress(CheckpointError):
            read_header(path)

    def test_a_cut_off_file_is_told_with_both_ends(self, tmp_path: Path) -> None:
        path = raw(tmp_path / "x", {"w": TENSOR}, b"\0" * 7)
        with pytest.raises(CheckpointError, match=r"cut off: w ends at byte (\d+), the file at (\d+)"):
            read_header(path)
        assert read_header(raw(tmp_path / "y", {"w": TENSOR}, b"\0" * 8))[0]["w"].shape == (2,)


class TestCheckpoints:
    def test_files_beside_the_weights(self, tmp_path: Path) -> None:
        write(tmp_path, a=(1,))
        (tmp_path / "config.json").write_text('{"model_type": "x"}')
        (tmp_path / "chat_template.jinja").write_text("{{ x }}", encoding="utf-8")
        checkpoint = read_checkpoint(tmp_path)
        assert checkpoint.config == {"model_type": "x"}
        assert (checkpoint.text_file("chat_template.jinja"), checkpoint.text_file("none")) == ("{{ x }}", None)
        assert (checkpoint.json_file("config.json"), checkpoint.json_file("none")) == ({"model_type": "x"}, None)
        assert checkpoint.nbytes == 4

    @pytest.mark.parametrize(
        ("text", "message"), [("{", "expected JSON"), ("[]", "JSON object"), (None, "config.json")]
    )
    def test_a_broken_config_is_told(self, tmp_path: Path, text: str | None, message: str) -> None:
        write(tmp_path, a=(1,))
        if text is not None:
            (tmp_path / "config.json").write_text(text)
        with pytest.raises(CheckpointError, match=message):
            read_checkpoint(tmp_path)

    def test_a_missing_folder_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="expected a folder"):
            read_checkpoint(tmp_path / "none")


class TestQuantizationConfig:
    def test_modules_may_differ(self) -> None:
        said = {"group_size": 64, "bits": 4, "lm_head": False, "a.b": {"group_size": 32, "bits": 8}, "c": True}
        found = quantization_of({"quantization": said, "quantization_config": said})
        assert found is not None
        assert (found.of("x"), found.of("c")) == (Quantization(64, 4), Quantization(64, 4))
        assert (found.of("lm_head"), found.of("a.b")) == (None, Quantization(32, 8))
        assert found.of("language_model.a.b") == found.of("a.b")

    @pytest.mark.parametrize(("mode", "group", "bits"), [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)])
    def test_modes_have_sizes_of_their_own(self, mode: str, group: int, bits: int) -> None:
        found = quantization_of({"quantization": {"mode": mode}})
        assert found is not None
        assert found.default == Quantization(group, bits, mode) == chosen(mode)

    def test_it_may_stand_in_the_text_config(self) -> None:
        found = quantization_of({"text_config": {"quantization": {"group_size": 32, "bits": 8}}})
        assert found is not None
        assert found.default.bits == 8

    def test_a_dense_checkpoint_has_none(self) -> None:
        assert quantization_of({"text_config": {}}) is None

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "quantized by gptq are not supported"),
            ({"quant_method": "fp8"}, "quantized by fp8"),
            ({"group_size": 64, "bits": 7}, "bits of affine: expected 2, 3, 4, 5, 6, 8; got 7"),
            ({"group_size": 48, "bits": 4}, "group size of affine: expected 32, 64, 128; got 48"),
            ({"group_size": 32, "bits": 4, "mode": "fp6"}, "mode: expected one of affine"),
            ({"x": 1}, "group_size and bits"),
            ("4bit", "to be an object"),
        ],
    )
    def test_other_ways_are_refused(self, said: Any, message: str) -> None:
        with pytest.raises(CheckpointError, match=message):
            quantization_of({"quantization_config": said})

    def test_what_is_asked_for_is_checked(self) -> None:
        with pytest.raises(UsageError, match="bits of mxfp4: expected 4; got 8"):
            chosen("mxfp4", None, 8)
