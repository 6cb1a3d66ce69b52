"""Documents over HTTP, with no model: parse, detect, Mistral's OCR, files, and jobs that outlive the server."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docai.errors import OutputError
from docai.export.formats import FORMATS
from docai.export.json import load
from docai.serve.store import Store
from docai.tasks.ocr import ocr
from tests.conftest import SAMPLES, make_pdf
from tests.serving import Process, Served, scan, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("state"), max_pages=50) as running:
        yield running


def uri(data: bytes) -> str:
    return "data:application/pdf;base64," + base64.b64encode(data).decode()


def form(fields: dict[str, str], name: str, data: bytes) -> tuple[bytes, dict[str, str]]:
    """A form with a file."""
    edge = b"x-edge-x"
    parts = [f'content-disposition: form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()]
    parts.append(f'content-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + data)
    body = b"".join(b"--" + edge + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + edge + b"--\r\n"
    return body, {"content-type": f"multipart/form-data; boundary={edge.decode()}"}


def test_parse_is_what_the_command_line_reads(server: Served, tiny_pdf: bytes) -> None:
    said = server.json("POST", "/v1/parse", {"document": uri(tiny_pdf)})
    read, expected = load(json.dumps(said)), ocr(tiny_pdf)
    assert [block.text for block in read.blocks] == [block.text for block in expected.blocks]
    assert [block.box for block in read.blocks] == [block.box for block in expected.blocks]
    asked = {"document": {"type": "document_url", "document_url": uri(tiny_pdf)}, "pages": "2", "format": "text"}
    response, text = server.ask("POST", "/v1/parse", asked)
    assert (response.status, text.strip()) == (200, b"Second page")
    assert response.headers["content-type"].startswith("text/plain")
    body, headers = form({"format": "markdown", "pages": "1"}, "a.pdf", tiny_pdf)
    assert server.ask("POST", "/v1/parse", body, headers)[1].strip() == b"Hello world"


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(server: Served, tiny_pdf: bytes, format: str) -> None:
    response, data = server.ask("POST", "/v1/parse", {"document": uri(tiny_pdf), "format": format, "images": "embed"})
    assert response.status == 200
    assert data or format == "csv"  # it has no table
    assert response.headers["content-type"].partition(";")[0] == FORMATS[format].media_type


def test_a_layout_of_another_tool(server: Served, tiny_pdf: bytes) -> None:
    found = server.json("POST", "/v1/detect", {"document": uri(tiny_pdf), "with_lines": True})
    assert [page["page"] for page in found["data"]] == [1, 2]
    assert all(page["detections"] and page["lines"] for page in found["data"])
    asked = {"document": uri(tiny_pdf), "layout": found["data"][:1], "format": "text"}
    assert server.ask("POST", "/v1/parse", asked)[1].strip() == b"Hello world"


def test_a_locked_document(server: Served, locked_pdf: tuple[bytes, str]) -> None:
    data, password = locked_pdf
    assert server.json("POST", "/v1/parse", {"document": uri(data)}, 422)["error"]["code"] == "password"
    assert server.ask("POST", "/v1/parse", {"document": uri(data), "password": password})[0].status == 200


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/parse", {}, 422),
        ("/v1/parse", [], 422),
        ("/v1/parse", {"document": 3}, 422),
        ("/v1/parse", {"document": {"file_id": "file-0"}}, 404),
        ("/v1/parse", {"document": "{pdf}", "format": "docx"}, 422),
        ("/v1/parse", {"document": "{pdf}", "fromat": "text"}, 422),
        ("/v1/parse", {"document": "{pdf}", "pages": "7"}, 400),
        ("/v1/parse", {"document": "{pdf}", "model": "/etc"}, 404),
        ("/v1/parse", {"document": "{pdf}", "layout": "/etc/passwd"}, 404),
        ("/v1/parse", {"document": "{pdf}", "layout": "[1]"}, 422),
        ("/v1/parse", {"document": "{pdf}", "layout": {}}, 422),
        ("/v1/parse", {"document": "{pdf}", "format": "raw"}, 400),
        ("/v1/parse", {"document": "{pdf}", "multi_page": True}, 400),
        ("/v1/parse", {"document": "{pdf}", "dpi": 1}, 400),
        ("/v1/parse", {"document": "data:,x"}, 422),
        ("/v1/detect", {"document": "{pdf}", "labels": "unicorn"}, 400),
        ("/v1/detect", {"document": "{pdf}", "model": "pp-doclayout-v3"}, 404),
        ("/v1/caption", {"document": "{pdf}"}, 404),
        ("/v1/ground", {"document": "{pdf}", "phrases": ["cat"]}, 404),
        ("/v1/ocr", {"document": "{pdf}", "pages": [5]}, 400),
        ("/v1/ocr", {"document": "{pdf}", "document_annotation_format": {"type": "json_object"}}, 422),
        ("/v1/jobs", {"document": "{pdf}", "model": "none"}, 404),
    ],
)
def test_what_is_refused(server: Served, tiny_pdf: bytes, path: str, body: Any, status: int) -> None:
    said = json.loads(json.dumps(body).replace("{pdf}", uri(tiny_pdf)))
    error = server.json("POST", path, said, status)["error"]
    assert error["message"]
    assert error["type"]


def test_too_many_pages(server: Served) -> None:
    data = make_pdf(["BT /F 12 Tf 20 160 Td (x) Tj ET"] * 51)
    assert server.json("POST", "/v1/parse", {"document": uri(data)}, 413)["error"]["code"] == "limit_exceeded"


# --- Mistral's interface


def test_ocr_of_an_upload(server: Served, tiny_pdf: bytes) -> None:
    body, headers = form({"purpose": "ocr"}, "tiny.pdf", tiny_pdf)
    upload = server.json("POST", "/v1/files", body, headers=headers)
    assert (upload["filename"], upload["bytes"], upload["purpose"]) == ("tiny.pdf", len(tiny_pdf), "ocr")
    url = server.json("GET", f"/v1/files/{upload['id']}/url?expiry=24")["url"]
    documents = [
        {"type": "document_url", "document_url": url},
        {"type": "file", "file_id": upload["id"]},
        {"type": "document_url", "document_url": uri(tiny_pdf), "document_name": "tiny.pdf"},
    ]
    for document in documents:
        said = server.json("POST", "/v1/ocr", {"model": "mistral-ocr-latest", "document": document})
        assert [page["index"] for page in said["pages"]] == [0, 1]
        assert said["pages"][0]["markdown"].strip() == "Hello world"
        assert said["pages"][0]["dimensions"] == {"dpi": 150, "height": 417, "width": 625}
        assert said["usage_info"] == {"pages_processed": 2, "doc_size_bytes": len(tiny_pdf)}
        assert said["model"] == "mistral-ocr-latest"
    second = server.json("POST", "/v1/ocr", {"model": "x" * 0 or None, "document": documents[1], "pages": [1]})
    assert [page["markdown"].strip() for page in second["pages"]] == ["Second page"]
    assert server.ask("GET", url.partition(str(server.port))[2])[1] == tiny_pdf
    assert server.json("GET", "/v1/files")["data"][0]["id"] == upload["id"]
    assert server.json("DELETE", f"/v1/files/{upload['id']}")["deleted"]
    server.json("GET", f"/v1/files/{upload['id']}", status=404)
    server.json("POST", "/v1/ocr", {"document": documents[1]}, 404)


def test_pictures_and_tables_of_a_page(server: Served) -> None:
    data = (SAMPLES / "article.pdf").read_bytes()
    asked = {"document": {"document_url": uri(data)}, "include_image_base64": True, "table_format": "html"}
    pages = server.json("POST", "/v1/ocr", asked)["pages"]
    images = [image for page in pages for image in page["images"]]
    assert images
    for page in pages:
        for image in page["images"]:
            assert f"]({image['id']})" in page["markdown"]
            assert image["top_left_x"] < image["bottom_right_x"] <= page["dimensions"]["width"]
            assert base64.b64decode(image["image_base64"].partition(",")[2]).startswith(b"\x89PNG")
    tables = [(page, table) for page in pages for table in page["tables"]]
    assert tables[0][1]["content"].startswith("<table><tr><th>Decade")
    assert all(f"[{table['id']}]({table['id']})" in page["markdown"] for page, table in tables)
    bare = server.json("POST", "/v1/ocr", {"document": {"document_url": uri(data)}, "image_limit": 0})["pages"]
    assert not any(page["images"] or page["tables"] for page in bare)


def test_an_image(server: Served) -> None:
    url = "data:image/png;base64," + base64.b64encode(scan()).decode()
    (page,) = server.json("POST", "/v1/ocr", {"document": {"type": "image_url", "image_url": url}})["pages"]
    assert "Line number 1 of the page" in page["markdown"]


def test_the_disk_is_not_filled(tmp_path: Path, tiny_pdf: bytes) -> None:
    with served(tmp_path / "state", max_stored=2 * len(tiny_pdf)) as server:
        body, headers = form({"purpose": "ocr"}, "tiny.pdf", tiny_pdf)
        files = [server.json("POST", "/v1/files", body, headers=headers)["id"] for _ in range(2)]
        response, data = server.ask("POST", "/v1/files", body, headers)
        assert (response.status, json.loads(data)["error"]["code"]) == (503, "overloaded")
        server.json("POST", "/v1/jobs", {"document": uri(tiny_pdf)}, 503)
        server.json("DELETE", f"/v1/files/{files[0]}")
        server.json("POST", "/v1/jobs", {"document": uri(tiny_pdf)}, 202)
    with served(tmp_path / "state", max_stored=2 * len(tiny_pdf)) as server:
        server.json("POST", "/v1/files", body, 503, headers=headers)


# --- jobs


def many_pages(count: int) -> bytes:
    return make_pdf([f"BT /F 12 Tf 20 160 Td (Page number {n}) Tj ET" for n in range(1, count + 1)])


def wait_for(server: Served, number: str, status: str = "done") -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (job := server.json("GET", f"/v1/jobs/{number}"))["status"] in ("queued", "running"):
        assert time.monotonic() < deadline, job
        time.sleep(0.02)
    assert job["status"] == status, job
    return dict(job)


def stream(server: Served, number: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a job until its end."""
    response, data = server.ask("GET", f"/v1/jobs/{number}/events", headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = []
    for text in data.decode().strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in text.split("\n"))
        events.append((lines["event"], json.loads(lines["data"]) | {"id": lines.get("id")}))
    return events


def test_a_job(server: Served) -> None:
    data = many_pages(12)
    job = server.json("POST", "/v1/jobs", {"document": uri(data), "pages": "1-10"}, 202)
    assert job["status"] == "queued"
    events = stream(server, job["id"])
    assert [name for name, _ in events] == ["page"] * 10 + ["done"]
    assert sorted(told["page"] for name, told in events if name == "page") == list(range(1, 11))
    again = stream(server, job["id"], **{"last-event-id": events[6][1]["id"]})
    assert [told["page"] for _, told in again[:-1]] == [told["page"] for _, told in events[7:-1]]
    assert job["id"] not in server.desk.bells._bells
    assert wait_for(server, job["id"])["pages"] == {"done": 10, "total": 10}
    said = server.json("GET", f"/v1/jobs/{job['id']}/result")
    expected = ocr(data, pages="1-10")
    assert [block.text for block in load(json.dumps(said)).blocks] == [block.text for block in expected.blocks]
    for format in FORMATS:
        response, out = server.ask("GET", f"/v1/jobs/{job['id']}/result?format={format}")
        assert response.status == 200, out
    assert server.json("GET", f"/v1/jobs/{job['id']}/pages/3")["blocks"]
    assert server.ask("GET", f"/v1/jobs/{job['id']}/pages/3/image")[1].startswith(b"\xff\xd8")
    server.json("GET", f"/v1/jobs/{job['id']}/pages/11", status=404)
    server.json("GET", f"/v1/jobs/{job['id']}/result?format=docx", status=400)
    assert job["id"] in [one["id"] for one in server.json("GET", "/v1/jobs")["data"]]
    server.json("DELETE", f"/v1/jobs/{job['id']}")
    server.json("GET", f"/v1/jobs/{job['id']}", status=404)


def test_a_job_that_fails_says_why(server: Served) -> None:
    job = server.json("POST", "/v1/jobs", {"document": "data:,no%20document"}, 202)
    failed = wait_for(server, job["id"], "failed")
    assert failed["error"]["code"] == "unreadable_input"
    assert server.json("GET", f"/v1/jobs/{job['id']}/result", status=422)["error"]["message"]


def test_a_job_is_cancelled(server: Served) -> None:
    job = server.json("POST", "/v1/jobs", {"document": uri(many_pages(50))}, 202)
    server.json("GET", f"/v1/jobs/{job['id']}/result", status=409)
    assert server.json("POST", f"/v1/jobs/{job['id']}/cancel")["status"] == "cancelled"
    assert stream(server, job["id"])[-1][0] == "cancelled"
    assert wait_for(server, job["id"], "cancelled")["pages"]["done"] < 50


def test_jobs_take_turns(server: Served) -> None:
    """A short job does not wait for a long one, and an answer that somebody waits for comes before both."""
    long = server.json("POST", "/v1/jobs", {"document": uri(many_pages(50))}, 202)
    short = server.json("POST", "/v1/jobs", {"document": uri(many_pages(2))}, 202)
    assert server.ask("POST", "/v1/parse", {"document": uri(many_pages(1))})[0].status == 200
    wait_for(server, short["id"])
    assert server.json("GET", f"/v1/jobs/{long['id']}")["status"] == "running"
    wait_for(server, long["id"])


def test_what_comes_late_of_a_job_that_is_over(tmp_path: Path) -> None:
    """A page that was being read when its job was ended, and the opening of its document."""
    store = Store(tmp_path, 3600)
    job = store.add_job("me", "a.pdf", {}, b"x")
    store.keep_page(job.id, 0, {"page": 1}, {"index": 0})
    assert store.end(job.id, "cancelled")
    store.begin(job.id, {}, 3)
    store.keep_page(job.id, 1, {"page": 2}, {"index": 1})
    assert not store.end(job.id, "done")
    found = store.job(job.id, "me")
    assert found is not None
    assert (found.state, store.page_count(job.id), store.unfinished()) == ("cancelled", 1, [])
    store.drop_job(job.id)
    store.keep_page(job.id, 2, {"page": 3}, {"index": 2})
    assert store.page_count(job.id) == 0
    with pytest.raises(OutputError, match="another server"):
        Store(tmp_path, 3600)
    store.close()


def kept_pages(state: Path, number: str) -> list[tuple[int, dict[str, Any]]]:
    """The pages of a job that a server has left, numbered as they were done."""
    store = Store(state, 3600)
    with contextlib.closing(store):
        return store.told(number, 0)


def test_a_job_survives_a_kill_and_a_stop(tmp_path: Path) -> None:
    count = 80
    with Process(tmp_path) as first, contextlib.closing(sqlite3.connect(tmp_path / "state.sqlite")) as seen:
        number = first.json("POST", "/v1/jobs", {"document": uri(many_pages(count))})["id"]
        while not (done := seen.execute("SELECT COUNT(*) FROM pages").fetchone()[0]):
            time.sleep(0.001)
        first.end(signal.SIGKILL)
    before = kept_pages(tmp_path, number)
    assert done <= len(before) < count
    with Process(tmp_path) as second:
        assert second.json("GET", f"/v1/jobs/{number}")["pages"]["done"] >= len(before)
        assert second.end(signal.SIGTERM) == (0, "")
    with Process(tmp_path) as third:
        while (job := third.json("GET", f"/v1/jobs/{number}"))["status"] != "done":
            assert job["status"] in ("queued", "running")
            time.sleep(0.02)
        read = third.json("GET", f"/v1/jobs/{number}/result")
        assert third.end(signal.SIGINT) == (0, "")
    texts = [block["text"] for page in read["pages"] for block in page["blocks"]]
    assert texts == [f"Page number {n}" for n in range(1, count + 1)]
    after = kept_pages(tmp_path, number)
    assert after[: len(before)] == before  # none of them was read again
    assert len(after) == count


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_tells_of_requests_and_not_of_what_is_in_them(tmp_path: Path, form: str) -> None:
    secret = make_pdf(["BT /F 12 Tf 20 160 Td (Zanzibar) Tj ET"])
    with Process(tmp_path / "state", "-v", "--log-format", form) as process:
        for document, password in ((uri(secret), "Zanzibar"), ("data:,Zanzibar", None), ("/Zanzibar.pdf", None)):
            process.ask("POST", "/v1/parse", {"document": document, "password": password})
        process.ask("GET", "/v1/files/Zanzibar?Zanzibar=1")
        code, said = process.end(signal.SIGTERM)
    assert (code, "Zanzibar" in said) == (0, False)
    lines = [line for line in said.splitlines() if line]
    assert len(lines) == 4
    if form == "json":
        told = [json.loads(line) for line in lines]
        assert [one["route"] for one in told] == ["/v1/parse"] * 3 + ["/v1/files/{number}"]
        assert [one["status"] for one in told] == [200, 422, 400, 404]
        assert all(one["request_id"].startswith("req-") and one["ms"] > 0 and one["level"] == "info" for one in told)
    else:
        assert all(line.startswith("docai: INFO: req-") for line in lines)
