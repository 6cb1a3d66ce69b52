"""`--format raw`: what a model writes about pages, word for word, with its special tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from docai.errors import UsageError
from docai.tasks.ocr import chosen_pages
from docai.tasks.options import OcrOptions

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.vlm.request import Generation

RAW = "raw"


def raw_pages(source: Source, options: OcrOptions) -> Iterator[tuple[int, Generation]]:
    """The index of each page that is to be read, and the answer about it as a whole.

    Raises UsageError for an engine, whose text has no such form.
    """
    if options.engine:
        raise UsageError(f"format: raw is what a model writes; {options.model} is an engine, so name a model with -m")
    from docai.ocr.manners import manner_of
    from docai.tasks.prompted import page_prompt, seeing_model
    from docai.vlm.model import as_messages
    from docai.vlm.request import GenerationOptions

    model = seeing_model(options)
    manner = manner_of(model.family.name)
    prompt, most = page_prompt(options, manner), options.max_tokens or manner.max_tokens
    chosen = GenerationOptions(max_tokens=most, special_tokens=True)
    for index in chosen_pages(source, options):
        pixels = source.page(index).pixels(options.dpi or manner.dpi)
        yield index, model.answer(as_messages(prompt, 1), [pixels], chosen).whole()
