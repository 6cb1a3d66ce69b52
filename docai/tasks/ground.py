"""`docai ground`: where things are in a picture, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docai.errors import DocaiError, InputError, UsageError
from docai.geometry import Outline, corners, iou, outlines, union, wkt
from docai.tasks.options import GroundOptions, PictureOptions
from docai.tasks.pictures import pages_in
from docai.types import Box, Label, Page, Region
from docai.vlm.clips import question_of
from docai.vlm.many import in_order
from docai.vlm.request import Answering, Generation, GenerationOptions

if TYPE_CHECKING:
    from docai.render.inputs import InputFile
    from docai.vlm.grounding import Grounder, Question
    from docai.vlm.locations import Located
    from docai.vlm.model import Model
    from docai.vlm.pictures import Picture

_SAME = 0.95  # of two boxes with one name: what they share, from which on they are one
MOST_TOKENS = 1024  # of an answer


@dataclass(frozen=True, slots=True)
class Found:
    """Something on a page, in its unit. `label` is the model's name for it, `phrase` what was asked for.

    `outlines`: what it covers, where the model tells more than a box; a point has one of a single point.
    """

    label: str
    phrase: str | None
    box: Box
    outlines: tuple[Outline, ...] = ()

    @property
    def wkt(self) -> str:
        """Its place as well-known text."""
        return wkt(self.outlines or (corners(self.box),))

    def as_json(self) -> dict[str, Any]:
        left, top, right, bottom = (round(value, 2) for value in self.box.as_tuple())
        said: dict[str, Any] = {"label": self.label, "phrase": self.phrase}
        said["box"] = {"l": left, "t": top, "r": right, "b": bottom}
        if self.outlines:
            said["polygons"] = [[[round(x, 2), round(y, 2)] for x, y in ring] for ring in self.outlines]
        return said | {"wkt": self.wkt}


@dataclass(frozen=True, slots=True)
class Grounded:
    """What a model found on one page."""

    page: Page
    found: tuple[Found, ...]
    generations: tuple[Generation, ...]

    def as_json(self, model: str) -> dict[str, Any]:
        """A JSON line of `docai ground`; pages count from 1."""
        page = self.page
        return {
            "source": page.source,
            "page": page.index + 1,
            "unit": page.unit,
            "size": [round(edge, 2) for edge in page.size],
            "model": model,
            "found": [one.as_json() for one in self.found],
        }

    def regions(self) -> list[Region]:
        """What was found, as regions to draw."""
        return [
            Region(one.box, Label.FIGURE, polygon=ring, name=one.phrase or one.label)
            for one in self.found
            for ring in one.outlines or (None,)
        ]


def ground(
    source: str | Path | bytes,
    phrases: str | Sequence[str] = (),
    model: str | Model = "florence-2",
    *,
    shape: str = "box",
    sought: str = "all",
    task: str | None = None,
    region: str | None = None,
    pages: str | None = None,
    password: str | None = None,
    **options: Any,
) -> list[Grounded]:
    """Where things are in a picture, or on each page of a document: a path, or its bytes.

    No phrases: all that the model has names for. `model` is a name, or what `docai.load` gave. Other options are those
    of `GenerationOptions`.
    """
    from docai.render.inputs import InputFile
    from docai.tasks.load import load

    asked = GroundOptions(shape=shape, sought=sought, task=task, region=region)  # type: ignore[arg-type]  # checked there
    seen, chosen = PictureOptions(pages=pages, password=password), GenerationOptions(**options)
    path, data = (None, source) if isinstance(source, bytes) else (Path(source), None)
    file = InputFile(path, None, "image" if path is None else str(path), data)
    names = [phrases] if isinstance(phrases, str) else list(phrases)
    return list(grounded(load(model) if isinstance(model, str) else model, file, names, asked, seen, chosen))


def grounded(
    model: Model,
    file: InputFile,
    phrases: Sequence[str],
    asked: GroundOptions,
    pictures: PictureOptions,
    options: GenerationOptions,
    *,
    on_error: Callable[[DocaiError], None] | None = None,
) -> Iterator[Grounded]:
    """What is found on each page of a file, in order; several questions are asked at once.

    `on_error` hears of a page that cannot be read, and the others go on; without it the error is raised.
    """
    from docai.vlm.grounding import grounder_of

    grounder = grounder_of(model.family.name)
    names = clean(phrases)
    limited = replace(options, max_tokens=options.max_tokens or MOST_TOKENS, special_tokens=True)

    def ask(one: _Asked) -> Answering:
        return model.answer([question_of(1, one.prompt)], [one.picture], limited)

    every = (one for page, picture in pages_in(file, pictures) for one in _asked(page, picture, grounder, names, asked))
    answered: list[tuple[_Asked, Generation | DocaiError]] = []
    for one, answer in in_order(every, ask, model.at_once):
        answered.append((one, answer))
        if not one.last:
            continue
        try:
            yield _found(grounder, answered)
        except InputError as error:
            if on_error is None:
                raise
            on_error(error)
        answered = []


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A question about a page, perhaps the last one; an error where it cannot be asked."""

    page: Page
    picture: Picture
    question: Question | UsageError
    last: bool = True

    @property
    def prompt(self) -> str:
        """Raises the error."""
        if isinstance(self.question, UsageError):
            raise self.question
        return self.question.prompt


def _asked(
    page: Page, picture: Picture, grounder: Grounder, phrases: Sequence[str], asked: GroundOptions
) -> list[_Asked]:
    try:
        questions = _questions(grounder, phrases, asked, page)
    except UsageError as error:  # its turn comes after the pages before
        return [_Asked(page, picture, error)]
    return [_Asked(page, picture, question, n == len(questions)) for n, question in enumerate(questions, 1)]


def _found(grounder: Grounder, answered: Sequence[tuple[_Asked, Generation | DocaiError]]) -> Grounded:
    """What the answers about one page locate. Raises the error of a question."""
    page, found, answers = answered[0][0].page, list[Found](), list[Generation]()
    for one, answer in answered:
        if isinstance(answer, DocaiError):
            raise answer
        assert not isinstance(one.question, UsageError), "it was answered"
        answers.append(answer)
        located = grounder.read(answer.text, one.question)
        found += (own for part in located if (own := on_page(part, page, one.question.phrase)) is not None)
    return Grounded(page, tuple(distinct(found)), tuple(answers))


def _questions(grounder: Grounder, phrases: Sequence[str], asked: GroundOptions, page: Page) -> list[Question]:
    """What is asked about a page. Raises UsageError."""
    if asked.task is None:
        if asked.region is not None:
            raise UsageError("region: it belongs to a task about one; name that with --task")
        return grounder.questions(phrases, asked.shape, asked.sought)
    return grounder.by_marker(asked.task, phrases, None if asked.region is None else sides(asked.region, page))


def sides(region: str, page: Page) -> tuple[float, float, float, float]:
    """`left,top,right,bottom` in a page's unit, as shares of its sides. Raises UsageError for one that is none."""
    try:
        left, top, right, bottom = (float(part) for part in region.split(","))
    except ValueError as error:
        raise UsageError(f"region: expected left,top,right,bottom in {page.unit}; got {region!r}") from error
    if not (0 <= left < right <= page.width and 0 <= top < bottom <= page.height):
        raise UsageError(
            f"region: expected a part of the page, {page.width:g} x {page.height:g} {page.unit}; got {region!r}"
        )
    return left / page.width, top / page.height, right / page.width, bottom / page.height


def clean(phrases: Sequence[str]) -> list[str]:
    """Phrases without white space around them, each once. Raises UsageError for one of nothing."""
    words = [" ".join(phrase.split()) for phrase in phrases]
    if "" in words:
        raise UsageError("expected phrases to look for; one of them is empty")
    return list(dict.fromkeys(words))


def on_page(located: Located, page: Page, phrase: str | None = None) -> Found | None:
    """What a model located, in the page's unit and cut to it; None where nothing is left of it."""
    rings = [tuple((x * page.width, y * page.height) for x, y in ring) for ring in located.rings]
    label = located.label or phrase or ""
    if located.shape == "point":
        ((x, y),) = rings[0]
        return Found(label, phrase, Box(x, y, x, y), (((x, y),),))
    if located.shape == "box":
        (left, top), (right, bottom) = rings[0]
        box = Box(left, top, right, bottom)
        return Found(label, phrase, box) if box.area > 0 else None
    areas = tuple(area for ring in rings for area in outlines(ring, page.box))
    if not areas:
        return None
    box = union(Box(*(edge(axis) for edge in (min, max) for axis in zip(*area, strict=True))) for area in areas)
    return Found(label, phrase, box, areas)


def distinct(found: Sequence[Found]) -> list[Found]:
    """Each thing once, the first time it is named: models repeat themselves."""
    kept: list[Found] = []
    for one in found:
        if not any(other.label == one.label and _same(one, other) for other in kept):
            kept.append(one)
    return kept


def _same(one: Found, other: Found) -> bool:
    return one.box == other.box or iou(one.box, other.box) >= _SAME
