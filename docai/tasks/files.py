"""Files that a model reads, pages of several of them together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
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


def read_files(
    files: Iterable[InputFile], options: OcrOptions
) -> Iterator[tuple[InputFile, Source | DocaiError, list[PageResult]]]:
    """Files in their order, open until the next is asked for, with the results of their pages; an error for one that
    cannot be opened. The model is asked about pages of several of them together.
    """
    from docai.render.document import open_document

    reader = pages_reader(options)
    assert isinstance(reader, PromptedPages), "a model reads"
    opened: deque[tuple[InputFile, Source | DocaiError, int]] = deque()  # and how many pages are read of each

    def wanted() -> Iterator[Wanted]:
        for file in files:
            try:
                source = open_document(file, password=options.password, limits=options.limits)
            except DocaiError as error:
                opened.append((file, error, 0))
                continue
            try:
                indices = chosen_pages(source, options)
            except DocaiError as error:
                source.close()
                opened.append((file, error, 0))
                continue
            opened.append((file, source, len(indices)))
            yield from (Wanted(source, index) for index in indices)

    def ended(results: list[PageResult]) -> Iterator[tuple[InputFile, Source | DocaiError, list[PageResult]]]:
        """The files of which no page is missing, given what was read of the first of them."""
        while opened and len(results) == opened[0][2]:
            file, source, _ = opened.popleft()
            yield file, source, results
            if not isinstance(source, DocaiError):
                source.close()
            results = []

    read: list[PageResult] = []
    for page, result in reader.results_of(wanted()):
        if not read:  # what stands before its file has no pages
            yield from ended(read)
        read.append(result)
        assert opened[0][1] is page.source, "results come in order"
        if len(read) == opened[0][2]:
            yield from ended(read)
            read = []
    yield from ended(read)
