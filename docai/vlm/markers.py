"""Florence-2's tasks: markers, and the sentences that the model was taught in their place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from docai.errors import UsageError
from docai.vlm.ask import Asked, plain
from docai.vlm.tokenizer import Tokenizer

# What an answer says; `docai.vlm.locations` reads it.
Kind = Literal["text", "quads", "boxes", "proposals", "phrases", "polygons", "open"]


@dataclass(frozen=True, slots=True)
class Marker:
    """A task. `sentence` has a place for the text of a task that takes one; `region`: that text is four `<loc_N>`."""

    name: str
    sentence: str
    kind: Kind = "text"
    region: bool = False

    @property
    def takes_text(self) -> bool:
        return "{input}" in self.sentence


_ALL = (
    Marker("OCR", "What is the text in the image?"),
    Marker("OCR_WITH_REGION", "What is the text in the image, with regions?", "quads"),
    Marker("CAPTION", "What does the image describe?"),
    Marker("DETAILED_CAPTION", "Describe in detail what is shown in the image."),
    Marker("MORE_DETAILED_CAPTION", "Describe with a paragraph what is shown in the image."),
    Marker("OD", "Locate the objects with category name in the image.", "boxes"),
    Marker("DENSE_REGION_CAPTION", "Locate the objects in the image, with their descriptions.", "boxes"),
    Marker("REGION_PROPOSAL", "Locate the region proposals in the image.", "proposals"),
    Marker("CAPTION_TO_PHRASE_GROUNDING", "Locate the phrases in the caption: {input}", "phrases"),
    Marker("REFERRING_EXPRESSION_SEGMENTATION", "Locate {input} in the image with mask", "polygons"),
    Marker("REGION_TO_SEGMENTATION", "What is the polygon mask of region {input}", "polygons", region=True),
    Marker("OPEN_VOCABULARY_DETECTION", "Locate {input} in the image.", "open"),
    Marker("REGION_TO_CATEGORY", "What is the region {input}?", region=True),
    Marker("REGION_TO_DESCRIPTION", "What does the region {input} describe?", region=True),
    Marker("REGION_TO_OCR", "What text is in the region {input}?", region=True),
)
MARKERS = {marker.name: marker for marker in _ALL}
CAPTIONS = ("<CAPTION>", "<DETAILED_CAPTION>", "<MORE_DETAILED_CAPTION>")  # short, normal, long
BINS = 1000  # of each axis, as <loc_0> ... <loc_999>

# Behind BART's vocabulary, in the order of their ids; some repos ship tokenizers that lack them.
ADDED_TOKENS = (
    "<od>", "</od>", "<ocr>", "</ocr>", *(f"<loc_{number}>" for number in range(BINS)),
    "<cap>", "</cap>", "<ncap>", "</ncap>", "<dcap>", "</dcap>", "<grounding>", "</grounding>", "<seg>", "</seg>",
    "<sep>", "<region_cap>", "</region_cap>", "<region_to_desciption>", "</region_to_desciption>", "<proposal>",
    "</proposal>", "<poly>", "</poly>", "<and>",
)  # fmt: skip

_MARKED = re.compile(r"\s*<(\w+)>")
_REGION = re.compile(r"(<loc_\d{1,3}>){4}")


def marked(text: str) -> tuple[Marker, str] | None:
    """The task that a prompt begins with, and the text behind it; None for a prompt in words of its own.

    Case does not matter. Without its brackets a marker stands alone, or before a colon or a line break, or is one that
    no word of a sentence could be. Raises UsageError for a marker that there is not, and for a text that a task does
    not take or that it lacks.
    """
    found = _MARKED.match(text)
    if found is not None and not found[1].lower().startswith("loc_"):
        return _checked(found[1], text[found.end() :])
    name = re.match(r"\s*(\w+)", text)
    if name is None or name[1].upper() not in MARKERS:
        return None
    rest = text[name.end() :]
    alone = not rest.strip() or rest.lstrip(" ").startswith((":", "\n")) or "_" in name[1]
    return _checked(name[1], rest.lstrip().removeprefix(":")) if alone else None


def marker_named(name: str) -> Marker:
    """The task of that name, with or without brackets, in any case. Raises UsageError listing them all."""
    bare = name.strip().removeprefix("<").removesuffix(">")
    if bare.upper() not in MARKERS:
        raise UsageError(f"task: expected one of {', '.join(MARKERS)}; got <{bare}>")
    return MARKERS[bare.upper()]


def _checked(name: str, rest: str) -> tuple[Marker, str]:
    marker, text = marker_named(name), rest.strip()
    if text and not marker.takes_text:
        raise UsageError(f"task: <{marker.name}> takes no text behind it; got {text[:80]!r}")
    if not text and marker.takes_text:
        what = "the region's <loc_left><loc_top><loc_right><loc_bottom>" if marker.region else "a text"
        raise UsageError(f"task: <{marker.name}> needs {what} behind it")
    if marker.region and not _REGION.fullmatch(text):
        raise UsageError(f"task: <{marker.name}> needs four of <loc_0> ... <loc_{BINS - 1}>; got {text[:80]!r}")
    return marker, text


def asked(text: str, tokenizer: Tokenizer) -> Asked:
    """A prompt as the model reads it: the sentence of its marker, or its own words, for the encoder."""
    text = plain(text)
    if not text:
        raise UsageError(f"prompt: expected a task, one of {', '.join(MARKERS)}; got nothing")
    found = marked(text)
    words = found[0].sentence.format(input=found[1]) if found else text
    ids = tokenizer.encode(words, special=False)
    ends = [tokenizer.token_id(token) for token in ("<s>", "</s>")]
    return Asked(prompt=tuple(i for i in (ends[0], *ids, ends[1]) if i is not None))
