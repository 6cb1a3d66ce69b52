"""GOT-OCR 2.0's questions: the few that it was taught, before them the place or the colour of what is to be read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docai.errors import UsageError
from docai.vlm.ask import Setting

PLAIN, FORMATTED = "OCR: ", "OCR with format: "
COLOURS = ("red", "green", "blue")
BINS = 1000  # of each side of the picture

_QUESTION = re.compile(
    r"(?P<marks>(?:\[[^\[\]]*\]\s*)*)"
    r"(?:ocr(?P<format>\s+with\s+format)?(?P<pages>\s+across\s+multi\s+pages)?(?P<crops>\s+upon\s+the\s+patch\s+reference)?)?"
    r"\s*:?",
    re.IGNORECASE,
)
_PLACE = re.compile(r"[-+\d.,\s]*\d[-+\d.,\s]*")


def asked(text: str, setting: Setting, *, spaced: bool = False) -> str:
    """The question in the form that the model was taught; other words stay as they are.

    `spaced`: as transformers writes it, with a space before OCR whatever stands there. Raises UsageError for a place or
    a colour that there is not.
    """
    found = _QUESTION.fullmatch(text.strip())
    if found is None:
        return text
    marks = " ".join(f"[{_mark(mark)}]" for mark in re.findall(r"\[([^\[\]]*)\]", found["marks"]))
    if spaced and not marks.endswith(tuple(f"[{colour}]" for colour in COLOURS)):
        before = f"{marks} "
    else:
        before = f"{marks}{'  ' if spaced else ' '}" if marks else ""
    what = (
        " with format" if found["format"] else "",
        " across multi pages" if found["pages"] or setting.pages else "",
        " upon the patch reference" if found["crops"] or setting.crops else "",
    )
    return f"{before}OCR{''.join(what)}: "


def place(numbers: Iterable[float]) -> str:
    """What stands before a question about a box or a point, given in thousandths of the picture. Raises UsageError."""
    numbers = tuple(numbers)
    said = ", ".join(f"{number:g}" for number in numbers)
    if len(numbers) not in (2, 4):
        raise UsageError(f"box: expected x1, y1, x2, y2 or the x, y of a point; got [{said}]")
    if not all(0 <= number <= BINS for number in numbers):
        raise UsageError(f"box: expected numbers from 0 to {BINS}, thousandths of the picture's sides; got [{said}]")
    if len(numbers) == 4 and (numbers[2] <= numbers[0] or numbers[3] <= numbers[1]):
        raise UsageError(f"box: expected x1 < x2 and y1 < y2; got [{said}]")
    return f"[{', '.join(str(int(number)) for number in numbers)}]"


def _mark(text: str) -> str:
    """What stands in brackets: a place or a colour."""
    if _PLACE.fullmatch(text):
        try:
            return place(float(number) for number in text.split(","))[1:-1]
        except ValueError as error:
            raise UsageError(f"box: expected x1, y1, x2, y2; got [{text}]") from error
    if text.strip().lower() not in COLOURS:
        raise UsageError(f"colour: expected {', '.join(COLOURS)}; got [{text}]")
    return text.strip().lower()
