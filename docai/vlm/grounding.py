"""How models are asked where things are, and how their answers are read: a row a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from docai.errors import UsageError
from docai.vlm.locations import Located, florence, florence_region, referred, words
from docai.vlm.markers import marked, marker_named

Wanted = Literal["box", "outline", "point"]
Sought = Literal["all", "one", "text", "screen"]  # what a phrase names: things, one of them, text, a part of a screen
Sides = tuple[float, float, float, float]  # left, top, right, bottom, in shares of a page's sides


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and the phrase that it is about; none where it is about all that can be seen, or several phrases."""

    prompt: str
    phrase: str | None = None


@dataclass(frozen=True, slots=True)
class Grounder:
    """The prompts of a family: for one phrase by what is wanted, for several at once, for everything.

    `sought` has those for boxes of what is not simply things, and `all_text` that for all text there is. `read` gives
    what an answer with its special tokens locates; the second text is the question's. `markers`: it has Florence-2's.
    """

    one: Mapping[Wanted, str]
    read: Callable[[str, Question], list[Located]]
    several: str | None = None
    between: str = ""  # several phrases
    everything: str | None = None
    sought: Mapping[Sought, str] = field(default_factory=dict)
    all_text: str | None = None
    markers: bool = False

    def by_marker(self, task: str, phrases: Sequence[str], region: Sides | None) -> list[Question]:
        """What is to be asked for one of the tasks that give places. `region`: what it is about.

        Raises UsageError for a task that there is not, or that needs something else.
        """
        if not self.markers:
            raise UsageError(f"task: tasks by markers are Florence-2's; this model has none, got {task!r}")
        marker = marker_named(task)
        if marker.kind == "text" and not marker.region:
            raise UsageError(
                f"task: <{marker.name}> gives text, which docai ocr and docai caption print; got no places"
            )
        if marker.region != (region is not None) or (region is not None and phrases):
            needs = "a --region, and no phrases" if marker.region else "no --region"
            raise UsageError(f"task: <{marker.name}> takes {needs}")
        if region is not None:
            return [Question(f"<{marker.name}>{florence_region(*region)}")]
        if marker.takes_text != bool(phrases):
            raise UsageError(f"task: <{marker.name}> takes {'phrases' if marker.takes_text else 'no phrases'}")
        return [Question(f"<{marker.name}>{phrase}", phrase or None) for phrase in phrases or [""]]

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
    if task is None:
        return []
    marker, text = task
    if marker.region and marker.kind == "text":  # what is said of the region
        return [replace(region, label=words(answer)) for region in florence(text, "proposals")]
    return florence(answer, marker.kind)


GROUNDERS: dict[str, Grounder] = {
    "florence2": Grounder(
        {"box": "<CAPTION_TO_PHRASE_GROUNDING>{}", "outline": "<REFERRING_EXPRESSION_SEGMENTATION>{}"},
        _florence,
        everything="<OD>",
        markers=True,
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
