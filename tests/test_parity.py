"""Every family against its reference: the cases in tests/parity/cases, in every dialect that they have.

The tolerances are those of float32 in another order of additions: with logits of the size 1 to 5 the libraries differ
by some 1e-6 a layer, nowhere by more than 1e-5. One kind of GELU in the place of another differs by 1e-3, a wrong
constant or a swapped axis by 1e-2 and more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from docai.vlm.loading import load_network
from tests.parity.stored import FOLDER, case_of, changes, config_of, images_of, variants, weights_of, written

CLOSE = {"rtol": 1e-4, "atol": 5e-5}


class Case:
    """A case on disk, its network loaded, and what the oracle gave."""

    def __init__(self, name: str, variant: str, folder: Path) -> None:
        self.network = load_network(written(folder, config_of(name, variant), weights_of(name, variant)))
        self.tokens: list[int] = case_of(name)["tokens"]
        self.images = images_of(name)
        with np.load(FOLDER / f"{name}.npz") as stored:
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
