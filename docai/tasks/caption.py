"""`docai caption`: what a picture shows, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from docai.errors import DocaiError, InputError
from docai.tasks.options import CaptionOptions, PictureOptions
from docai.tasks.pictures import pictures_in
from docai.vlm.clips import question_of
from docai.vlm.request import Generation, GenerationOptions

if TYPE_CHECKING:
    from docai.render.inputs import InputFile
    from docai.vlm.model import Model

# How much is asked for, and the most tokens that it may take.
_ASKED = {
    "short": ("Describe this image in one sentence.", 96),
    "normal": ("Describe this image in a few sentences.", 320),
    "long": ("Describe this image in detail: everything that can be seen, and any text in it.", 1024),
}


@dataclass(frozen=True, slots=True)
class Caption:
    """What a model says of one picture: a file, or a page (0-based) of one with several `pages`."""

    source: str
    page: int
    pages: int
    text: str
    generation: Generation

    def as_json(self, model: str) -> dict[str, Any]:
        """A JSON line of `docai caption --json`; pages count from 1."""
        usage = self.generation.usage
        return {
            "source": self.source,
            "page": self.page + 1,
            "caption": self.text,
            "model": model,
            "finish_reason": self.generation.finish_reason,
            "usage": {"prompt": usage.prompt, "images": usage.images, "generated": usage.generated},
        }


def caption(
    source: str | Path | bytes,
    model: str | Model,
    *,
    detail: Literal["short", "normal", "long"] = "normal",
    prompt: str | None = None,
    pages: str | None = None,
    password: str | None = None,
    **options: Any,
) -> list[Caption]:
    """The captions of a picture, or of each page of a document: a path, or its bytes.

    `model` is a name, or what `docai.load` gave. Other options are those of `GenerationOptions`.
    """
    from docai.render.inputs import InputFile
    from docai.tasks.load import load

    asked = CaptionOptions(detail=detail, prompt=prompt)
    seen, chosen = PictureOptions(pages=pages, password=password), GenerationOptions(**options)
    path, data = (None, source) if isinstance(source, bytes) else (Path(source), None)
    file = InputFile(path, None, "image" if path is None else str(path), data)
    return list(captions(load(model) if isinstance(model, str) else model, file, asked, seen, chosen))


def captions(
    model: Model,
    file: InputFile,
    asked: CaptionOptions,
    pictures: PictureOptions,
    options: GenerationOptions,
    *,
    on_error: Callable[[DocaiError], None] | None = None,
) -> Iterator[Caption]:
    """The caption of each picture of a file, as it is done.

    `on_error` hears of a picture that cannot be read, and the others go on; without it the error is raised.
    """
    words, most = _ASKED[asked.detail]
    taught = model.family.prompt.captions
    limited = replace(options, max_tokens=options.max_tokens or most)
    question = question_of(1, asked.prompt or (taught[list(_ASKED).index(asked.detail)] if taught else words))
    seen = pictures_in(file, pictures)
    for picture in seen:
        try:
            answer = model.answer([question], [picture], limited).whole()
        except InputError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        yield Caption(file.name, picture.page, len(seen), answer.text.strip(), answer)
