"""`docai video`, and videos among the files of `docai chat`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

from PIL import Image

import docai
from docai.cli.chat import Conversation
from docai.cli.progress import Reporter
from docai.cli.video import files_and_question
from docai.errors import LimitExceeded, UsageError
from docai.tasks.chat import Chat
from docai.tasks.load import load
from docai.tasks.options import ChatOptions, ClipOptions, PictureOptions, SoundOptions, VideoOptions
from docai.tasks.video import contact_sheet, shown, video
from docai.vlm.clips import clip_of
from docai.vlm.request import GenerationOptions
from tests.clips import barred, counted, sound_only
from tests.commands import run
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_qwen2_vl(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.mkv").write_bytes(counted(30))
    (tmp_path / "b.mp4").write_bytes(counted(50, container="mp4"))
    (tmp_path / "song.mka").write_bytes(sound_only())
    (tmp_path / "broken.mp4").write_bytes(b"no video at all")
    Image.fromarray(barred(5)).save(tmp_path / "c.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_question_about_videos(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("video", "a.mkv", "c.png", "b.mp4", "What happens?", "-m", model, "--max-tokens", "4", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    first, second = said["videos"]
    assert (first["source"], first["seconds"], len(first["frames"])) == ("a.mkv", 3.0, 6)
    assert [frame["time"] for frame in second["frames"]] == [0.0, 0.5, 1.1, 1.6, 2.2, 2.7, 3.3, 3.8, 4.4, 4.9]
    assert said["usage"]["generated"] == 4
    assert run("video", "a.mkv", "What happens?", "-m", model, "--max-tokens", "4") == 0
    assert capsys.readouterr().out.endswith("\n")


def test_rate_cap_and_sheet_are_options(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("video", "b.mp4", "-p", "What?", "-m", model, "--max-tokens", "2", "--json", "--contact-sheet", "s.png")
    assert run(*words, "--fps", "5", "--max-frames", "5") == 0
    (clip,) = json.loads(capsys.readouterr().out)["videos"]
    assert len(clip["frames"]) == 5
    with Image.open("s.png") as sheet:
        assert sheet.format == "PNG"
        wide = sheet.width
    assert run(*words, "--video-fps", "1", "--video-max-frames", "9", "--video-sampling", "scenes") == 0
    with Image.open("s.png") as sheet:
        assert sheet.width == wide


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("a.mkv",), 2, "expected a question behind the files; a.mkv is one"),
        ((), 2, "expected a video and a question"),
        (("What?",), 2, "expected a video and a question"),
        (("c.png", "What?"), 2, "expected a video; docai chat asks about images"),
        (("missing.mp4", "What?"), 4, "missing.mp4: no such file"),
        (("broken.mp4", "What?"), 4, "broken.mp4: not a valid video"),
        (("song.mka", "What?"), 4, "song.mka: the file has no video: it is audio only"),
        (("a.mkv", " "), 2, "expected a question; got nothing"),
        (("a.mkv", "What?", "--max-frames", "1"), 2, "video_max_frames: expected 2 or more; got 1"),
        (("a.mkv", "What?", "--max-video-seconds", "1"), 7, "3 seconds exceed the limit of 1"),
        (("a.mkv", "What?", "--max-pixels", "100"), 7, "frames of 64 x 48 pixels exceed the limit"),
        (("a.mkv", "What?", "--max-decoded-frames", "9"), 7, "more than 9 frames"),
        (("a.mkv", "What?", "--max-bytes", "9"), 7, "exceed the limit of 9"),
        (("a.mkv", "What?", "--contact-sheet", "no/such/s.png"), 0, ""),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: tuple[str, ...], code: int, said: str, model: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("video", *words, "-m", model, "-q", "--max-tokens", "1") == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") <= 1


def test_a_model_that_does_not_see_refuses(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blind = str(tiny_llama(tmp_path / "llama"))
    assert run("video", "a.mkv", "What?", "-m", blind) == 2
    assert f"a.mkv: model {blind} takes no video: it has no vision tower" in capsys.readouterr().err


def test_videos_are_among_the_files_of_chat(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "a.mkv", "c.png", "-m", model, "-p", "What?", "--max-tokens", "2", "--max-images", "1") == 0
    capsys.readouterr()
    assert run("chat", "c.png", "c.png", "a.mkv", "-m", model, "-p", "x", "--max-images", "0") == 2


def test_videos_are_added_to_a_conversation(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = iter(["/add a.mkv", "What?", "And then?", "/add song.mka", "/quit"])
    chat, options = Chat(load(model), GenerationOptions(max_tokens=2)), GenerationOptions(max_tokens=2)
    conversation = Conversation(
        chat,
        ChatOptions(),
        PictureOptions(),
        ClipOptions(),
        SoundOptions(),
        options,
        Reporter("none"),
        read=lambda _: next(lines),
    )
    assert conversation.run() == 0
    assert chat.pictures == 1
    err = capsys.readouterr().err
    assert "1 image so far" in err
    assert "song.mka: the file has no video: it is audio only" in err


def test_a_gif_is_a_video_here(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = (Image.fromarray(barred(n)) for n in range(8))
    first.save("a.gif", save_all=True, append_images=others, duration=100, loop=0)
    assert run("video", "a.gif", "What?", "-m", model, "--max-tokens", "1", "--json", "--fps", "5") == 0
    assert len(json.loads(capsys.readouterr().out)["videos"][0]["frames"]) == 4
    assert run("chat", "a.gif", "-p", "What?", "-m", model, "--max-tokens", "1", "--json") == 0
    assert "videos" not in json.loads(capsys.readouterr().out)


def test_a_caption_of_each_picture_of_a_video(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("caption", "a.mkv", "-m", model, "--pages", "1", "--max-tokens", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["page"] == 1


# --- Python


def test_python_asks_the_same(model: str, folder: Path) -> None:
    loaded = load(model)
    answer = docai.video(["a.mkv", (folder / "b.mp4").read_bytes()], "What?", loaded, max_frames=4, max_tokens=3)
    assert [(one.source, len(one.times)) for one in answer.videos] == [("a.mkv", 4), ("video", 4)]
    assert answer.text == answer.generation.text
    assert video("a.mkv", "What?", model, fps=1, max_tokens=1).videos[0].times[-1] == pytest.approx(2.9)
    with pytest.raises(UsageError):
        docai.video("a.mkv", "What?", loaded, fps=0)


def test_the_budget_counts_frames_that_are_pictures(model: str, folder: Path) -> None:
    loaded = load(model)
    loaded.family, loaded.senses.clips = stills(loaded), None
    with pytest.raises(LimitExceeded, match=r"6 frames of a.mkv and 0 images are more than the 5 images allowed"):
        docai.video("a.mkv", "What?", loaded, max_images=5)
    clip = clip_of("a.mkv")
    assert len(shown(loaded, [clip])[0].times) == 6
    with Image.open(io.BytesIO(contact_sheet(loaded, [clip]))) as sheet:
        assert greys(sheet) > 2


def stills(model: object) -> object:
    from dataclasses import replace

    return replace(model.family, videos=None)  # type: ignore[attr-defined]


def greys(sheet: Image.Image) -> int:
    return len(sheet.convert("L").getcolors() or [])


def test_the_question_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("What?"))
    assert files_and_question(["a.mkv", "b.mkv"], VideoOptions(prompt="-")) == (["a.mkv", "b.mkv"], "What?")
    with pytest.raises(UsageError, match="both a video and the question"):
        files_and_question(["-"], VideoOptions(prompt="-"))


def test_options_are_those_of_documents() -> None:
    from docai.tasks.options import InputOptions

    for name in ("video_fps", "max_bytes", "max_pixels", "page_seconds", "max_video_seconds", "max_decoded_frames"):
        assert getattr(ClipOptions(), name) == getattr(InputOptions(), name)
    with pytest.raises(UsageError, match="video_sampling"):
        ClipOptions(video_sampling="some")  # type: ignore[arg-type]
