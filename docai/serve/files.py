"""`/v1/files`: uploads, which requests then name by their ids."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from docai.serve.desk import Desk, desk_of, owner_of
from docai.serve.errors import ApiError, reply
from docai.serve.lists import page_of
from docai.serve.route import Route
from docai.serve.store import File

router = APIRouter(route_class=Route, tags=["files"])
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}, "purpose": {"type": "string"}},
                }
            }
        },
    }
}


@router.post("/v1/files", openapi_extra=_FORM)
async def upload(request: Request) -> Response:
    """Keep a file for requests that name it."""
    desk = desk_of(request)
    async with form_of(request) as form:
        name, data = await file_in(form, desk)
        purpose = form.get("purpose")
    text = purpose[:40] if isinstance(purpose, str) else "ocr"
    file = await desk.by_hand(desk.store.add_file, owner_of(request), name, text, data)
    return reply(described(file))


@router.get("/v1/files")
async def files(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    after: str | None = None,
    purpose: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> Response:
    """The files that are kept, the newest first; `after` goes on behind the last one of an answer."""
    desk = desk_of(request)
    found = await desk.by_hand(desk.store.files, owner_of(request))
    wanted = [described(file) for file in reversed(found) if purpose in (None, file.purpose)]
    return reply({**page_of(wanted, limit, after, order), "total": len(wanted)})


@router.get("/v1/files/{number}")
async def file(number: str, request: Request) -> Response:
    """What is known of a file."""
    return reply(described(await _known(request, number)))


@router.delete("/v1/files/{number}")
async def delete(number: str, request: Request) -> Response:
    """Forget a file."""
    desk, known = desk_of(request), await _known(request, number)
    await desk.by_hand(desk.store.drop_file, known.id)
    return reply({"id": known.id, "object": "file", "deleted": True})


@router.get("/v1/files/{number}/url")
async def url(number: str, request: Request) -> Response:
    """An address of a file, good for a day: requests may name it as the address of a document, whatever their key."""
    desk, known = desk_of(request), await _known(request, number)
    return reply({"url": await desk.by_hand(desk.media.address_of, known.id, str(request.base_url))})


@router.get("/v1/files/{number}/content")
async def content(number: str, request: Request, expires: str = "", signature: str = "") -> Response:
    """The file as it was sent."""
    desk = desk_of(request)
    signed = await desk.by_hand(desk.media.signed, number, expires, signature)
    got = await desk.by_hand(desk.media.file, number, None if signed else owner_of(request))
    headers = {"content-disposition": "attachment", "content-security-policy": "sandbox"}
    return Response(got.data, headers=headers, media_type="application/octet-stream")


async def _known(request: Request, number: str) -> File:
    desk = desk_of(request)
    known = await desk.by_hand(desk.store.file, number, owner_of(request))
    if known is None:
        raise ApiError(404, f"there is no file {number[:80]!r}", code="file_not_found")
    return known


def described(file: File) -> dict[str, Any]:
    """A file as OpenAI and Mistral describe it."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "sample_type": "ocr_input",
        "source": "upload",
        "mimetype": None,
        "deleted": False,
    }


def form_of(request: Request) -> Any:
    """The fields of a form, to be used by `async with`. Raises ApiError where there is none."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise ApiError(415, "expected multipart/form-data with a file")
    return request.form(max_files=4, max_fields=64, max_part_size=1 << 20)


async def file_in(form: FormData, desk: Desk) -> tuple[str, bytes]:
    """The name and the bytes of the file of a form. Raises ApiError."""
    given = form.get("file")
    if not isinstance(given, UploadFile):
        raise ApiError(422, "file: expected a file in the form", param="file")
    if given.size is not None and given.size > desk.options.max_bytes:
        raise ApiError(413, f"the file is larger than the {desk.options.max_bytes} bytes allowed", code="too_large")
    data = await given.read()
    if not data:
        raise ApiError(422, "file: the file is empty", param="file")
    return (given.filename or "document")[:200], data
