"""Files as media for a model: images, documents page by page, videos as clips or by their pictures, and sounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from docai.errors import LimitExceeded, UsageError
from docai.render.inputs import check_kind, expand
from docai.tasks.options import ClipOptions, PictureOptions, SoundOptions, parse_pages
from docai.vlm.clips import Clip, clip_of
from docai.vlm.sounds import Sound, sound_of

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.render.inputs import InputFile
    from docai.types import Page
    from docai.vlm.clips import Medium
    from docai.vlm.pictures import Picture


def media_from(
    files: Iterable[InputFile], pictures: PictureOptions, clips: ClipOptions, most: int, *, moving: bool = False
) -> list[Medium]:
    """The pictures and clips of all files, in order. Nothing is decoded yet. `moving`: a GIF is a clip, no picture.

    Raises LimitExceeded for more than `most` pictures, and the errors of files that cannot be opened. What a clip
    counts is known where it is known which model sees it.
    """
    media: list[Medium] = []
    count = 0
    for file in files:
        if is_movie(file, gif=moving):
            media.append(clip_in(file, clips))
            continue
        found = pictures_in(file, pictures)
        media += found
        count += len(found)
        if count > most:
            raise LimitExceeded(
                f"{file.name}: {count} images are more than the {most} allowed; choose pages with --pages, or "
                "raise --max-images"
            )
    return media


def is_movie(file: InputFile, *, gif: bool = False) -> bool:
    """Whether a file is a video, and no document or picture; with `gif`, a GIF is one. Raises InputError."""
    head, size = file.head_and_size()
    return size > 0 and (check_kind(head, file.name) == "video" or (gif and head.startswith(b"GIF8")))


def clip_in(file: InputFile, options: ClipOptions) -> Clip:
    """A video as a clip. Raises InputError, LimitExceeded or DependencyMissing where it cannot be opened."""
    clip = clip_of(
        file,
        fps=options.video_fps,
        most=options.video_max_frames,
        sampling=options.video_sampling,
        limits=options.limits,
    )
    _ = clip.video
    return clip


def sounds_in(options: SoundOptions) -> list[Sound]:
    """The sound that options name, opened; none where they name none."""
    return [_sound(name, options) for name in options.audio or ()]


def _sound(name: str, options: SoundOptions) -> Sound:
    """A sound. Raises UsageError for several files, InputError, LimitExceeded or DependencyMissing."""
    files = expand([name], max_bytes=options.max_bytes)
    if len(files) > 1:
        raise UsageError(f"{name}: expected one audio clip; got {len(files)} files")
    sound = sound_of(files[0], limits=options.limits)
    _ = sound.track
    return sound


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
    if source.kind == "video":  # which pictures it has depends on how often it is looked at
        key = (*key, options.video_fps)
    return pictures_of(source, _pages(source, options), key, options.dpi)


def _pages(source: Source, options: PictureOptions) -> Sequence[int]:
    """0-based pages; `--pages` is about documents, so that pictures beside them are taken whole."""
    if options.pages is None or (source.kind == "image" and source.page_count == 1):
        return range(source.page_count)
    return parse_pages(options.pages, source.page_count)
