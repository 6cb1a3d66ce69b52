"""Sound processors made from a checkpoint's files; each function here gives a family its `sounds`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from docai.errors import CheckpointError
from docai.preprocess.sounds import MelSounds, RawSounds, SoundProcessor
from docai.vlm.prep import Config, HasFiles, Prep

Sounds: TypeAlias = Callable[[Prep, Config], SoundProcessor]  # (what the files say, config) -> processor

_FILE = "preprocessor_config.json"
_MOST_RATE, _MOST_BINS, _MOST_FRAME = 768_000, 1 << 12, 1 << 16  # more would only take memory


def audio_config(checkpoint: HasFiles) -> Prep:
    """What a checkpoint says of its sound processor: nested, or in a file of its own. Many say nothing."""
    nested: Any = (checkpoint.json_file("processor_config.json") or {}).get("feature_extractor")
    own: Any = checkpoint.json_file(_FILE) or {}
    if nested is not None and not isinstance(nested, Mapping):
        raise CheckpointError(f"processor_config.json: expected feature_extractor to be an object, got {nested!r:.60}")
    return dict(nested or (own if "feature_extractor_type" in own else {}))


def mel_sounds(prep: Prep, config: Config) -> SoundProcessor:
    """Gemma 4's: as many bins as its first convolution has channels, which is what its tower is built for."""
    channels = _section(config).get("subsampling_conv_channels") or (128, 32)
    rate, bins = _whole(prep, "sampling_rate", 16_000, _MOST_RATE), _whole(prep, "feature_size", 128, _MOST_BINS)
    if prep.get("feature_size") is None:
        bins = int(channels[0])
    if bins != channels[0]:
        raise CheckpointError(f"{_FILE}: feature_size {bins} does not fit a tower of {channels[0]} bins")
    low, high = _number(prep, "min_frequency", 0.0), _number(prep, "max_frequency", 8000.0)
    floor, std = _number(prep, "mel_floor", 1e-3), _of_bins(prep, "per_bin_stddev", bins)
    if floor <= 0 or min(std, default=1.0) <= 0:  # silence would be infinite, or nothing else than that
        raise CheckpointError(f"{_FILE}: expected a mel_floor and numbers per_bin_stddev above 0")
    if low >= high:
        raise CheckpointError(f"{_FILE}: expected a min_frequency below max_frequency, got {low:g} and {high:g}")
    frame = _samples(prep, "frame_length_ms", 20.0, rate)
    return MelSounds(
        rate=rate,
        bins=bins,
        frame=frame,
        hop=_samples(prep, "hop_length_ms", 10.0, rate),
        fft=(2 if prep.get("fft_overdrive") else 1) << (frame - 1).bit_length(),
        low=low,
        high=high,
        emphasis=_number(prep, "preemphasis", 0.0),
        htk=prep.get("preemphasis_htk_flavor") is not False,
        scale=_number(prep, "input_scale_factor", 1.0),
        floor=floor,
        mean=_of_bins(prep, "per_bin_mean", bins),
        std=std,
    )


def raw_sounds(prep: Prep, config: Config) -> SoundProcessor:
    """Gemma 4 Unified's: as many samples a token as its projection takes."""
    frame = int(_section(config).get("audio_embed_dim") or 640)
    said = _whole(prep, "audio_samples_per_token", frame, _MOST_FRAME)
    if said != frame:
        raise CheckpointError(f"{_FILE}: audio_samples_per_token {said} does not fit an audio_embed_dim of {frame}")
    return RawSounds(_whole(prep, "sampling_rate", 16_000, _MOST_RATE), frame)


def _section(config: Config) -> Any:
    return config.get("audio_config") or {}


def _samples(prep: Prep, name: str, default: float, rate: int) -> int:
    """Milliseconds as samples."""
    count = round(rate * _number(prep, name, default) / 1000)
    if not 0 < count <= _MOST_FRAME:
        raise CheckpointError(f"{_FILE}: expected a {name} of 1 to {_MOST_FRAME} samples, got {count}")
    return count


def _whole(prep: Prep, name: str, default: int, most: int) -> int:
    value = default if prep.get(name) is None else prep[name]
    if not isinstance(value, int) or not 0 < value <= most:
        raise CheckpointError(f"{_FILE}: expected a {name} from 1 to {most}, got {value!r}")
    return value


def _number(prep: Prep, name: str, default: float) -> float:
    value = default if prep.get(name) is None else prep[name]
    if not isinstance(value, int | float) or not 0 <= value <= 1e6:
        raise CheckpointError(f"{_FILE}: expected a number {name}, got {value!r}")
    return float(value)


def _of_bins(prep: Prep, name: str, bins: int) -> tuple[float, ...]:
    value = prep.get(name)
    if value is None:
        return ()
    numbers = isinstance(value, list) and all(isinstance(v, int | float) and math.isfinite(v) for v in value)
    if not numbers or len(value) != bins:
        raise CheckpointError(f"{_FILE}: expected {bins} numbers {name}, got {str(value)[:60]}")
    return tuple(map(float, value))
