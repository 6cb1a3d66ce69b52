"""Models are asked about many pictures. Who asks does not know whether they answer one by one or together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from docai.errors import InputError
from docai.vlm.request import Answering, Generation, GenerationOptions

if TYPE_CHECKING:
    from docai.types import RGB
    from docai.vlm.encdec_model import EncDecModel
    from docai.vlm.model import Model
    from docai.vlm.scheduler import EngineLimits
    from docai.vlm.ticket import Ticket

_WAITING = 1 << 16  # questions that may wait for an engine: pages of two groups, however many regions they have
# Answers that a GPU writes at once. A step is launched kernel by kernel, so that many rows cost about as much as few,
# and those who wait for documents do not mind how long one answer takes.
_ROWS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A prompt about one picture. `most`: tokens of the answer, where the options do not say it.

    `further`: the pages behind it, for models that read several as one text. `heard` is called as the answer grows,
    where it is waited for.
    """

    prompt: str
    pixels: RGB
    most: int
    further: tuple[RGB, ...] = ()
    heard: Callable[[], None] = lambda: None

    @property
    def pictures(self) -> list[RGB]:
        return [self.pixels, *self.further]


Answer: TypeAlias = "Generation | InputError"  # an error: the model does not take such a picture


class Asker(Protocol):
    """Answers questions. `name` goes into the source of what it says; `family` tells how it is asked.

    `together`: how many pages' questions it likes to have at once.
    """

    name: str
    family: str
    together: int

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        """The answers as they come, each with the place of its question.

        Who can answer while nobody waits begins with the call, the others when the first answer is taken.
        """
        ...

    def stop(self) -> None:
        """From another thread: nobody waits for answers any more. It is asked nothing afterwards."""
        ...


class OneByOne:
    """Asks a model one question after the other, those about pictures of like size together.

    So memory that one took is what the next one needs.
    """

    together = 1

    def __init__(self, model: Model, options: GenerationOptions) -> None:
        folder = Path(model.name)
        self.name, self.family = folder.name if folder.is_dir() else model.name, model.family.name
        self._model, self._options = model, options
        self._stopped = False

    def stop(self) -> None:
        """What is being answered goes on; no other question is asked."""
        self._stopped = True

    def _check(self) -> None:
        """Raise InputError where nobody waits any more."""
        if self._stopped:
            raise InputError("asking about it was given up")

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        """The answers, largest picture first."""
        from docai.vlm.model import as_messages

        for place in by_size(questions):
            self._check()
            asked = questions[place]
            options = self._bounded(asked)
            messages = as_messages(asked.prompt, len(asked.pictures))
            try:
                yield place, _written(self._model.answer(messages, asked.pictures, options), asked)
            except InputError as error:
                yield place, error

    def _bounded(self, asked: Question) -> GenerationOptions:
        return replace(self._options, max_tokens=self._options.max_tokens or asked.most)


def _written(answer: Answering, asked: Question) -> Generation:
    """The whole answer, told as it grows."""
    for _ in answer:
        asked.heard()
    return answer.result


def reading_limits() -> EngineLimits:
    """What an engine takes on that reads documents."""
    from docai.checkpoint.backend import on_gpu
    from docai.vlm.scheduler import EngineLimits

    return EngineLimits(rows=_ROWS if on_gpu() else None, waiting=_WAITING)


class Together(OneByOne):
    """Has an engine answer all questions at once; those about pictures of like size are read one after the other."""

    def __init__(self, model: Model, options: GenerationOptions) -> None:
        from docai.checkpoint.backend import on_gpu
        from docai.vlm.engine import Engine

        super().__init__(model, options)
        self.together = 16 if on_gpu() else 8
        self._engine = Engine(model.runtime, limits=reading_limits())
        self._tickets: list[Ticket] = []  # of answers that nobody has taken yet

    def stop(self) -> None:
        """All that is being answered ends."""
        super().stop()
        for ticket in list(self._tickets):
            ticket.cancel()

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        self._check()
        asked = [(place, self._submitted(questions[place])) for place in by_size(questions)]
        return self._answers(questions, asked)

    def _answers(
        self, questions: Sequence[Question], asked: Sequence[tuple[int, Ticket | InputError]]
    ) -> Iterator[tuple[int, Answer]]:
        try:
            for place, one in asked:
                answer = one if isinstance(one, InputError) else _written(one, questions[place])
                self._check()
                yield place, answer
        finally:
            taken = {id(one) for _, one in asked}
            self._tickets = [ticket for ticket in self._tickets if id(ticket) not in taken]

    def _submitted(self, asked: Question) -> Ticket | InputError:
        from docai.vlm.model import as_messages

        messages = as_messages(asked.prompt, len(asked.pictures))
        try:
            request = self._model.request(messages, asked.pictures, self._bounded(asked))
            self._tickets.append(self._engine.submit(request))
        except InputError as error:
            return error
        return self._tickets[-1]


class InStep(OneByOne):
    """Has an encoder-decoder model write the answers to equal questions together: a step of many costs little more."""

    def __init__(self, model: EncDecModel, options: GenerationOptions) -> None:
        super().__init__(model, options)
        self._writer, self.together = model, model.in_step

    def ask(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        for places in alike(questions, self.together):
            self._check()
            asked, pictures = questions[places[0]], [questions[place].pixels for place in places]
            answers = self._writer.answer_all(asked.prompt, pictures, self._bounded(asked))
            yield from zip(places, answers, strict=True)


def alike(questions: Sequence[Question], most: int) -> Iterator[list[int]]:
    """Places of questions in the same words, at most so many together, in order."""
    groups: dict[tuple[str, int], list[int]] = {}
    for place, question in enumerate(questions):
        groups.setdefault((question.prompt, question.most), []).append(place)
    return (group[at : at + most] for group in groups.values() for at in range(0, len(group), most))


def asker_of(model: Model, options: GenerationOptions) -> Asker:
    """The way in which a model is best asked."""
    from docai.vlm.encdec_model import EncDecModel

    if not isinstance(model, EncDecModel):
        return Together(model, options)
    return InStep(model, options) if model.in_step > 1 else OneByOne(model, options)


def by_size(questions: Sequence[Question]) -> list[int]:
    """Places of questions by the size of their pictures, the largest first: what is too large fails at once."""
    return sorted(range(len(questions)), key=lambda n: -questions[n].pixels.shape[0] * questions[n].pixels.shape[1])
