"""Models that hear: `docai chat --audio`, conversations, Python and the server, over tiny checkpoints of Gemma 4."""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import numpy as np
from PIL import Image

from docai import load, video
from docai.cli import chat as command
from docai.cli.progress import Reporter
from docai.errors import InputError, LimitExceeded, UsageError
from docai.tasks.chat import Chat
from docai.tasks.options import ChatOptions, ClipOptions, PictureOptions, SoundOptions
from docai.vlm.clips import clip_of
from docai.vlm.model import Model
from docai.vlm.request import GenerationOptions
from docai.vlm.sounds import sound_of
from tests.clips import counted
from tests.commands import run
from tests.serving import Served, served
from tests.sounds import encoded, tone, wav
from tests.tiny_checkpoint import tiny_qwen2_vl
from tests.tiny_gemma4 import tiny_gemma4

SAID = tone(0.5)  # 49 frames, 13 tokens; 13 raw frames of the tiny Unified take another tone
OTHER = tone(0.5, hertz=900.0)
COMBINED = "Combined video and audio inputs are not supported"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints, and files to be heard and seen."""
    folder = tmp_path_factory.mktemp("audio")
    tiny_gemma4(folder / "hears")
    tiny_gemma4(folder / "plain", template=None)
    tiny_gemma4(folder / "deaf", deaf=True)
    tiny_gemma4(folder / "unified", unified=True)
    tiny_qwen2_vl(folder / "sees")
    files = {
        "a.wav": wav(SAID), "b.wav": wav(OTHER), "a.flac": encoded(SAID, 16_000, "flac", "flac"),
        "long.wav": wav(tone(31.0)), "short.wav": wav(SAID[:100]), "empty.wav": b"", "noise.mp3": b"no sound" * 99,
        "clip.mkv": counted(4), "loud.mkv": encoded(SAID, 16_000, "matroska", "pcm_s16le", video=5),
        "tick.wav": wav(tone(0.02)),
    }  # fmt: skip
    for name, data in files.items():
        (folder / name).write_bytes(data)
    Image.fromarray(np.random.RandomState(1).randint(0, 256, (20, 31, 3)).astype(np.uint8)).save(folder / "c.png")
    return folder


@pytest.fixture(scope="module")
def hears(folder: Path) -> Model:
    return load(str(folder / "hears"))


@pytest.fixture(scope="module")
def unified(folder: Path) -> Model:
    return load(str(folder / "unified"))


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return folder


# --- the command line


def test_chat_hears_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for name in ("a.wav", "a.flac", "loud.mkv"):
        assert run("chat", "--audio", name, "-m", "hears", "-p", "w5 w6", "--json", "--max-tokens", "3") == 0
        said[name] = json.loads(capsys.readouterr().out)
    assert said["a.wav"]["usage"]["audio"] == 13
    assert said["a.wav"]["usage"]["images"] == 0
    assert said["a.wav"]["text"] == said["a.flac"]["text"]
    assert said["loud.mkv"]["usage"]["audio"] == 13
    assert run("chat", "c.png", "--audio", "a.wav", "-m", "hears", "-p", "w5", "--json", "--max-tokens", "3") == 0
    beside = json.loads(capsys.readouterr().out)["usage"]
    assert (beside["audio"], beside["images"] > 0) == (13, True)


def test_a_sound_may_come_through_a_pipe(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO((here / "a.wav").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("chat", "--audio", "-", "-m", "hears", "-p", "w5", "--json", "--max-tokens", "2") == 0
    assert json.loads(capsys.readouterr().out)["usage"]["audio"] == 13
    assert run("chat", "--audio", "-", "-m", "hears") == 2
    assert "standard input cannot be both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--audio", "a.wav", "--audio", "b.wav", "-m", "hears"), 2, "audio: expected one audio clip; got 2"),
        (("--audio", "*.wav", "-m", "hears"), 2, "*.wav: expected one audio clip; got"),
        (("--audio", "none.wav", "-m", "hears"), 4, "none.wav: no such file"),
        (("--audio", "empty.wav", "-m", "hears"), 4, "empty.wav: empty file (0 bytes)"),
        (("--audio", "noise.mp3", "-m", "hears"), 4, "noise.mp3: not valid audio: corrupt, truncated or of an unknown"),
        (("--audio", "clip.mkv", "-m", "hears"), 4, "clip.mkv: the file has no audio track: it is a video without"),
        (("--audio", "short.wav", "-m", "hears"), 4, "short.wav: the audio is too short: 6.2 ms; the model hears 10.1"),
        (("--audio", "long.wav", "-m", "hears"), 7, "long.wav: 31.0 seconds of audio are more than the 30 that the"),
        (("--audio", "a.wav", "--max-audio-seconds", "0.2", "-m", "hears"), 7, "audio too long: 0.5 seconds exceed"),
        (("--audio", "a.wav", "--max-bytes", "9", "-m", "hears"), 7, "a.wav: 16044 bytes exceed the limit of 9"),
        (("--audio", "a.wav", "-m", "sees"), 2, "a.wav: model sees takes no audio: models of its family hear nothing"),
        (("--audio", "a.wav", "-m", "deaf"), 2, "a.wav: model deaf takes no audio: this checkpoint has no weights"),
        (("clip.mkv", "--audio", "a.wav", "-m", "hears"), 2, COMBINED),
        (("clip.mkv", "--audio", "a.wav", "-m", "sees"), 2, COMBINED),
        (("clip.mkv", "--audio", "a.wav", "-m", "deaf"), 2, COMBINED),
    ],
)
def test_what_cannot_be_heard_is_told_in_a_line(
    words: tuple[str, ...], code: int, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("chat", *words, "-p", "w5") == code
    told = capsys.readouterr().err.splitlines()
    assert len([line for line in told if "error" in line]) == 1
    assert message in told[-1]
    if message is COMBINED:
        assert told[-1] == f"docai: error: {COMBINED}"


def test_unified_hears_beside_a_video(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-m", "unified", "-p", "w5", "--json", "--max-tokens", "2", "--max-frames", "2")
    assert run("chat", "loud.mkv", "--audio", "tick.wav", *words) == 0
    both = json.loads(capsys.readouterr().out)["usage"]
    assert (both["audio"], both["images"] > 0) == (16, True)  # 320 samples, 20 a frame


def test_docai_video_takes_a_sound(here: Path, unified: Model, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--audio", "tick.wav", "--json", "--max-tokens", "2", "--max-frames", "2")
    assert run("video", "clip.mkv", "w5", "-m", "unified", *words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["usage"]["audio"], len(said["videos"])) == (16, 1)
    assert run("video", "clip.mkv", "w5", "-m", "hears", *words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"docai: error: {COMBINED}"
    answer = video("clip.mkv", "w5", unified, max_frames=2, max_tokens=2, audio="tick.wav")
    assert (answer.generation.usage.audio, answer.text) == (16, said["text"])


class Typist:
    """Types these lines."""

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)

    def __call__(self, _: str) -> str:
        return next(self._lines)


def talk(model: Model, *lines: str) -> Chat:
    """A conversation on a terminal."""
    chat, options = Chat(model, GenerationOptions(max_tokens=2)), GenerationOptions(max_tokens=2)
    conversation = command.Conversation(
        chat, ChatOptions(), PictureOptions(), ClipOptions(), SoundOptions(), options, Reporter("none", verbose=1),
        read=Typist(*lines, "/quit"),
    )  # fmt: skip
    assert conversation.run() == 0
    return chat


def test_a_conversation_hears_one_sound(hears: Model, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (
        "/audio long.wav",
        "/audio a.wav",
        "w5",
        "w6",
        "/audio b.wav",
        "/add clip.mkv",
        "/audio",
        "/reset",
        "/audio 'b.wav'",
        "w5",
    )
    chat = talk(hears, *lines)
    assert chat.pictures == 0
    err = capsys.readouterr().err
    assert "a.wav will be heard with the next question" in err
    assert "expected one audio clip in a request; got 2" in err
    assert "long.wav: 31.0 seconds of audio are more than the 30 that the model hears at once" in err
    assert COMBINED in err
    assert "expected a sound: /audio FILE" in err
    assert "b.wav will be heard with the next question" in err
    assert len([line for line in err.splitlines() if "tokens read" in line]) == 3


def test_a_model_that_hears_nothing_says_so_at_once(
    folder: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(load(str(folder / "sees")), "/audio a.wav", "w5")
    err = capsys.readouterr().err
    assert "takes no audio" in err
    assert len([line for line in err.splitlines() if "tokens read" in line]) == 1  # the conversation goes on


# --- Python


def test_a_sound_is_a_file_its_bytes_or_samples(hears: Model, here: Path) -> None:
    answers = [
        hears.generate("w5 w6", audio=given, max_tokens=6)
        for given in ("a.wav", here / "a.wav", (here / "a.wav").read_bytes(), (SAID, 16_000), sound_of("a.wav"))
    ]
    assert len({answer.tokens for answer in answers}) == 1
    assert {answer.usage.audio for answer in answers} == {13}
    both = np.stack([SAID, SAID], axis=1)
    assert hears.generate("w5 w6", audio=(both, 16_000), max_tokens=6).tokens == answers[0].tokens


def test_a_conversation_has_a_place_for_its_sound(hears: Model, here: Path) -> None:
    picture, words = {"type": "image"}, {"type": "text", "text": "w5"}
    first = [{"role": "user", "content": [{"type": "audio"}, picture, words]}]
    behind = [{"role": "user", "content": [picture, {"type": "input_audio"}, words]}]
    options: dict[str, Any] = {"max_tokens": 5, "logprobs": 0}
    one = hears.generate(first, ["c.png"], audio="a.wav", **options)
    other = hears.generate(behind, ["c.png"], audio="a.wav", **options)
    assert one.usage.audio == other.usage.audio == 13
    assert one.usage.images == other.usage.images > 0
    assert one.logprobs != other.logprobs
    asked = hears.generate("w5", ["c.png"], audio="a.wav", **options)
    assert asked.logprobs == other.logprobs  # the sound stands behind the pictures
    with pytest.raises(UsageError, match="no part of them is of type audio"):
        hears.generate([{"role": "user", "content": [words]}], audio="a.wav")
    with pytest.raises(UsageError, match="a part is of type image, but what came for it is a sound"):
        hears.generate([{"role": "user", "content": [picture, words]}], [sound_of("a.wav")])
    with pytest.raises(UsageError, match="a part is of type audio, but what came for it is an image"):
        hears.generate(first, ["c.png", sound_of("a.wav")])
    with pytest.raises(UsageError, match="1 times, but 0 sounds came"):
        hears.generate(behind, ["c.png"])


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ((np.zeros((2, 3, 4), np.float32), 16_000), UsageError, r"audio: expected samples .* got \(2, 3, 4\)"),
        ((np.zeros(9, np.int16), 16_000), UsageError, "of int16"),
        ((SAID, 0), UsageError, "0 a second"),
        ((SAID, 10**9), UsageError, "1000 to 768000; got .*1000000000 a second"),
        ((SAID, 16_000.5), UsageError, r"16000\.5 a second"),
        ((np.full(900, np.nan, np.float32), 16_000), UsageError, "that are no numbers"),
        ((tone(31.0), 16_000), LimitExceeded, "31.0 seconds of audio are more than the 30"),
        ("none.wav", InputError, "none.wav: cannot be read: No such file"),
    ],
)
def test_samples_have_a_form(hears: Model, here: Path, given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        hears.generate("w5", audio=given, max_tokens=1)


def test_what_an_encoder_adds_is_cut_off(hears: Model) -> None:
    padded = np.concatenate([tone(30.0), np.zeros(3_000, np.float32)])
    assert hears.generate("w5", audio=(padded, 16_000), max_tokens=1).usage.audio == 750


def test_a_prompt_that_is_too_long_names_the_sound(unified: Model) -> None:
    with pytest.raises(LimitExceeded, match=r"1200 of them for audio.* ask with shorter audio"):
        unified.generate("w5", audio=(tone(1.5), 16_000), max_tokens=1)


def test_without_a_template_the_family_s_own_is_used(folder: Path, here: Path) -> None:
    answer = load(str(folder / "plain")).generate("w5", audio="a.wav", max_tokens=2)
    assert answer.usage.audio == 13


def test_a_sound_is_encoded_once_and_its_prompt_read_once(folder: Path, here: Path) -> None:
    model = load(str(folder / "hears"))
    options: dict[str, Any] = {"max_tokens": 6, "logprobs": 0}
    first = model.generate("w5 w6", audio="a.wav", **options)
    again = model.generate("w5 w6", audio="a.wav", **options)
    other = model.generate("w5 w6", audio="b.wav", **options)
    assert (first.usage.cached_images, again.usage.cached_images, other.usage.cached_images) == (0, 1, 0)
    assert (first.usage.reused, again.usage.reused == again.usage.prompt) == (0, True)
    assert other.usage.reused < 13  # the sound itself is another one
    assert again.logprobs == first.logprobs != other.logprobs
    fresh = load(str(folder / "hears"), prefix_cache=0, feature_cache=0)
    assert fresh.generate("w5 w6", audio="b.wav", **options).logprobs == other.logprobs


@pytest.mark.parametrize("name", ["hears", "unified"])
def test_many_at_once_are_as_one_by_one(folder: Path, here: Path, name: str) -> None:
    model = load(str(folder / name), prefix_cache=0, feature_cache=0)
    asked: list[tuple[str, list[Any]]] = [
        ("w5 w6", [sound_of("tick.wav")]),
        ("w7", ["c.png"]),
        ("w5", ["c.png", sound_of((SAID[2000:2500], 16_000))]),
        ("w8 w9 w10", []),
    ]
    single = [model.generate(prompt, media, max_tokens=6) for prompt, media in asked]
    together = list(model.generate_many(asked, max_tokens=6))
    assert [one.tokens for one in single] == [one.tokens for one in together]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["hears", "unified"])
def test_reading_in_parts_changes_nothing(folder: Path, here: Path, name: str) -> None:
    model = load(str(folder / name), prefix_cache=0)
    whole = model.generate("w5 w6", audio=(SAID[:1000], 16_000), max_tokens=5)
    parts = model.generate("w5 w6", audio=(SAID[:1000], 16_000), max_tokens=5, prefill_step=16)
    assert whole.tokens == parts.tokens


def test_video_and_sound_together(hears: Model, unified: Model, here: Path) -> None:
    clip = clip_of("clip.mkv", most=2)
    answer = unified.generate("w5", [clip], audio="tick.wav", max_tokens=2)
    assert (answer.usage.audio, answer.usage.images > 0) == (16, True)
    for model in (hears, load(str(here / "sees"))):
        with pytest.raises(UsageError) as told:
            model.generate("w5", [clip_of("clip.mkv", most=2)], audio="tick.wav")
        assert str(told.value) == COMBINED


# --- the server


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    models = [str(folder / name) for name in ("hears", "sees", "unified")]
    with served(folder / "state", model=models, max_models=3, max_audio_seconds=40.0, max_bytes=2 << 20) as running:
        yield running


def body(model: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    content = [*parts, {"type": "text", "text": "w5 w6"}]
    return {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 3, **more}


def heard(data: bytes, kind: str = "wav") -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": kind}}


def seen(data: bytes, kind: str = "image_url") -> dict[str, Any]:
    return {"type": kind, kind: {"url": "data:;base64," + base64.b64encode(data).decode()}}


def test_the_server_hears(server: Served, folder: Path) -> None:
    answer = server.json("POST", "/v1/chat/completions", body("hears", heard(wav(SAID))))
    assert answer["usage"]["prompt_tokens_details"]["audio_tokens"] == 13
    expected = load(str(folder / "hears")).generate("w5 w6", audio=(folder / "a.wav").read_bytes(), max_tokens=3)
    assert answer["choices"][0]["message"]["content"] == expected.text
    flac = body("hears", heard((folder / "a.flac").read_bytes(), "mp3"))  # its content counts, not what it is called
    assert server.json("POST", "/v1/chat/completions", flac)["choices"] == answer["choices"]
    named = body("hears", seen(wav(SAID), "audio_url"))
    assert server.json("POST", "/v1/chat/completions", named)["choices"] == answer["choices"]
    uri = {"type": "input_audio", "input_audio": {"data": seen(wav(SAID), "x")["x"]["url"], "format": "wav"}}
    assert server.json("POST", "/v1/chat/completions", body("hears", uri))["choices"] == answer["choices"]
    both = server.json(
        "POST", "/v1/chat/completions", body("hears", seen((folder / "c.png").read_bytes()), heard(wav(SAID)))
    )
    details = both["usage"]["prompt_tokens_details"]
    assert (details["audio_tokens"], details["image_tokens"] > 0) == (13, True)


def test_streams_and_responses_hear(server: Served) -> None:
    whole = server.json("POST", "/v1/chat/completions", body("hears", heard(wav(SAID))))
    _, data = server.ask("POST", "/v1/chat/completions", body("hears", heard(wav(SAID)), stream=True))
    events = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: {")]
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    content = [heard(wav(SAID)), {"type": "input_text", "text": "w5 w6"}]
    asked = {"model": "hears", "input": [{"role": "user", "content": content}], "max_output_tokens": 3}
    answer = server.json("POST", "/v1/responses", asked)
    assert answer["output"][-1]["content"][0]["text"] == text


@pytest.mark.parametrize(
    ("model", "parts", "status", "message"),
    [
        ("hears", (heard(wav(SAID)), heard(wav(OTHER))), 400, "messages.0.content.1: expected one audio clip in a req"),
        ("sees", (heard(wav(SAID)),), 400, "messages.0.content.0: model sees takes no audio: models of its family"),
        ("sees", (seen(counted(4), "video_url"), heard(wav(SAID))), 400, COMBINED),
        ("hears", (heard(wav(SAID)), seen(counted(4), "video_url")), 400, COMBINED),
        ("hears", ({"type": "input_audio", "input_audio": {}},), 400, 'expected audio as {"input_audio": {"data": ...'),
        ("hears", ({"type": "input_audio"},), 400, "expected audio as"),
        ("hears", ({"type": "input_audio", "input_audio": {"data": "%%%"}},), 400, "no base64"),
        ("hears", ({"type": "input_audio", "input_audio": {"data": ""}},), 400, "is empty"),
        ("hears", (heard(b"no sound" * 9),), 422, "messages.0.content.0: not valid audio"),
        ("hears", (heard(counted(3)),), 422, "messages.0.content.0: the file has no audio track"),
        ("hears", (heard(wav(SAID[:10])),), 422, "messages.0.content.0: the audio is too short"),
        ("hears", (heard(wav(tone(32.0))),), 413, "messages.0.content.0: 32.0 seconds of audio are more than the 30"),
        ("unified", (heard(wav(tone(41.0))),), 413, "audio too long: 41.0 seconds exceed the limit of 40"),
        ("unified", (heard(bytes(3 << 20)),), 413, "larger than the 2097152 bytes allowed"),
        ("unified", (heard(wav(tone(1.5))),), 400, "of them for audio"),
    ],
)
def test_what_the_server_does_not_hear(
    server: Served, model: str, parts: tuple[dict[str, Any], ...], status: int, message: str
) -> None:
    answer = server.json("POST", "/v1/chat/completions", body(model, *parts), status)
    assert message in answer["error"]["message"]
    if message is COMBINED:
        assert answer["error"]["message"] == COMBINED


def test_the_server_takes_video_and_sound_for_unified(server: Served) -> None:
    parts = (seen(counted(3), "video_url"), heard(wav(tone(0.02))))
    details = server.json("POST", "/v1/chat/completions", body("unified", *parts))["usage"]["prompt_tokens_details"]
    assert (details["audio_tokens"], details["image_tokens"] > 0) == (16, True)


def test_the_server_says_who_hears(server: Served) -> None:
    server.json("POST", "/v1/chat/completions", body("hears"))
    props = server.json("GET", "/props")
    assert props["model"] == "hears"
    assert props["modalities"]["audio"] is True
    assert props["limits"]["max_audio_seconds"] == 40
    server.json("POST", "/v1/chat/completions", body("sees"))
    found = {one["id"]: one for one in server.json("GET", "/v1/models")["data"]}
    assert (found["hears"]["audio"], found["sees"]["audio"]) == (True, False)
