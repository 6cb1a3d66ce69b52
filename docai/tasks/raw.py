"""`--format raw`: what a model writes about pages, word for word, with its special tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from docai.errors import UsageError
from docai.tasks.ocr import chosen_pages
from docai.tasks.options import OcrOptions

if TYPE_CHECKING:
    from docai.render.document import Source
    from docai.vlm.model import Model
    from docai.vlm.request import Generation

RAW = "raw"


def raw_pages(source: Source, options: OcrOptions, loaded: Model | None = None) -> Iterator[tuple[int, Generation]]:
    """The index of each page that is to be read, and the answer about it as a whole; of all as one, that of the first.

    `loaded`: the model, where it is in memory. Raises UsageError for an engine, whose text has no such form.
    """
    if options.engine:
        raise UsageError(f"format: raw is what a model writes; {options.model} is an engine, so name a model with -m")
    from docai.ocr.manners import manner_of
    from docai.tasks.prompted import page_prompt, seeing_model
    from docai.vlm.model import as_messages
    from docai.vlm.request import GenerationOptions

    model = seeing_model(options, loaded)
    manner = manner_of(model.family.name)
    prompt, most = page_prompt(options, manner), options.max_tokens or manner.max_tokens
    chosen = GenerationOptions(
        max_tokens=most,
        thinking="off",
        special_tokens=True,
        multi_page=options.multi_page,
        crop_to_patches=options.crop_to_patches,
    )
    indices = list(chosen_pages(source, options))
    for group in [indices] if options.multi_page else [[index] for index in indices]:
        pages = [source.page(index).pixels(options.dpi or manner.dpi) for index in group]
        yield group[0], model.answer(as_messages(prompt, len(pages)), pages, chosen).whole()


def as_text(answers: Iterable[str]) -> str:
    """The answers about pages as one text, a form feed between them."""
    return "\n\f\n".join(answers) + "\n"
