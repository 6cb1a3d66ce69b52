"""Detectors from checkpoints, end to end on tiny ones: a page becomes regions in its own unit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

from safetensors.numpy import save_file

from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint
from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.errors import CheckpointError, UsageError
from docai.layout import loading
from docai.layout.detector import MODELS, Sheet, get_detector, is_detector, label_named
from docai.layout.learned import LearnedDetector, Settings, forget_networks, in_order
from docai.layout.loading import load
from docai.layout.suppress import Suppression
from docai.tasks.convert import convert_model
from docai.tasks.models import show_model, verify_model
from docai.tasks.models_options import ConvertOptions
from docai.types import Box, Label, Page, Region
from tests.goldens.processors.cases import picture
from tests.parity.detectors import CASES, weights

NAMES = ("Section-header", "Text", "Table", "Picture", "Page-footer")
SIZE = {"size": {"height": 96, "width": 160}}
ALL = Settings(threshold=0.0, suppress=Suppression())
Made = Callable[..., LearnedDetector]


def tiny_checkpoint(folder: Path, name: str, labels: tuple[str, ...] = NAMES) -> Path:
    """A tiny detector on disk, with classes of these names."""
    case: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    config = {**case["config"], "id2label": {str(n): label for n, label in enumerate(labels)}}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(SIZE))
    save_file(weights(case["tensors"], case["seed"]), folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folders: dict[str, Path] = {}

    def make(name: str, settings: Settings = ALL) -> LearnedDetector:
        if name not in folders:
            folders[name] = tiny_checkpoint(tmp_path_factory.mktemp(name) / "model", name)
        found = get_detector(str(folders[name]), settings)
        assert isinstance(found, LearnedDetector)
        return found

    return make


def _page(index: int = 0, unit: Any = "pt", size: tuple[float, float] = (300.0, 400.0)) -> Page:
    def render(dpi: float, _rotation: int, _skew: float) -> Any:
        scale = dpi / 72 if unit == "pt" else 1
        pixels = picture((round(size[1] * scale), round(size[0] * scale)))
        return np.roll(pixels, index * 40, axis=1)

    return Page(index, size, unit, "page", render=render)


@pytest.mark.parametrize("name", ["pp_doclayout_v3", "rt_detr_v2"])
def test_regions_are_in_the_unit_of_their_page(made: Made, name: str) -> None:
    detector = made(name)
    assert detector.reads is False
    pt = detector.detect_all([Sheet(_page())])[0]
    px = detector.detect_all([Sheet(_page(unit="px", size=(600.0, 800.0)))])[0]  # the same pixels, at 144 dpi
    assert len(pt) == len(px) == 10
    for a, b in zip(pt, px, strict=True):
        assert (a.label, a.name, a.order) == (b.label, b.name, b.order)
        np.testing.assert_allclose(np.array(a.box.as_tuple()) * 2, b.box.as_tuple(), rtol=1e-4, atol=1e-2)
        assert 0 <= a.box.l < a.box.r <= 300
        assert 0 <= a.box.t < a.box.b <= 400
        assert a.score is not None
        assert 0 < a.score < 1
    assert [region.order for region in pt] == list(range(10))


def test_masks_become_outlines(made: Made) -> None:
    with_masks, without = made("pp_doclayout_v3"), made("rt_detr_v2")
    regions = with_masks.detect_all([Sheet(_page())])[0]
    assert all(region.polygon is not None and len(region.polygon) >= 4 for region in regions)
    assert all(0 <= x <= 300 and 0 <= y <= 400 for region in regions for x, y in region.polygon or ())
    assert all(region.polygon is None for region in without.detect_all([Sheet(_page())])[0])


@pytest.mark.parametrize("name", ["pp_doclayout_v3", "rt_detr_v2"])
def test_pages_of_a_batch_do_not_see_each_other(made: Made, name: str) -> None:
    sheets = [Sheet(_page(index)) for index in range(3)]
    single = made(name, replace(ALL, batch=1)).detect_all(sheets)
    several = made(name, replace(ALL, batch=2)).detect_all(sheets)
    for one, other in zip(single, several, strict=True):
        assert [r.label for r in one] == [r.label for r in other]
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.box.as_tuple(), b.box.as_tuple(), atol=0.05)


def test_labels_are_those_of_the_checkpoint(made: Made) -> None:
    regions = made("rt_detr_v2").detect_all([Sheet(_page())])[0]
    assert {region.name for region in regions} <= set(NAMES)
    assert all(region.label is label_named(region.name) for region in regions)


def test_thresholds(made: Made) -> None:
    scores = sorted(r.score or 0 for r in made("rt_detr_v2").detect_all([Sheet(_page())])[0])
    half = made("rt_detr_v2", replace(ALL, threshold=scores[5])).detect_all([Sheet(_page())])[0]
    assert len(half) == 4  # RT-DETR's reference keeps what scores higher, not as high
    none = made("rt_detr_v2", replace(ALL, thresholds=dict.fromkeys(NAMES, 1.0))).detect_all([Sheet(_page())])[0]
    assert none == []


def test_a_class_has_a_threshold_by_its_own_name_or_ours(made: Made) -> None:
    by_name = made("rt_detr_v2", Settings(thresholds={"section_header": 0.9})).thresholds
    by_label = made("rt_detr_v2", Settings(thresholds={"heading": 0.9, "Picture": 0.8, "figure": 0.1})).thresholds
    assert (by_name.general, by_name.single) == (0.5, {0: 0.9})
    assert by_label.single == {0: 0.9, 3: 0.8}


def test_order_without_an_order_head() -> None:
    """Two columns: the layout's own code reads them one after the other, `plain` line by line."""
    left = [Region(Box(50, y, 250, y + 100), Label.TEXT) for y in (100, 220, 340, 460)]
    right = [Region(Box(310, y, 510, y + 90), Label.TEXT) for y in (110, 225, 350, 465)]
    regions = [part for pair in zip(left, right, strict=True) for part in pair]
    assert in_order(regions, "plain") == list(range(8))
    assert [regions[at] for at in in_order(regions, "layout")] == [*left, *right]


def test_unknown_labels_are_told_and_taken_as_text(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path, "rt_detr_v2", ("person", "text", "table", "zebra", "title"))
    with pytest.warns(UserWarning, match="person, zebra of the detector are taken as text"):
        detector = get_detector(str(folder), ALL)
    assert {r.label for r in detector.detect_all([Sheet(_page())])[0]} <= {Label.TEXT, Label.TABLE, Label.TITLE}


def test_labels_must_be_named(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path, "rt_detr_v2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "id2label": {"1": "a", "2": "b", "3": "c", "4": "d", "5": "e"}})
    )
    with pytest.raises(CheckpointError, match="id2label to name 5 classes; 0 is missing"):
        get_detector(str(folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "pp_doclayout_v4"}, "is no layout detector that is supported .near it: pp_doclayout_v3"),
        ({"learn_initial_query": True}, "learn_initial_query True is not supported"),
        ({"backbone_config": {"model_type": "swin"}}, "backbone 'swin' is not supported"),
        ({"encoder_in_channels": [1, 2, 3]}, "do not fit the backbone's"),
        ({"decoder_activation_function": "mish"}, "activation 'mish' is not supported"),
        ({"d_model": "wide"}, "describes no network"),
        ({"encoder_in_channels": 5}, "describes no network"),
        ({"decoder_attention_heads": 0}, "describes no network"),
        ({"decoder_layers": 10**9}, "decoder_layers = 1000000000; expected a few dozen"),
    ],
)
def test_configs_that_are_not_supported(tmp_path: Path, change: Mapping[str, Any], said: str) -> None:
    folder = tiny_checkpoint(tmp_path, "rt_detr_v2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(CheckpointError, match=said):
        get_detector(str(folder))


def test_pictures_that_make_no_sense(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path, "rt_detr_v2")
    (folder / "preprocessor_config.json").write_text(json.dumps({**SIZE, "rescale_factor": "small"}))
    with pytest.raises(CheckpointError, match=r"its preprocessor_config.json describes no pictures"):
        get_detector(str(folder))


def test_a_detector_that_is_not_in_the_cache_is_pulled_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match=f"run docai models pull {MODELS[0]}$") as error:
        get_detector(MODELS[0])
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="expected one of embedded, pp-doclayout-v3"):
        get_detector("pp-doclayout-v9")


def test_what_names_a_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "found.json").write_text("[]")
    (tmp_path / "model").mkdir()
    assert [name for name in ("embedded", *MODELS, "model", "org/name") if not is_detector(name)] == []
    assert [name for name in ("found.json", "gone.json", "out/gone.json", "./x/y", "/a") if is_detector(name)] == []


@pytest.mark.parametrize("name", ["pp_doclayout_v3", "rt_detr_v2"])
def test_detectors_are_shown_converted_and_verified(name: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model", name)
    shown = json.loads(json.dumps(show_model(str(folder), LoadOptions())))
    used = {source for weight in shown["weights"] for source in weight["from"]}
    assert used | set(shown["dropped"]) == set(read_checkpoint(folder).tensors)
    assert (shown["dialect"], shown["memory"]["cache_per_1000_tokens"]) == ("transformers", 0)
    convert_model(str(folder), ConvertOptions(output=str(tmp_path / "own")))
    assert verify_model(str(tmp_path / "own"), SourceOptions())["problems"] == []
    (one,), (other,) = (get_detector(str(tmp_path / f), ALL).detect_all([Sheet(_page())]) for f in ("model", "own"))
    assert one == other
    convert_model(str(folder), ConvertOptions(output=str(tmp_path / "small"), bits=8, group_size=32, vision=True))
    assert len(get_detector(str(tmp_path / "small"), ALL).detect_all([Sheet(_page())])[0]) == 10


def test_weights_are_read_once_however_settings_change(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_networks()
    read: list[Checkpoint] = []
    monkeypatch.setattr(loading, "load", lambda checkpoint: (read.append(checkpoint), load(checkpoint))[1])
    strict, all_of_them = made("rt_detr_v2", Settings(threshold=1.0)), made("rt_detr_v2")
    assert [len(found) for found in strict.detect_all([Sheet(_page())])] == [0]
    assert len(all_of_them.detect_all([Sheet(_page())])[0]) == 10
    assert len(read) == 1
    forget_networks()
    made("rt_detr_v2")
    assert len(read) == 2


def test_labels_of_known_detectors_are_all_known() -> None:
    paddle = (
        "abstract algorithm aside_text chart content display_formula doc_title figure_title footer footer_image "
        "footnote formula_number header header_image image inline_formula number paragraph_title reference "
        "reference_content seal table text vertical_text vision_footnote formula"
    )
    heron = (
        "Caption,Footnote,Formula,List-item,Page-footer,Page-header,Picture,Section-header,Table,Text,Title,"
        "Document Index,Code,Checkbox-Selected,Checkbox-Unselected,Form,Key-Value Region"
    )
    others = "title,plain text,abandon,figure,figure_caption,table_caption,table_footnote,isolate_formula,list"
    names = [*paddle.split(), *heron.split(","), *heron.lower().replace(" ", "_").split(","), *others.split(",")]
    assert [name for name in names if label_named(name) is None] == []
    assert label_named("header_image") is Label.PAGE_HEADER
    assert label_named("Section-header") is label_named("paragraph_title") is Label.HEADING
