"""Requests about documents: their fields are those of the options of the command line, of the same classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

import orjson
from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from starlette.datastructures import FormData

from docai.errors import UsageError
from docai.serve.desk import desk_of, owner_of
from docai.serve.errors import ApiError
from docai.serve.files import file_in
from docai.serve.media import Content
from docai.serve.options import ServeOptions
from docai.serve.schemas import Said

T = TypeVar("T")
B = TypeVar("B", bound=BaseModel)

# What the server decides itself: limits, the machine, and all that names files of it.
OURS = frozenset(
    {
        "max_bytes", "max_pages", "max_pixels", "page_seconds", "max_video_seconds", "max_decoded_frames",
        "threads", "batch", "layout", "dtype", "revision", "offline", "feature_cache", "json_schema", "kv_bits",
        "kv_window", "prefill_step",
    }
)  # fmt: skip


class Own(Said):
    """A request of our own interface: a name that it does not have is a mistake, which should not pass unseen."""

    model_config = ConfigDict(extra="forbid")


def model_for(name: str, *classes: type, leave: Iterable[str] = (), **more: Any) -> Any:
    """The fields of option classes as the body of a request, without `OURS` and those to `leave`."""
    left = OURS | set(leave)
    declared = {
        field.name: (get_type_hints(cls)[field.name], field.default)
        for cls in classes
        for field in fields(cls)
        if field.name not in left
    }
    return create_model(name, __base__=Own, **{**declared, **more})


def options_for(cls: type[T], asked: BaseModel, **ours: Any) -> T:
    """Options of what was asked. Raises ApiError naming what is wrong."""
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    said = {name: value for name, value in asked.model_dump().items() if name in names}
    try:
        return cls(**{**said, **{name: value for name, value in ours.items() if name in names}})
    except UsageError as error:
        raise ApiError(400, str(error), code="invalid_value", param=str(error).partition(":")[0]) from error


def limits_of(options: ServeOptions) -> dict[str, Any]:
    """The server's limits under the names that options have for them."""
    names = ("max_bytes", "max_pages", "max_pixels", "page_seconds", "offline", "dtype")
    return {name: getattr(options, name) for name in names}


async def body_of(request: Request, kind: type[B]) -> tuple[B, Content | None]:
    """The fields of a request, and its file where it is a form. Raises ApiError."""
    if request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        async with request.form(max_files=4, max_fields=64, max_part_size=1 << 20) as form:
            name, data = await file_in(form, desk_of(request))
            return validated(kind, _plain(form)), Content(name, data)
    try:
        said = orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        raise ApiError(400, "expected a body of JSON; this is none", code="invalid_json") from None
    return validated(kind, said), None


def _plain(form: FormData) -> dict[str, Any]:
    """The fields of a form; those that are repeated are lists. Words of no JSON meaning are texts."""
    said: dict[str, Any] = {}
    for name in form:
        values = [value for value in form.getlist(name) if isinstance(value, str)]
        if values:
            said[name] = values[0] if len(values) == 1 else values
    return said


def validated(kind: type[B], said: Any) -> B:
    """Raises ApiError for what does not fit; values are not repeated."""
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        place, said_of_it = wrong_in(error, kind)
        raise ApiError(422, f"{place or 'body'}: {said_of_it}", code="invalid_value", param=place) from None


def wrong_in(error: ValidationError, kind: type[BaseModel]) -> tuple[str | None, str]:
    """The field that the first error is about, and what is wrong with it."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or None
    if first["type"] != "extra_forbidden" or place is None:
        return place, first["msg"]
    near = get_close_matches(place, kind.model_fields, n=3)
    return place[:100], f"there is no such field; near it: {', '.join(near)}" if near else "there is no such field"


async def content_of(request: Request, document: Any, file: Content | None) -> Content:
    """The document of a request: the file of its form, or what it names. Raises ApiError."""
    if file is not None:
        return file
    desk, owner = desk_of(request), owner_of(request)
    place = "document"
    if isinstance(document, str):
        return await desk.got(desk.media.get, document, place)
    if not isinstance(document, Mapping):
        raise ApiError(422, "document: expected an address, an object that names one, or a form", param=place)
    number = document.get("file_id")
    if isinstance(number, str):
        return await desk.got(desk.media.file, number, owner, place)
    for name in ("document_url", "image_url", "url"):
        given = document.get(name)
        url = given.get("url") if isinstance(given, Mapping) else given
        if isinstance(url, str):
            content = await desk.got(desk.media.get, url, f"{place}.{name}")
            called = document.get("document_name")
            return Content(called[:200], content.data) if isinstance(called, str) and called else content
    raise ApiError(422, "document: expected document_url, image_url or file_id", param=place)


def described(kind: type[BaseModel]) -> dict[str, Any]:
    """A body for the description of the interface: JSON, or a form with a file."""
    fields_ = kind.model_json_schema()
    fields_.pop("$defs", None)
    properties = {
        name: {key: value for key, value in said.items() if key not in ("$ref", "anyOf", "default")}
        for name, said in fields_.get("properties", {}).items()
    }
    plain = {"type": "object", "properties": properties}
    file = {"file": {"type": "string", "format": "binary"}}
    form = {"type": "object", "required": ["file"], "properties": file}
    content = {"application/json": {"schema": plain}, "multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}
