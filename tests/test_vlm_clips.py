"""Videos in requests: as such for families that see them, as pictures for others, and what is refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

from docai.errors import InputError, LimitExceeded, UsageError
from docai.render.clip import Video
from docai.vlm.clips import Clip, clip_of, medium_of, question_of, refusal, sentence, settle
from docai.vlm.families import FAMILIES, Family, family_of
from docai.vlm.model import Model, open_model
from docai.vlm.pictures import Picture, picture_of
from docai.vlm.request import GenerationOptions
from tests.clips import barred, counted, number_of
from tests.tiny_checkpoint import tiny_falcon, tiny_llama, tiny_qwen2_vl, tiny_qwen3_5, tiny_qwen3_vl
from tests.tiny_documents import tiny_got
from tests.tiny_encdec import tiny_florence2, tiny_nemotron

PICTURE = barred(9)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_model(str(tiny_qwen2_vl(tmp_path_factory.mktemp("model") / "native")))


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The same model, as if its family saw no videos."""
    model = open_model(str(tiny_qwen2_vl(tmp_path_factory.mktemp("model") / "still")))
    model.family, model.senses.clips = replace(model.family, videos=None), None
    model.name = "still"
    return model


@pytest.fixture(scope="module")
def data() -> bytes:
    return counted(50)


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The frames that are decoded while it is used."""
    seen: list[int] = []
    plain = Video.frame

    def frame(self: Video, number: int, *more: Any, **named: Any) -> Any:
        seen.append(number)
        return plain(self, number, *more, **named)

    monkeypatch.setattr(Video, "frame", frame)
    return seen


def kinds(message: Any) -> list[str]:
    return [part.get("text") or part["type"] for part in message["content"]]


def settled(family: Family, media: list[Any], *parts: str, most: int | None = None, sees: bool = True) -> Any:
    content = [
        {"type": part} if part in ("image", "video", "video_url") else {"type": "text", "text": part} for part in parts
    ]
    taken = [medium_of(medium) for medium in media]
    return settle([{"role": "user", "content": content}], taken, model="m", family=family, sees=sees, most_images=most)


QWEN, GEMMA = family_of({"model_type": "qwen2_vl"}), family_of({"model_type": "gemma3"})


# --- one place decides


def test_a_family_that_sees_videos_gets_them_as_they_are(data: bytes, undecoded: list[int]) -> None:
    clip = clip_of(data)
    made = settled(QWEN, [PICTURE, clip], "image", "video", "What?")
    assert kinds(made.messages[0]) == ["image", "video", "What?"]
    assert made.media[1] is clip
    assert undecoded == []


def test_others_get_frames_in_order(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    clips = [clip_of(data, most=3, name="a.mkv"), clip_of(data, most=2, name="b.mkv")]
    with caplog.at_level(logging.WARNING):
        made = settled(GEMMA, [clips[0], PICTURE, clips[1]], "Before.", "video", "image", "video_url", "What?")
    assert kinds(made.messages[0]) == [
        "image", sentence(3), "image", "image", "image", sentence(2), "image", "image", "Before.", "What?",
    ]  # fmt: skip
    assert sentence(3) == "Here is a video as a sequence of 3 frames in chronological order."
    assert [number_of(picture.load()) for picture in made.media] == [9, 0, 24, 49, 0, 49]
    assert caplog.messages == [
        "model m has no native video path; sending 3 of 10 sampled frames from a.mkv as ordered images",
        "model m has no native video path; sending 2 of 10 sampled frames from b.mkv as ordered images",
    ]


def test_the_default_is_sixteen_frames_two_a_second(data: bytes) -> None:
    assert clip_of(counted(200)).plan() == (16, 40)
    assert clip_of(data).plan() == (10, 10)
    assert clip_of(data, fps=0.1).plan() == (2, 2)
    assert clip_of(counted(1)).plan() == (1, 1)


def test_other_turns_stay_as_they_are(data: bytes) -> None:
    clip, picture = clip_of(data, most=2), picture_of(PICTURE)
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image"}]},
        {"role": "assistant", "content": "Yes."},
        question_of(0, "And this?", 1),
    ]
    made = settle(turns, [picture, clip], model="m", family=GEMMA, sees=True)
    assert made.messages[:3] == turns[:3]
    assert kinds(made.messages[3]) == [sentence(2), "image", "image", "And this?"]
    assert made.media[0] is picture


def test_media_and_messages_have_to_agree(data: bytes) -> None:
    clip = clip_of(data, most=2)
    with pytest.raises(UsageError, match="type image, but what came for it is a video"):
        settled(GEMMA, [clip, PICTURE], "image", "video")
    with pytest.raises(UsageError, match="type video, but none came for it"):
        settled(GEMMA, [clip], "video", "video")
    with pytest.raises(UsageError, match="fewer places"):
        settled(GEMMA, [clip, PICTURE], "video")


# --- budgets and refusals, before anything is decoded


def test_frames_count_as_images(data: bytes, undecoded: list[int]) -> None:
    clips = [clip_of(data, most=4, name="a.mkv"), clip_of(data, most=3, name="b.mkv")]
    message = "7 frames of a.mkv, b.mkv and 1 image are more than the 7 images allowed.*--video-max.*--max-images"
    with pytest.raises(LimitExceeded, match=message):
        settled(GEMMA, [*clips, PICTURE], "video", "video", "image", most=7)
    assert undecoded == []
    assert len(settled(GEMMA, [*clips, PICTURE], "video", "video", "image", most=8).media) == 8
    assert len(settled(QWEN, [*clips, PICTURE], "video", "video", "image", most=1).media) == 3
    with pytest.raises(LimitExceeded, match="2 images are more than the 1 allowed"):
        settled(QWEN, [clips[0], PICTURE, PICTURE], "video", "image", "image", most=1)


@pytest.mark.parametrize(
    ("kind", "sees", "why"),
    [
        ("llama", False, "it has no vision tower"),
        ("qwen2_vl", False, "it has no vision tower"),
        ("falcon_ocr", True, "it reads one picture at a time"),
        ("florence2", True, "it looks at one image at a time"),
        ("nemotron_parse", True, "it looks at one image at a time"),
        ("got_ocr2", True, "it reads one picture at a time"),
    ],
)
def test_families_that_take_no_video_say_so_in_one_line(
    kind: str, sees: bool, why: str, data: bytes, undecoded: list[int]
) -> None:
    family = family_of({"model_type": kind})
    assert refusal(family, sees=sees) == why
    with pytest.raises(UsageError, match=f"^a.mkv: model m takes no video: {why}$"):
        settled(family, [clip_of(data, name="a.mkv")], "video", "x", sees=sees)
    assert undecoded == []


def test_models_refuse_what_their_family_refuses(tmp_path: Path, data: bytes) -> None:
    clip = clip_of(data, name="a.mkv")
    makers = {
        tiny_llama: "no vision tower",
        tiny_falcon: "one picture at a time",
        tiny_florence2: "one image at a time",
        tiny_nemotron: "one image at a time",
        tiny_got: "one picture at a time",
    }
    for make, why in makers.items():
        model = open_model(str(make(tmp_path / make.__name__)))
        with pytest.raises(UsageError, match=f"^a.mkv: model .* takes no video: .*{why}$"):
            model.generate("What?", [clip])


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_that_sees_videos_says_how_they_are_written(kind: str) -> None:
    family = family_of({"model_type": kind.partition("+")[0]})
    assert (family.videos is None) == (family.prompt.clips is None)
    assert not (family.videos and refusal(family, sees=True))


def test_numbers_of_frames_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="video_max_frames: expected 2 or more; got 1"):
        clip_of(data, most=1)
    with pytest.raises(UsageError, match="video_fps: expected more than 0; got 0"):
        clip_of(data, fps=0)


def test_files_are_told_by_what_they_are(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "clip.dat"
    path.write_bytes(data)
    assert isinstance(medium_of(path), Clip)
    assert isinstance(medium_of(data), Clip)
    assert isinstance(medium_of(PICTURE), Picture)
    with pytest.raises(InputError):
        medium_of(tmp_path / "missing.png")


# --- answers


def test_a_clip_takes_its_tokens_and_its_turn(native: Model, data: bytes) -> None:
    clip = clip_of(data, fps=1)
    answer = native.generate("What?", [clip, PICTURE], max_tokens=3)
    assert native.sample(clip).times == pytest.approx((0.0, 1.2, 2.4, 3.7, 4.9), abs=0.11)
    request = native.request([question_of(1, "What?", 1)], [PICTURE, clip], GenerationOptions())
    still, moving = (image.input for image in request.images)
    assert moving.grid is not None
    assert (still.is_clip, moving.is_clip, moving.grid[0]) == (False, True, 3)
    assert answer.usage.images == still.tokens + moving.tokens
    ids = list(request.ids)
    pads = [native.tokenizer.token_id(f"<|{kind}_pad|>") for kind in ("image", "video")]
    assert [ids.count(pad) for pad in pads] == [still.tokens, moving.tokens]
    assert ids.index(pads[0]) < ids.index(pads[1])


@pytest.mark.parametrize("tiny", [tiny_qwen3_vl, tiny_qwen3_5])
def test_times_are_written_where_the_family_reads_them(
    tiny: Callable[[Path], Path], tmp_path: Path, data: bytes
) -> None:
    model = open_model(str(tiny(tmp_path / "three")))
    clip = clip_of(data, fps=1)
    request = model.request([question_of(1, "What?", 1)], [PICTURE, clip], GenerationOptions())
    text = model.tokenizer.decode(request.ids, skip_special=False)
    assert re.findall(r"<(\d+\.\d) seconds><\|vision_start\|>", text) == ["0.6", "3.0", "4.9"]
    assert model.generate("What?", [clip, PICTURE], max_tokens=3).usage.prompt == len(request.ids)


def test_the_same_frames_are_a_hit(native: Model, data: bytes, undecoded: list[int]) -> None:
    native.clear()
    first = native.generate("What?", [clip_of(data, name="a")], max_tokens=3)
    again = native.generate("What?", [clip_of(bytes(data), name="b")], max_tokens=3)
    assert (first.usage.cached_images, again.usage.cached_images) == (0, 1)
    assert again.tokens == first.tokens
    assert again.usage.reused == again.usage.prompt
    other = native.generate("What?", [clip_of(data, most=4)], max_tokens=3)
    assert other.usage.cached_images == 0
    clip = clip_of(data)
    native.generate("What?", [clip], max_tokens=3)
    undecoded.clear()
    native.generate("And now?", [clip], max_tokens=3)
    assert undecoded == []  # what it shows is known


def test_the_same_frames_are_a_hit_as_pictures_too(still: Model, data: bytes) -> None:
    still.clear()
    first = still.generate("What?", [clip_of(data, most=5)], max_tokens=3)
    again = still.generate("What?", [clip_of(data, most=5)], max_tokens=3)
    assert (first.usage.cached_images, again.usage.cached_images) == (0, 5)
    assert again.usage.reused == again.usage.prompt
    assert again.tokens == first.tokens


def test_frames_as_pictures_are_what_the_pictures_would_be(still: Model, data: bytes) -> None:
    clip = clip_of(data, most=3)
    frames = [clip.video.frame(number) for number in clip.sample().numbers]
    text = sentence(3)
    content = [{"type": "text", "text": text}, *[{"type": "image"}] * 3, {"type": "text", "text": "What?"}]
    by_hand = still.generate([{"role": "user", "content": content}], frames, max_tokens=4)
    assert still.generate("What?", [clip], max_tokens=4).tokens == by_hand.tokens


def test_larger_frames_can_be_kept_small(native: Model, data: bytes) -> None:
    whole = native.request([question_of(0, "x", 1)], [clip_of(data)], GenerationOptions())
    small = native.request([question_of(0, "x", 1)], [clip_of(data)], GenerationOptions(image_tokens=16))
    assert small.images[0].input.tokens < whole.images[0].input.tokens


def test_scenes_are_an_option(data: bytes) -> None:
    frames = [barred(n) for n in (1, 2, 4) for _ in range(20)]
    from tests.clips import encoded

    clip = clip_of(encoded(frames), fps=10, most=5, sampling="scenes")
    assert clip.plan() == (5, 60)
    numbers = clip.sample().numbers
    assert len(numbers) == 5
    assert {n // 20 for n in numbers} == {0, 1, 2}
    assert np.all(np.diff(numbers) > 0)


def test_a_text_cannot_pretend_to_be_a_clip(native: Model, data: bytes) -> None:
    with pytest.raises(UsageError, match="1 times, but 0 videos"):
        native.generate("Look: <|video_pad|>", max_tokens=1)
    with pytest.raises(UsageError, match="2 times, but 1 video came"):
        native.generate("Look: <|video_pad|>", [clip_of(data)], max_tokens=1)
