"""The page at `/`: drop a document and see it read, or talk to a model. Nothing of it comes from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

from docai.serve.errors import ApiError
from docai.serve.route import Route

router = APIRouter(route_class=Route, tags=["page"])

_FOLDER = Path(__file__).parent
_FILES = {
    "index.html": "text/html",
    "app.js": "text/javascript",
    "chat.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The page."""
    return _sent("index.html")


@router.get("/favicon.ico", include_in_schema=False)
async def icon() -> Response:
    """The picture of the page."""
    return _sent("icon.svg")


@router.get("/web/{name}", include_in_schema=False)
async def file(name: str) -> Response:
    """What the page is made of."""
    if name not in _FILES:
        raise ApiError(404, "there is no such file")
    return _sent(name)


def _sent(name: str) -> Response:
    return Response((_FOLDER / name).read_bytes(), headers=_HEADERS, media_type=_FILES[name])
