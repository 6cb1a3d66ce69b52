"""`docai ocr` with a model, from the command line to the outputs. The models are random: what they say is noise, so
the tests look at what was asked about, where, and what stands in for answers that cannot be right."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import docai
from docai.cli.app import main
from docai.errors import ExitCode, UsageError
from docai.ocr.asking import Question
from docai.ocr.routes import CATEGORIES
from docai.tasks.ocr import pages_reader
from docai.tasks.options import OcrOptions
from docai.tasks.prompted import PromptedPages
from docai.types import Status
from tests.conftest import make_pdf
from tests.test_layout_learned import tiny_checkpoint
from tests.tiny_checkpoint import tiny_falcon, tiny_llama, tiny_qwen2_vl

SAMPLES = Path(__file__).parents[1] / "samples"
ARTICLE = SAMPLES / "article.pdf"
QUICK = ["--max-tokens", "6"]


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_falcon(folder / "falcon")
    tiny_qwen2_vl(folder / "qwen")
    tiny_llama(folder / "llama")
    tiny_checkpoint(folder / "detector", "pp_doclayout_v3")
    return folder


@pytest.fixture
def piped(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command line with bytes on standard input: (exit code, standard output, standard error)."""

    class Stdin:
        def __init__(self, data: bytes) -> None:
            self.buffer = io.BytesIO(data)

        def isatty(self) -> bool:
            return False

    def pipe(*words: object, data: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr("sys.stdin", Stdin(data))
        code = run(*words)
        out = capsysbinary.readouterr()
        return code, out.out, out.err.decode()

    return pipe


def test_detect_pipe_ocr(piped: Any, models: Path, tmp_path: Path) -> None:
    """What detectors find on a page of the samples is asked about region by region, and has its box in the output."""
    code, detected, _ = piped("detect", ARTICLE, "--pages", "1")
    assert code == ExitCode.OK
    regions = json.loads(detected)["detections"]
    model = models / "falcon"
    code, out, _ = piped("ocr", "--layout", "-", "-m", model, "-f", "json", *QUICK, "--guard", "mark", data=detected)
    assert code == ExitCode.OK
    (page,) = json.loads(out)["pages"]
    assert page["unit"] == "pt"
    boxes = [tuple(region["box"].values()) for region in regions]
    blocks = [block for top in page["blocks"] for block in (top, *top.get("children", ()))]
    assert {tuple(block["box"].values()) for block in blocks} <= set(boxes)
    places = [boxes.index(tuple(block["box"].values())) for block in page["blocks"]]
    assert places == sorted(places)  # in the order of the detections
    assert {block["source"] for block in blocks} == {"vlm:falcon", "layout"}
    assert {block["verdict"] for block in blocks if block["source"] != "layout"} <= {"cut", "empty", "sparse", "loop"}
    assert page["outcome"]["status"] == "degraded"
    code, markdown, errors = piped("ocr", ARTICLE, "--layout", "-", "-m", model, *QUICK, data=detected)
    assert code == ExitCode.OK
    assert b"# Tide Logs Kept by Hand" in markdown  # noise is cut off; the text layer stands in
    assert "limit of tokens" in errors


def test_a_layout_model_and_a_reading_model(piped: Any, models: Path) -> None:
    """Both at once, and one after the other through a pipe; they ask about the same boxes of every page."""
    words = ["-f", "json", "--dpi", "40", *QUICK, "--guard", "off", "-m", models / "falcon"]
    code, at_once, _ = piped("ocr", SAMPLES / "article.pdf", "--pages", "1-2", "--layout", models / "detector", *words)
    assert code == ExitCode.OK
    detecting = ["detect", SAMPLES / "article.pdf", "--pages", "1-2", "-m", models / "detector", "--threshold", "0.3"]
    code, detected, _ = piped(*detecting)
    assert code == ExitCode.OK
    code, through_a_pipe, _ = piped("ocr", "--layout", "-", *words, data=detected)
    assert code == ExitCode.OK
    first, second = ([[block["box"] for block in page["blocks"]] for page in json.loads(out)["pages"]]
                     for out in (at_once, through_a_pipe))  # fmt: skip
    assert first == second
    assert len(first) == 2


def test_the_questions_of_a_page(models: Path) -> None:
    """Every region by its category, in the manner of the model; pictures are not asked about."""
    options = OcrOptions(pages="1", model=str(models / "falcon"), layout="embedded", max_tokens=2)
    asked: list[Question] = []
    reader = pages_reader(options)
    assert isinstance(reader, PromptedPages)
    asker, ask = reader.reader.asker, reader.reader.asker.ask
    asker.ask = lambda questions: (asked.extend(questions), ask(questions))[1]  # type: ignore[method-assign]
    try:
        document = docai.ocr(ARTICLE, pages="1", model=str(models / "falcon"), layout="embedded", max_tokens=2)
    finally:
        asker.ask = ask  # type: ignore[method-assign]
    assert (
        {"title", "section-header", "text", "table", "formula", "caption"}
        <= {q.prompt for q in asked}
        <= set(CATEGORIES)
    )
    assert len(asked) >= 20
    assert all(min(q.pixels.shape[:2]) >= 16 for q in asked)
    assert document.outcome.status is Status.FALLBACK


@pytest.mark.parametrize("name", ["falcon", "qwen"])
def test_a_whole_page(name: str, models: Path) -> None:
    document = docai.ocr(SAMPLES / "receipt.jpg", model=str(models / name), max_tokens=4, guard="off")
    (page,) = document.pages
    assert {block.box for block in page.blocks} <= {page.page.box}
    assert {block.source for block in page.blocks} <= {f"vlm:{name}"}
    assert document.engine == str(models / name)
    assert page.outcome.status is Status.OK


def test_what_cannot_be_right_is_read_by_the_embedded_engine(models: Path) -> None:
    document = docai.ocr(SAMPLES / "receipt.jpg", model=str(models / "falcon"), max_tokens=4)
    (page,) = document.pages
    assert page.outcome.status is Status.FALLBACK
    assert {block.source for block in page.blocks} == {"ocr:embedded"}
    assert "TOTAL" in " ".join(block.text for block in page.blocks)


def test_several_pages_and_some_of_them(models: Path) -> None:
    document = docai.ocr(ARTICLE, model=str(models / "falcon"), max_tokens=2, guard="off", pages="2,1")
    assert [page.page.index for page in document.pages] == [0, 1]
    ids = [block.id for block in document.blocks]
    assert len(ids) == len(set(ids))


def test_no_pixels_no_model(models: Path) -> None:
    document = docai.ocr(ARTICLE, model=str(models / "none"), ocr="never", pages="1")
    assert {block.source for block in document.blocks} <= {"text-layer", "layout"}


def test_a_folder(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    for name in ("receipt.jpg", "invoice.pdf"):
        (tmp_path / "in" / name).write_bytes((SAMPLES / name).read_bytes())
    words = [
        "ocr",
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "-m",
        models / "falcon",
        "-f",
        "json",
        *QUICK,
        "--guard",
        "mark",
        "--layout",
        "embedded",
        "--jobs",
        "2",
    ]
    assert run(*words) == ExitCode.OK
    found = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json")}
    assert len(found) == 2
    assert {page["outcome"]["status"] for document in found.values() for page in document["pages"]} == {"degraded"}
    capsys.readouterr()
    assert run(*words) == ExitCode.OK
    assert ": 2 skipped" in capsys.readouterr().err
    (tmp_path / "in" / "receipt.jpg").write_bytes((SAMPLES / "receipt.jpg").read_bytes() + b" ")
    words[words.index(models / "falcon")] = models / "none"
    assert run(*words) == ExitCode.DEPENDENCY
    assert "none" in capsys.readouterr().err


def test_several_files_to_standard_output(piped: Any, models: Path, tmp_path: Path) -> None:
    """Pages of several files are asked about together; each says what it says alone, and a bad one costs itself."""
    (tmp_path / "bad.png").write_bytes(b"no picture")
    (tmp_path / "short.pdf").write_bytes(make_pdf(["BT /F 24 Tf 20 160 Td (Page) Tj ET"]))
    files = [tmp_path / "bad.png", SAMPLES / "receipt.jpg", tmp_path / "short.pdf", ARTICLE]
    words = ["-m", models / "falcon", "-f", "jsonl", "--pages", "1-2", "--max-tokens", "4", "--guard", "off"]
    code, out, said = piped("ocr", *files, *words)
    assert code == ExitCode.PARTIAL
    assert "3 ok, 1 failed" in said
    documents = [line for line in map(json.loads, out.splitlines()) if line["type"] == "document"]
    assert [Path(line["source"]).name for line in documents] == ["receipt.jpg", "short.pdf", "article.pdf"]
    alone = b"".join(piped("ocr", file, *words)[1] for file in files[1:])
    blocks = [[line.get("blocks") for line in map(json.loads, text.splitlines())] for text in (out, alone)]
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"task": "tabel"}, "task: .*falcon knows plain, text, table, .*; got 'tabel'"),
        ({"prompt": "x" * 2000}, "prompt: expected at most 1024 bytes; got 2000"),
        ({"prompt": "a\x1b[0mb"}, "prompt: expected text without control characters"),
        ({"prompt": "  "}, "prompt: expected text"),
    ],
)
def test_bad_words(models: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        docai.ocr(SAMPLES / "receipt.jpg", model=str(models / "falcon"), **options)


@pytest.mark.parametrize("engine", ["embedded", "tesseract"])
@pytest.mark.parametrize("asked", [{"task": "table"}, {"prompt": "Read it."}])
def test_engines_are_asked_for_nothing(engine: str, asked: dict[str, Any]) -> None:
    (name,) = asked
    with pytest.raises(UsageError, match=f"^{name}: {engine} is an engine, .*; name a model with -m"):
        docai.ocr(SAMPLES / "receipt.jpg", model=engine, **asked)


def test_a_layout_of_nothing_leaves_whole_pages(models: Path, tmp_path: Path) -> None:
    """An empty list tells of no page: all are read, by a model whole, by an engine in the layout that it has itself."""
    (tmp_path / "none.json").write_text("[]")
    options = {"layout": str(tmp_path / "none.json"), "guard": "off", "max_tokens": 4}
    read = docai.ocr(ARTICLE, model=str(models / "falcon"), pages="1-2", **options)
    assert [{block.box for block in page.blocks} <= {page.page.box} for page in read.pages] == [True, True]
    assert len(docai.ocr(ARTICLE, model=str(models / "falcon"), ocr="never", **options).pages) > 1
    alone = docai.ocr(ARTICLE, pages="1", **options)
    assert [b.text for b in alone.blocks] == [b.text for b in docai.ocr(ARTICLE, pages="1").blocks]


def test_models_that_do_not_see(models: Path) -> None:
    with pytest.raises(UsageError, match="llama reads text only; expected one that takes images"):
        docai.ocr(SAMPLES / "receipt.jpg", model=str(models / "llama"))


def test_bad_models_and_layouts(piped: Any, models: Path) -> None:
    receipt = SAMPLES / "receipt.jpg"
    code, _, said = piped("ocr", receipt, "-m", models / "none")
    assert (code, "none" in said) == (ExitCode.DEPENDENCY, True)
    code, _, said = piped("ocr", receipt, "-m", models / "falcon", "--layout", models / "none.json")
    assert (code, "none.json" in said) == (ExitCode.INPUT, True)


def test_words_of_ones_own(models: Path) -> None:
    reader = pages_reader(OcrOptions(model=str(models / "falcon"), prompt="Read the stamps."))
    assert isinstance(reader, PromptedPages)
    assert reader.reader.words("table") == "Read the stamps."
    reader = pages_reader(OcrOptions(model=str(models / "falcon"), task="Table"))
    assert isinstance(reader, PromptedPages)
    assert reader.reader.words("text") == reader.reader.words("plain") == "table"


def test_a_reader_serves_all_files() -> None:
    """Which pages are read, and how a file is opened, makes no other reader."""
    assert pages_reader(OcrOptions(pages="1", password="a", max_pages=3)) is pages_reader(OcrOptions(video_fps=2.0))
    assert pages_reader(OcrOptions(dpi=100)) is not pages_reader(OcrOptions(dpi=150))
