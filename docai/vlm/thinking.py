"""Thinking before the answer: its tokens, its budget, and keeping it apart from the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docai.vlm.tokenizer import Tokenizer

# The marks of known models, by how their tokenizers spell them, and what stands behind the first as its name. Each is
# one token.
_MARKS = (
    ("<think>", "</think>", ""),  # Qwen3, DeepSeek, GLM and most others
    ("[THINK]", "[/THINK]", ""),  # Mistral
    ("◁think▷", "◁/think▷", ""),  # Kimi-VL
    ("<|channel>", "<channel|>", "thought"),  # Gemma 4
    ("<|START_THINKING|>", "<|END_THINKING|>", ""),  # Cohere
)


@dataclass(frozen=True, slots=True)
class ThinkingMarks:
    """The tokens before and after a model's thinking, and one behind the first that only says that it is that."""

    start: int
    end: int
    name: int | None = None


def thinking_marks(tokenizer: Tokenizer) -> ThinkingMarks | None:
    """The marks that this tokenizer has as tokens; of several pairs, the one that its chat template writes."""
    found: list[tuple[bool, ThinkingMarks]] = []
    for opening, closing, name in _MARKS:
        start, end = tokenizer.token_id(opening), tokenizer.token_id(closing)
        if start is not None and end is not None:
            marks = ThinkingMarks(start, end, tokenizer.token_id(name) if name else None)
            found.append((closing in (tokenizer.chat_template or ""), marks))
    return max(found, key=lambda pair: pair[0])[1] if found else None


class Thinking:
    """Follows one answer: which of its tokens are thought and which are said.

    A prompt may end with thinking begun, as templates of models that always think do. A model may think several times.
    With a budget, `forced` tells when thinking has to end.
    """

    def __init__(self, marks: ThinkingMarks | None, prompt: Sequence[int], budget: int | None = None) -> None:
        self._marks, self._budget = marks, budget
        self.inside = marks is not None and _is_open(marks, prompt)
        self.count = 0  # tokens of thinking so far, without the marks
        self._begun = False  # with the token before

    def add(self, token: int) -> bool:
        """Whether this token is a mark, so belongs to neither text. `inside` then holds for the tokens that follow."""
        marks = self._marks
        if marks is None:
            return False
        if token == (marks.end if self.inside else marks.start):
            self.inside = self._begun = not self.inside
            return True
        named, self._begun = self._begun and token == marks.name, False
        if named:
            return True
        self.count += self.inside
        return False

    @property
    def opening(self) -> int | None:
        """The token with which thinking may begin."""
        return None if self._marks is None else self._marks.start

    @property
    def budgeted(self) -> bool:
        """Whether a token may have to be forced, so that each has to be known before the next is chosen."""
        return self._marks is not None and self._budget is not None

    def forced(self) -> int | None:
        """The token that has to come now: the end mark, once the budget is used up."""
        if self._marks is None or self._budget is None or not self.inside or self.count < self._budget:
            return None
        return self._marks.end


def _is_open(marks: ThinkingMarks, prompt: Sequence[int]) -> bool:
    """Whether the last mark of a prompt is a start."""
    for token in reversed(prompt):
        if token in (marks.start, marks.end):
            return token == marks.start
    return False
