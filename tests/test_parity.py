"""Every family against its reference: the cases in tests/parity/cases, in every dialect that they have.

The tolerances are those of float32 in another order of additions: with logits of the size 1 to 5 the libraries differ
by some 1e-6 a layer; a wrong constant or a swapped axis differs by 1e-2 and more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import save_file

from docai.preprocess.inputs import ImageInput
from docai.vlm.loading import load_network
from docai.vlm.network import Network
from tests.parity.weights import as_variant, noise, tensors

CASES = sorted(path.stem for path in (Path(__file__).parent / "parity" / "cases").glob("*.json"))
CLOSE = {"rtol": 1e-3, "atol": 2e-4}


def case_of(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((Path(__file__).parent / "parity" / "cases" / f"{name}.json").read_text())
    return case


def variants() -> Iterator[tuple[str, str]]:
    for name in CASES:
        yield name, ""
        for variant in case_of(name)["variants"]:
            yield name, variant


def changes(name: str, variant: str) -> dict[str, Any]:
    """What a variant of a case changes; nothing for the case itself."""
    changed: dict[str, Any] = case_of(name)["variants"].get(variant, {})
    return changed


def weights_of(name: str, variant: str) -> dict[str, np.ndarray]:
    """The tensors of a variant."""
    case, changed = case_of(name), changes(name, variant)
    values = tensors(case["tensors"], case["seed"], norm_offset=case["norm_offset"])
    last = changed.get("channels_last", False)
    return as_variant(values, changed.get("renames", ()), changed.get("copies", {}), channels_last=last)


class Case:
    """A case on disk, its network loaded, and what the oracle gave."""

    def __init__(self, name: str, variant: str, folder: Path) -> None:
        case = case_of(name)
        save_file(weights_of(name, variant), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(changes(name, variant).get("config") or case["config"]))
        self.network: Network = load_network(folder)
        self.tokens: list[int] = case["tokens"]
        self.images = [image_input(said, number, case["seed"]) for number, said in enumerate(case["images"])]
        with np.load(Path(__file__).parent / "parity" / "cases" / f"{name}.npz") as stored:
            self.expected: dict[str, np.ndarray] = dict(stored)

    def logits(self, step: int | None = None) -> mx.array:
        """(L, vocabulary) of the prompt, read `step` tokens at a time."""
        network, prompt, caches = self.network, self.prompt(), self.network.caches()
        step = step or len(prompt)
        parts = [network.prefill(prompt.part(at, at + step), caches) for at in range(0, len(prompt), step)]
        return network.decoder.logits(mx.concatenate(parts, axis=1))[0]

    def prompt(self) -> Any:
        features = self.network.encode(self.images) if self.images else ()
        return self.network.prompt(self.tokens, features, *self.network.positions(self.tokens, self.images))


def image_input(said: dict[str, Any], number: int, seed: int) -> ImageInput:
    extra = {key: np.asarray(value) for key, value in said["extra"].items()}
    grid = tuple(said["grid"]) if said["grid"] else None
    return ImageInput(noise(f"image {number}", said["shape"], seed), said["tokens"], grid, extra)


@pytest.fixture(params=list(variants()), ids=lambda param: "-".join(filter(None, param)), scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    name, variant = request.param
    return Case(name, variant, tmp_path_factory.mktemp("checkpoint"))


def close(ours: mx.array, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(ours.astype(mx.float32)), expected, **CLOSE)


@pytest.mark.parametrize(("name", "variant"), [(n, v) for n, v in variants() if "tensors" in changes(n, v)])
def test_exports_have_the_names_and_shapes_of_mlx_vlm(name: str, variant: str) -> None:
    shapes = {key: list(value.shape) for key, value in weights_of(name, variant).items()}
    assert shapes == changes(name, variant)["tensors"]


def test_features_are_the_reference_s(case: Case) -> None:
    if not case.images or "features" not in case.expected:
        pytest.skip("a model that does not see")
    features = case.network.encode(case.images)
    close(mx.concatenate([f.rows for f in features]), case.expected["features"])
    for level in range(len(features[0].deepstack)):
        close(mx.concatenate([f.deepstack[level] for f in features]), case.expected[f"deepstack_{level}"])


def test_prompt_logits_are_the_reference_s(case: Case) -> None:
    close(case.logits(), case.expected["logits"])


def test_reading_in_parts_changes_nothing(case: Case) -> None:
    if case.prompt().blocks is not None:
        pytest.skip("tokens that see ahead are read at once")
    close(case.logits(step=5), case.expected["logits"])
    close(case.logits(step=1), case.expected["logits"])


def test_greedy_answer_is_the_reference_s(case: Case) -> None:
    network, prompt, caches = case.network, case.prompt(), case.network.caches()
    logits = network.decoder.logits(network.prefill(prompt, caches)[:, -1])
    for number, expected in enumerate(case.expected["step_logits"]):
        close(logits[0], expected)
        token = mx.argmax(logits, axis=-1)
        assert token.item() == case.expected["tokens"][number]
        logits = network.step(token[:, None], caches, prompt.shift)


def test_joined_layers_change_nothing(case: Case) -> None:
    case.network.fuse()
    close(case.logits(), case.expected["logits"])
