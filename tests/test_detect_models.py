"""`docai detect` with detectors that are models, and what it writes: tiny random checkpoints, whole pipe."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from docai import detect, ocr
from docai.cli import app
from docai.errors import ExitCode, InputError, UsageError
from docai.export.detections import COLUMNS, as_coco, as_csv
from docai.layout.detections import PageDetections, detections_json
from docai.layout.given import read_detections
from docai.layout.learned import LearnedDetector
from docai.render.document import open_document
from docai.tasks.detect import detect_pages, label_thresholds
from docai.tasks.ocr import reader_as, reader_for
from docai.tasks.options import DetectOptions
from docai.types import Box, Label, Page, Region
from tests.test_layout_learned import tiny_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_checkpoint(tmp_path_factory.mktemp("detector") / "model", "pp_doclayout_v3"))


def _run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app.main(words)
    return int(ended.value.code or 0)


def test_pages_are_detected_in_batches(tiny_pdf: bytes, model: str) -> None:
    found = detect(tiny_pdf, model=model, threshold=0.0, suppress="none", batch=2)
    assert [page.index for page in found] == [0, 1]
    assert all(len(page.regions) == 10 and page.model == model and not page.lines for page in found)
    one = detect(tiny_pdf, model=model, threshold=0.0, suppress="none", batch=1, with_lines=True)
    assert [[r.label for r in page.regions] for page in one] == [[r.label for r in page.regions] for page in found]
    assert [line.text for page in one for line in page.lines] == ["Hello world", "Second page"]


def test_detections_are_read_back(tiny_pdf: bytes, model: str) -> None:
    (page,) = detect(tiny_pdf, model=model, threshold=0.0, suppress="none", pages="1")
    said = json.loads(detections_json(page))
    assert said["threshold"] == 0.0
    assert all(
        {"label", "confidence", "box", "polygon", "order", "name"} <= entry.keys() for entry in said["detections"]
    )
    (back,) = read_detections(detections_json(page))
    assert [(r.label, r.name, r.order) for r in back.regions] == [(r.label, r.name, r.order) for r in page.regions]
    assert back.regions[0].polygon


def test_labels_and_thresholds(tiny_pdf: bytes, model: str) -> None:
    everything = detect(tiny_pdf, model=model, threshold=0.0, suppress="none", pages="1")[0].regions
    label = everything[0].label
    some = detect(tiny_pdf, model=model, threshold=0.0, suppress="none", pages="1", labels=label.value)[0].regions
    assert some == tuple(r for r in everything if r.label is label)
    never = f"{label.value}=1"
    rest = detect(tiny_pdf, model=model, threshold=0.0, suppress="none", pages="1", label_thresholds=never)[0].regions
    assert label not in {r.label for r in rest}


@pytest.mark.parametrize("text", ["table", "table=", "table=2", "=0.5", "table=0.5,figure=-1", "table=nan"])
def test_thresholds_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="label_thresholds: expected scores"):
        label_thresholds(text)


def test_thresholds_by_label() -> None:
    assert label_thresholds("table=0.6, figure=.3,") == {"table": 0.6, "figure": 0.3}
    assert label_thresholds(None) == {}


def test_a_page_that_cannot_be_rendered_fails_alone(
    tiny_pdf: bytes, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pixels(page: Page, dpi: float = 144) -> Any:
        if page.index == 0:
            raise InputError("page 1 cannot be rendered")
        return whole(page, dpi)

    whole = Page.pixels
    monkeypatch.setattr(Page, "pixels", pixels)
    errors: list[str] = []
    options = DetectOptions(model=model, threshold=0.0, batch=2)
    with open_document(tiny_pdf) as source:
        found = list(detect_pages(source, options, on_error=lambda error: errors.append(str(error))))
    assert [page.index for page in found] == [1]
    assert errors == ["page 1 cannot be rendered"]


def test_text_lands_in_a_models_regions(tiny_pdf: bytes, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--layout MODEL`: its regions, with its labels; text that it does not cover is not lost."""

    def found(_: LearnedDetector, page: Page, *_rest: Any) -> list[Region]:
        if page.index:
            return [Region(Box(0, 0, 5, 5), Label.FIGURE, 0.8, 0, name="image")]
        inline = Region(Box(30, 30, 50, 45), Label.FORMULA, 0.7, 1, name="inline_formula")
        return [Region(page.box, Label.TITLE, 0.9, 0, name="doc_title"), inline]

    monkeypatch.setattr(LearnedDetector, "detect", found)
    title, figure, text = ocr(tiny_pdf, layout=model).blocks
    assert (title.text, title.label, title.region.name) == ("Hello world", Label.TITLE, "doc_title")
    assert (figure.label, text.text, text.label) == (Label.FIGURE, "Second page", Label.TEXT)


def test_the_command_writes_every_format(
    tiny_pdf: bytes, model: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    pdf = tmp_path / "a.pdf"
    pdf.write_bytes(tiny_pdf)
    words = ("detect", str(pdf), "-m", model, "--threshold", "0", "--suppress", "none")
    assert _run(*words) == ExitCode.OK
    assert len(capsysbinary.readouterr().out.splitlines()) == 2
    assert _run(*words, "-f", "csv") == ExitCode.OK
    rows = list(csv.reader(capsysbinary.readouterr().out.decode().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 21
    for form, name in (("csv", "a.csv"), ("coco", "a.coco.json"), ("png", "a.png"), ("json", "a.json")):
        assert _run(*words, "-f", form, "-o", f"{tmp_path / 'out'}/") == ExitCode.OK
        assert (tmp_path / "out" / name).stat().st_size > 100
    assert (tmp_path / "out" / "a.csv").read_text().splitlines() == [",".join(row) for row in rows]
    coco = json.loads((tmp_path / "out" / "a.coco.json").read_text())
    assert [len(coco[key]) for key in ("images", "annotations", "categories")] == [2, 20, len(Label)]


def test_a_missing_checkpoint_is_one_line(
    tiny_pdf: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "a.pdf").write_bytes(tiny_pdf)
    assert _run("detect", str(tmp_path / "a.pdf"), "-m", "rt-detr-v2") == ExitCode.DEPENDENCY
    assert capsysbinary.readouterr().err.decode().splitlines() == [
        "docai: error: layout detector rt-detr-v2 is not in the cache: run docai models pull rt-detr-v2"
    ]


def _found() -> PageDetections:
    page = Page(2, (100.0, 200.0), "pt", "a, b.pdf")
    outline = ((10.0, 20.0), (50.0, 20.0), (50.0, 60.0), (10.0, 40.0))
    regions = (
        Region(Box(10, 20, 50, 60), Label.TEXT, 0.12345, 0, outline, "Paragraph"),
        Region(Box(0, 100, 100, 150), Label.TABLE, None, 1),
    )
    return PageDetections(page, "made", 0.0, regions)


def test_csv_rows() -> None:
    assert as_csv([_found()], header=False).splitlines() == [
        '"a, b.pdf",3,pt,0,text,Paragraph,0.123,10.0,20.0,50.0,60.0',
        '"a, b.pdf",3,pt,1,table,,,0.0,100.0,100.0,150.0',
    ]


def test_coco_annotations() -> None:
    said = json.loads(as_coco([_found()]))
    assert said["images"] == [
        {"id": 1, "file_name": "a, b.pdf", "page": 3, "unit": "pt", "width": 100.0, "height": 200.0}
    ]
    text, table = said["annotations"]
    assert (text["bbox"], text["area"], text["score"], text["name"]) == ([10, 20, 40, 40], 1200.0, 0.123, "Paragraph")
    assert text["segmentation"] == [[10.0, 20.0, 50.0, 20.0, 50.0, 60.0, 10.0, 40.0]]
    assert (table["bbox"], table["area"], table["segmentation"]) == ([0, 100, 100, 50], 5000.0, [])
    assert "score" not in table
    assert said["categories"][text["category_id"] - 1]["name"] == "text"


def test_auto_says_which_detector_it_takes(
    tiny_pdf: bytes,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    (tmp_path / "a.pdf").write_bytes(tiny_pdf)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert _run("ocr", str(tmp_path / "a.pdf"), "--layout", "auto") == ExitCode.OK
    said = capsysbinary.readouterr()
    assert said.out.decode() == "Hello world\n\nSecond page\n"
    assert said.err.decode().startswith("docai: layout: embedded (docai models pull pp-doclayout-v3")
    reader_as.cache_clear()
    reader_for.cache_clear()
    monkeypatch.setattr("docai.checkpoint.hub.cached", lambda *_: Path(model))
    monkeypatch.setattr("docai.layout.learned.cached", lambda *_: Path(model))
    assert _run("ocr", str(tmp_path / "a.pdf"), "--layout", "auto") == ExitCode.OK
    assert capsysbinary.readouterr().err.decode() == "docai: layout: pp-doclayout-v3\n"
    reader_as.cache_clear()
    reader_for.cache_clear()
