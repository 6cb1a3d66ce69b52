"""Images of requests that wait, encoded ahead: those of one shape in a single pass, equal ones once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import mlx.core as mx

from docai.vlm.connector import ImageFeatures
from docai.vlm.encoding_memory import PASS_VALUES
from docai.vlm.features import Key
from docai.vlm.generate import RequestImage
from docai.vlm.job import Job
from docai.vlm.network import Network


def encode_ahead(network: Network, jobs: Sequence[Job], *, together: bool) -> None:
    """Encode the images of the first job and, in the same passes, those of their shapes that later jobs have.

    `together` False: each by itself. Raises what encoding raises.
    """
    first, *later = jobs
    for group in _groups(_wanted([first]), _wanted(later) if together else {}):
        encoded = network.encode([image.input for _, image in group], together=together)
        mx.eval([array for features in encoded for array in (features.rows, *features.deepstack)])
        for (key, image), features in zip(group, encoded, strict=True):
            if image.keep is not None:
                image.keep(features)
            _give(jobs, key, features)


def _wanted(jobs: Sequence[Job]) -> dict[Key, RequestImage]:
    """The images that have no features yet."""
    images = [image for job in jobs for image in job.request.images if image.key not in job.features]
    return {image.key: image for image in images if not image.cached and image.keep is not None}


def _groups(own: dict[Key, RequestImage], others: dict[Key, RequestImage]) -> Iterator[list[tuple[Key, RequestImage]]]:
    """Images to be encoded in one pass: all that are wanted now, and as many of the others as fit in."""
    shapes: dict[Hashable, list[tuple[Key, RequestImage]]] = {}
    for key, image in own.items():
        shapes.setdefault(_shape(image), []).append((key, image))
    for shape, group in shapes.items():
        size = group[0][1].input.pixels.size
        most = max(1, PASS_VALUES // size)
        alike = [(k, i) for k, i in others.items() if k not in own and _shape(i) == shape]
        group += alike[: max(0, -len(group) % most)]
        yield from (group[n : n + most] for n in range(0, len(group), most))


def _shape(image: RequestImage) -> Hashable:
    return image.input.kind, image.input.pixels.shape, image.input.grid


def _give(jobs: Sequence[Job], key: Key, features: ImageFeatures) -> None:
    for job in jobs:
        if any(image.key == key for image in job.request.images):
            job.features[key] = features
