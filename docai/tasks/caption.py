"""`docai caption`: what a picture shows, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from docai.errors import DocaiError, InputError
from docai.tasks.options import CaptionOptions, PictureOptions
from docai.tasks.pictures import pictures_in
from docai.vlm.clips import question_of
from docai.vlm.many import in_order
from docai.vlm.request import Answering, Generation, GenerationOptions

if TYPE_CHECKING:
    from docai.render.inputs import InputFile
    from docai.vlm.encdec_model import EncDecModel
    from docai.vlm.model import Model
    from docai.vlm.pictures import Picture

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
    for _, done in captions_of(model, [file], asked, pictures, options):
        if isinstance(done, Caption):
            yield done
        elif on_error is None or not isinstance(done, InputError):
            raise done
        else:
            on_error(done)


def captions_of(
    model: Model,
    files: Iterable[InputFile],
    asked: CaptionOptions,
    pictures: PictureOptions,
    options: GenerationOptions,
) -> Iterator[tuple[InputFile, Caption | DocaiError]]:
    """The caption of each picture of each file, in order; an error in the place of what cannot be read.

    Several pictures are worked on at once, whatever files they are in.
    """
    words, most = _ASKED[asked.detail]
    taught = model.family.prompt.captions
    thinking = "off" if options.thinking == "auto" else options.thinking
    limited = replace(options, max_tokens=options.max_tokens or most, thinking=thinking)
    prompt = asked.prompt or (taught[list(_ASKED).index(asked.detail)] if taught else words)
    for seen, answer in _answers(model, _seen(files, pictures), prompt, limited):
        if isinstance(answer, DocaiError):
            yield seen.file, answer
        else:
            yield seen.file, Caption(seen.file.name, seen.page, seen.pages, answer.text.strip(), answer)


def _answers(
    model: Model, pictures: Iterable[_Seen], prompt: str, options: GenerationOptions
) -> Iterator[tuple[_Seen, Generation | DocaiError]]:
    """What is said of each picture, in order; several are asked about at once."""
    from docai.vlm.encdec_model import EncDecModel

    if isinstance(model, EncDecModel) and model.in_step > 1:
        yield from _in_step(model, pictures, prompt, options)
        return
    question = question_of(1, prompt)

    def ask(seen: _Seen) -> Answering:
        if isinstance(seen.picture, DocaiError):
            raise seen.picture
        return model.answer([question], [seen.picture], options)

    yield from in_order(pictures, ask, model.at_once)


def _in_step(
    model: EncDecModel, pictures: Iterable[_Seen], prompt: str, options: GenerationOptions
) -> Iterator[tuple[_Seen, Generation | DocaiError]]:
    """The same of a model that writes the answers to equal questions together."""
    rest = iter(pictures)
    while group := list(islice(rest, model.in_step)):
        asked = [seen.picture for seen in group if not isinstance(seen.picture, DocaiError)]
        answers = iter(model.answer_all(prompt, asked, options))
        yield from ((s, s.picture if isinstance(s.picture, DocaiError) else next(answers)) for s in group)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A picture of a file with so many pages, or why there is none."""

    file: InputFile
    pages: int
    picture: Picture | DocaiError

    @property
    def page(self) -> int:
        return 0 if isinstance(self.picture, DocaiError) else self.picture.page


def _seen(files: Iterable[InputFile], options: PictureOptions) -> Iterator[_Seen]:
    for file in files:
        try:
            seen = pictures_in(file, options)
        except DocaiError as error:
            yield _Seen(file, 0, error)
        else:
            yield from (_Seen(file, len(seen), picture) for picture in seen)
