"""Documents over HTTP by learned detectors and by models: as the command line reads them, with tiny random ones."""

from __future__ import annotations

import base64
import json
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from docai.layout import learned
from docai.layout.detections import detections_json
from docai.render.document import open_document
from docai.tasks.detect import detect
from docai.tasks.ocr import ocr
from docai.tasks.options import OcrOptions
from docai.tasks.raw import as_text, raw_pages
from tests.conftest import make_pdf
from tests.serving import Served, served
from tests.test_layout_learned import tiny_checkpoint
from tests.tiny_checkpoint import tiny_qwen2_vl
from tests.tiny_documents import tiny_got

PDF = make_pdf([f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in range(1, 4)])
URI = "data:application/pdf;base64," + base64.b64encode(PDF).decode()
DETECTORS = ("rt_detr_v2", "pp_doclayout_v3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in DETECTORS:
        tiny_checkpoint(folder / name, name)
    tiny_checkpoint(folder / "private", "rt_detr_v2")
    tiny_got(folder / "got")
    tiny_qwen2_vl(folder / "sees")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    models = [str(folder / name) for name in ("got", "sees")]
    detectors = [str(folder / name) for name in DETECTORS]
    with served(folder / "state", model=models, max_models=2, detector=detectors) as running:
        yield running


def test_the_regions_are_those_of_the_command_line(server: Served, folder: Path) -> None:
    chosen = {"threshold": 0.0, "suppress": "none", "pages": "1,3", "order": "plain"}
    for name in DETECTORS:
        said = server.json("POST", "/v1/detect", {"document": URI, "model": name, **chosen})
        expected = [json.loads(detections_json(p)) for p in detect(PDF, model=str(folder / name), **chosen)]
        assert [page["model"] for page in said["data"]] == [name, name]
        assert [page["detections"] for page in said["data"]] == [page["detections"] for page in expected]
        assert any(page["detections"] for page in expected)
        assert said["errors"] == []


def test_detectors_are_listed(server: Served) -> None:
    found = {one["id"]: one["tasks"] for one in server.json("GET", "/v1/models")["data"]}
    assert list(found)[:3] == ["got", "sees", "embedded"]
    assert (found["got"], found["embedded"]) == (["chat"], ["ocr"])
    assert all(found[name] == ["detect"] for name in DETECTORS)
    assert server.json("GET", f"/v1/models/{DETECTORS[0]}")["id"] == DETECTORS[0]
    server.json("GET", "/v1/models/private", status=404)


def test_detectors_that_nobody_asks_are_let_go_of(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []
    opens = learned.open_detector

    def opened(*given: Any) -> Any:
        detector = opens(*given)
        made.append(weakref.ref(detector))
        return detector

    monkeypatch.setattr(learned, "open_detector", opened)
    asked = [("/v1/detect", {"model": "rt_detr_v2", "threshold": 0.123}), ("/v1/parse", {"layout": "rt_detr_v2"})]
    with served(tmp_path / "state", detector=[str(folder / "rt_detr_v2")], keep_alive="0.2s") as server:
        for again in range(2):
            for path, more in asked:
                server.json("POST", path, {"document": URI, **more})
            deadline = time.monotonic() + 20
            while any(one() is not None for one in made):
                assert time.monotonic() < deadline, "it stays in memory"
                time.sleep(0.02)
            assert len(made) > again


def test_a_layout_by_its_detector_s_name(server: Served, folder: Path) -> None:
    for name in (*DETECTORS, "embedded"):
        said = server.json("POST", "/v1/parse", {"document": URI, "layout": name})
        expected = ocr(PDF, layout=name if name == "embedded" else str(folder / name))
        assert [block["text"] for page in said["pages"] for block in page["blocks"]] == [
            block.text for block in expected.blocks
        ]


def test_only_detectors_that_the_server_was_started_with(server: Served, folder: Path) -> None:
    for name in (str(folder / "private"), str(folder / "rt_detr_v2"), "private", "org/name", "../private", ".", ""):
        for path, field in (("/v1/detect", "model"), ("/v1/parse", "layout"), ("/v1/jobs", "layout")):
            status = 404 if name or field == "model" else 422  # an empty text is no layout
            error = server.json("POST", path, {"document": URI, field: name}, status)["error"]
            assert error["param"] == field, name
            assert str(folder) not in error["message"].replace(name or "-", ""), name


def test_what_is_not_in_the_cache_is_told(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("docai.tasks.ocr.is_cached", lambda _: False)
    error = server.json("POST", "/v1/detect", {"document": URI, "model": "pp-doclayout-v3"}, 404)["error"]
    assert "docai models pull pp-doclayout-v3" in error["message"]


def test_all_pages_as_one_text(server: Served, folder: Path) -> None:
    more: dict[str, Any] = {"multi_page": True, "max_tokens": 6, "guard": "off"}
    said = server.json("POST", "/v1/parse", {"document": URI, "model": "got", **more})
    expected = ocr(PDF, model=str(folder / "got"), **more)
    assert [[b["text"] for b in page["blocks"]] for page in said["pages"]] == [
        [block.text for block in result.blocks] for result in expected.pages
    ]
    assert said["pages"][1]["outcome"]["reasons"] == ["read as one text with page 1"]
    job = server.json("POST", "/v1/jobs", {"document": URI, "model": "got", **more}, 202)
    _, events = server.ask("GET", f"/v1/jobs/{job['id']}/events")
    assert events.decode().count("event: page") == 3
    result = server.json("GET", f"/v1/jobs/{job['id']}/result")
    assert [page["blocks"] for page in result["pages"]] == [page["blocks"] for page in said["pages"]]
    for body in ({"model": "sees"}, {"model": "embedded"}, {"model": "got", "layout": "embedded"}):
        server.json("POST", "/v1/parse", {"document": URI, **more, **body}, 400)


@pytest.mark.parametrize("name", ["got", "sees"])
def test_what_a_model_writes_word_for_word(server: Served, folder: Path, name: str) -> None:
    more: dict[str, Any] = {"max_tokens": 6, "pages": "1-2"}
    response, text = server.ask("POST", "/v1/parse", {"document": URI, "model": name, "format": "raw", **more})
    with open_document(PDF) as source:
        expected = [answer for _, answer in raw_pages(source, OcrOptions(model=str(folder / name), **more))]
    assert text.decode() == as_text(answer.text for answer in expected)
    assert response.headers["content-type"].startswith("text/plain")
    assert response.headers["x-docai-status"] == "degraded"  # the answers were cut off
    server.json("POST", "/v1/parse", {"document": URI, "model": name, "format": "raw", "layout": "embedded"}, 400)
