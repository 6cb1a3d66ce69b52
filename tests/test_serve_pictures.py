"""Models that look at one picture at a time, captions, places and videos over HTTP, with tiny random models."""

from __future__ import annotations

import base64
import concurrent.futures
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

from PIL import Image

from docai.tasks.load import load
from tests.serving import Process, Served, served
from tests.tiny_checkpoint import tiny_qwen2_vl
from tests.tiny_encdec import tiny_florence2, tiny_nemotron


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_florence2(folder / "florence")
    tiny_nemotron(folder / "nemotron")
    tiny_qwen2_vl(folder / "sees")
    pixels = np.random.RandomState(1).randint(0, 256, (80, 64, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    models = [str(folder / name) for name in ("florence", "nemotron", "sees")]
    with served(folder / "state", model=models, max_models=3) as running:
        yield running


def uri(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def asked(folder: Path, text: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": uri(folder / "a.png")}}, {"type": "text", "text": text}]
    return {"model": "florence", "messages": [{"role": "user", "content": parts}], "max_tokens": 40, **more}


TASKS = {
    "<CAPTION>": None,
    "<OD>": {"bboxes", "labels"},
    "<OCR_WITH_REGION>": {"quad_boxes", "labels"},
    "<CAPTION_TO_PHRASE_GROUNDING>a cat": {"bboxes", "labels"},
    "<REFERRING_EXPRESSION_SEGMENTATION>a cat": {"polygons", "labels"},
    "<OPEN_VOCABULARY_DETECTION>a cat": {"bboxes", "bboxes_labels", "polygons", "polygons_labels"},
}


@pytest.mark.parametrize("task", TASKS)
def test_florence(server: Served, folder: Path, task: str) -> None:
    said = server.json("POST", "/v1/chat/completions", asked(folder, task))
    message = said["choices"][0]["message"]
    expected = load(str(folder / "florence")).generate(task, [folder / "a.png"], max_tokens=40)
    assert message["content"] == expected.text
    name = task.partition(">")[0] + ">"
    result = message["florence2_result"][name]
    assert isinstance(result, str) if TASKS[task] is None else set(result) == TASKS[task]
    assert (message["docai"]["unit"], message["docai"]["size"]) == ("px", [64, 80])


def test_sampling_and_formats_are_passed_over(server: Served, folder: Path) -> None:
    plain = server.json("POST", "/v1/chat/completions", asked(folder, "<OD>"))["choices"][0]["message"]
    more = {"temperature": 1.5, "seed": 3, "top_p": 0.5, "response_format": {"type": "json_object"}}
    assert server.json("POST", "/v1/chat/completions", asked(folder, "<OD>", **more))["choices"][0]["message"] == plain


def test_a_stream_is_one_delta(server: Served, folder: Path) -> None:
    plain = server.json("POST", "/v1/chat/completions", asked(folder, "<OD>"))["choices"][0]["message"]
    _, data = server.ask("POST", "/v1/chat/completions", asked(folder, "<OD>", stream=True))
    chunks = [json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta["content"] for delta in deltas if delta.get("content")] == [plain["content"]]
    assert deltas[-1]["florence2_result"] == plain["florence2_result"]


def test_nemotron_gives_blocks(server: Served, folder: Path) -> None:
    text = "</s><s><predict_bbox><predict_classes><output_markdown><predict_no_text_in_pic>"
    body = {**asked(folder, text), "model": "nemotron"}
    response, data = server.ask("POST", "/v1/chat/completions", body)
    assert response.status == 200, data
    message = json.loads(data)["choices"][0]["message"]
    assert isinstance(message["docai"]["blocks"], list)


def test_what_such_models_are_not_asked(server: Served, folder: Path) -> None:
    good = asked(folder, "<OD>")
    (turn,) = good["messages"]
    for messages in (
        [turn, {"role": "assistant", "content": "x"}, turn],
        [{"role": "system", "content": "x"}, turn],
        [{"role": "user", "content": "<OD>"}],
        [{"role": "user", "content": [turn["content"][0], *turn["content"]]}],
    ):
        server.json("POST", "/v1/chat/completions", {**good, "messages": messages}, 400)
    server.json("POST", "/v1/chat/completions", asked(folder, "<NONSENSE>"), 400)
    server.json("POST", "/v1/chat/completions", asked(folder, "x" * 2000), 400)


def test_captions_and_places(server: Served, folder: Path) -> None:
    document = uri(folder / "a.png")
    for model in ("florence", "sees"):
        body = {"document": document, "model": model, "detail": "short", "max_tokens": 5}
        (caption,) = server.json("POST", "/v1/caption", body)["data"]
        assert (caption["page"], caption["model"]) == (1, model)
    body = {"document": document, "model": "florence", "phrases": ["a cat"], "max_tokens": 20}
    (page,) = server.json("POST", "/v1/ground", body)["data"]
    assert (page["unit"], page["size"]) == ("px", [64, 80])
    server.json("POST", "/v1/ground", {**body, "model": "sees"}, 400)


def test_a_video(server: Served) -> None:
    pytest.importorskip("av")
    from tests.clips import counted

    url = "data:video/x-matroska;base64," + base64.b64encode(counted(8)).decode()
    parts = [{"type": "video_url", "video_url": {"url": url, "fps": 2}}, {"type": "text", "text": "What?"}]
    body = {"model": "sees", "messages": [{"role": "user", "content": parts}], "max_tokens": 3}
    assert server.json("POST", "/v1/chat/completions", body)["usage"]["prompt_tokens_details"]["image_tokens"] > 0
    parts[0] = {"type": "video_url", "video_url": {"url": "data:,x"}}
    server.json("POST", "/v1/chat/completions", body, 400)


def test_a_model_reads_documents(server: Served, folder: Path, tiny_pdf: bytes) -> None:
    """As the command line does it with the same model."""
    from docai.tasks.ocr import ocr

    document = "data:application/pdf;base64," + base64.b64encode(tiny_pdf).decode()
    body = {"document": document, "model": "sees", "max_tokens": 6, "guard": "off", "ocr": "force"}
    read = server.json("POST", "/v1/parse", body)
    more: dict[str, Any] = {"max_tokens": 6, "guard": "off", "ocr": "force", "layout": "embedded"}
    expected = ocr(tiny_pdf, model=str(folder / "sees"), **more)
    assert [block["text"] for page in read["pages"] for block in page["blocks"]] == [b.text for b in expected.blocks]
    assert read["engine"] == "sees"
    for model in ("florence", "nemotron", "sees"):
        assert len(server.json("POST", "/v1/ocr", {"document": document, "model": model, "pages": [1]})["pages"]) == 1
    job = server.json("POST", "/v1/jobs", {**body, "document": document}, 202)
    _, events = server.ask("GET", f"/v1/jobs/{job['id']}/events")
    assert events.decode().count("event: page") == 2
    assert b"event: done" in events


def test_it_ends_well_after_all_threads_have_computed(folder: Path, tiny_pdf: bytes, tmp_path: Path) -> None:
    words = [word for name in ("florence", "sees") for word in ("--model", str(folder / name))]
    document = "data:application/pdf;base64," + base64.b64encode(tiny_pdf).decode()
    long = {**asked(folder, "What?"), "model": "sees", "max_tokens": 1500, "loop_guard": False}
    with (
        concurrent.futures.ThreadPoolExecutor(1) as pool,
        Process(tmp_path / "state", *words, "--max-models", "2", "--preload") as process,
    ):
        for model, text in (("florence", "<OD>"), ("sees", "What?")):
            body = {**asked(folder, text), "model": model, "max_tokens": 4}
            assert process.json("POST", "/v1/chat/completions", body)["choices"]
        for model in ("florence", "sees", "embedded"):
            body = {"document": document, "model": model, "max_tokens": 4, "ocr": "force"}
            assert len(process.json("POST", "/v1/parse", body)["pages"]) == 2
        answer = pool.submit(process.json, "POST", "/v1/chat/completions", long)
        while b"docai_num_requests_running 1\n" not in process.ask("GET", "/metrics"):
            assert not answer.done()
            time.sleep(0.01)
        assert process.end(signal.SIGTERM) == (0, "")
        assert set(answer.result()) & {"choices", "error"}
