"""`docai models`: what is in the cache, what a checkpoint is, what it becomes, whether it is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
import numpy as np
from huggingface_hub import constants

from docai.checkpoint.checkpoint import read_checkpoint
from docai.checkpoint.files import read_header
from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.checkpoint.quantize import chosen
from docai.checkpoint.recipe import Recipe, planned
from docai.checkpoint.tensors import Quantization
from docai.cli.app import main
from docai.errors import CheckpointError, ExitCode, OutputError, UsageError
from docai.layout.families import FAMILIES as DETECTORS
from docai.tasks.convert import convert_model, parse_size
from docai.tasks.models import list_models, show_model, verify_model
from docai.tasks.models_options import ConvertOptions
from docai.vlm.families import FAMILIES
from tests.gguf_file import write_gguf
from tests.local_hub import COMMIT, Hub, serve
from tests.test_checkpoint_gguf import FIELDS, tensors
from tests.test_checkpoint_load import CONFIG, llama, logits, packed, save, setting, unpacked

FOUR = Quantization(32, 4)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """A tiny Llama as the hub has it, with a tokenizer beside it."""
    half = {name: array.astype(mx.bfloat16) for name, array in llama().items()}
    folder = save(tmp_path / "dense", half, CONFIG)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "modeling_tiny.py").write_text("raise SystemExit")
    return folder


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """The same as MLX exports it, in 4 bits."""
    return save(tmp_path / "export", packed(llama(), {"": FOUR}), {**CONFIG, "quantization": setting(FOUR)}, "mlx")


def options(out: Path, **given: Any) -> ConvertOptions:
    return ConvertOptions(output=str(out), **given)


def close(one: Path, other: Path, atol: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(logits(one)), np.asarray(logits(other)), atol=atol)


class TestShow:
    def test_everything_of_a_model(self, dense: Path) -> None:
        found = show_model(str(dense), LoadOptions())
        assert (found["family"], found["model_type"], found["sees"]) == ("llama", "llama", False)
        assert found["parameters"] == sum(array.size for array in llama().values())
        assert found["memory"]["weights"] == found["parameters"] * 4
        assert found["memory"]["cache_per_1000_tokens"] == 2 * 2 * 32 * 1000 * 4  # layers, keys and values, dims, bytes
        (layers,) = found["spec"]["decoder"]["layers"]
        assert (layers["times"], layers["attention"]["heads"]) == (2, 2)
        weights = {weight["name"]: weight for weight in found["weights"]}
        assert weights["decoder.layers.1.attn.q.weight"] == {
            "name": "decoder.layers.1.attn.q.weight", "from": ["model.layers.1.self_attn.q_proj.weight"],
            "shape": [64, 64], "stored": "bfloat16",
        }  # fmt: skip
        assert sum(module["parameters"] for module in found["modules"]) == found["parameters"]
        json.dumps(found)

    def test_the_type_that_is_asked_for_counts(self, dense: Path) -> None:
        found = show_model(str(dense), LoadOptions(dtype="bfloat16"))
        assert found["memory"]["weights"] == found["parameters"] * 2

    def test_quantized_weights_take_less(self, export: Path) -> None:
        found = show_model(str(export), LoadOptions(dtype="float16"))
        matrices = sum(array.size for array in llama().values() if array.ndim == 2)
        norms = found["parameters"] - matrices
        assert found["memory"]["weights"] == matrices // 2 + matrices // 32 * 4 + norms * 2
        assert {w["stored"] for w in found["weights"]} == {"4 bit affine, groups of 32", "float32"}

    def test_people_get_tables(self, dense: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert run("models", "show", str(dense)) == ExitCode.OK
        text = capsysbinary.readouterr().out.decode()
        assert re.search(r"layers: 2 x LayerSpec", text)
        row = r"decoder\.layers\.N\.attn\.q\.weight +model\.layers\.N\.self_attn\.q_proj\.weight +64 x 64 +bfloat16 +2"
        assert re.search(row, text)

    def test_programs_get_json(self, dense: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert run("models", "show", str(dense), "--json") == ExitCode.OK
        assert json.loads(capsysbinary.readouterr().out)["family"] == "llama"

    @pytest.mark.parametrize(
        ("words", "code", "says"),
        [
            (["show", "nothing-like-it"], ExitCode.USAGE, "expected a folder, a repo id"),
            (["show", "./nothing"], ExitCode.DEPENDENCY, "no such folder"),
            (["show", "org/model"], ExitCode.DEPENDENCY, "docai models pull org/model"),
            (["show", "."], ExitCode.DEPENDENCY, "config.json"),
        ],
    )
    def test_what_cannot_be_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: Sequence[str],
        code: int, says: str,
    ) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert run("models", *words) == code
        assert says in capsys.readouterr().err


class TestVerify:
    def test_a_whole_checkpoint(self, dense: Path) -> None:
        found = verify_model(str(dense), SourceOptions())
        assert (found["problems"], found["weights"]) == ([], len(llama()))
        assert {one["status"] for one in found["files"]} == {"no hash known"}

    def test_tensors_without_a_place_are_told(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = save(tmp_path / "odd", {**llama(), "extra.weight": mx.ones(3)}, CONFIG)
        (problem,) = verify_model(str(folder), SourceOptions())["problems"]
        assert "left over: extra.weight" in problem
        assert run("models", "verify", str(folder)) == ExitCode.DEPENDENCY

    def test_changed_and_missing_files_are_told(self, dense: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        convert_model(str(dense), options(out))
        assert verify_model(str(out), SourceOptions())["problems"] == []
        (out / "tokenizer.json").unlink()
        data = bytearray((out / "model.safetensors").read_bytes())
        data[-1] ^= 1
        (out / "model.safetensors").write_bytes(data)
        problems = verify_model(str(out), SourceOptions())["problems"]
        assert problems[0].startswith("model.safetensors: its hash is not ")
        assert problems[1] == "tokenizer.json: missing"


class TestConvert:
    def test_dense_and_under_our_names(self, dense: Path, tmp_path: Path) -> None:
        manifest = convert_model(str(dense), options(tmp_path / "out"))
        tensors, metadata = read_header(tmp_path / "out" / "model.safetensors")
        assert tensors["decoder.layers.0.attn.q.weight"].dtype == "BF16"
        assert (metadata["format"], metadata["made_from"]) == ("docai", str(dense))
        assert manifest["made_from"]["dialect"] in ("hf", "transformers")
        assert manifest["made_from"]["files"].keys() == {"model.safetensors"}
        assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
            "config.json", "docai.json", "model.safetensors", "tokenizer.json",
        ]  # fmt: skip
        close(dense, tmp_path / "out")
        assert show_model(str(tmp_path / "out"), LoadOptions())["made_from"]["name"] == str(dense)

    def test_twice_is_the_same(self, dense: Path, tmp_path: Path) -> None:
        convert_model(str(dense), options(tmp_path / "one"))
        convert_model(str(tmp_path / "one"), options(tmp_path / "two"))
        one, two = (read_checkpoint(tmp_path / n) for n in ("one", "two"))
        assert {n: (t.dtype, t.shape) for n, t in one.tensors.items()} == {
            n: (t.dtype, t.shape) for n, t in two.tensors.items()
        }
        close(tmp_path / "one", tmp_path / "two", atol=0)

    def test_shards_have_an_index(self, dense: Path, tmp_path: Path) -> None:
        convert_model(str(dense), options(tmp_path / "out", shard_size="40kB"))
        files = sorted((tmp_path / "out").glob("*.safetensors"))
        assert len(files) > 3
        assert files[-1].name == f"model-{len(files):05d}-of-{len(files):05d}.safetensors"
        assert max(f.stat().st_size for f in files) < 50_000
        close(dense, tmp_path / "out")

    @pytest.mark.parametrize("mode", ["affine", "mxfp4", "mxfp8", "nvfp4"])
    def test_quantized(self, dense: Path, tmp_path: Path, mode: str) -> None:
        convert_model(str(dense), options(tmp_path / "out", mode=mode))
        checkpoint = read_checkpoint(tmp_path / "out")
        assert checkpoint.quantization is not None
        assert checkpoint.quantization.default.mode == mode
        found = show_model(str(tmp_path / "out"), LoadOptions())
        assert found["memory"]["weights"] < show_model(str(dense), LoadOptions())["memory"]["weights"] / 3
        half = {name: array.astype(mx.bfloat16) for name, array in llama().items()}
        rounded = save(tmp_path / "rounded", unpacked(half, {"": chosen(mode)}), CONFIG)
        close(rounded, tmp_path / "out", atol=0.1)  # its numbers were rounded to bfloat16 after that

    def test_mixed_recipes_spare_what_counts(self, dense: Path, tmp_path: Path) -> None:
        convert_model(str(dense), options(tmp_path / "out", bits=4, group_size=32, recipe="mixed", high_bits=8))
        said = json.loads((tmp_path / "out" / "config.json").read_text())["quantization"]
        assert said["bits"] == 4
        assert said["decoder.embed"] == {"group_size": 32, "bits": 8, "mode": "affine"}
        close(dense, tmp_path / "out", atol=1.0)

    def test_a_quantized_export_stays_so(self, export: Path, tmp_path: Path) -> None:
        convert_model(str(export), options(tmp_path / "out"))
        close(export, tmp_path / "out")
        assert read_checkpoint(tmp_path / "out").tensors["decoder.embed.weight"].dtype == "U32"

    def test_or_becomes_dense_or_is_rounded_anew(self, export: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"quantized already.*--dequantize"):
            convert_model(str(export), options(tmp_path / "out", bits=8))
        convert_model(str(export), options(tmp_path / "dense", dequantize=True, dtype="float32"))
        assert read_checkpoint(tmp_path / "dense").quantization is None
        assert json.loads((tmp_path / "dense" / "config.json").read_text())["torch_dtype"] == "float32"
        close(export, tmp_path / "dense")
        convert_model(str(export), options(tmp_path / "eight", dequantize=True, bits=8, group_size=32))
        close(export, tmp_path / "eight", atol=0.1)

    def test_gguf_files_become_folders(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "tiny.gguf", FIELDS, tensors("Q8_0"))
        convert_model(str(tmp_path / "tiny.gguf"), options(tmp_path / "out"))
        assert {"tokenizer.json", "tokenizer_config.json"} <= {p.name for p in (tmp_path / "out").iterdir()}
        close(tmp_path / "tiny.gguf", tmp_path / "out")

    def test_a_failed_run_leaves_nothing(
        self, dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(mx, "save_safetensors", interrupt)
        assert run("models", "convert", str(dense), "-o", str(tmp_path / "out" / "here")) == ExitCode.INTERRUPTED
        assert not (tmp_path / "out" / "here").exists()
        assert [p.name for p in (tmp_path / "out").iterdir()] == []

    def test_its_folder_is_printed(
        self, dense: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        assert run("models", "convert", str(dense), "-o", str(tmp_path / "out"), "--bits", "8") == ExitCode.OK
        assert capsysbinary.readouterr().out.decode() == f"{tmp_path / 'out'}\n"

    @pytest.mark.parametrize(
        ("given", "error", "says"),
        [
            ({"output": None}, UsageError, "name one with -o"),
            ({"group_size": 32}, UsageError, "--group-size says how to quantize: give --bits"),
            ({"recipe": "mixed"}, UsageError, "--recipe says how to quantize"),
            ({"bits": 7}, UsageError, "expected 2, 3, 4, 5, 6, 8; got 7"),
            ({"bits": 8, "recipe": "mixed"}, UsageError, "more high bits than 8; got 8"),
            ({"shard_size": "big"}, UsageError, "a size such as 5GB"),
            ({"output": "."}, OutputError, "exists already"),
        ],
    )
    def test_what_makes_no_sense(
        self, dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any],
        error: type[Exception], says: str,
    ) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        with pytest.raises(error, match=says):
            convert_model(str(dense), ConvertOptions(**{"output": "new", **given}))

    def test_sizes(self) -> None:
        assert [parse_size(text) for text in ("5GB", "1.5 mb", "900")] == [5_000_000_000, 1_500_000, 900]


class TestRecipe:
    def test_sensitive_layers_get_more_bits(self) -> None:
        low, high = Quantization(64, 3), Quantization(64, 6)
        names = [f"decoder.layers.{i}.{part}" for i in range(16) for part in ("attn.q", "attn.v", "mlp.down")]
        plan = planned(Recipe(low, high), [(name, (64, 64)) for name in (*names, "decoder.head")])
        assert {i for i in range(16) if plan[f"decoder.layers.{i}.attn.v"] == high} == {0, 1, 4, 7, 10, 13, 14, 15}
        assert all(plan[f"decoder.layers.{i}.attn.q"] == low for i in range(16))
        assert plan["decoder.head"] == high

    def test_towers_routers_and_odd_widths_are_left_alone(self) -> None:
        modules = [
            ("vision.blocks.0.attn.q", (64, 64)),
            ("decoder.layers.0.mlp.router", (4, 64)),
            ("decoder.layers.0.attn.q", (64, 60)),
        ]
        assert planned(Recipe(FOUR), modules) == {}
        assert planned(Recipe(FOUR, vision=True), modules).keys() == {"vision.blocks.0.attn.q"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """An empty cache, and a hub to fill it from."""
    with serve(Hub()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield hub


class TestListAndPull:
    def test_nothing_in_the_cache(self, cache: Hub, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert run("models", "list") == ExitCode.OK
        text = capsysbinary.readouterr().out.decode()
        assert "(empty)" in text
        assert "Not yet: " in text
        assert "Molmo 2 (molmo2, molmo_point)" in text

    def test_what_was_pulled_is_listed_and_verified(
        self, cache: Hub, dense: Path, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        cache.repos["org/tiny"] = {path.name: path.read_bytes() for path in dense.iterdir()}
        config = json.dumps({**CONFIG, "model_type": "molmo2"}).encode()
        cache.repos["org/later"] = {**cache.repos["org/tiny"], "config.json": config}
        for name in ("org/tiny", "org/later"):
            assert run("models", "pull", name, "-q") == ExitCode.OK
            assert capsysbinary.readouterr().out.decode().strip().endswith(COMMIT)
        later, tiny = list_models()["models"]
        assert (tiny["repo"], tiny["model_type"], tiny["status"]) == ("org/tiny", "llama", "ready")
        assert tiny["bytes"] > 100_000
        assert later["status"] == "not yet supported (Molmo 2)"
        files = verify_model("org/tiny", SourceOptions(offline=True))["files"]
        assert {one["name"]: one["status"] for one in files} == dict.fromkeys(
            ("config.json", "model.safetensors", "tokenizer.json"), "ok"
        )

    def test_damage_in_the_cache_is_found(self, cache: Hub, dense: Path) -> None:
        cache.repos["org/tiny"] = {path.name: path.read_bytes() for path in dense.iterdir()}
        assert run("models", "pull", "org/tiny", "-q") == ExitCode.OK
        (blob,) = (Path(constants.HF_HUB_CACHE) / "models--org--tiny" / "snapshots" / COMMIT).glob("*.safetensors")
        data = bytearray(blob.read_bytes())
        data[-1] ^= 1
        blob.resolve().write_bytes(data)
        (problem,) = verify_model("org/tiny", SourceOptions())["problems"]
        assert problem.startswith("model.safetensors: its hash is not")

    def test_unfinished_downloads_are_listed_as_such(self, cache: Hub) -> None:
        snapshot = Path(constants.HF_HUB_CACHE) / "models--org--half" / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(json.dumps(CONFIG))
        (half,) = list_models()["models"]
        assert half["status"].startswith("incomplete: ")

    def test_every_family_is_listed(self, cache: Hub) -> None:
        listed = [kind for kinds in list_models()["families"].values() for kind in kinds]
        assert sorted(listed) == sorted([*FAMILIES, *DETECTORS])

    def test_offline_by_option(self, cache: Hub, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("models", "pull", "org/tiny", "--offline") == ExitCode.DEPENDENCY
        assert "the network is off" in capsys.readouterr().err
        assert cache.seen == []


def test_unknown_types_name_what_is_supported(tmp_path: Path) -> None:
    folder = save(tmp_path, llama(), {**CONFIG, "model_type": "qwen2_5_vlm"})
    with pytest.raises(CheckpointError, match=r"near it: .*qwen2_5_vl.*supported: ") as raised:
        show_model(str(folder), LoadOptions())
    assert raised.value.exit_code == 3
    save(tmp_path, llama(), {**CONFIG, "model_type": "molmo2"})
    with pytest.raises(CheckpointError, match=r"'molmo2' \(Molmo 2\) is not supported yet; supported: "):
        show_model(str(folder), LoadOptions())


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_hidden_layers", 10**9, "num_hidden_layers = 1000000000; expected a few dozen"),
        ("num_hidden_layers", "two", "describes no network"),
        ("num_attention_heads", 0, "describes no network"),
        ("hidden_size", -64, "describes no network"),
        ("rms_norm_eps", [], "describes no network"),
        ("rope_scaling", {"rope_type": "llama3"}, "describes no network"),
        ("intermediate_size", "wide", "describes no network"),
        ("head_dim", 10**7, "expected heads of at most 16384 numbers, got 10000000"),
        ("num_key_value_heads", 10**7, "cannot share 10000000 of keys"),
        ("intermediate_size", 10**7, "of another shape"),
        ("vocab_size", None, "expected a field 'vocab_size', found none"),
    ],
)
def test_senseless_configs_are_told(tmp_path: Path, field: str, value: Any, says: str) -> None:
    folder = save(tmp_path, llama(), {**CONFIG, field: value})
    with pytest.raises(CheckpointError, match=re.escape(says)) as raised:
        show_model(str(folder), LoadOptions())
    assert "Invoked with" not in str(raised.value), "what a foreign library lists over many lines helps nobody"
