"""`/v1/models` and what else there is to know of the server."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.export.formats import FORMATS
from docai.serve.desk import desk_of
from docai.serve.detectors import detectors
from docai.serve.errors import ApiError, reply
from docai.serve.models import Offered
from docai.serve.pages import engines
from docai.serve.route import Route
from docai.version import __version__

if TYPE_CHECKING:
    from docai.vlm.model import Model

router = APIRouter(route_class=Route, tags=["models"])


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """The models to chat with, the engines that read documents, and the detectors that find their regions."""
    return reply({"object": "list", "data": list((await _all(request)).values())})


@router.get("/v1/models/{name:path}")
async def model(name: str, request: Request) -> Response:
    """One of them."""
    found = (await _all(request)).get(name)
    if found is None:
        raise ApiError(404, f"there is no model {name[:100]!r}", code="model_not_found", param="model")
    return reply(found)


async def _all(request: Request) -> dict[str, dict[str, Any]]:
    """All that requests may name as a model, by name; a name that is taken stays what it is."""
    desk = desk_of(request)
    found = {name: _described(one) for name, one in desk.models.offered.items()}
    fixed = {"ocr": engines(), "detect": await desk.by_hand(detectors, desk)}
    for task, names in fixed.items():
        for name in names:
            found.setdefault(name, _fixed(name, task))
    return found


def _described(offered: Offered) -> dict[str, Any]:
    said: dict[str, Any] = {"id": offered.name, "object": "model", "created": offered.created, "owned_by": "docai"}
    model = offered.model
    said |= {"loaded": model is not None, "tasks": ["chat"]}
    said |= _as_mistral(completion_chat=True, vision=model is not None and model.sees)
    if model is not None:
        said |= {"images": model.sees, "audio": model.hears, "max_model_len": model.context}
    return said


def _fixed(name: str, task: str) -> dict[str, Any]:
    said = {"id": name, "object": "model", "created": 0, "owned_by": "docai", "loaded": True, "tasks": [task]}
    return said | _as_mistral(ocr=task == "ocr")


def _as_mistral(**can: bool) -> dict[str, Any]:
    """What Mistral's client wants to know beside OpenAI's."""
    return {"type": "base", "capabilities": can}


@router.get("/props", tags=["operations"])
async def props(request: Request) -> Response:
    """What the server can do."""
    desk = desk_of(request)
    first = next(iter(desk.models.loaded), None)
    model = None if first is None else first.model
    sees, hears = model is not None and model.sees, model is not None and model.hears
    watches = model is not None and _watches(model)
    return reply(
        {
            "version": __version__,
            "model": None if first is None else first.name,
            "modalities": {"text": first is not None, "vision": sees, "audio": hears, "video": watches},
            "formats": list(FORMATS),
            "limits": {
                "max_body": desk.options.max_body,
                "max_bytes": desk.options.max_bytes,
                "max_images": desk.options.max_images,
                "max_audio_seconds": desk.options.max_audio_seconds,
                "max_pages": desk.options.max_pages,
            },
            "key_needed": bool(desk.options.api_key),
        }
    )


def _watches(model: Model) -> bool:
    """Whether it takes videos, as such or as pictures, and they can be decoded here."""
    from docai.vlm.clips import refusal

    return find_spec("av") is not None and not refusal(model.family, sees=model.sees)
