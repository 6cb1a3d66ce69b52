"""What checkpoints say of their image processors, read with errors that name the file.

The names of preprocessor_config.json end here and in `docai.vlm.images`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
from PIL import Image

from docai.errors import CheckpointError
from docai.preprocess.inputs import ImageProcessor
from docai.preprocess.normalize import Colour, Normalization
from docai.preprocess.sizes import Size
from docai.preprocess.tiles import Cuts


class Config(Protocol):
    """A JSON object: a mapping, or a `docai.vlm.config.Config`."""

    def get(self, name: str, /) -> Any:
        """A field, None where it is missing."""
        ...


Prep = Mapping[str, Any]
Images = Callable[[Prep, Config], ImageProcessor]  # (preprocessor_config, config) -> processor

MOST_SIDE, MOST_PIXELS = 1 << 14, 1 << 28  # above any tower's: more would only take memory
MOST_CUTS = 64  # crops of a picture, likewise


class HasFiles(Protocol):
    """A checkpoint, as far as it is read here."""

    def json_file(self, name: str) -> Any:
        """The content of a JSON file of the checkpoint, None where it has none."""
        ...


def preprocessor_config(checkpoint: HasFiles) -> Prep:
    """What a checkpoint says of its image processor: in processor_config.json where newer files nest it, or alone."""
    nested = (checkpoint.json_file("processor_config.json") or {}).get("image_processor")
    return nested or checkpoint.json_file("preprocessor_config.json") or {}


def checked(build: Images) -> Images:
    """`build` with errors that name the file, and no size that no picture has."""

    def made(prep: Prep, config: Config) -> ImageProcessor:
        try:
            processor = build(prep, config)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"preprocessor_config.json: expected numbers, sizes and colours of an image processor; {error}"
            ) from error
        for name, number in _numbers(processor):
            most = MOST_PIXELS if name.endswith(("pixels", "patches")) else MOST_SIDE
            if not isinstance(number, int) or not 0 < number <= most:
                raise CheckpointError(f"preprocessor_config.json: expected a {name} from 1 to {most}, got {number!r}")
        return processor

    return made


def _numbers(processor: ImageProcessor) -> Iterator[tuple[str, Any]]:
    """Every size of a processor, with the name of its field."""
    plain = {"normalize", "how", "pan", "cuts", "most_tokens", "tolerance"}
    for name in (field.name for field in fields(processor) if field.name not in plain):  # type: ignore[arg-type]
        value = getattr(processor, name)
        if isinstance(value, bool):
            continue
        for number in np.ravel(value).tolist() if isinstance(value, tuple) else (value,):
            yield name, number


def normalization(prep: Prep, mean: Colour, std: Colour) -> Normalization:
    scale = 1.0 if prep.get("do_rescale") is False else float(prep.get("rescale_factor") or 1 / 255)
    if prep.get("do_normalize") is False:
        return Normalization(scale=scale)
    return Normalization(_colour(prep.get("image_mean"), mean), _colour(prep.get("image_std"), std), scale)


def _colour(value: Any, default: Colour) -> Colour:
    if value is None:
        return default
    if isinstance(value, int | float):
        return (float(value),) * 3
    red, green, blue = value
    return float(red), float(green), float(blue)


def resampling(prep: Prep, default: Image.Resampling) -> Image.Resampling:
    number = prep.get("resample")
    if number is None:
        return default
    if number not in set(Image.Resampling):
        known = ", ".join(f"{how.value} ({how.name.lower()})" for how in Image.Resampling)
        raise CheckpointError(
            f"the checkpoint asks for the resampling filter {number}, which Pillow does not have; it has {known}"
        )
    return Image.Resampling(number)


def size_of(value: Any, default: int) -> Size:
    """(height, width) of the forms that files have: a number, {height, width} or {shortest_edge}."""
    if value is None:
        return default, default
    if isinstance(value, int):
        return value, value
    height = int(value.get("height") or value.get("shortest_edge") or default)
    return height, int(value.get("width") or height)


def patch_of(prep: Prep, config: Config, default: int) -> int:
    """The side of a patch in pixels: what config.json says of the tower, which takes no other, counts first."""
    said = (config.get("vision_config") or {}).get("patch_size") or prep.get("patch_size") or default
    side: int = size_of(said, default)[0] if isinstance(said, Mapping) else said
    return side


def cuts_of(kind: type[Cuts], least: int, most: int) -> Cuts:
    """Crops, within reason."""
    if not 1 <= least <= most <= MOST_CUTS:
        raise ValueError(f"{least} to {most} crops are not from 1 to {MOST_CUTS}")
    return kind(least, most)
