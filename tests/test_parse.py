"""`docai parse`, and what a model writes word for word: `--format raw`."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from PIL import Image

pytest.importorskip("mlx.core")

import docai
from docai.errors import UsageError
from docai.export.formats import ExportOptions, export
from docai.export.json import load as read_json
from docai.tasks.options import ParseOptions
from docai.tasks.parse import as_ocr, reads_whole_pages
from docai.types import Label
from docai.vlm.controls import DEFAULT
from tests.commands import run
from tests.export_samples import rich
from tests.test_export_json import check, schema
from tests.tiny_checkpoint import tiny_qwen2_vl
from tests.tiny_encdec import tiny_florence2, tiny_nemotron


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_florence2(folder / "florence")
    tiny_nemotron(folder / "nemotron")
    tiny_qwen2_vl(folder / "qwen")
    return folder


@pytest.fixture(autouse=True)
def files(tmp_path: Path, tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    pixels = np.full((120, 90, 3), 255, np.uint8)
    pixels[20:100:8, 10:80:2] = 0
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "b.pdf").write_bytes(tiny_pdf)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path


def said(capsysbinary: pytest.CaptureFixture[bytes]) -> Any:
    return json.loads(capsysbinary.readouterr().out)


def test_the_structure_is_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("parse", "b.pdf") == 0
    document = said(capsysbinary)
    assert document["schema"] == "docai.document/1"
    check(document, schema(), schema())
    blocks = [block for page in document["pages"] for block in page["blocks"]]
    assert {"label", "box", "confidence", "order", "text"} <= blocks[0].keys()


def test_tables_are_html_too_and_figures_name_their_pictures() -> None:
    document = rich()
    whole = orjson.loads(export(document, "json", ExportOptions(images="ref", structure=True)))
    check(whole, schema(), schema())
    blocks = [block for page in whole["pages"] for block in page["blocks"]]
    tables = [block["table"]["html"] for block in blocks if "table" in block]
    assert tables
    assert all(table.startswith("<table>") for table in tables)
    assert read_json(orjson.dumps(whole)) == read_json(export(document, "json"))


def test_figures_are_cut_out(tmp_path: Path) -> None:
    from docai.types import Block, Box, Document, Page, PageResult, Region

    pixels = np.random.RandomState(1).randint(0, 256, (40, 30, 3)).astype(np.uint8)
    page = Page(0, (30.0, 40.0), "px", "a.png", render=lambda *_: pixels)
    figure = Block("p1-b1", 0, Region(Box(5, 10, 25, 30), Label.FIGURE))
    document = Document("a.png", (PageResult(page, (figure,)),))
    plain = orjson.loads(export(document, "json", ExportOptions(images="embed")))
    assert "image" not in plain["pages"][0]["blocks"][0]
    whole = orjson.loads(export(document, "json", ExportOptions(images="embed", structure=True)))
    head, _, data = whole["pages"][0]["blocks"][0]["image"].partition(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        np.testing.assert_array_equal(np.asarray(picture), pixels[10:30, 5:25])
    named = orjson.loads(export(document, "json", ExportOptions(images="ref", structure=True)))
    assert named["pages"][0]["blocks"][0]["image"] == "a_images/page-1-figure-1.png"


def test_which_models_see_whole_pages(models: Path) -> None:
    def layout(model: str, **more: Any) -> str | None:
        return as_ocr(ParseOptions(model=model, **more)).layout

    assert layout("embedded") == "auto"
    assert layout(str(models / "qwen")) == "auto"
    assert layout(str(models / "nemotron")) is None
    assert layout(str(models / "florence")) is None
    assert layout(str(models / "nemotron"), layout="embedded") == "embedded"
    assert layout(str(models / "nemotron"), ocr="never") == "auto"
    assert not reads_whole_pages(ParseOptions())


@pytest.mark.parametrize("guard", ["fallback", "mark"])
def test_a_page_in_one_pass(models: Path, capsysbinary: pytest.CaptureFixture[bytes], guard: str) -> None:
    model = str(models / "nemotron")
    assert run("parse", "a.png", "-m", model, "--max-tokens", "20", "--guard", guard) == 0
    document = said(capsysbinary)
    check(document, schema(), schema())
    assert document["engine"] == model
    assert document["pages"][0]["outcome"]["status"] in ("degraded", "fallback")


def test_from_python(models: Path) -> None:
    assert docai.parse("b.pdf", pages="1").pages[0].blocks
    document = docai.parse("a.png", model=str(models / "nemotron"), max_tokens=9, guard="off")
    assert {block.source for block in document.blocks} <= {f"vlm:{models / 'nemotron'}", "vlm:nemotron"}


# --- docai ocr with a task, and raw answers


def test_tasks_are_markers(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    model = str(models / "florence")
    for task in ("<OCR_WITH_REGION>", "ocr_with_region", "<OCR>"):
        assert run("ocr", "a.png", "-m", model, "--task", task, "--max-tokens", "9", "--guard", "off") == 0
    assert run("ocr", "a.png", "-m", model, "--task", "<FOO>", "--max-tokens", "9") == 2
    assert b"expected one of OCR, OCR_WITH_REGION" in capsysbinary.readouterr().err


def test_raw_is_the_answer_with_its_special_tokens(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    model = str(models / "nemotron")
    assert run("parse", "a.png", "-m", model, "--format", "raw", "--max-tokens", "12") == 0
    text = capsysbinary.readouterr().out.decode()
    expected = docai.load(model).generate(DEFAULT, ["a.png"], max_tokens=12, special_tokens=True)
    assert text == expected.text + "\n"


def test_raw_answers_about_pages_and_files(
    models: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ("-m", str(models / "florence"), "-f", "raw", "--max-tokens", "5", "--task", "<OCR>")
    assert run("ocr", "b.pdf", *words, "-o", "out.txt") == 0
    assert (tmp_path / "out.txt").read_text().count("\f") == 1
    assert run("ocr", "a.png", "b.pdf", *words) == 0
    assert capsysbinary.readouterr().out.count(b"=== ") == 2
    assert (tmp_path / "out.txt").read_text().startswith("<s>")


@pytest.mark.parametrize(
    "words", [("-m", "embedded"), ("-m", "MODEL", "-o", "out/"), ("-m", "MODEL", "--layout", "embedded")]
)
def test_what_raw_cannot_be(models: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    model = str(models / "florence")
    assert run("ocr", "a.png", "-f", "raw", *(model if word == "MODEL" else word for word in words)) == 2
    assert "format: raw" in capsys.readouterr().err


def test_models_that_read_text_only(tmp_path: Path) -> None:
    from tests.tiny_checkpoint import tiny_llama

    with pytest.raises(UsageError, match="reads text only"):
        docai.parse("a.png", model=str(tiny_llama(tmp_path / "text")))
