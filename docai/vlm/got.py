"""GOT-OCR 2.0's questions: the few that it was taught, before them the place or the colour of what is to be read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from docai.errors import UsageError
from docai.vlm.ask import Setting

PLAIN, FORMATTED = "OCR: ", "OCR with format: "
COLOURS = ("red", "green", "blue")
BINS = 1000  # of each side of the picture

_QUESTION = re.compile(
    r"(?P<marks>(?:\[[^\[\]]*\]\s*)*)(?P<ocr>ocr|plain|(?=format)|)(?P<format>(?:\s*with)?\s*format)?"
    r"(?P<pages>\s+across\s+multi\s+pages)?(?P<crops>\s+upon\s+the\s+patch\s+reference)?\s*:?",
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
    colour, place = _marks(found["marks"])
    before = (f"{colour} " if colour else "") + (f"{place} " if place or spaced else "")
    what = (
        " with format" if found["format"] else "",
        " across multi pages" if found["pages"] or setting.pages else "",
        " upon the patch reference" if found["crops"] or setting.crops else "",
    )
    return f"{before}OCR{''.join(what)}: "


def check_task(text: str) -> None:
    """Raise UsageError for a task that is none of the questions above."""
    if _QUESTION.fullmatch(text.strip()) is None:
        places = f"[x1, y1, x2, y2] in thousandths, or [{'|'.join(COLOURS)}]"
        raise UsageError(f"task: expected plain or format, before them {places}; got {text[:80]!r}")


def _marks(text: str) -> tuple[str, str]:
    """The colour and the place in brackets before a question, as the model writes them; "" where there is none."""
    inner = re.findall(r"\[([^\[\]]*)\]", text)
    places = [_place(mark) for mark in inner if _PLACE.fullmatch(mark)]
    colours = [_colour(mark) for mark in inner if not _PLACE.fullmatch(mark)]
    if len(places) > 1 or len(colours) > 1:
        raise UsageError(f"prompt: expected one place and one colour at most; got {text.strip()}")
    return "".join(colours), "".join(places)


def _colour(mark: str) -> str:
    name = mark.strip().lower()
    if name not in COLOURS:
        raise UsageError(f"colour: expected {', '.join(COLOURS)}; got [{mark}]")
    return f"[{name}]"


def _place(mark: str) -> str:
    try:
        return place([float(number) for number in mark.split(",")])
    except ValueError as error:
        raise UsageError(f"box: expected x1, y1, x2, y2; got [{mark}]") from error


def place(numbers: Sequence[float]) -> str:
    """A box or a point, in thousandths of the picture's sides, as it stands before a question. Raises UsageError."""
    said = ", ".join(f"{number:g}" for number in numbers)
    if len(numbers) not in (2, 4):
        raise UsageError(f"box: expected x1, y1, x2, y2, or the x, y of a point; got [{said}]")
    if not all(0 <= number <= BINS for number in numbers):
        raise UsageError(f"box: expected numbers from 0 to {BINS}, thousandths of the picture's sides; got [{said}]")
    if len(numbers) == 4 and (numbers[2] <= numbers[0] or numbers[3] <= numbers[1]):
        raise UsageError(f"box: expected x1 < x2 and y1 < y2; got [{said}]")
    return f"[{', '.join(str(int(number)) for number in numbers)}]"
