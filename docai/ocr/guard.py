"""What models do wrong when they read: answers that repeat themselves, end too soon, are missing or made up.

Each answer gets a verdict and a confidence. What is wrong is told by the answer itself, by the ink in its picture and,
where there is one, by a text that can be trusted: a text layer, or what the embedded engine reads in the same place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from docai.ocr.ink import Ink
from docai.vlm.request import Generation


class Finding(StrEnum):
    """What is the matter with an answer."""

    OK = "ok"
    LOOP = "loop"  # it repeats itself
    CUT = "cut"  # the limit of tokens ended it
    EMPTY = "empty"  # nothing, where there is ink
    INVENTED = "invented"  # text, where there is none
    SPARSE = "sparse"  # much less than the ink would give
    SWOLLEN = "swollen"  # much more
    DISAGREES = "disagrees"  # a text that can be trusted says something else
    REFUSED = "refused"  # the model does not take such a picture


UNUSABLE = frozenset({Finding.LOOP, Finding.CUT, Finding.EMPTY, Finding.INVENTED, Finding.REFUSED})
_SAID = {
    Finding.LOOP: "the answer repeats itself",
    Finding.CUT: "the answer was cut off at its limit of tokens",
    Finding.EMPTY: "there is ink, but the answer is empty",
    Finding.INVENTED: "nothing is printed there, but the answer has text",
    Finding.SPARSE: "the answer is much shorter than what is printed",
    Finding.SWOLLEN: "the answer is much longer than what is printed",
    Finding.DISAGREES: "the answer is not what the page says",
    Finding.REFUSED: "the model does not take such a picture",
}
# What is left of the confidence.
_TRUST = {
    Finding.LOOP: 0.2, Finding.CUT: 0.4, Finding.EMPTY: 0.0, Finding.INVENTED: 0.0, Finding.SPARSE: 0.5,
    Finding.SWOLLEN: 0.4, Finding.DISAGREES: 0.5,
}  # fmt: skip

_AGREE = 0.6  # similarity below which two texts disagree
_ENOUGH = 12  # letters that a comparison needs
_FEW = 0.15  # answers' characters for each that the ink would give
_LEAST_INK = 30  # characters: fewer are no measure
_TIMES, _LOOP = 4, 120  # times that something is repeated, and characters in all, that make a loop of an answer
_SOME, _SOON = 24, 16  # characters
_MARKUP = re.compile(r"<[^>]*>|\\[A-Za-z]+|[|\s{}$&#*_\\]+")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`text` is the answer without what it repeats. `confidence`: 0..1; None where nothing tells."""

    finding: Finding
    text: str
    confidence: float | None = None

    @property
    def reason(self) -> str:
        """In words."""
        return _SAID.get(self.finding, "")

    @property
    def usable(self) -> bool:
        """Whether the text may stand where there is another."""
        return self.finding not in UNUSABLE


def judge(answer: Generation, ink: Ink, *, marked: bool = False, trusted: str = "") -> Verdict:
    """The verdict on an answer about a picture with this ink.

    `marked`: it is a table or a formula, whose answer has more signs than print has, and rows that are alike.
    `trusted`: what is known to stand there; nothing where that is not known.
    """
    text, repeated = rolled_back(answer.text.strip(), answer.finish_reason, marked=marked)
    finding = _finding(text, answer, ink, marked=marked, repeated=repeated)
    sure = confidence_of(answer)
    if finding is Finding.OK and trusted and not marked:
        alike = similarity(text, trusted)
        if alike is not None and alike < _AGREE:
            finding = Finding.DISAGREES
        sure = sure if alike is None else alike if sure is None else min(sure, alike)
    if finding is not Finding.OK:
        sure = _TRUST[finding] * (1.0 if sure is None else sure)
    return Verdict(finding, text, None if sure is None else round(sure, 4))


def _finding(text: str, answer: Generation, ink: Ink, *, marked: bool, repeated: bool) -> Finding:
    said = len(_MARKUP.sub("", text))
    if ink.blank:
        return Finding.INVENTED if said else Finding.OK
    if repeated:
        return Finding.LOOP
    if answer.finish_reason == "length":
        return Finding.CUT
    if not said:
        return Finding.EMPTY if ink.characters >= 1 else Finding.OK
    if ink.characters >= _LEAST_INK and said < _FEW * ink.characters:
        return Finding.SPARSE
    if not marked and said > ink.most + 2 * _LEAST_INK:
        return Finding.SWOLLEN
    return Finding.OK


def confidence_of(answer: Generation) -> float | None:
    """The geometric mean of the probabilities of its tokens, where they are known."""
    if not answer.logprobs:
        return None
    return math.exp(sum(token.logprob for token in answer.logprobs) / len(answer.logprobs))


def rolled_back(text: str, finish_reason: str, *, marked: bool = False) -> tuple[str, bool]:
    """A text up to where it begins to repeat itself for good, and whether it does.

    An answer that was ended as a loop, or by its limit, may stop within the repetition; one that ended by itself is
    a loop only where words come again and again.
    """
    period, repeated = repetition(text)
    looped = finish_reason == "loop"
    if period and repeated >= _TIMES * period and repeated >= _LOOP and not looped:
        looped = any(c.isalpha() for c in text[-period:]) and (finish_reason == "length" or not marked)
    if not looped:
        return text, False
    return (text[: _first_turn(text, period, repeated)] if repeated >= _SOME else text).strip(), True


def _first_turn(text: str, period: int, repeated: int) -> int:
    """Where the first turn of a repetition is over: with its sentence or row, where that ends soon behind it."""
    end = len(text) - repeated + period
    return next((at for at in range(end, end + min(period, _SOON)) if text[at - 1] in ".!?\n>|;"), end)


def repetition(text: str) -> tuple[int, int]:
    """(period, length) of the repetition that a text ends with: the longest, of the shortest period."""
    backwards = text[::-1]
    matches = _matches(backwards)
    best = max(range(1, len(text) // 2 + 1), key=lambda p: (matches[p] >= p, matches[p] + p, -p), default=0)
    return (best, matches[best] + best) if best and matches[best] >= best else (0, 0)


def _matches(text: str) -> list[int]:
    """For each place how many characters from there on equal those from the beginning (the Z function)."""
    found, left, right = [0] * len(text), 0, 0
    for at in range(1, len(text)):
        length = min(right - at, found[at - left]) if at < right else 0
        while at + length < len(text) and text[length] == text[at + length]:
            length += 1
        found[at] = length
        if at + length > right:
            left, right = at, at + length
    return found


def similarity(a: str, b: str) -> float | None:
    """How much two texts have in common, 0..1, by pairs of neighbouring letters; None where one is too short to tell.

    Order counts little, so that columns that were read in another order still agree.
    """
    first, second = (_letters(text) for text in (a, b))
    if max(len(first), len(second)) < _ENOUGH:
        return None
    pairs = [Counter(text[n : n + 2] for n in range(len(text) - 1)) for text in (first, second)]
    total = sum(pairs[0].values()) + sum(pairs[1].values())
    return 2 * sum((pairs[0] & pairs[1]).values()) / total if total else 0.0


def _letters(text: str) -> str:
    return "".join(c for c in re.sub(r"<[^>]*>|\\[A-Za-z]+", " ", text).casefold() if c.isalnum())


def summary(verdicts: Sequence[tuple[int, Verdict]]) -> tuple[str, ...]:
    """What is to be said of a page, from the verdicts on its regions by their numbers; 0 is the page as a whole."""
    reasons: dict[str, list[int]] = {}
    for number, verdict in verdicts:
        if verdict.finding is not Finding.OK:
            reasons.setdefault(verdict.reason, []).append(number)
    return tuple(f"{reason} ({places(numbers)})" for reason, numbers in reasons.items())


def instead(numbers: Sequence[int]) -> str:
    """What is to be said where another text stands in the place of answers."""
    return f"another text stands in its place ({places(numbers)})"


def places(numbers: Sequence[int]) -> str:
    """`region 3`, `regions 1-4, 7`, `the whole page`."""
    if 0 in numbers:
        return "the whole page"
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [next(e for e in range(n, n + len(numbers)) if e + 1 not in numbers) for n in starts]
    spans = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True)]
    return f"region{'s' * (len(numbers) > 1)} {', '.join(spans)}"
