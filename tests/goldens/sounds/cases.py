"""The sound processors that have goldens: what the checkpoints say, and sounds of lengths that try their corners.

Used by make.py (with the reference) and by tests/test_preprocess_sounds.py (with docai), so that both hear the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.vlm import audio
from docai.vlm.audio import Sounds
from tests.goldens.prompts.cases import IMAGE, Conversation, text

# samples: the fewest that give a frame, one frame and two, one less than three tokens and three, some seconds
LENGTHS = (161, 320, 321, 1440, 1441, 1600, 4801, 16_000, 57_123)


@dataclass(frozen=True)
class Case:
    """One processor: its reference class in transformers, what the checkpoint says, and ours."""

    reference: str
    ours: Sounds
    prep: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)


MEL = "gemma4.feature_extraction_gemma4.Gemma4AudioFeatureExtractor"
RAW = "gemma4_unified.feature_extraction_gemma4_unified.Gemma4UnifiedAudioFeatureExtractor"
TINY = {"audio_config": {"subsampling_conv_channels": [16, 4]}}
CASES = {
    "gemma4": Case(MEL, audio.mel_sounds),
    "gemma4_bins": Case(
        MEL,
        audio.mel_sounds,
        {
            "feature_size": 16, "preemphasis": 0.97, "fft_overdrive": True, "min_frequency": 125.0, "mel_floor": 1e-5,
            "max_frequency": 7600.0, "frame_length_ms": 32.0, "hop_length_ms": 8.0, "input_scale_factor": 0.5,
            "per_bin_mean": [0.1 * n - 1 for n in range(16)], "per_bin_stddev": [1 + 0.05 * n for n in range(16)],
        },
        TINY,
    ),
    "gemma4_plain_emphasis": Case(
        MEL, audio.mel_sounds, {"feature_size": 16, "preemphasis": 0.5, "preemphasis_htk_flavor": False}, TINY
    ),
    "gemma4_unified": Case(RAW, audio.raw_sounds),
    "gemma4_unified_small": Case(
        RAW,
        audio.raw_sounds,
        {"feature_size": 48, "audio_samples_per_token": 48},
        {"audio_config": {"audio_embed_dim": 48}},
    ),
}  # fmt: skip


AUDIO = {"type": "audio"}
SAID = 8_000  # samples of the sound in a conversation
CONVERSATIONS = {
    "alone": Conversation([{"role": "user", "content": [AUDIO, text("What is said?")]}]),
    "behind": Conversation([{"role": "user", "content": [text("Listen: "), AUDIO]}]),
    "beside": Conversation([{"role": "user", "content": [IMAGE, AUDIO, text("Do they fit?")]}], ((60, 100),)),
    "turns": Conversation(
        [
            {"role": "user", "content": [AUDIO, text("Hello\n")]},
            {"role": "assistant", "content": [text("Yes.")]},
            {"role": "user", "content": [IMAGE, text("Sure?")]},
        ],
        ((128, 96),),
    ),
}


def sound(length: int) -> NDArray[np.float32]:
    """Tones that rise, with noise and a silent part, (n,); the same numbers everywhere."""
    random = np.random.RandomState(length)
    at = np.arange(length) / 16_000
    waves = 0.4 * np.sin(2 * np.pi * (200 + 900 * at) * at) + 0.2 * np.sin(2 * np.pi * 3000 * at)
    samples = waves + 0.05 * random.standard_normal(length)
    samples[length // 3 : length // 2] = 0
    return samples.astype(np.float32)
