"""Errors as OpenAI's API tells them: a status, and `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from docai.errors import (
    DependencyMissing,
    DocaiError,
    InputError,
    LimitExceeded,
    PasswordError,
    UsageError,
)
from docai.export.json import dumps

RETRY_AFTER = 5  # seconds, where nothing better is known
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_LONGEST = 1000


class ApiError(HTTPException):
    """What a client is told instead of an answer. FastAPI lets errors of this kind through where it reads bodies."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(status, message)
        self.status, self.message, self.code, self.param, self.retry_after = status, message, code, param, retry_after

    def body(self) -> dict[str, Any]:
        """As JSON."""
        kind = _TYPES.get(self.status) or ("invalid_request_error" if self.status < 500 else "server_error")
        said = {"message": self.message[:_LONGEST], "type": kind, "param": self.param, "code": self.code}
        return {"error": said}

    def extra(self) -> dict[str, str]:
        """Headers."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return headers | ({"www-authenticate": "Bearer"} if self.status == 401 else {})

    def response(self) -> Response:
        return reply(self.body(), self.status, self.extra())


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON as a response."""
    return Response(dumps(value), status, headers, "application/json")


def busy(what: str) -> ApiError:
    """There is no room in a queue."""
    return ApiError(503, f"{what}; try again later", code="overloaded", retry_after=RETRY_AFTER)


def known(name: str, names: Sequence[str], purpose: str, param: str) -> None:
    """Raise ApiError 404 for what is not among `names` of things there are for a purpose."""
    if name not in names:
        raise ApiError(
            404, f"there is nothing called {name[:100]!r} {purpose}; there are {', '.join(names)}",
            code="model_not_found", param=param,
        )  # fmt: skip


def translated(error: DocaiError) -> ApiError:
    """What went wrong below, for a client."""
    match error:
        case UsageError():
            return ApiError(400, str(error), code="invalid_value")
        case PasswordError():
            return ApiError(422, str(error), code="password")
        case LimitExceeded():
            return ApiError(413, str(error), code="limit_exceeded")
        case InputError():
            return ApiError(422, str(error), code="unreadable_input")
        case DependencyMissing():
            return ApiError(422, str(error), code="not_installed")
        case _:
            return ApiError(500, str(error), code="internal")


def of_validation(error: RequestValidationError) -> ApiError:
    """What is wrong with the fields of a request; its values are not repeated."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return ApiError(400, "expected a body of JSON; this is none", code="invalid_json")
    param = ".".join(place) or None
    return ApiError(422, f"{param or 'body'}: {first['msg']}", code="invalid_value", param=param)


async def on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def on_docai_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, DocaiError)
    return translated(error).response()


async def on_validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return of_validation(error).response()


async def on_other_error(_: Request, __: Exception) -> Response:
    """A mistake of ours; the log has it."""
    return ApiError(500, "internal error; the server's log has it under the x-request-id").response()


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    if error.status_code == 404:
        message = f"there is nothing at {request.url.path}"
    if error.status_code == 405:
        message = f"{request.method} is not understood at {request.url.path}"
    response = ApiError(error.status_code, message).response()
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
