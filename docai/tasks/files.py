"""Files that a model reads, pages of several of them together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docai.errors import DocaiError
from docai.tasks.groups import Wanted
from docai.tasks.ocr import chosen_pages, pages_reader
from docai.tasks.options import OcrOptions
from docai.tasks.prompted import PromptedPages
from docai.types import PageResult

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.render.inputs import InputFile


@dataclass(slots=True, eq=False)
class _Opened:
    """A file with so many pages to be read, and what has been read of it; an error for one that cannot be opened."""

    file: InputFile
    source: Source | DocaiError
    pages: int = 0
    results: list[PageResult] = field(default_factory=list)


def read_files(
    files: Iterable[InputFile], options: OcrOptions
) -> Iterator[tuple[InputFile, Source | DocaiError, list[PageResult]]]:
    """Files in their order, open until the next is asked for, with the results of their pages; an error for one that
    cannot be opened. The model is asked about pages of several of them together.
    """
    reader = pages_reader(options)
    assert isinstance(reader, PromptedPages), "a model reads"
    opened: deque[_Opened] = deque()
    for page, result in reader.results_of(_wanted(files, options, opened)):
        next(one for one in opened if one.source is page.source).results.append(result)
        yield from _ended(opened)
    yield from _ended(opened)


def _wanted(files: Iterable[InputFile], options: OcrOptions, opened: deque[_Opened]) -> Iterator[Wanted]:
    """The pages of all files, each of which is `opened` when its turn comes."""
    from docai.render.document import open_document

    for file in files:
        source: Source | None = None
        try:
            source = open_document(file, password=options.password, limits=options.limits)
            indices = chosen_pages(source, options)
        except DocaiError as error:
            if source is not None:
                source.close()
            opened.append(_Opened(file, error))
            continue
        opened.append(_Opened(file, source, len(indices)))
        for index in indices:
            yield Wanted(source, index)


def _ended(opened: deque[_Opened]) -> Iterator[tuple[InputFile, Source | DocaiError, list[PageResult]]]:
    """The first files, as far as no page of them is missing."""
    while opened and len(opened[0].results) == opened[0].pages:
        one = opened.popleft()
        yield one.file, one.source, one.results
        if not isinstance(one.source, DocaiError):
            one.source.close()
