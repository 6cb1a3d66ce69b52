"""Pictures for models: paths, bytes and arrays, with a key that tells equal ones, decoded only when they are needed.

Files are decoded by `docai.render`, within its limits and in its process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docai.errors import InputError, UsageError
from docai.preprocess.inputs import Rgb
from docai.vlm.features import Key, bytes_key, path_key, pixels_key

if TYPE_CHECKING:
    from PIL.Image import Image

    from docai.render.document import Source
    from docai.types import Limits

DPI = 144  # at which pages of a PDF are rendered: a page is about 1200 x 1700 pixels


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One picture. `load` decodes it: RGB (H, W, 3). `page`: where it stands in its document, from 0."""

    name: str
    key: Key
    load: Callable[[], Rgb]
    page: int = 0


PictureLike: TypeAlias = "Picture | str | Path | bytes | NDArray[np.uint8] | Image"


def picture_of(source: PictureLike, limits: Limits | None = None) -> Picture:
    """A picture of a file, its bytes, an array (H, W, 3) or a Pillow image. Raises InputError or UsageError."""
    if isinstance(source, Picture):
        return source
    if isinstance(source, (str, Path)):
        return _of_file(source, str(source), _key_of_path(source), limits)
    if isinstance(source, bytes):
        return _of_file(source, "image", bytes_key(source), limits)
    rgb = _as_rgb(source)
    return Picture("image", pixels_key(rgb), lambda: rgb)


def pictures_of(source: Source, pages: Sequence[int], key: Key, dpi: int = DPI) -> list[Picture]:
    """The pages (0-based) of an open document as pictures. `key` tells the document from others."""

    def page(index: int) -> Picture:
        single = source.kind == "image" and source.page_count == 1
        own = key if single else (*key, "page", index, dpi if source.kind == "pdf" else 0)
        name = source.name if source.page_count == 1 else f"{source.name}, page {index + 1}"
        return Picture(name, own, lambda: source.page(index).pixels(dpi), index)

    return [page(index) for index in pages]


def _key_of_path(path: str | Path) -> Key:
    if str(path).startswith(("http://", "https://")):
        raise UsageError(f"{path}: addresses are not fetched; download it and give the file")
    try:
        return path_key(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _of_file(source: str | Path | bytes, name: str, key: Key, limits: Limits | None) -> Picture:
    def load() -> Rgb:
        from docai.render.document import open_document

        with open_document(source, limits=limits, name=name) as opened:
            if opened.page_count != 1:
                raise UsageError(
                    f"{name}: expected one picture, got {opened.page_count} pages; docai.vlm.pictures.pictures_of "
                    "makes pictures of pages, and docai chat takes documents as they are"
                )
            return opened.page(0).pixels(DPI)

    return Picture(os.path.basename(name), key, load)  # noqa: PTH119 - a name, which need not be a path


def _as_rgb(source: Any) -> Rgb:
    """An array (H, W, 3) of bytes, or a Pillow image as a viewer shows it."""
    if hasattr(source, "convert"):
        from PIL import ImageOps

        return np.asarray(ImageOps.exif_transpose(source).convert("RGB"))
    array = np.asarray(source)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise UsageError(f"image: expected an array (H, W, 3) of uint8; got {array.shape} of {array.dtype}")
    return array
