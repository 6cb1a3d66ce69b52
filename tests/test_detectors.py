"""Layout detectors equal their oracles on tiny checkpoints, in each dialect, loaded from files as published ones are.

`tests/parity/detectors.py` made the cases. docai sums in another order than torch (norms folded into convolutions,
branches added up), so outputs differ in the sixth digit of the largest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.parity.detectors import CASES, CHANNELS, EVERY, pages, renamed, weights

mx = pytest.importorskip("mlx.core")

from docai.checkpoint.checkpoint import read_checkpoint  # noqa: E402
from docai.checkpoint.dialect import own_names_matched  # noqa: E402
from docai.checkpoint.load import shapes_of  # noqa: E402
from docai.errors import CheckpointError  # noqa: E402
from docai.layout.families import family_of  # noqa: E402
from docai.layout.loading import load_network  # noqa: E402
from docai.layout.network import Network  # noqa: E402

NEAR = 2e-5  # of the largest number, or of 1
Array = NDArray[np.float32]


def _case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    return found


NAMES = sorted(path.stem for path in CASES.glob("*.json"))
DIALECTS = [
    (name, dialect)
    for name in NAMES
    for dialect in ("transformers", "renames", "mlx")
    if dialect == "transformers" or _case(name)[dialect]
]


def _tensors(case: Mapping[str, Any], dialect: str) -> dict[str, Array]:
    values = weights(case["tensors"], case["seed"])
    if dialect == "renames":
        return {renamed(name, case["renames"]): value for name, value in values.items()}
    if dialect != "mlx":
        return values
    names = zip(case["mlx"], values.values(), strict=True)
    return {name: _channels_last(value) for name, value in names if name is not None}


def _channels_last(value: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(value, 1, -1)) if value.ndim == 4 else value


def _saved(case: Mapping[str, Any], tensors: Mapping[str, Array], folder: Path, form: str = "pt") -> Path:
    (folder / "config.json").write_text(json.dumps(case["config"]))
    save_file(dict(tensors), folder / "model.safetensors", {"format": form})
    return folder


@pytest.fixture(scope="module", params=DIALECTS, ids="-".join)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Network]:
    name, dialect = request.param
    case, form = _case(name), "mlx" if dialect == "mlx" else "pt"
    folder = _saved(case, _tensors(case, dialect), tmp_path_factory.mktemp(name), form)
    return name, load_network(read_checkpoint(folder))


def test_outputs_equal_the_oracle(loaded: tuple[str, Network]) -> None:
    name, network = loaded
    case, expected = _case(name), np.load(CASES / f"{name}.npz")
    pixels = mx.array(pages(case["pages"], case["seed"]))
    maps, _ = network.encode(pixels)
    for level, found in enumerate(maps):
        _near(found[..., :CHANNELS], expected[f"map_{level}"])
    found = network(pixels)
    _near(found.boxes, expected["boxes"])
    _near(found.logits, expected["logits"])
    if "order" in expected:
        later = np.tril_indices(expected["order"].shape[1])
        order = np.array(found.order)
        assert (order[:, later[0], later[1]] == expected["order"][:, later[0], later[1]]).all()
        _near(np.triu(order, 1), np.triu(expected["order"], 1))
        masks = np.einsum("bqp,bhwp->bqhw", np.array(found.mixtures), np.array(found.prototypes))
        _near(masks[..., ::EVERY, ::EVERY], expected["masks"])


def _near(found: Any, expected: Array) -> None:
    np.testing.assert_allclose(np.array(found), expected, rtol=0, atol=NEAR * max(1.0, float(np.abs(expected).max())))


def test_a_page_alone_is_the_same_as_in_a_batch(loaded: tuple[str, Network]) -> None:
    name, network = loaded
    case = _case(name)
    pixels = mx.array(pages(case["pages"], case["seed"]))
    both, one = network(pixels), network(pixels[1:])
    _near(one.boxes[0], np.array(both.boxes[1]))
    _near(one.logits[0], np.array(both.logits[1]))


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_matches_a_name_of_ours(name: str) -> None:
    config = _case(name)["config"]
    from docai.checkpoint.config import Config

    family = family_of(config)
    spec = family.spec(Config(config))
    names = shapes_of(Network(spec))
    for rules in family.rules.values():
        assert own_names_matched(rules(spec), names) == []


def test_a_missing_norm_is_named(tmp_path: Path) -> None:
    case = _case("rt_detr_v2")
    tensors = _tensors(case, "transformers")
    gone = "model.backbone.model.embedder.embedder.0.normalization.running_var"
    del tensors[gone]
    with pytest.raises(CheckpointError, match=r"embedder\.0 .*running_var is missing"):
        load_network(read_checkpoint(_saved(case, tensors, tmp_path)))


@pytest.mark.parametrize("name", ["pp_doclayout_v3-untied", "rt_detr_v2"])
def test_half_precision_keeps_boxes_and_scores_whole(name: str, tmp_path: Path) -> None:
    case, expected = _case(name), np.load(CASES / f"{name}.npz")
    folder = _saved(case, _tensors(case, "transformers"), tmp_path)
    network = load_network(read_checkpoint(folder), dtype="bfloat16")
    found = network(mx.array(pages(case["pages"], case["seed"])))
    assert {array.dtype for array in (found.boxes, found.logits)} == {mx.float32}
    # which pixels become queries hangs on the last digits; what they say of their page does not
    spread = [np.sort(np.array(found.logits).max(-1).ravel()), np.sort(expected["logits"].max(-1).ravel())]
    assert np.abs(spread[0] - spread[1]).max() < 0.15
    assert np.isfinite(np.array(found.boxes)).all()
