"""Sounds for towers: the goldens of the reference's processors, and what checkpoints may not say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docai.errors import CheckpointError, InputError, UsageError
from docai.preprocess.sounds import MelSounds, RawSounds, mel_filters
from docai.vlm.audio import audio_config, mel_sounds, raw_sounds
from docai.vlm.families import family_of
from docai.vlm.prompt import encode, render
from tests.goldens.processors.cases import summary
from tests.goldens.prompts import cases as prompts
from tests.goldens.sounds.cases import CASES, CONVERSATIONS, LENGTHS, SAID, TINY, sound
from tests.test_prompt import images_of, runs, tokenizer

FOLDER = Path(__file__).parent / "goldens" / "sounds"
with np.load(FOLDER / "expected.npz") as stored:
    GOLDENS: dict[str, np.ndarray] = dict(stored)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", CASES)
def test_frames_and_tokens_are_the_reference_s(name: str, length: int) -> None:
    case, key = CASES[name], f"{name}/{length}"
    processor = case.ours(case.prep, case.config)
    if not GOLDENS[f"{key}/tokens"]:
        with pytest.raises(InputError, match="too short"):
            processor(sound(length))
        return
    found = processor(sound(length))
    assert found.kind == "audio"
    assert found.pixels.dtype == np.float32
    assert found.pixels.shape == tuple(GOLDENS[f"{key}/shape"])
    assert found.tokens == GOLDENS[f"{key}/tokens"]
    np.testing.assert_allclose(summary(found.pixels), GOLDENS[f"{key}/values"], rtol=1e-5, atol=1e-5)


def test_too_little_sound_is_told_with_what_is_needed() -> None:
    with pytest.raises(InputError, match=r"too short: 10\.0 ms; the model hears 10\.1 ms or more"):
        MelSounds()(np.zeros(160, np.float32))
    with pytest.raises(InputError, match=r"too short: 0\.0 ms"):
        RawSounds()(np.zeros(0, np.float32))
    assert RawSounds()(np.ones(1, np.float32)).pixels.sum() == 1  # filled up with silence


def test_silence_is_the_floor() -> None:
    np.testing.assert_allclose(MelSounds()(np.zeros(1600, np.float32)).pixels, np.log(1e-3), rtol=1e-6)


def test_filters_are_triangles_that_overlap() -> None:
    filters = mel_filters(257, 20, 0.0, 8000.0, 16_000)
    assert filters.shape == (257, 20)
    assert filters.min() == 0
    assert (np.diff(filters.argmax(axis=0)) > 0).all()
    inside = filters[filters[:, 0].argmax() : filters[:, -1].argmax()]
    np.testing.assert_allclose(inside.sum(axis=1), 1.0, atol=1e-9)


class Files:
    """A checkpoint, as far as its JSON files go."""

    def __init__(self, **files: Any) -> None:
        self._files = files

    def json_file(self, name: str) -> Any:
        return self._files.get(name.removesuffix(".json"))


def test_where_checkpoints_say_it() -> None:
    own = {"feature_extractor_type": "Gemma4AudioFeatureExtractor", "feature_size": 16}
    assert audio_config(Files()) == {}
    assert audio_config(Files(preprocessor_config={"image_processor_type": "x", "feature_size": 3})) == {}
    assert audio_config(Files(preprocessor_config=own)) == own
    assert audio_config(Files(processor_config={"feature_extractor": own}, preprocessor_config={})) == own
    assert mel_sounds({}, TINY) == MelSounds(bins=16)  # the config's own number, where nothing else says it
    assert mel_sounds({"frame_length": 99}, {}) == MelSounds()  # written by the reference, which does not read it
    assert raw_sounds({}, {"audio_config": {"audio_embed_dim": 48}}) == RawSounds(frame=48)


@pytest.mark.parametrize(
    ("prep", "message"),
    [
        ({"feature_size": 64}, "feature_size 64 does not fit a tower of 16 bins"),
        ({"feature_size": 1 << 20}, "expected a feature_size from 1 to 4096"),
        ({"sampling_rate": 0}, "expected a sampling_rate from 1"),
        ({"sampling_rate": "fast"}, "expected a sampling_rate from 1"),
        ({"hop_length_ms": 0.01}, "expected a hop_length_ms of 1 to 65536 samples, got 0"),
        ({"frame_length_ms": 1e6}, "expected a frame_length_ms of 1 to 65536 samples"),
        ({"mel_floor": None, "preemphasis": "x"}, "expected a number preemphasis"),
        ({"max_frequency": -1}, "expected a number max_frequency"),
        ({"min_frequency": 9000}, "expected a min_frequency below max_frequency, got 9000 and 8000"),
        ({"per_bin_mean": [0.0]}, "expected 16 numbers per_bin_mean"),
        ({"per_bin_mean": [float("nan")] * 16}, "expected 16 numbers per_bin_mean"),
        ({"per_bin_stddev": [0.0] * 16}, "numbers per_bin_stddev above 0"),
        ({"mel_floor": 0}, "a mel_floor and"),
    ],
)
def test_senseless_numbers_of_a_checkpoint(prep: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        mel_sounds(prep, TINY)


def test_what_a_file_nests_is_an_object() -> None:
    with pytest.raises(CheckpointError, match="expected feature_extractor to be an object, got 'mel'"):
        audio_config(Files(processor_config={"feature_extractor": "mel"}))


def test_frames_have_to_fit_the_projection() -> None:
    with pytest.raises(CheckpointError, match="audio_samples_per_token 640 does not fit an audio_embed_dim of 48"):
        raw_sounds({"audio_samples_per_token": 640}, {"audio_config": {"audio_embed_dim": 48}})


PROMPTS: dict[str, Any] = json.loads((FOLDER / "prompts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("what", CONVERSATIONS)
@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_with_a_sound_are_the_reference_s(name: str, what: str) -> None:
    case, conversation = prompts.CASES[name], CONVERSATIONS[what]
    family = family_of({"model_type": name})
    assert family.sounds is not None
    words, heard = tokenizer(case), family.sounds({}, {})(sound(SAID))
    seen = images_of(case, conversation.images)
    text = render(conversation.messages, words, family.prompt)
    assert text == PROMPTS[name][what]["text"]
    order = [part["type"] for message in conversation.messages for part in message["content"] if part["type"] != "text"]
    media = iter(seen)
    taken = [heard if kind == "audio" else next(media) for kind in order]
    assert runs(encode(text, taken, words, family.prompt)) == PROMPTS[name][what]["ids"]
    with pytest.raises(UsageError, match=r"has <\|audio\|> 1 times, but 0 sounds came"):
        encode(text, seen, words, family.prompt)


def test_a_family_that_hears_nothing_has_no_place_for_sounds() -> None:
    spec = family_of({"model_type": "qwen2_vl"}).prompt
    with pytest.raises(UsageError, match="a part is audio, but this model hears nothing"):
        render([{"role": "user", "content": [{"type": "audio"}]}], tokenizer(prompts.CASES["gemma4"]), spec)
