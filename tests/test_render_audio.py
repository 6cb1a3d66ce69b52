"""Sound from files: WAV of every kind, what PyAV reads, the sound of videos, other rates, limits and broken files."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from docai.errors import DependencyMissing, DocaiError, InputError, LimitExceeded
from docai.render.audio import AudioFile
from docai.render.document import open_document
from docai.render.rates import at_rate, in_parts
from docai.render.track import open_track
from docai.types import Limits
from tests.clips import counted, sound_only
from tests.sounds import encoded, tone, wav

TONE = tone(0.25)
STEREO = np.stack([TONE, -TONE / 2], axis=1)  # the mean is a quarter of the tone


def heard(data: bytes, rate: int = 16_000) -> np.ndarray:
    """By the reader itself, without the process around it."""
    return AudioFile(data, None, Limits()).samples(rate)


@pytest.mark.parametrize(
    ("data", "expected", "off"),
    [
        (wav(TONE), TONE, 4e-5),
        (wav(TONE, bits=8), TONE, 8e-3),
        (wav(TONE, bits=24), TONE, 3e-7),
        (wav(TONE, bits=32), TONE, 1e-7),
        (wav(TONE, bits=32, code=3), TONE, 0),
        (wav(TONE, bits=64, code=3), TONE, 0),
        (wav(TONE * 3, bits=32, code=3), TONE * 3, 0),  # louder than full scale
        (wav(STEREO), TONE / 4, 4e-5),
        (wav(STEREO, bits=24, extensible=True), TONE / 4, 3e-7),
        (wav(TONE, bits=32, code=3, extensible=True), TONE, 0),
        (wav(TONE, extra=b"LIST" + struct.pack("<I", 3) + b"abc\0"), TONE, 4e-5),  # an odd chunk is padded
    ],
)
def test_wav_files_are_read_without_a_library(data: bytes, expected: np.ndarray, off: float) -> None:
    found = heard(data)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=off, rtol=0)


def test_a_wav_file_that_was_cut_off_ends_where_it_does() -> None:
    whole = wav(TONE)
    cut = whole[: 44 + 2 * 1000 + 1]  # half a sample more
    streamed = whole[:40] + struct.pack("<I", 0xFFFFFFFF) + whole[44:]
    unknown = whole[:40] + struct.pack("<I", 0) + whole[44:]
    np.testing.assert_array_equal(heard(cut), heard(whole)[:1000])
    np.testing.assert_array_equal(heard(streamed), heard(whole))
    np.testing.assert_array_equal(heard(unknown), heard(whole))


@pytest.mark.parametrize(
    ("container", "codec", "off"),
    [("flac", "flac", 4e-5), ("matroska", "pcm_f32le", 1e-7), ("aiff", "pcm_s16be", 4e-5), ("wav", "pcm_alaw", 0.02)],
)
def test_other_files_are_read_by_pyav(container: str, codec: str, off: float) -> None:
    mono, both = encoded(TONE, 16_000, container, codec), encoded(STEREO, 16_000, container, codec)
    np.testing.assert_allclose(heard(mono), TONE, atol=off, rtol=0)
    np.testing.assert_allclose(heard(both), TONE / 4, atol=off, rtol=0)


@pytest.mark.parametrize(("container", "codec"), [("mp3", "mp3"), ("ogg", "libopus"), ("mp4", "aac"), ("webm", "opus")])
def test_compressed_sound_keeps_its_pitch(container: str, codec: str) -> None:
    rate = 48_000
    found = heard(encoded(tone(1.0, rate, 1000.0), rate, container, "libopus" if codec == "opus" else codec))
    assert 0.95 < len(found) / 16_000 < 1.15  # encoders add silence
    middle = found[4000:12_000]
    assert abs(int(np.abs(np.fft.rfft(middle * np.hanning(8000))).argmax()) * 2 - 1000) <= 2  # hertz
    assert 0.25 < np.sqrt(np.square(middle).mean()) < 0.45


def test_the_sound_of_a_video_is_heard() -> None:
    for container, codec in (("matroska", "pcm_s16le"), ("mp4", "aac"), ("avi", "pcm_s16le")):
        found = heard(encoded(tone(1.0), 16_000, container, codec, video=10))
        assert 0.9 < len(found) / 16_000 < 1.2
        assert 0.3 < np.sqrt(np.square(found[4000:12_000]).mean()) < 0.4


@pytest.mark.parametrize("source", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 44_099])
def test_other_rates_keep_the_sound(source: int) -> None:
    found = at_rate(tone(0.5, source, 1000.0), source, 16_000)
    assert len(found) == -(-round(0.5 * source) * 16_000 // source)
    np.testing.assert_allclose(found[500:-500], tone(1.0, hertz=1000.0)[500 : len(found) - 500], atol=2e-4)


def test_what_a_lower_rate_cannot_hold_is_left_out() -> None:
    high = at_rate(tone(0.5, 48_000, 9000.0), 48_000, 16_000)
    assert np.abs(high[200:-200]).max() < 2e-5
    flat = at_rate(np.ones(4000, np.float32), 44_100, 16_000)
    np.testing.assert_allclose(flat[200:-200], 1.0, atol=1e-4)
    assert len(at_rate(np.ones(1, np.float32), 44_100, 16_000)) == 1
    assert len(at_rate(np.zeros(0, np.float32), 44_100, 16_000)) == 0


@pytest.mark.parametrize("source", [8_000, 16_000, 44_099, 44_100, 192_000])
def test_in_parts_it_is_the_same(source: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docai.render.rates._PART", 1000)
    whole = np.random.RandomState(5).standard_normal(12_345).astype(np.float32)
    parts = np.split(whole, [0, 1, 2, 900, 6000, 6000, 12_000])
    expected = at_rate(whole, source, 16_000)
    assert len(expected) == -(-len(whole) * 16_000 // source)
    np.testing.assert_array_equal(np.concatenate([*in_parts(parts, source, 16_000)]), expected)


def test_no_more_is_held_than_is_needed() -> None:
    taken: list[int] = []

    def parts() -> Iterator[np.ndarray]:
        for number in range(5):
            taken.append(number)
            yield np.ones(1 << 18, np.float32)

    found = in_parts(parts(), 192_000, 16_000)
    for count in range(1, 6):
        assert abs(len(next(found)) - (1 << 18) // 12) < 100
        assert len(taken) == count


def test_wav_at_another_rate() -> None:
    found = heard(wav(tone(0.5, 44_100), 44_100))
    np.testing.assert_allclose(found[500:-500], tone(0.5)[500:-500], atol=1e-4)


def header(**changed: int) -> bytes:
    """A WAV file with other numbers in its format."""
    said = {"code": 1, "channels": 1, "rate": 16_000, "byte_rate": 32_000, "frame": 2, "bits": 16} | changed
    data = wav(TONE)
    return data[:20] + struct.pack("<HHIIHH", *said.values()) + data[36:]


def au(rate: int) -> bytes:
    """A file of Sun's, for FFmpeg: 16 bits, one channel."""
    return b".snd" + struct.pack(">IIIII", 24, 200, 3, rate, 1) + bytes(200)


LOUD = np.full(100, 1e5, np.float32)
NOTHING = np.zeros(0, np.float32)


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (b"", InputError, r"^audio: empty file \(0 bytes\)"),
        (wav(NOTHING), InputError, "^audio, its audio: the audio is empty: it has no samples"),
        (b"no sound at all" * 10, InputError, "^audio: not valid audio: corrupt, truncated or of an unknown format"),
        (wav(TONE)[:20], InputError, "^audio: not a valid WAV file: corrupt, its format is cut off"),
        (wav(TONE)[:30], InputError, "not a valid WAV file: corrupt, its format is cut off"),
        (wav(TONE)[:12] + wav(TONE)[36:], InputError, "not a valid WAV file: corrupt or cut off"),
        (header(channels=0), InputError, "not a WAV file that is read: 0 channels of 16 bits"),
        (header(bits=13), InputError, "1 channels of 13 bits"),
        (header(rate=1), InputError, "16 bits, 1 times a second"),
        (header(rate=0xFFFFFFFF), InputError, "4294967295 times a second"),
        (header(frame=7), InputError, "contradicts itself"),
        (wav(np.array([0, np.nan], np.float32), bits=32, code=3), InputError, "samples that are no numbers"),
        (wav(LOUD, bits=32, code=3), InputError, "10000 times full scale"),
        (au(1_426_111_360), InputError, r"^audio: 1426111360 samples a second; expected one rate from 1000 to 768000"),
        (au(999), InputError, r"^audio: 999 samples a second; expected one rate"),
        (counted(3), InputError, "^audio: the file has no audio track: it is a video without sound"),
        (wav(tone(3.0)), LimitExceeded, "^audio: audio too long: 3.0 seconds exceed the limit of 2; .*--max-audio-sec"),
        (encoded(tone(3.0), 16_000, "flac", "flac"), LimitExceeded, "3.0 seconds exceed the limit of 2"),
    ],
)
def test_what_cannot_be_heard_is_told_in_a_line(data: bytes, kind: type[DocaiError], message: str) -> None:
    with pytest.raises(InputError, match=message) as told:
        open_track(data, limits=Limits(max_audio_seconds=2.0)).samples(16_000)
    assert type(told.value) is kind
    assert "\n" not in str(told.value)


def test_sound_without_a_length_is_measured_while_it_is_decoded() -> None:
    data = bytearray(encoded(tone(3.0), 16_000, "flac", "flac"))
    data[22:26] = bytes(4)  # of FLAC's own count of samples
    file = AudioFile(bytes(data), None, Limits(max_audio_seconds=1.0))
    assert file.seconds == 0
    with pytest.raises(LimitExceeded, match=r"audio too long: 1.* seconds exceed the limit of 1"):
        file.samples(16_000)
    assert len(heard(bytes(data))) == 48_000


def test_files_are_read_in_the_decoding_process(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(TONE))
    track = open_track(path)
    assert track.seconds == pytest.approx(0.25)
    np.testing.assert_allclose(track.samples(16_000), TONE, atol=4e-5)
    track.close()
    np.testing.assert_allclose(track.samples(16_000), TONE, atol=4e-5)  # it opens again
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'b.wav'}: cannot be read: No such file")):
        open_track(tmp_path / "b.wav")
    with pytest.raises(LimitExceeded, match="8044 bytes exceed the limit of 100; raise it with --max-bytes"):
        open_track(path, limits=Limits(max_bytes=100))
    assert open_track(sound_only(), name="a.mka").samples(8000).shape == (800,)


def test_a_sound_can_be_heard_again() -> None:
    for container, codec in (("flac", "flac"), ("mp4", "aac"), ("ogg", "libopus"), ("wav", "pcm_s16le")):
        file = AudioFile(encoded(tone(1.0, 48_000), 48_000, container, codec), None, Limits())
        first = file.samples(16_000)
        np.testing.assert_array_equal(file.samples(16_000), first)
    whole = encoded(tone(2.0), 16_000, "flac", "flac")
    file = AudioFile(whole[: len(whole) // 2], None, Limits())
    for _ in range(2):
        assert 0 < len(file.samples(16_000)) < 20_000
        assert [note.split(":")[0] for note in file.notes] == [
            "parts of it cannot be decoded", "it is cut off or damaged",
        ]  # fmt: skip


def test_what_is_whole_has_no_notes(caplog: pytest.LogCaptureFixture) -> None:
    for container, codec in (("flac", "flac"), ("mp3", "mp3"), ("mp4", "aac"), ("matroska", "pcm_s16le")):
        open_track(encoded(TONE, 16_000, container, codec)).samples(16_000)
    assert caplog.text == ""


def test_sound_among_pictures_is_told_where_it_belongs() -> None:
    for data in (
        wav(TONE),
        *(encoded(TONE, 16_000, *how) for how in (("flac", "flac"), ("mp3", "mp3"), ("aiff", "pcm_s16be"))),
    ):
        with pytest.raises(InputError, match=r"document: audio is not seen; .* docai chat --audio"):
            open_document(data)
    with pytest.raises(InputError, match=r"it is audio only; .* docai chat --audio"):
        open_document(encoded(TONE, 16_000, "mp4", "aac"))


def test_damage_within_is_told_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    data = bytearray(encoded(tone(2.0), 16_000, "mp4", "aac"))
    middle = len(data) // 2
    data[middle : middle + 600] = bytes(range(200)) * 3
    found = open_track(bytes(data), name="a.m4a").samples(16_000)
    assert 16_000 < len(found) <= 34_000
    assert "a.m4a: parts of it cannot be decoded" in caplog.text
    whole = encoded(tone(2.0), 16_000, "flac", "flac")
    assert 0 < len(open_track(whole[: len(whole) // 2], name="a.flac").samples(16_000)) < 20_000
    assert "a.flac: it is cut off or damaged" in caplog.text
    assert "of 2.0 seconds can be heard" in caplog.text


def test_without_pyav_wav_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    np.testing.assert_allclose(heard(wav(TONE)), TONE, atol=4e-5)
    with pytest.raises(DependencyMissing, match=r"audio other than WAV.* need PyAV.*docai\[video\]"):
        heard(b"fLaC" + bytes(100))


def test_broken_wav_files_are_heard_or_refused() -> None:
    """Whatever the bytes of the header and behind it are, but for those that say that it is WAV, in PCM."""
    random, whole = np.random.RandomState(7), wav(STEREO[:200], extra=b"LIST" + struct.pack("<I", 4) + b"abcd")
    heard_some = 0
    for _ in range(150):
        data = bytearray(whole)
        for at in random.randint(16, 80, random.randint(1, 5)):
            if at not in (20, 21):
                data[at] = random.choice([0, 1, 2, 127, 128, 255, random.randint(256)])
        cut = bytes(data[: random.randint(40, len(data) + 1)])
        try:
            found = heard(cut)
        except DocaiError:
            continue
        heard_some += 1
        assert np.isfinite(found).all()
        assert len(found) <= 200 * 32 * 16
    assert 30 < heard_some < 150
