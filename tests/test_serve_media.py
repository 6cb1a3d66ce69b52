"""What requests may name: which addresses are fetched, which files are read, and how much of them."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from docai.serve import media as serve_media
from docai.serve.errors import ApiError
from docai.serve.media import Media, checked, is_public, resolved
from docai.serve.options import ServeOptions
from docai.serve.store import Store


@pytest.fixture
def media(tmp_path: Path) -> Iterator[Callable[..., Media]]:
    store = Store(tmp_path / "state", 3600)

    def made(options: dict[str, Any] | None = None, **how: Any) -> Media:
        chosen = {"media_root": [str(root)], "max_bytes": 1000, "fetch_seconds": 2.0, **(options or {})}
        return Media(ServeOptions(**chosen), store, **how)

    root = tmp_path / "root"
    root.mkdir()
    yield made
    store.close()


def refused(media: Media, named: str, status: int = 400) -> str:
    with pytest.raises(ApiError) as caught:
        media.get(named)
    assert caught.value.status == status, caught.value.message
    return caught.value.message


# --- addresses

NOT_PUBLIC = [
    "http://127.0.0.1/",
    "http://127.255.255.254/",
    "http://localhost:8080/",
    "http://LOCALHOST./",
    "http://127.0.0.1./",
    "http://2130706433/",  # 127.0.0.1 as one number
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://017700000001/",  # octal
    "http://0177.0.0.1/",
    "http://0177.0x0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/",  # digits in circles
    "http://127\u30020\u30020\u30021/",  # ideographic full stops
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://192.168.257/",
    "http://100.64.0.1/",  # carriers' own
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://100.100.100.200/latest/meta-data/",  # Alibaba's metadata
    "http://168.63.129.16/machine?comp=goalstate",  # Azure's
    "http://192.0.0.192/opc/v1/instance/",  # Oracle's
    "http://[fd00:ec2::254]/latest/meta-data/",  # Amazon's
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:10.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::ffff:0:127.0.0.1]/",  # translated (SIIT)
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fc00::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[64:ff9b::7f00:1]/",  # NAT64
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b:1::808:808]/",  # NAT64 of a network's own
    "http://[2002:7f00:1::]/",  # 6to4 of 127.0.0.1
    "http://[2002:c0a8:101::1]/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",  # Teredo of 127.0.0.1
    "http://[2a00:1450::5efe:7f00:1]/",  # ISATAP of 127.0.0.1
    "http://[2a00:1450::200:5efe:a9fe:a9fe]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
]


@pytest.mark.parametrize("url", NOT_PUBLIC)
def test_addresses_that_are_not_public(media: Callable[..., Media], url: str) -> None:
    message = refused(media(), url)
    assert "no public host" in message or "cannot be fetched" in message  # a system may not know such numbers


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/a",
        "gopher://example.org/a",
        "http://user:secret@example.org/",
        "http://user@example.org/",
        "http://:@example.org/",
        "http://example.org@127.0.0.1/",
        "http://127.0.0.1#@example.org/" + "\t",
        "http://127.0.0.1\\@example.org/",
        "http://example.org\x00.internal/",
        "http://%31%32%37.0.0.1:x/",
        "http:/\\127.0.0.1/",
        "dict://127.0.0.1:11211/stat",
        "ldap://127.0.0.1/",
        "jar:http://127.0.0.1!/",
        "unix:/var/run/docker.sock",
        "http:///a",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://exa mple.org/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org/\r\nHost: internal",
        "http://[::1/",
        "//example.org/a",
        "javascript:alert(1)",
        "",
        "x",
        "http://example.org/" + "a" * 5000,
    ],
)
def test_what_is_no_address(media: Callable[..., Media], url: str) -> None:
    refused(media(resolver=lambda *_: pytest.fail("it was looked up")), url)


def test_public_addresses() -> None:
    for text in ("93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"):
        assert is_public(ipaddress.ip_address(text)), text
    assert checked("https://example.org/ä?ö").path == "/%C3%A4"


def test_all_answers_of_a_name_have_to_be_public(media: Callable[..., Media]) -> None:
    for answers in (["93.184.216.34", "127.0.0.1"], ["10.0.0.1"], [], ["fe80::1%eth0"], ["169.254.169.254"]):
        reader = media(resolver=lambda *_, a=answers: a)
        for url in ("http://example.org/", "https://metadata.google.internal/", "http://127.0.0.1.nip.example/"):
            assert "no public host" in refused(reader, url)


class Handler(BaseHTTPRequestHandler):
    """What a host in the world may do."""

    def do_GET(self) -> None:
        if self.path == "/drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            with contextlib.suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b"x")
                    self.wfile.flush()
                    time.sleep(0.05)
            return
        size = int(self.path[5:]) if self.path.startswith("/size") else 0
        body = self.headers["Host"].encode() if self.path == "/host" else b"x" * size + b"."
        answers: dict[str, tuple[int, dict[str, str]]] = {
            "/loop": (302, {"Location": "/loop"}),
            "/inside": (302, {"Location": "http://internal.example/secret"}),
            "/scheme": (302, {"Location": "file:///etc/passwd"}),
            "/gone": (404, {}),
            "/zip": (200, {"Content-Encoding": "gzip"}),
            "/lies": (200, {"Content-Length": "500"}),
        }
        status, headers = answers.get(self.path, (200, {}))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Redirecting(Handler):
    """Leads to what it is told to."""

    to = ""

    def do_GET(self) -> None:
        self.send_response(307)
        self.send_header("Location", self.to)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.parametrize(
    "to", [*NOT_PUBLIC, "//127.0.0.9/", "http://user:secret@example.org/", "gopher://example.org/"]
)
def test_no_redirect_leads_inside(media: Callable[..., Media], to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is looked at like the first: here one address stands for the world, and everything else is as it is."""
    monkeypatch.setattr(Redirecting, "to", to.encode("ascii", "xmlcharrefreplace").decode())
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            port = server.server_address[1]

            def lookup(name: str, asked: int) -> list[str]:
                return ["127.0.0.1"] if (name, asked) == ("example.org", port) else resolved(name, asked)

            seen: list[str] = []

            def world_only(address: Any) -> bool:
                seen.append(str(address))
                return len(seen) == 1 or is_public(address)

            refused(media(resolver=lookup, allowed=world_only), f"http://example.org:{port}/")
            assert seen[0] == "127.0.0.1"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def host() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def world(name: str, _: int) -> list[str]:
    """Loopback stands for the world here, another address of it for what is inside."""
    return ["127.0.0.9" if name == "internal.example" else "127.0.0.1"]


def near(address: Any) -> bool:
    return str(address) == "127.0.0.1"


def test_an_address_is_fetched_from_the_host_that_was_checked(media: Callable[..., Media], host: int) -> None:
    reader = media(resolver=world, allowed=near)
    assert reader.get(f"http://example.org:{host}/host").data == f"example.org:{host}".encode()
    assert reader.get(f"http://example.org:{host}/size900").name == "size900"


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/loop", 400, "from one to another"),
        ("/inside", 400, "internal.example is no public host"),
        ("/scheme", 400, "http"),
        ("/gone", 400, "404"),
        ("/zip", 400, "compressed"),
        ("/lies", 400, "sent less"),
        ("/size5000", 413, "larger"),
        ("/drip", 400, "cannot be fetched"),
    ],
)
def test_what_hosts_may_not_do(media: Callable[..., Media], host: int, path: str, status: int, says: str) -> None:
    reader = media({"fetch_seconds": 0.5} if path == "/drip" else None, resolver=world, allowed=near)
    began = time.monotonic()
    assert says in refused(reader, f"http://example.org:{host}{path}", status)
    assert time.monotonic() - began < 5  # of 10 that dripping takes


def test_a_name_is_looked_up_once(media: Callable[..., Media], host: int) -> None:
    """A name that first stands for the world and then for what is inside is connected to where it was first."""
    asked: list[str] = []

    def rebinding(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]

    assert media(resolver=rebinding, allowed=near).get(f"http://example.org:{host}/size1").data == b"x."
    assert asked == ["example.org"]


def test_a_name_is_looked_up_again_for_a_redirect(media: Callable[..., Media], host: int) -> None:
    """One that leads inside by then is refused, though it was public a moment ago."""
    asked: list[str] = []

    def rebinding(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]

    assert "no public host" in refused(media(resolver=rebinding, allowed=near), f"http://example.org:{host}/loop")
    assert asked == ["example.org", "example.org"]


# --- TLS

PEM = Path(__file__).parent / "data" / "example.org.pem"  # of example.org, which it has signed itself


@contextlib.contextmanager
def tls(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A host that does to the first connection what it is told to: its port."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def run() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    answer(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def said(connection: socket.socket, *, before: float = 0.0, drip: bool = False) -> None:
    """A whole handshake after so many seconds, then an answer, or one that never ends."""
    time.sleep(before)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with context.wrap_socket(connection, server_side=True) as wrapped:
        wrapped.recv(4096)
        wrapped.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(100 if drip else 0):
            wrapped.sendall(b"x: y\r\n")
            time.sleep(0.05)
        wrapped.sendall(b"Content-Length: 2\r\n\r\nok")


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: made(cafile=str(PEM)))


def test_certificates_are_those_of_the_name(media: Callable[..., Media], trusted: None) -> None:
    reader = media(resolver=world, allowed=near)
    with tls(said) as port:
        assert reader.get(f"https://example.org:{port}/a").data == b"ok"
    with tls(said) as port:
        assert "certificate" in refused(reader, f"https://other.example:{port}/a").lower()


def test_a_certificate_that_nobody_has_signed(media: Callable[..., Media]) -> None:
    with tls(said) as port:
        assert "certificate" in refused(media(resolver=world, allowed=near), f"https://example.org:{port}/a").lower()


def silence(connection: socket.socket) -> None:
    """Nothing, until the other one has enough."""
    while connection.recv(4096):
        pass


def trickle(connection: socket.socket) -> None:
    """A handshake that comes a byte at a time."""
    connection.sendall(b"\x16\x03\x03\x40\x00")
    for _ in range(100):
        connection.sendall(b"\x02")
        time.sleep(0.05)


@pytest.mark.parametrize("handshake", [trickle, silence])
def test_handshakes_that_do_not_end(media: Callable[..., Media], handshake: Callable[[socket.socket], None]) -> None:
    began = time.monotonic()
    with tls(handshake) as port:
        reader = media({"fetch_seconds": 0.5}, resolver=world, allowed=near)
        assert "cannot be fetched" in refused(reader, f"https://example.org:{port}/")
        assert time.monotonic() - began < 4  # of 5 of trickling, 10 of silence


def test_a_handshake_that_ends_too_late(
    media: Callable[..., Media], trusted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may have longer than is left of the time, as it begins; what comes of it is not waited for."""
    made = serve_media._connection
    monkeypatch.setattr(serve_media, "_connection", lambda *given: made(*given[:-1], 5.0))
    began = time.monotonic()
    with tls(lambda connection: said(connection, before=0.8, drip=True)) as port:
        reader = media({"fetch_seconds": 0.5}, resolver=world, allowed=near)
        assert "takes too long" in refused(reader, f"https://example.org:{port}/")
        assert time.monotonic() - began < 5


def test_offline_fetches_nothing(media: Callable[..., Media]) -> None:
    reader = media({"offline": True}, resolver=lambda *_: pytest.fail("it was looked up"))
    assert "--offline" in refused(reader, "http://example.org/")


def test_hosts_that_do_not_answer(media: Callable[..., Media]) -> None:
    with contextlib.closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        reader = media({"fetch_seconds": 0.5}, resolver=world, allowed=near)
        assert "cannot be fetched" in refused(reader, f"http://example.org:{silent.getsockname()[1]}/")
        assert time.monotonic() - began < 5  # of 10 without a byte


# --- data URIs


def test_data_uris(media: Callable[..., Media]) -> None:
    reader = media()
    plain = base64.b64encode(b"hello?>").decode()
    for uri in (
        f"data:text/plain;base64,{plain}",
        f"DATA:;BASE64,{plain.rstrip('=')}",
        f"data:;base64,{plain[:4]}\n {plain[4:]}",
        f"data:;base64,{plain.replace('+', '-').replace('/', '_')}",
        "data:,hello%3F%3E",
    ):
        assert reader.get(uri).data == b"hello?>", uri
    for uri, status in {
        "data:": 400,
        "data:;base64,": 400,
        "data:;base64,@@@": 400,
        "data:;base64,A": 400,
        "data:;base64," + "A" * 2000: 413,
        "data:," + "A" * 1001: 413,
    }.items():
        refused(reader, uri, status)


# --- paths


def test_files_under_a_root(media: Callable[..., Media], tmp_path: Path) -> None:
    root, reader = tmp_path / "root", media()
    (root / "a b.txt").write_bytes(b"a")
    (root / "large").write_bytes(b"a" * 1001)
    (root / "folder").mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to(root / "a b.txt")
    assert reader.get(str(root / "a b.txt")).data == b"a"
    assert reader.get((root / "a b.txt").as_uri()).data == b"a"
    assert reader.get(str(root / "inner")).data == b"a"
    refused(reader, str(root / "large"), 413)
    messages = {
        refused(reader, named)
        for named in (
            str(tmp_path / "outside"),
            str(root / "link"),
            str(root / ".." / "outside"),
            (root / "none").as_uri(),
            str(root / "folder"),
            "/etc/passwd",
            "/dev/zero",
            "file:///etc/passwd",
            "file://localhost/etc/passwd",
            f"{root}/%2e%2e/outside",
            f"{root}/a\0b",
        )
    }
    assert len(messages) == 1  # whether there is such a file is not told
    refused(media({"media_root": None}), str(root / "a b.txt"))


# --- uploads


def test_the_address_of_an_upload(media: Callable[..., Media], tmp_path: Path) -> None:
    reader = media()
    file = reader._store.add_file("me", "a.pdf", "ocr", b"content")
    url = reader.address_of(file.id, "http://127.0.0.1:8080/")
    assert reader.get(url).data == b"content"
    assert (tmp_path / "state" / "files" / file.id).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert "no public host" in refused(reader, url.replace("signature=", "signature=0"))
    assert "no public host" in refused(reader, url.replace("expires=", "expires=9"))
    with pytest.raises(ApiError) as caught:
        reader.file(file.id, "somebody else")
    assert caught.value.status == 404
