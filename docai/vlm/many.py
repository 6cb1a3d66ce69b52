"""Many questions, asked before the first answer is there, so that an engine answers them together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from docai.errors import DocaiError
from docai.vlm.request import Answering, Generation

Q = TypeVar("Q")


def in_order(
    questions: Iterable[Q], ask: Callable[[Q], Answering], at_once: int
) -> Iterator[tuple[Q, Generation | DocaiError]]:
    """The answers in the order of their questions, of which up to `at_once` are asked ahead.

    What cannot be asked or answered has its error in the answer's place. Who stops taking answers ends those that run.
    """
    waiting: deque[tuple[Q, Answering | DocaiError]] = deque()
    for question in questions:
        waiting.append((question, _asked(question, ask)))
        if len(waiting) > at_once:
            yield _answered(*waiting.popleft())
    while waiting:
        yield _answered(*waiting.popleft())


def _asked(question: Q, ask: Callable[[Q], Answering]) -> Answering | DocaiError:
    try:
        return ask(question)
    except DocaiError as error:
        return error


def _answered(question: Q, asked: Answering | DocaiError) -> tuple[Q, Generation | DocaiError]:
    try:
        return question, asked if isinstance(asked, DocaiError) else asked.whole()
    except DocaiError as error:
        return question, error
