"""How models are asked where things are, and how their answers are read: a row a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from docai.errors import UsageError
from docai.vlm.locations import Located, florence, referred
from docai.vlm.markers import marked

Wanted = Literal["box", "outline", "point"]
Sought = Literal["all", "one", "text", "screen"]  # what a phrase names: things, one of them, text, a part of a screen


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and the phrase that it is about; none where it is about all that can be seen, or several phrases."""

    prompt: str
    phrase: str | None = None


@dataclass(frozen=True, slots=True)
class Grounder:
    """The prompts of a family: for one phrase by what is wanted, for several at once, for everything.

    `sought` has those for boxes of what is not simply things, and `all_text` that for all text there is. `read` gives
    what an answer with its special tokens locates; the second text is the question's.
    """

    one: Mapping[Wanted, str]
    read: Callable[[str, Question], list[Located]]
    several: str | None = None
    between: str = ""  # several phrases
    everything: str | None = None
    sought: Mapping[Sought, str] = field(default_factory=dict)
    all_text: str | None = None

    def questions(self, phrases: Sequence[str], wanted: Wanted, sought: Sought = "all") -> list[Question]:
        """What is to be asked. Raises UsageError for what a model cannot be asked."""
        if wanted not in self.one:
            raise UsageError(f"shape: this model gives {' or '.join(self.one)}; got {wanted!r}")
        if sought != "all":
            return self._of(phrases, wanted, sought)
        if not phrases:
            if self.everything is None or wanted != "box":
                raise UsageError("expected phrases to look for: this model names nothing by itself, got none")
            return [Question(self.everything)]
        if len(phrases) > 1 and self.several is not None and wanted == "box":
            return [Question(self.several.format(self.between.join(phrases)))]
        return [Question(self.one[wanted].format(phrase), phrase) for phrase in phrases]

    def _of(self, phrases: Sequence[str], wanted: Wanted, sought: Sought) -> list[Question]:
        if sought not in self.sought:
            raise UsageError(f"sought: this model looks for {' or '.join(('all', *self.sought))}; got {sought!r}")
        if wanted != "box":
            raise UsageError(f"sought: {sought} gives boxes; got shape {wanted!r}")
        if phrases:
            return [Question(self.sought[sought].format(phrase), phrase) for phrase in phrases]
        if sought == "text" and self.all_text is not None:
            return [Question(self.all_text)]
        raise UsageError("expected phrases to look for, got none")


def _florence(answer: str, question: Question) -> list[Located]:
    task = marked(question.prompt)
    return florence(answer, task[0].kind) if task else []


GROUNDERS: dict[str, Grounder] = {
    "florence2": Grounder(
        {"box": "<CAPTION_TO_PHRASE_GROUNDING>{}", "outline": "<REFERRING_EXPRESSION_SEGMENTATION>{}"},
        _florence,
        everything="<OD>",
    ),
    "locateanything": Grounder(
        {"box": "Locate all the instances that match the following description: {}.", "point": "Point to: {}."},
        lambda answer, question: referred(answer, question.phrase or ""),
        # as the model was taught it
        several="Locate all the instances that matches the following description: {}.",
        between="</c>",
        sought={
            "one": "Locate a single instance that matches the following description: {}.",
            "text": "Please locate the text referred as {}.",
            "screen": "Locate the region that matches the following description: {}.",
        },
        all_text="Detect all the text in box format.",
    ),
}


def grounder_of(family: str) -> Grounder:
    """That of a family. Raises UsageError for one that locates nothing."""
    if family not in GROUNDERS:
        raise UsageError(f"a model of the family {family} locates nothing; expected one of {', '.join(GROUNDERS)}")
    return GROUNDERS[family]
