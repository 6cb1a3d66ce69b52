"""Files as pictures for a model: images as they are, documents page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from docai.errors import LimitExceeded
from docai.tasks.options import PictureOptions, parse_pages

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.render.inputs import InputFile
    from docai.types import Page
    from docai.vlm.pictures import Picture


def pictures_from(files: Iterable[InputFile], options: PictureOptions, most: int) -> list[Picture]:
    """The pictures of all files, in order. Nothing is decoded yet.

    Raises LimitExceeded for more than `most` of them, and the errors of files that cannot be opened.
    """
    pictures: list[Picture] = []
    for file in files:
        pictures += pictures_in(file, options)
        if len(pictures) > most:
            raise LimitExceeded(
                f"{file.name}: {len(pictures)} images are more than the {most} allowed; choose pages with --pages, or "
                "raise --max-images"
            )
    return pictures


def pages_in(file: InputFile, options: PictureOptions) -> list[tuple[Page, Picture]]:
    """The pages of one file, each with its picture."""
    source = _opened(file, options)
    return [(source.page(picture.page), picture) for picture in _pictures(source, file, options)]


def pictures_in(file: InputFile, options: PictureOptions) -> list[Picture]:
    """The pictures of one file."""
    return _pictures(_opened(file, options), file, options)


def _opened(file: InputFile, options: PictureOptions) -> Source:
    from docai.render.document import open_document

    return open_document(file, password=options.password, limits=options.limits)


def _pictures(source: Source, file: InputFile, options: PictureOptions) -> list[Picture]:
    from docai.vlm.features import bytes_key, path_key
    from docai.vlm.pictures import pictures_of

    key = bytes_key(file.data) if file.data is not None else path_key(str(file.path))
    return pictures_of(source, _pages(source, options), key, options.dpi)


def _pages(source: Source, options: PictureOptions) -> Sequence[int]:
    """0-based pages; `--pages` is about documents, so that pictures beside them are taken whole."""
    if options.pages is None or (source.kind == "image" and source.page_count == 1):
        return range(source.page_count)
    return parse_pages(options.pages, source.page_count)
