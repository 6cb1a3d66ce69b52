"""`docai chat` and `docai caption`, with tiny random models."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import numpy as np
from PIL import Image
from rich.console import Console

from docai.cli import chat as command
from docai.cli.answers import MarkdownView, complete_blocks
from docai.cli.progress import Reporter
from docai.errors import ExitCode, LimitExceeded, UsageError
from docai.tasks.caption import caption
from docai.tasks.chat import Chat, remarks
from docai.tasks.load import load
from docai.tasks.options import ChatOptions, ClipOptions, PictureOptions, SoundOptions
from docai.vlm.model import Model
from docai.vlm.request import Generation, GenerationOptions, Piece, Usage
from docai.vlm.ticket import Ticket
from tests.commands import run
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_llama(folder / "text")
    tiny_qwen2_vl(folder / "sees")
    return folder


@pytest.fixture(scope="module")
def sees(models: Path) -> Model:
    return load(str(models / "sees"))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a picture and a PDF of two pages, and nothing on standard input."""
    pixels = np.random.RandomState(1).randint(0, 256, (80, 64, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "b.pdf").write_bytes(tiny_pdf)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path


def said(capsysbinary: pytest.CaptureFixture[bytes]) -> Any:
    return json.loads(capsysbinary.readouterr().out)


def test_the_memory_is_told_first(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(models / "text")
    assert run("chat", "-m", model, "-p", "What?", "--max-tokens", "1", "--dtype", "float32") == 0
    assert re.search(rf"^docai: {model}: \d+ kB of memory for the weights$", capsys.readouterr().err, re.MULTILINE)


def test_an_answer_goes_to_standard_output(
    models: Path, sees: Model, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("chat", "a.png", "-m", str(models / "sees"), "-p", "What?", "--max-tokens", "9") == 0
    captured = capsysbinary.readouterr()
    assert captured.out.decode().rstrip("\n") == sees.generate("What?", ["a.png"], max_tokens=9).text.rstrip("\n")
    assert b"ends after 9 tokens" in captured.err


def test_pages_become_images(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    words = ("-m", str(models / "sees"), "-p", "What?", "--max-tokens", "2", "--json", "-q")
    tokens = []
    for more in (
        ("b.pdf",),
        ("b.pdf", "--pages", "2"),
        ("--image", "b.pdf", "--image", "a.png"),
        ("a.png", "--pages", "2"),
    ):
        assert run("chat", *more, *words) == 0
        tokens.append(said(capsysbinary)["usage"]["images"])
    both, one, three, picture = tokens
    assert both == 2 * one
    assert three == both + picture


def test_json_says_what_it_took(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("chat", "-m", str(models / "text"), "-p", "Hi", "--max-tokens", "3", "--json", "--logprobs", "2") == 0
    answer = said(capsysbinary)
    assert answer["finish_reason"] == "length"
    assert answer["usage"]["generated"] == 3
    assert set(answer["timings"]) == {"prepare_s", "prefill_s", "first_token_s", "decode_s"}
    assert len(answer["logprobs"]) == 3


def test_standard_input_is_the_question(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ("chat", "-m", str(models / "text"), "--max-tokens", "5", "-q")
    assert run(*words, "-p", "Hello there") == 0
    expected = capsysbinary.readouterr().out
    for more in ((), ("-p", "-")):
        monkeypatch.setattr(sys, "stdin", io.StringIO("Hello there"))
        assert run(*words, *more) == 0
        assert capsysbinary.readouterr().out == expected


def test_options_reach_the_model(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    words = ("chat", "-m", str(models / "text"), "-p", "Hi", "--max-tokens", "6", "--json", "-q")
    assert run(*words) == 0
    plain = said(capsysbinary)
    assert run(*words, "--no-chat-template") == 0
    assert said(capsysbinary)["usage"]["prompt"] < plain["usage"]["prompt"]
    assert run(*words, "--system", "Be brief.") == 0
    assert said(capsysbinary)["usage"]["prompt"] > plain["usage"]["prompt"]
    assert run(*words, "--stop", plain["text"][0]) == 0
    assert said(capsysbinary)["text"] == ""
    assert run(*words, "--temperature", "1", "--seed", "4") == 0
    assert said(capsysbinary)["seed"] == 4


def test_settings_of_a_file(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    model = json.dumps(str(models / "text"))
    Path("docai.toml").write_text(f'[chat]\nmodel = {model}\nmax-tokens = 4\nstop = ["x, y", "z"]\n')
    assert run("chat", "-p", "Hi", "--json", "-q") == 0
    assert said(capsysbinary)["usage"]["generated"] == 4


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["chat", "a.png", "-p", "x"], ExitCode.USAGE, "-m"),
        (["chat", "a.png", "-m", "{sees}"], ExitCode.USAGE, "expected a question"),
        (["chat", "-", "-m", "{sees}"], ExitCode.USAGE, "both a document and the question"),
        (["chat", "none.png", "-m", "{sees}", "-p", "x"], ExitCode.INPUT, "no such file"),
        (["chat", "a.png", "-m", "{text}", "-p", "x"], ExitCode.USAGE, "loaded without a vision tower (text-only"),
        (["chat", "b.pdf", "-m", "{sees}", "-p", "x", "--max-images", "1"], ExitCode.LIMIT, "--max-images"),
        (["chat", "b.pdf", "-m", "{sees}", "-p", "x", "--pages", "7"], ExitCode.USAGE, "last page"),
        (["chat", "-m", "no/such-model", "-p", "x"], ExitCode.DEPENDENCY, "no/such-model"),
        (["chat", "-m", "{text}", "-p", "x", "--top-p", "7"], ExitCode.USAGE, "top_p"),
        (["chat", "-m", "{text}", "-p", "x", "--json-schema", "none.json"], ExitCode.INPUT, "none.json"),
        (["caption"], ExitCode.USAGE, "expected a file"),
        (["caption", "a.png", "-m", "{text}"], ExitCode.USAGE, "text-only"),
        (["caption", "a.png", "-m", "{sees}", "--detail", "all"], ExitCode.USAGE, "short"),
    ],
)
def test_exit_codes(
    models: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: ExitCode, says: str
) -> None:
    named = [word.format(text=models / "text", sees=models / "sees") for word in words]
    assert run(*named) == code
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) <= 2


def test_an_interrupt_ends_with_its_code(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    following, calls = Ticket.__next__, []

    def interrupted(ticket: Ticket) -> Piece:
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return following(ticket)

    monkeypatch.setattr(Ticket, "__next__", interrupted)
    assert run("chat", "-m", str(models / "text"), "-p", "Hi") == ExitCode.INTERRUPTED
    captured = capsysbinary.readouterr()
    assert captured.out.endswith(b"\n")
    assert len(captured.out) > 3
    assert b"Traceback" not in captured.err


class Typist:
    """Types lines; an exception among them is raised instead."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines: Iterator[str | BaseException] = iter((*lines, EOFError()))

    def __call__(self, prompt: str) -> str:
        line = next(self._lines)
        if isinstance(line, BaseException):
            raise line
        return line


def talk(model: Model, *lines: str | BaseException, **options: Any) -> Chat:
    chat = Chat(model, GenerationOptions(max_tokens=3))
    conversation = command.Conversation(
        chat, ChatOptions(**options), PictureOptions(), ClipOptions(), SoundOptions(),
        GenerationOptions(max_tokens=3), Reporter("none", verbose=1), read=Typist(*lines),
    )  # fmt: skip
    assert conversation.run() == ExitCode.OK
    return chat


def test_a_conversation_remembers(sees: Model, capsys: pytest.CaptureFixture[str]) -> None:
    talk(sees, "What is this?", "/add a.png", "And this?", "Really?", "/reset", "What is this?", "/help", "/quit", "no")
    captured = capsys.readouterr()
    read = [int(line.split()[1]) for line in captured.err.splitlines() if "tokens read" in line]
    assert len(read) == 4
    assert read[0] < read[1] < read[2]
    assert read[3] == read[0]
    assert "1 image so far" in captured.err
    assert "/add FILE" in captured.out


def test_what_goes_wrong_is_told_and_it_goes_on(sees: Model, capsys: pytest.CaptureFixture[str]) -> None:
    chat = talk(
        sees, "/add none.png", "/add", "/nonsense", "/add b.pdf", "/add a.png", KeyboardInterrupt(), "Hi", max_images=2
    )
    captured = capsys.readouterr()
    for words in ("no such file", "/add FILE", "expected /add", "there are 2 images"):
        assert words in captured.err
    assert chat.pictures == 2
    assert captured.err.count("tokens read") == 1


def test_an_answer_cut_short_stays_in_the_conversation(sees: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Chat(sees, GenerationOptions(max_tokens=30))
    heard: list[Piece] = []

    def impatient(piece: Piece) -> None:
        heard.append(piece)
        if len(heard) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chat.ask("Hello", impatient)
    after = chat.ask("Go on")
    assert after.prompt_tokens > sees.generate("Hello", max_tokens=1).prompt_tokens + 8


def test_a_conversation_needs_a_terminal_and_gets_it(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("Hello\n/quit\n"))
    monkeypatch.setattr(command, "_let_terminate", lambda: None)
    assert run("chat", "a.png", "-m", str(models / "sees"), "--max-tokens", "3") == 0
    assert "1 image so far" in capsys.readouterr().err


def test_captions_of_a_folder(models: Path, sees: Model, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("caption", ".", "-m", str(models / "sees"), "--detail", "short", "--max-tokens", "4", "--json") == 0
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [(line["source"], line["page"]) for line in lines] == [("a.png", 1), ("b.pdf", 1), ("b.pdf", 2)]
    done = caption("a.png", sees, detail="short", max_tokens=4)
    assert [c.text for c in done] == [lines[0]["caption"]]
    assert caption(Path("a.png").read_bytes(), sees, detail="short", max_tokens=4)[0].text == done[0].text
    assert len(caption("b.pdf", sees, pages="2", max_tokens=1)) == 1


def test_captions_in_the_words_that_a_model_was_taught(sees: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answer = Model.answer
    monkeypatch.setattr(
        Model, "answer", lambda self, m, *more: (asked.append(m[0]["content"][1]["text"]), answer(self, m, *more))[1]
    )
    taught = replace(sees.family, prompt=replace(sees.family.prompt, captions=("a", "b", "c")))
    for family in (sees.family, taught):
        monkeypatch.setattr(sees, "family", family)
        caption("a.png", sees, detail="long", max_tokens=1)
    assert "detail" in asked[0]
    assert asked[1] == "c"


def test_a_caption_is_text(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("caption", "a.png", "-m", str(models / "sees"), "--max-tokens", "4", "-q") == 0
    alone = capsysbinary.readouterr().out
    assert run("caption", "a.png", "b.pdf", "-m", str(models / "sees"), "--max-tokens", "4", "-q") == 0
    lines = capsysbinary.readouterr().out
    assert lines.startswith(b"a.png: " + alone)
    assert b"b.pdf, page 2: " in lines


def test_one_bad_picture_among_others(models: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("c.png").write_bytes(b"no picture")
    words = ("-m", str(models / "sees"), "--max-tokens", "2", "--json")
    assert run("caption", "a.png", "c.png", "none.png", *words) == ExitCode.PARTIAL
    captured = capsysbinary.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert b"c.png" in captured.err
    assert b"none.png" in captured.err
    assert run("caption", "c.png", *words) == ExitCode.INPUT


def test_remarks() -> None:
    options = GenerationOptions(max_tokens=5)
    assert remarks(Generation("x", finish_reason="stop"), options) == []
    assert "--no-loop-guard" in remarks(Generation("x", finish_reason="loop"), options)[0]
    cut = Generation("x", finish_reason="length", usage=Usage(generated=5))
    assert "--max-tokens" in remarks(cut, options)[0]
    full = Generation("x", finish_reason="length", usage=Usage(generated=3))
    assert "context is full" in remarks(full, options)[0]


def test_blocks_of_markdown() -> None:
    assert complete_blocks("one\n\ntwo") == ("one\n\n", "two")
    assert complete_blocks("one\n") == ("", "one\n")
    assert complete_blocks("a\n\n```\nx\n\ny") == ("a\n\n", "```\nx\n\ny")
    assert complete_blocks("```\nx\n\ny\n```\n\nz") == ("```\nx\n\ny\n```\n\n", "z")


def shown(pieces: list[Piece], *, thinking: bool) -> tuple[str, list[str]]:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None)
    growing: list[str] = []
    view = MarkdownView(console, growing.append, thinking=thinking)
    for piece in pieces:
        view.add(piece)
    view.end()
    return console.file.getvalue(), growing  # type: ignore[attr-defined]


def test_a_terminal_shows_markdown_and_obeys_nothing() -> None:
    pieces = [Piece("# Ti"), Piece("tle\n\n* o"), Piece("ne\x1b]0;evil\x07\x1b[2J"), Piece(" more\u202e\n")]
    text, growing = shown(pieces, thinking=False)
    assert "Title" in text
    assert "• one" in text
    assert "\x1b]0" not in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert growing[:2] == ["# Ti", "* o"]


def test_thinking_is_shown_where_asked_for() -> None:
    pieces = [Piece("hm", thinking=True), Piece("yes")]
    assert "hm" not in shown(pieces, thinking=False)[0]
    assert shown(pieces, thinking=True)[0].index("hm") < shown(pieces, thinking=True)[0].index("yes")


def test_too_many_images_are_refused_before_they_are_decoded(sees: Model) -> None:
    conversation = command.Conversation(
        Chat(sees, GenerationOptions()), ChatOptions(max_images=1), PictureOptions(), ClipOptions(),
        SoundOptions(), GenerationOptions(), Reporter("none"),
    )  # fmt: skip
    with pytest.raises(LimitExceeded, match="--max-images"):
        conversation._add("b.pdf")
    with pytest.raises(UsageError):
        conversation._add("")
