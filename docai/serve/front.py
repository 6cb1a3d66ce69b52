"""What every request passes first: its id, who may ask, how large a body may be and how long it may take to come."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import socket
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docai.errors import DocaiError
from docai.serve.errors import ApiError, translated

if TYPE_CHECKING:
    from docai.serve.metrics import Metrics
    from docai.serve.options import ServeOptions

LOG = logging.getLogger("docai.serve")

OPEN = frozenset({"/health", "/livez", "/readyz", "/", "/favicon.ico"})  # what needs no key
_SAFE_ID = re.compile(r"[\w.-]{1,64}")
_BODY_SILENCE = 15.0  # seconds without a byte of a body
_BODY_SECONDS = 300.0
_SEND_SECONDS = 60.0  # that a client may take for what it is sent before it counts as gone
_JSON = ("application/json", "multipart/form-data", "")
_OPEN = 256  # requests at once, beside those that wait for something
_BODIES_AT_ONCE = 8  # requests of the largest size whose bodies may be in memory at the same time


class ClientGone(Exception):
    """Nobody is there any more to be answered."""


class Front:
    """The outermost part of the server, an ASGI application around another."""

    def __init__(self, app: ASGIApp, options: ServeOptions, metrics: Metrics) -> None:
        self._app, self._options, self._metrics = app, options, metrics
        self._keys = [key.encode() for key in options.api_key or ()]
        self._hosts = Hosts(options)
        self._room = _BODIES_AT_ONCE * options.max_body
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self.open += 1
        try:
            await self._http(scope, receive, send)
        finally:
            self.open -= 1

    def _check_room(self) -> None:
        if self.open > _OPEN + 8 * self._options.max_queue_depth:
            raise ApiError(503, "too many requests at once; try again later", code="overloaded", retry_after=5)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, headers = time.perf_counter(), Headers(scope=scope)
        given = headers.get("x-request-id", "")
        number = given if _SAFE_ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
        scope.setdefault("state", {})["request_id"] = number
        answer = _Answer(send, number)
        body = _Body(self, headers, receive)
        try:
            self._admit(scope, headers)
            await self._app(scope, body.receive, answer.send)
        except (ClientGone, ClientDisconnect):
            answer.status = answer.status or 499
        except ApiError as error:
            await answer.error(error, scope, receive)
        except DocaiError as error:
            await answer.error(translated(error), scope, receive)
        except Exception:  # the border of the program
            LOG.exception("%s: internal error", number)
            await answer.error(ApiError(500, f"internal error; the server's log has it as {number}"), scope, receive)
        finally:
            self._room += body.held
            self._told(scope, answer.status, time.perf_counter() - started, number)

    def _told(self, scope: Scope, status: int, seconds: float, number: str) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.count("http_requests_total", route=route, status=str(status))
        ms = round(seconds * 1000, 1)
        said = {"request_id": number, "method": scope["method"], "route": route, "status": status, "ms": ms}
        LOG.info("%s %s %s %d %.1f ms", *said.values(), extra={"said": said})

    def _admit(self, scope: Scope, headers: Headers) -> None:
        """Raise ApiError for what is not let in."""
        self._check_origin(headers)
        self._check_room()
        path = scope["path"]
        if path not in OPEN and not path.startswith("/web/"):
            scope["state"]["owner"] = self._owner(headers)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] in ("POST", "PUT", "PATCH") and kind not in _JSON:
            raise ApiError(415, f"expected application/json or multipart/form-data; got {kind[:80]!r}")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise ApiError(400, "content-length: expected a number")
        if int(length) > self._options.max_body:
            raise self.too_large()

    def too_large(self) -> ApiError:
        most = self._options.max_body
        return ApiError(413, f"the request is larger than the {most} bytes allowed (--max-body)", code="too_large")

    def take(self, size: int) -> None:
        """Account for a part of a body. Raises ApiError where all bodies together are too large."""
        if size > self._room:
            raise ApiError(503, "too many large requests at once; try again later", code="overloaded", retry_after=5)
        self._room -= size

    def _owner(self, headers: Headers) -> str:
        """A name for whoever has sent this key. Raises ApiError 401."""
        if not self._keys:
            return ""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = (key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")).encode("utf-8", "replace")
        fits = [hmac.compare_digest(given, key) for key in self._keys]  # all of them, so that it takes equally long
        if not any(fits):
            raise ApiError(401, "expected an API key: Authorization: Bearer KEY", code="invalid_api_key")
        return hashlib.sha256(given).hexdigest()[:16]

    def _check_origin(self, headers: Headers) -> None:
        """Web pages of others may not ask, neither as themselves nor under a name of their own for this machine.

        Such a name is only found out by the `Host` that it was asked for (DNS rebinding). Whoever has the key may use
        any name.
        """
        host = headers.get("host", "")
        if not self._keys and not self._hosts.known(host):
            told = "this server does not go by that name; start it with --allow-host NAME, or with an --api-key"
            raise ApiError(403, told, code="host")
        origin = headers.get("origin")
        if origin is not None and not self._hosts.may_ask(origin, host):
            raise ApiError(403, "web pages of other servers may not ask here", code="origin")


class Hosts:
    """The names under which a server may be asked."""

    def __init__(self, options: ServeOptions) -> None:
        self._local = options.local
        self._allowed = frozenset(options.allow_host or ())
        own = {"localhost", "", options.host.lower()}
        if not self._local:
            machine = socket.gethostname().lower()  # no name is looked up, as that can take long
            short = machine.partition(".")[0]
            own |= {machine, short, f"{short}.local"}
        self._own = own | self._allowed

    def known(self, host: str) -> bool:
        """Whether a `Host` is a name of this server's, or an address: nobody else can give names to these."""
        name = _name_of(f"//{host}")
        if name is None or name in self._own:
            return name is not None
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._local

    def may_ask(self, origin: str, host: str) -> bool:
        """Whether a web page of this `Origin` may: the server's own, or one of a name that was allowed."""
        name = _name_of(origin)
        return bool(name) and (name in self._allowed or urlsplit(origin).netloc == host)


def _name_of(address: str) -> str | None:
    """The name or the address of the host; None for what is none."""
    try:
        return (urlsplit(address).hostname or "").removesuffix(".")
    except ValueError:
        return None


class _Body:
    """Counts the body of a request as it comes in, and loses patience."""

    def __init__(self, front: Front, headers: Headers, receive: Receive) -> None:
        self._front, self._receive, self.held = front, receive, 0
        self._ends = time.monotonic() + _BODY_SECONDS
        self._whole = "content-length" not in headers and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        if self._whole:  # nothing more is to come, so waiting for it is waiting for the client to leave
            return await self._receive()
        left = min(_BODY_SILENCE, self._ends - time.monotonic())
        try:
            async with asyncio.timeout(max(0.0, left)):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "the body of the request did not come in time") from None
        if message["type"] == "http.request":
            self._whole = not message.get("more_body", False)
            size = len(message.get("body", b""))
            self._front.take(size)
            self.held += size
            if self.held > self._front._options.max_body:
                raise self._front.too_large()
        return message


class _Answer:
    """Sends the response, with the request's id; a client that does not take it is given up."""

    def __init__(self, send: Send, number: str) -> None:
        self._send, self._number = send, number
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._number
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._send(message)
        except (TimeoutError, OSError):
            raise ClientGone from None

    async def error(self, error: ApiError, scope: Scope, receive: Receive) -> None:
        """Tell of an error, where the response has not begun."""
        if self.status:
            return
        response = error.response()
        if error.status in (408, 413):  # the rest of the body is not read
            response.headers["connection"] = "close"
        try:
            await response(scope, receive, self.send)
        except ClientGone:
            self.status = self.status or 499
