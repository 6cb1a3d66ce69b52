"""Files that requests name: data URIs, addresses, uploaded files, paths under a media root. All of it within limits.

An address is fetched from public hosts only: what its name stands for is looked up once, all of it has to be public,
and the connection goes to what was checked. Every redirect is looked at in the same way.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import os
import re
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, unquote_to_bytes, urlencode, urljoin, urlsplit

from docai.serve.errors import ApiError
from docai.serve.options import ServeOptions
from docai.serve.store import Store
from docai.version import __version__

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]

_REDIRECTS = 5
_SILENCE = 10.0  # seconds without a byte
_CHUNK = 1 << 16
_LONGEST = 4096  # characters of an address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # IPv4 within
# What older Pythons take for global: protocol assignments (Oracle's cloud answers at 192.0.0.192 about its machines),
# NAT64 of a network's own (RFC 8215), segment routing, documentation; and Azure's counterpart among public addresses.
_CLOSED = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "64:ff9b:1::/48", "5f00::/16", "3fff::/20"))
)
_ISATAP = 0x5EFE  # RFC 5214: the third quarter of such an address, but for the bit that says whether it is global
_OWN = re.compile(r"/v1/files/(file-[0-9a-f]{24})/content")
_SIGNED = 24 * 3600  # seconds for which the address of an uploaded file is good


@dataclass(frozen=True, slots=True)
class Content:
    """A file that was named."""

    name: str
    data: bytes


class Media:
    """Gets what requests name. `resolver` and `allowed` are there for tests."""

    def __init__(
        self,
        options: ServeOptions,
        store: Store,
        *,
        resolver: Resolver | None = None,
        allowed: Callable[[Address], bool] | None = None,
    ) -> None:
        self._options, self._store, self._roots = options, store, options.roots
        self.resolver, self.allowed = resolver or resolved, allowed or is_public

    def get(self, named: str, param: str | None = None) -> Content:
        """What an address, a data URI or a path stands for. It waits: not for the event loop.

        Raises ApiError.
        """
        scheme = named[:16].partition(":")[0].lower()
        try:
            if scheme == "data":
                return self._data(named)
            if len(named) > _LONGEST:
                raise _refused(f"an address of {len(named)} characters is too long")
            own = self._uploaded(named)
            if own is not None:
                return own
            if scheme in ("http", "https"):
                return self._fetched(named)
            if scheme == "file" or named.startswith("/"):
                return self._local(named)
        except ApiError as error:
            error.param = error.param or param
            raise
        raise _refused("expected a data: URI, an http(s) address or a path under a --media-root", param)

    def file(self, number: str, owner: str | None, param: str | None = None) -> Content:
        """An uploaded file of `owner`; None is whoever it may be. It waits: not for the event loop."""
        file = self._store.file(number, owner)
        if file is None:
            raise ApiError(404, f"there is no file {number[:80]!r}", code="file_not_found", param=param)
        try:
            return Content(file.name, self._store.path(file.id).read_bytes())
        except OSError:
            raise ApiError(404, f"the file {number} is gone", code="file_not_found", param=param) from None

    # --- data URIs

    def _data(self, uri: str) -> Content:
        head, comma, body = uri.partition(",")
        if not comma:
            raise _refused("a data: URI has a comma before its content; this one has none")
        if len(body) > self._options.max_bytes * 4 // 3 + 16:
            raise self._too_large("the data: URI")
        try:
            if head.lower().endswith(";base64"):
                plain = re.sub(r"\s+", "", unquote(body) if "%" in body[:4096] else body)
                data = base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=_url_safe(plain), validate=True)
            else:
                data = unquote_to_bytes(body)
        except (binascii.Error, ValueError) as error:
            raise _refused(f"the data: URI is no base64: {error}") from None
        if len(data) > self._options.max_bytes:
            raise self._too_large("the data: URI")
        if not data:
            raise _refused("the data: URI is empty")
        return Content("document", data)

    # --- files of this server

    def address_of(self, number: str, base: str) -> str:
        """The address of an uploaded file, good for a day. It leads to the content whatever the key."""
        expires = int(time.time()) + _SIGNED
        query = urlencode({"expires": expires, "signature": self._signature(number, expires)})
        return f"{base.rstrip('/')}/v1/files/{number}/content?{query}"

    def signed(self, number: str, expires: str, signature: str) -> bool:
        """Whether an address is one of `address_of`, and still good."""
        if not (expires.isascii() and expires.isdecimal() and len(expires) < 12 and signature.isascii()):
            return False
        fits = hmac.compare_digest(self._signature(number, int(expires)), signature)
        return fits and int(expires) > time.time()

    def _signature(self, number: str, expires: int) -> str:
        return hmac.new(self._store.secret(), f"{number} {expires}".encode(), hashlib.sha256).hexdigest()

    def _uploaded(self, named: str) -> Content | None:
        """The file of an address that this server has given out, without asking itself over the network."""
        try:
            parts = urlsplit(named)
        except ValueError:
            return None
        match = _OWN.fullmatch(parts.path)
        if match is None:
            return None
        said = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if not self.signed(match[1], said.get("expires", ""), said.get("signature", "")):
            return None
        return self.file(match[1], None)

    # --- paths

    def _local(self, named: str) -> Content:
        """A file under a media root. Whatever is wrong is told in the same words, so that nothing can be found out."""
        path = unquote(urlsplit(named).path) if named[:5].lower() == "file:" else named
        refused = _refused("files are read only under a --media-root, and this one is not there")
        if not self._roots or "\0" in path:
            raise refused
        try:
            real = Path(os.path.realpath(path, strict=True))
            if not any(real.is_relative_to(root) for root in self._roots):
                raise refused
            handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise refused
                data = file.read(self._options.max_bytes + 1)
        except (OSError, ValueError):
            raise refused from None
        if len(data) > self._options.max_bytes:
            raise self._too_large("the file")
        return Content(real.name, data)

    # --- addresses

    def _fetched(self, url: str) -> Content:
        if self._options.offline:
            raise _refused("addresses are not fetched, as the server is --offline; send the content as a data: URI")
        deadline = time.monotonic() + self._options.fetch_seconds
        for _ in range(_REDIRECTS + 1):
            parts = checked(url)
            try:
                answer, content = self._asked(parts, deadline)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _refused(f"{parts.hostname}: cannot be fetched: {_reason(error)}") from None
            if content is not None:
                name = PurePosixPath(unquote(parts.path)).name or "document"
                return Content(name[:200], content)
            url = urljoin(url, answer)
        raise _refused(f"the address leads from one to another more than {_REDIRECTS} times")

    def _asked(self, parts: SplitResult, deadline: float) -> tuple[str, bytes | None]:
        """One request: where it leads, or the content."""
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = self.resolver(host, port)
        if not addresses or not all(self.allowed(ipaddress.ip_address(a.partition("%")[0])) for a in addresses):
            raise _refused(f"{host} is no public host; only such are asked")
        connection = _connection(parts.scheme, host, port, addresses[0], min(_SILENCE, _left(deadline)))
        watch = threading.Timer(_left(deadline), _cut, [connection])  # a host may send a byte at a time, for ever
        watch.daemon = True
        watch.start()
        try:
            target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            headers = {"User-Agent": f"docai/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
            connection.connect()
            _left(deadline)  # `watch` cannot cut a handshake, and cuts only once
            connection.request("GET", target, headers=headers)
            with connection.getresponse() as response:
                if response.status in (301, 302, 303, 307, 308):
                    return response.getheader("location") or "", None
                if response.status != 200:
                    raise _refused(f"{host} answered with the status {response.status}")
                if (response.getheader("content-encoding") or "identity").lower() != "identity":
                    raise _refused(f"{host} sent compressed content, which was not asked for")
                return "", self._content(response, connection, deadline, host)
        finally:
            watch.cancel()
            connection.close()

    def _content(
        self, response: http.client.HTTPResponse, connection: http.client.HTTPConnection, deadline: float, host: str
    ) -> bytes:
        most = self._options.max_bytes
        if response.length is not None and response.length > most:
            raise self._too_large(f"what {host} sends")
        parts: list[bytes] = []
        size = 0
        while True:
            if connection.sock is not None:
                connection.sock.settimeout(min(_SILENCE, _left(deadline)))
            chunk = response.read1(_CHUNK)
            _left(deadline)  # what was cut off looks like an end
            if not chunk:
                break
            size += len(chunk)
            if size > most:
                raise self._too_large(f"what {host} sends")
            parts.append(chunk)
        if response.length:
            raise _refused(f"{host} sent less than it had said")
        return b"".join(parts)

    def _too_large(self, what: str) -> ApiError:
        return ApiError(413, f"{what} is larger than the {self._options.max_bytes} bytes allowed", code="too_large")


def checked(url: str) -> SplitResult:
    """An address in its parts. Raises ApiError for one that is none, or has what it may not."""
    if not url.isprintable() or "\\" in url or " " in url:
        raise _refused("the address has characters that no address has")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(f"this is no address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise _refused("addresses begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise _refused("an address with a user name or password is not fetched")
    if not parts.hostname or port == 0:
        raise _refused("the address names no host")
    return parts._replace(path=_quoted(parts.path), query=_quoted(parts.query))


def _quoted(text: str) -> str:
    """Characters beyond ASCII as a request has them."""
    return "".join(c if c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode("utf-8", "replace")) for c in text)


def resolved(host: str, port: int) -> list[str]:
    """All addresses that a name stands for. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: Address) -> bool:
    """Whether an address is that of a host on the internet: nothing private, local, reserved or translated to such."""
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64 or (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is not None:
            return is_public(within)
        if address.is_site_local:
            return False
    if any(address in network for network in _CLOSED):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _connection(scheme: str, host: str, port: int, address: str, seconds: float) -> http.client.HTTPConnection:
    """A connection to `address` that speaks as if to `host`."""
    if scheme == "https":  # certificates are checked against the host's name, whatever address is connected to
        context = ssl.create_default_context()
        made: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    else:
        made = http.client.HTTPConnection(host, port, timeout=seconds)
    there: Any = made
    there._create_connection = lambda _, *rest, **more: socket.create_connection((address, port), *rest, **more)
    return made


def _cut(connection: http.client.HTTPConnection) -> None:
    """End what another thread waits for."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it takes too long")
    return left


def _reason(error: Exception) -> str:
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    return "".join(c if c.isprintable() else " " for c in text[:200])


def _url_safe(text: str) -> bytes | None:
    return b"-_" if "-" in text or "_" in text else None


def _refused(message: str, param: str | None = None) -> ApiError:
    return ApiError(400, message, code="invalid_media", param=param)
