"""Videos: when each frame is shown, which frames are looked at, and files that are none."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from docai.errors import DependencyMissing, InputError, LimitExceeded
from docai.render.clip import Video, open_video
from docai.render.document import open_document
from docai.render.inputs import check_kind, is_video
from docai.render.sampling import even, frame_count, new_pictures, scenes
from docai.render.video import VideoFile
from docai.render.worker import shared_worker
from docai.types import Limits
from tests.clips import KINDS, SIZE, barred, counted, encoded, number_of, sound_only, turned


def shown(video: Video, numbers: list[int]) -> list[int]:
    """Which frames come when those of these numbers are asked for."""
    return [number_of(video.frame(number)) for number in numbers]


@pytest.mark.parametrize("container", KINDS)
def test_every_frame_is_found_in_any_order(container: str) -> None:
    data = counted(24, container=container)
    assert check_kind(data[:1024], "clip") == "video"
    video = open_video(data)
    assert (video.kind, video.page_count) == ("video", 24)
    assert video.seconds == pytest.approx(2.4)
    np.testing.assert_allclose(video.times, np.arange(24) / 10, atol=1e-9)
    assert shown(video, [0, 23, 5, 6, 21, 0, 12]) == [0, 23, 5, 6, 21, 0, 12]
    assert video.frame(3).shape == (48, 64, 3)


def test_a_frame_comes_from_the_key_frame_before_it() -> None:
    data = counted(60, container="mp4", g="10", bf="2")
    video = open_video(data)
    assert shown(video, list(range(0, 60, 7))) == list(range(0, 60, 7))
    assert shown(video, [59, 1, 31]) == [59, 1, 31]


def test_small_frames_are_those_and_leave_the_others_alone() -> None:
    video = open_video(counted(60, container="mp4", g="30", bf="3"))
    numbers = list(range(0, 60, 5))
    small = video.thumbs(numbers)
    found = [number_of(np.repeat(thumb[..., None], 3, axis=2)) for thumb in small]
    assert found == numbers
    assert shown(video, [56, 57, 3, 58]) == [56, 57, 3, 58]
    assert len(video.thumbs(numbers[6:])) == 6
    assert shown(video, [57, 31, 32]) == [57, 31, 32]


def test_times_are_those_of_the_file_where_the_rate_varies() -> None:
    at = [0, 3, 4, 50, 51, 52, 140, 300]
    for container in ("mp4", "matroska"):
        video = open_video(counted(len(at), at=at, container=container, rate=100))
        np.testing.assert_allclose(video.times, np.array(at) / 100, atol=2e-3)
        assert shown(video, [7, 3, 6]) == [7, 3, 6]
        assert even(video.times, 4) == [0, 6, 7]  # at 0, 1, 2 and 3 seconds: 1.4 s is nearest to two of them


def test_a_video_is_upright() -> None:
    rgb = barred(0)
    rgb[:, :32], rgb[:, 32:] = (250, 0, 0), (0, 0, 250)
    plain = encoded([rgb] * 3, container="mp4")
    assert open_video(plain).frame(0).shape == (SIZE[1], SIZE[0], 3)
    upright = open_video(turned(plain)).frame(0)  # what was left is now above
    assert upright.shape == (SIZE[0], SIZE[1], 3)
    assert upright[4, 24, 0] > 200 > upright[-4, 24, 0]
    assert open_document(turned(plain)).page(0).size == (SIZE[1], SIZE[0])


def test_pixels_are_square() -> None:
    """A frame of 64 x 48 whose pixels are twice as wide as high is shown as 128 x 48."""
    data = encoded([barred(n) for n in range(4)], container="mp4", aspect=2)
    video = open_video(data)
    assert video.frame(2).shape == (48, 128, 3)
    assert number_of(video.frame(2)) == 2
    assert video.frame(2, most=64 * 24).shape == (24, 64, 3)
    assert open_video(encoded([barred(0)], container="mp4", aspect=9)).frame(0).shape == (48, 64, 3)


def test_large_frames_come_smaller() -> None:
    video = open_video(counted(2))
    assert video.frame(1, most=64 * 48 // 4).shape == (24, 32, 3)


# --- sampling


def test_frames_are_spread_evenly_and_the_ends_kept() -> None:
    times = np.arange(30) / 10
    assert frame_count(times, 3.0, fps=2) == 6
    assert frame_count(times, 3.0, fps=0.1) == 2
    assert frame_count(times, 3.0, fps=1000) == 30
    assert frame_count(times[:1], 0.1, fps=2) == 1
    assert even(times, 5) == [0, 7, 14, 22, 29]  # as the reference rounds: halves to even
    assert even(times, 1) == even(times[:1], 5) == [0]
    assert even(times, 30) == list(range(30))


def slides(states: list[int], size: tuple[int, int] = SIZE) -> np.ndarray:
    return np.stack([np.full((size[1], size[0]), 40 * n, np.uint8) for n in states])


def test_each_scene_has_a_frame() -> None:
    thumbs = slides([0] * 3 + [1] * 20 + [2] * 2 + [3] * 15)
    times = np.arange(40) / 2
    found = scenes(times, list(range(40)), 6, lambda numbers: thumbs[list(numbers)][:7])
    assert found[0] == 0
    assert found[-1] == 39
    assert len(found) == 6
    assert {int(thumbs[n, 0, 0]) // 40 for n in found} == {0, 1, 2, 3}
    assert scenes(times, list(range(40)), 1, lambda numbers: thumbs[list(numbers)]) == [0]
    assert scenes(times, [3, 8], 6, lambda numbers: thumbs[list(numbers)]) == [3, 8]


def test_few_places_go_to_the_scenes_that_differ_most() -> None:
    levels = [0, 0, 1, 1, 6, 6, 2, 2]
    thumbs = slides(levels)
    thumbs[2:4, :20] = 0  # the first change is a small one
    found = scenes(np.arange(8.0), list(range(8)), 4, lambda numbers: thumbs[list(numbers)])
    assert {levels[n] for n in found} >= {0, 6, 2}


def test_pictures_that_stay_are_pages() -> None:
    states = [0, 0, 0, 5, 1, 1, 1, 1, 3, 2, 2]  # 5 and 3 are seen only in passing
    thumbs = slides(states)
    found = new_pictures(np.arange(11) / 2, list(range(11)), lambda numbers: thumbs[list(numbers)][:4])
    assert [(states[n], since) for n, since in found] == [(0, 0.0), (1, 2.0), (2, 4.5)]
    moving = slides([n % 6 for n in range(60)])
    found = new_pictures(np.arange(60) / 2, list(range(60)), lambda numbers: moving[list(numbers)])
    assert [n for n, _ in found] == [0, 10, 20, 30, 40, 50, 59]  # what never rests is seen every five seconds


def test_a_speaker_in_the_corner_does_not_count() -> None:
    thumbs = np.repeat(slides([1, 2, 3], (256, 144)), 12, axis=0)
    thumbs[:, 100:140, 200:250] = np.random.RandomState(0).randint(0, 255, (36, 40, 50))
    found = new_pictures(np.arange(36) / 2, list(range(36)), lambda numbers: thumbs[list(numbers)])
    assert [int(thumbs[n, 0, 0]) // 40 for n, _ in found] in ([1, 2, 3], [1, 1, 2, 3])


# --- a recording as a document


def test_a_recording_is_a_document_of_its_pictures() -> None:
    frames = [barred(n) for n in (0, 10, 20) for _ in range(15)]
    with open_document(encoded(frames), name="talk.mkv") as source:
        assert (source.kind, source.page_count) == ("video", 3)
        assert source.notes == ("4 s of video: 3 pictures are read as pages",)
        pages = [source.page(index) for index in range(3)]
        assert [page.time for page in pages] == pytest.approx([0.0, 1.5, 3.0], abs=0.5)
        assert [page.unit for page in pages] == ["px"] * 3
        assert [number_of(page.pixels()) for page in pages] == [0, 10, 20]
        assert source.content(1).glyphs is None
        assert source.dpi(1) is None
        with pytest.raises(IndexError):
            source.page(3)


def test_somebody_hears_of_the_looking() -> None:
    looks: list[int] = []
    open_document(counted(20), on_look=lambda: looks.append(1)).close()
    assert looks


def test_too_many_pictures_are_refused() -> None:
    frames = [barred(n) for n in (0, 10, 20) for _ in range(15)]
    with pytest.raises(LimitExceeded, match=r"3 pictures exceed the limit of 2 pages.*--max-pages"):
        open_document(encoded(frames), limits=Limits(max_pages=2))


# --- files that are none, or too much


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "empty file"),
        (b"\x1a\x45\xdf\xa3" + bytes(600), "not a valid video"),
        (counted(20, container="mp4")[:700], "not a valid video"),
        (sound_only(), "no video: it is audio only"),
    ],
)
def test_what_is_no_video_is_said_in_one_line(data: bytes, error: str) -> None:
    with pytest.raises(InputError, match=f"^talk.mp4: .*{error}[^\n]*$"):
        open_document(data, name="talk.mp4")


def test_pictures_are_no_videos() -> None:
    gif = bytearray(b"GIF89a" + bytes(1018))
    gif[188] = 0x47
    for head in (bytes(gif), b"\0\0\0\x18ftypheic" + bytes(64), b"\0\0\0\x18ftypavif", b"RIFF\0\0\0\0WEBPVP8 ", b""):
        assert not is_video(head)
    stream = (b"\x47" + bytes(187)) * 6
    timed = (bytes(4) + b"\x47" + bytes(187)) * 6
    for head in (stream[:1024], timed[:1024], b"\0\0\0\x18ftypqt  ", b"RIFF\0\0\0\0AVI LIST", b"\0\0\0\x08wide"):
        assert is_video(head)


def test_text_that_is_called_a_video_is_none(tmp_path: Path) -> None:
    path = tmp_path / "notes.mp4"
    path.write_text("no video at all")
    with pytest.raises(InputError, match="not a valid video"):
        open_document(path)


def test_playlists_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.mkv").write_bytes(counted(3))
    path = tmp_path / "list.mp4"
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.mkv\n#EXT-X-ENDLIST\n")
    with pytest.raises(InputError, match="not a valid video"):
        open_document(path)
    path.write_text("ffconcat version 1.0\nfile secret.mkv\n")
    with pytest.raises(InputError, match="not a valid video"):
        open_document(path)


def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    data = counted(20)
    video = open_video(data[: len(data) * 2 // 3])
    count = video.page_count
    assert 1 < count < 20
    assert number_of(video.frame(count - 1)) in (count - 1, count - 2)


def test_damage_within_costs_only_the_frames_there() -> None:
    data = bytearray(counted(40, container="mpegts", g="5"))
    middle = len(data) // 2 // 188 * 188
    data[middle : middle + 188 * 8] = os.urandom(188 * 8)
    video = open_video(bytes(data))
    last = len(video.times) - 1
    assert number_of(video.frame(0)) == 0
    assert number_of(video.frame(last)) == 39


def test_one_frame_is_a_video() -> None:
    video = open_video(counted(1))
    assert (video.page_count, list(video.times)) == (1, [0.0])
    assert even(video.times, frame_count(video.times, video.seconds, 2)) == [0]
    assert open_document(counted(1)).page_count == 1


@pytest.mark.parametrize(
    ("limits", "option"),
    [
        (Limits(max_bytes=100), "--max-bytes"),
        (Limits(max_pixels=64 * 47), "frames of 64 x 48 pixels.*--max-pixels"),
        (Limits(max_video_seconds=2.3), "2 seconds exceed the limit of 2.3.*--max-video-seconds"),
        (Limits(max_decoded_frames=23), "more than 23 frames.*--max-decoded-frames"),
    ],
)
def test_a_limit_names_its_option(limits: Limits, option: str) -> None:
    with pytest.raises(LimitExceeded, match=option):
        open_video(counted(24), limits=limits)


def test_an_hour_costs_no_more_than_what_is_looked_at() -> None:
    at = [n * 100 for n in range(0, 3601, 5)]
    video = open_video(counted(len(at), at=at, container="mp4", rate=100, g="12"))
    assert video.seconds >= 3600
    numbers = even(video.times, 8)
    assert [round(t) for t in video.times[numbers]] == pytest.approx(
        [0, 514, 1029, 1543, 2057, 2571, 3086, 3600], abs=3
    )
    assert number_of(video.frame(numbers[-1])) == (len(at) - 1) % 256


def test_a_crash_of_the_decoder_costs_one_call() -> None:
    video = open_video(counted(10))
    process = shared_worker()._process
    assert process is not None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert number_of(video.frame(4)) == 4


def test_without_pyav_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(DependencyMissing, match=r"docai\[video\]"):
        VideoFile(b"", None, Limits())


def test_frames_without_times_follow_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    file = VideoFile(counted(12, container="avi"), None, Limits())
    file.timeline = file._counted()
    np.testing.assert_allclose(file.timeline.times, np.arange(12) / 10)
    assert [number_of(file.pixels(n, 0)) for n in (3, 11, 0)] == [3, 11, 0]
