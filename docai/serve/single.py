"""Models that answer one question about one picture: Florence-2, Nemotron-Parse.

What they may be asked, and the places in their answers: in pixels of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from docai.export.json import block_json
from docai.serve.errors import ApiError
from docai.serve.models import Question
from docai.serve.schemas import Message
from docai.tasks.ground import on_page
from docai.types import Label, Page, Region
from docai.vlm.request import Generation, GenerationOptions

if TYPE_CHECKING:
    from docai.vlm.locations import Located
    from docai.vlm.markers import Kind
    from docai.vlm.model import Model

_NOT_ALONE = "this model takes one message of a user with one image_url"


def check(messages: Sequence[Message], question: Question) -> None:
    """Raise ApiError for a conversation that such a model does not hold."""
    if len(messages) != 1 or messages[0].role != "user" or not isinstance(messages[0].content, list):
        raise ApiError(400, f"messages: {_NOT_ALONE}", code="invalid_value", param="messages")
    images = [part.get("type") for part in messages[0].content].count("image_url")
    if images != 1 or len(question.media) != 1:
        raise ApiError(400, f"messages: {_NOT_ALONE}; got {images}", code="invalid_value", param="messages")


def plain(options: GenerationOptions) -> GenerationOptions:
    """What counts of the options: how much is written. Sampling and formats mean nothing here and are passed over."""
    return GenerationOptions(max_tokens=options.max_tokens, logprobs=options.logprobs, loop_guard=options.loop_guard)


def told(model: Model, question: Question, answer: Generation) -> dict[str, Any]:
    """What belongs into the message beside its text. It opens the picture: not for the event loop."""
    source: Any = question.sources[0]
    try:
        page: Page = source.page(0)
        if model.family.name == "florence2":
            return _florence(_prompt(question), answer.text, page)
        return _blocks(model, answer.text, page)
    finally:
        source.close()


def _prompt(question: Question) -> str:
    from docai.vlm.encdec_model import question_in

    return question_in(question.messages)


def _florence(prompt: str, text: str, page: Page) -> dict[str, Any]:
    """Places as docai has them, and as the reference does."""
    from docai.vlm.locations import florence
    from docai.vlm.markers import marked

    task = marked(prompt)
    if task is None:
        return {}
    marker, _ = task
    located = florence(text, marker.kind)
    found = [one for part in located if (one := on_page(part, page)) is not None]
    size = [round(edge, 2) for edge in page.size]
    said = {"task": marker.name, "unit": page.unit, "size": size, "found": [one.as_json() for one in found]}
    return {"docai": said, "florence2_result": {f"<{marker.name}>": _as_reference(marker.kind, located, text, page)}}


def _as_reference(kind: Kind, located: Sequence[Located], text: str, page: Page) -> Any:
    """As Florence-2's own processor gives it."""
    from docai.vlm.locations import words

    if kind == "text":
        return words(text)
    boxes = [one for one in located if one.shape == "box"]
    others = [one for one in located if one.shape != "box"]
    flat = [[_flat(ring, page) for ring in one.rings] for one in others]
    names, labels = [one.label for one in boxes], [one.label for one in others]
    corners = [_flat(one.rings[0], page) for one in boxes]
    match kind:
        case "quads":
            return {"quad_boxes": [rings[0] for rings in flat], "labels": labels}
        case "polygons":
            return {"polygons": flat, "labels": labels}
        case "open":
            return {"bboxes": corners, "bboxes_labels": names, "polygons": flat, "polygons_labels": labels}
        case _:
            return {"bboxes": corners, "labels": names}


def _flat(ring: Sequence[tuple[float, float]], page: Page) -> list[float]:
    return [round(value, 3) for x, y in ring for value in (x * page.width, y * page.height)]


def _blocks(model: Model, text: str, page: Page) -> dict[str, Any]:
    """The blocks of an answer that says where each part of the page lies."""
    from docai.ocr.located import CANVAS, LOCATED, Shown
    from docai.ocr.manners import manner_of

    read = LOCATED.get(manner_of(model.family.name).parser)
    if read is None:
        return {}
    shape = page.pixels().shape[:2]
    canvas = getattr(model, "canvas", None) or CANVAS
    shown = Shown(page, Region(page.box, Label.TEXT), (shape[0], shape[1]), canvas)
    blocks = [block_json(block) for block in read(text, shown, f"vlm:{model.name}")]
    return {"docai": {"unit": page.unit, "size": [round(edge, 2) for edge in page.size], "blocks": blocks}}
