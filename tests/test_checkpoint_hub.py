"""Downloads from a hub on loopback: what is fetched, what happens when the connection breaks, what errors say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants
from safetensors.numpy import save

from docai.checkpoint import hub as models
from docai.checkpoint.hub import Place, RepoFile, cached, locate, needed_files, open_checkpoint, pull
from docai.checkpoint.recipes import LATER, RECIPES, later_family
from docai.errors import CheckpointError, OutputError, UsageError
from tests.local_hub import COMMIT, Hub, serve

WEIGHTS = save({"a": np.arange(100_000, dtype=np.float32)})
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "modeling_evil.py": b"raise SystemExit",
    "pytorch_model.bin": b"\x80\x04.",
    "README.md": b"# A model",
    "onnx/model.onnx": b"",
    "onnx/config.json": b"{}",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serve(Hub({"org/model": dict(FILES)})) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 14)
        monkeypatch.setattr("time.sleep", lambda _: None)  # between tries
        yield running


class TestDownloads:
    def test_only_what_a_model_needs_is_fetched(self, hub: Hub) -> None:
        folder = pull("org/model")
        assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
        checkpoint = open_checkpoint("org/model")
        assert (checkpoint.name, checkpoint.tensors["a"].shape) == ("org/model", (100_000,))

    def test_what_is_there_is_not_asked_for_again(self, hub: Hub) -> None:
        pull("org/model")
        hub.seen.clear()
        open_checkpoint("org/model")
        open_checkpoint("org/model", offline=True)
        assert hub.seen == []
        pull("org/model")
        assert hub.asked("model.safetensors") == []

    def test_a_cut_connection_goes_on_where_it_broke(self, hub: Hub) -> None:
        hub.cut["model.safetensors"] = 150_000
        folder = pull("org/model")
        assert (folder / "model.safetensors").read_bytes() == WEIGHTS
        first, second = hub.asked("model.safetensors")
        assert (first, second) == (None, f"bytes={150_000 // (1 << 14) * (1 << 14)}-")

    def test_an_interrupted_run_leaves_what_is_whole(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as broken:

            def interrupt(_: float) -> None:
                raise KeyboardInterrupt

            broken.setattr("time.sleep", interrupt)
            hub.cut["model.safetensors"] = 150_000
            with pytest.raises(KeyboardInterrupt):
                pull("org/model")
        assert cached(Place(repo="org/model")) is None
        assert open_checkpoint("org/model").tensors["a"].shape == (100_000,)
        assert hub.asked("config.json") == [None]

    def test_another_hash_is_refused_and_the_file_removed(self, hub: Hub) -> None:
        hub.wrong.add("model.safetensors")
        with pytest.raises(CheckpointError, match=r"model\.safetensors is not what the hub says.*pull again"):
            pull("org/model")
        assert cached(Place(repo="org/model")) is None
        hub.wrong.clear()
        assert pull("org/model").is_dir()

    def test_small_files_are_checked_too(self, hub: Hub) -> None:
        hub.wrong.add("config.json")
        with pytest.raises(CheckpointError, match=r"config\.json is not what the hub says"):
            pull("org/model")

    def test_the_token_of_the_environment_is_shown(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_tiny")
        pull("org/model")
        assert hub.tokens == {"Bearer hf_tiny"}

    def test_a_revision_may_be_a_commit(self, hub: Hub) -> None:
        assert pull("org/model", revision=COMMIT).name == COMMIT
        with pytest.raises(CheckpointError, match="org/model has no revision 'v9'"):
            pull("org/model", revision="v9")

    def test_no_room_is_told_before_anything_is_fetched(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
        with pytest.raises(OutputError, match="the model takes 400 kB, but 1 kB are free"):
            pull("org/model")
        assert hub.asked("model.safetensors") == []


class TestErrors:
    def test_an_unknown_repo(self, hub: Hub) -> None:
        with pytest.raises(CheckpointError, match=r"org/none: no such model on http.*HF_TOKEN") as raised:
            pull("org/none")
        assert raised.value.exit_code == 3

    def test_a_gated_repo(self, hub: Hub) -> None:
        hub.gated.add("org/model")
        with pytest.raises(CheckpointError, match=r"org/model is gated: accept its terms at http.*HF_TOKEN"):
            pull("org/model")

    def test_a_hub_that_is_down(self, hub: Hub) -> None:
        hub.down = True
        with pytest.raises(CheckpointError, match="cannot be reached, or broke off"):
            pull("org/model")

    def test_no_network(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
        with pytest.raises(CheckpointError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
            pull("org/model")

    @pytest.mark.parametrize("how", ["option", "variable"])
    def test_offline_nothing_is_asked(self, hub: Hub, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", how == "variable")
        with pytest.raises(CheckpointError, match=r"org/model is not in the cache.*docai models pull org/model"):
            open_checkpoint("org/model", offline=how == "option")
        assert hub.seen == []

    def test_pickles_alone_are_refused(self, hub: Hub) -> None:
        hub.repos["org/old"] = {"config.json": b"{}", "pytorch_model.bin": b"\x80\x04."}
        with pytest.raises(
            CheckpointError, match=r"only pickles \(pytorch_model\.bin\).*never loaded.*save_pretrained"
        ):
            pull("org/old")
        assert hub.asked("pytorch_model.bin") == []

    def test_a_local_folder_needs_no_pull(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="nothing to pull"):
            pull(str(tmp_path))


class TestChoice:
    def names(self, *names: str, part: str = "") -> list[str]:
        return [f.name for f in needed_files([RepoFile(n, 1) for n in names], Place(repo="o/m", part=part))]

    def test_the_same_weights_are_fetched_once(self) -> None:
        assert self.names("consolidated.safetensors", "model-1.safetensors") == ["model-1.safetensors"]
        assert self.names("consolidated.safetensors", "params.json") == ["consolidated.safetensors", "params.json"]

    def test_one_gguf_file_of_many(self) -> None:
        files = ("m-Q2_K.gguf", "m.Q4_0.gguf", "m-Q8_0.gguf", "config.json")
        assert self.names(*files) == ["m-Q8_0.gguf", "config.json"]
        assert self.names(*files, part="q4_0")[0] == "m.Q4_0.gguf"
        with pytest.raises(CheckpointError, match=r"the repo has m-Q2_K\.gguf"):
            self.names("m-Q2_K.gguf")

    def test_gguf_repos_are_pulled_to_their_file(self, hub: Hub) -> None:
        hub.repos["org/gguf"] = {"m-Q4_0.gguf": b"GGUF", "m-Q2_K.gguf": b"GGUF"}
        assert pull("org/gguf").name == "m-Q4_0.gguf"
        assert cached(Place(repo="org/gguf", part="Q4_0")) is not None
        assert cached(Place(repo="org/gguf", part="Q8_0")) is None

    def test_names(self, tmp_path: Path) -> None:
        assert locate(str(tmp_path)) == Place(tmp_path)
        assert locate("qwen2.5-vl") == Place(repo=RECIPES["qwen2.5-vl"].repo)
        assert locate("org/model:Q4_0") == Place(repo="org/model", part="Q4_0")
        with pytest.raises(UsageError, match=r"short name such as qwen2\.5-vl"):
            locate("qwen25-vl")
        with pytest.raises(CheckpointError, match="no such folder or file"):
            locate("./models/none")
        with pytest.raises(CheckpointError, match="no such folder or file"):
            locate("~no-such-user/model")
        with pytest.raises(UsageError, match="expected a folder"):
            locate("x" * 300)

    def test_hashes_are_those_of_git_and_of_files(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"hello\n")
        assert models.hash_of(tmp_path / "x", 40) == "ce013625030ba8dba906f756967f9e9ca394464a"
        assert models.hash_of(tmp_path / "x").startswith("5891b5b522d5df08")

    def test_short_names_and_later_families(self) -> None:
        assert all("/" in recipe.repo for recipe in RECIPES.values())
        assert later_family("molmo2") == "Molmo 2"
        assert later_family("llama") is None
        kinds = [kind for types in LATER.values() for kind in types]
        assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize(("quiet", "terminal"), [(False, False), (False, True), (True, True)])
def test_bars_are_for_terminals(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    pull("org/model", quiet=quiet)
    assert ("3/3" in capsys.readouterr().err) == (terminal and not quiet)
