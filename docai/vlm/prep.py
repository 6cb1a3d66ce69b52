"""What checkpoints say of their image processors, read with errors that name the file.

The names of preprocessor_config.json end here, in `docai.vlm.images` and in `docai.vlm.native_images`.
"""

from __future__ import annotations

import contextlib
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

# Above any tower's, by the end of a field's name: more would only take memory.
_MOST_SIDE = 1 << 14
_MOST = {"pixels": 1 << 28, "patches": 1 << 28, "patch": 256, "merge": 16, "inner": 16, "temporal": 64}
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
        with sensible("preprocessor_config.json"):
            processor = build(prep, config)
        for name, number in _numbers(processor):
            most = next((_MOST[end] for end in _MOST if name.endswith(end)), _MOST_SIDE)
            if type(number) is not int or not 0 < number <= most:
                raise CheckpointError(f"preprocessor_config.json: expected a {name} from 1 to {most}, got {number!r}")
        return processor

    return made


@contextlib.contextmanager
def sensible(file: str) -> Iterator[None]:
    """What fails within is said to be that file's fault: its values come from strangers, and can be anything."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{file}: expected numbers, sizes and colours of a processor; {error}") from error


def _numbers(processor: ImageProcessor) -> Iterator[tuple[str, Any]]:
    """Every size of a processor that there is, with the name of its field."""
    plain = {"normalize", "how", "pan", "cuts", "tolerance"}
    for field in fields(processor):  # type: ignore[arg-type]
        value = getattr(processor, field.name)
        if field.name in plain or field.type == "bool" or value is None:
            continue
        for number in np.ravel(value).tolist() if isinstance(value, tuple) else (value,):
            yield field.name, number


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
    if {type(least), type(most)} != {int} or not 1 <= least <= most <= MOST_CUTS:
        raise ValueError(f"{least} to {most} crops are not from 1 to {MOST_CUTS}")
    return kind(least, most)
