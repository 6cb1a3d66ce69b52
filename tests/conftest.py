"""Fixtures: small documents made on the spot, and an environment without network or settings of the user's."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.serving import Served

DATA = Path(__file__).parent / "data"
SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DOCAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """New layers of MLX have random weights, whose seed is else the time of day."""
    if (mx := sys.modules.get("mlx.core")) is not None:
        mx.random.seed(0)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def near(self: socket.socket, address: object) -> None:
        host = str(address[0]) if isinstance(address, tuple) else "localhost"
        if host != "localhost" and host != "::1" and not host.startswith("127."):
            pytest.fail(f"a test tried to reach {host}: tests need no network")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", near)


def pdf_of(*objects: str) -> bytes:
    """A PDF of numbered objects; the first is the catalog."""
    body, offsets = "%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return (body + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}").encode("latin-1")


def make_pdf(pages: Sequence[str], size: tuple[int, int] = (300, 200), extra: str = "") -> bytes:
    """A PDF with a page per content stream, in Helvetica (`/F`); `extra` goes into every page's dictionary."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for stream in pages:
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        box = f"/MediaBox [0 0 {size[0]} {size[1]}]"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R {box} /Contents {len(objects)} 0 R"
            f" /Resources << /Font << /F 3 0 R >> >> {extra} >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    return pdf_of(*objects)


@pytest.fixture
def tiny_pdf() -> bytes:
    """Two pages of 300 x 200 points: "Hello world" over a rule of 200 points, and "Second page"."""
    hello = "BT /F 12 Tf 20 160 Td (Hello world) Tj ET 1 w 20 150 m 220 150 l S"
    return make_pdf([hello, "BT /F 12 Tf 20 160 Td (Second page) Tj ET"])


@pytest.fixture
def locked_pdf() -> tuple[bytes, str]:
    """An encrypted PDF and its password."""
    return (DATA / "locked.pdf").read_bytes(), "open sesame"


@pytest.fixture
def pdfs(tmp_path: Path, tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two documents in `in`."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.pdf").write_bytes(tiny_pdf)
    (tmp_path / "in" / "b.pdf").write_bytes(make_pdf(["BT /F 12 Tf 20 160 Td (Other words) Tj ET"]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model that sees, at `sees`."""
    from tests.tiny_checkpoint import tiny_qwen2_vl

    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Served]:
    """A server of the model `sees`, with bounds that tests can reach."""
    from tests.serving import served

    with served(models / "state", model=[str(models / "sees")], max_body=1 << 20, max_queue_depth=4) as running:
        yield running
