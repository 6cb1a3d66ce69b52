"""The web page in a real browser, where there is one: documents, places, keys, colours, chat."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

from docai.export.formats import FORMATS
from tests import browser as browsers
from tests.browser import Browser, Page
from tests.conftest import SAMPLES
from tests.serving import Served, scan, served
from tests.tiny_checkpoint import tiny_qwen2_vl

PROGRAM = browsers.found()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")
ARTICLE = SAMPLES / "article.pdf"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    with served(folder / "state", model=[str(folder / "sees")], max_tokens=300) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with contextlib.closing(Browser(PROGRAM, tmp_path_factory.mktemp("profile"))) as running:
        yield running


@pytest.fixture
def page(server: Served, browser: Browser) -> Iterator[Page]:
    """The page, which has complained of nothing and asked nobody else in the end."""
    with browser.page(server.url) as page:
        yield page
        assert page.complaints() == []
        foreign = [url for url in page.requested() if not url.startswith((server.url, "blob:", "data:", "about:"))]
        assert foreign == []


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    (tmp_path / "scan.png").write_bytes(scan())
    return tmp_path / "scan.png"


def read(page: Page, path: Path = ARTICLE, pages: int = 2) -> None:
    """Drop a document, and wait until it has been read."""
    page.drop("#drop", [path])
    page.until(f"document.querySelectorAll('.sheet').length === {pages} && !document.querySelector('#formats').hidden")
    page.until("[...document.querySelectorAll('.paper img')].every((image) => image.naturalWidth > 0)")


def test_a_document_is_dropped_and_its_pages_arrive(page: Page) -> None:
    read(page)
    assert "2 pages read" in page.run("document.querySelector('#said').textContent")
    assert page.run("document.querySelector('#progress').value") == 2
    assert page.run("[...document.querySelectorAll('.sheet h2')].map((e) => e.textContent)") == ["Page 1", "Page 2"]
    assert page.run("document.querySelector('.says h3').textContent").startswith("Tide Logs Kept by Hand")
    assert page.run("document.querySelectorAll('.says table tr').length") > 5
    numbers = page.run("[...document.querySelectorAll('.sheet:first-child .box')].map((e) => Number(e.textContent))")
    assert numbers == list(range(1, len(numbers) + 1))  # the reading order
    pairs = "(s) => [s.querySelectorAll('.box').length, s.querySelectorAll('.block').length]"
    assert all(
        boxes == blocks > 3 for boxes, blocks in page.run(f"[...document.querySelectorAll('.sheet')].map({pairs})")
    )


def test_a_file_is_chosen_and_others_take_its_place(page: Page, picture: Path) -> None:
    document = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(ARTICLE)])
    page.until("document.querySelectorAll('.sheet').length === 2")
    read(page, picture, 1)
    assert page.run("document.querySelectorAll('.sheet').length") == 1


def test_boxes_and_blocks_lead_to_each_other(page: Page) -> None:
    read(page)
    place = "(e) => [...e.parentElement.querySelectorAll(e.matches('.box') ? '.box' : '.block')].indexOf(e)"
    thirds = {".box": ".sheet:first-child .box:nth-of-type(3)", ".block": ".sheet:first-child .block:nth-child(3)"}
    for part, other in ((".box", ".block"), (".block", ".box")):
        at = page.run(f"({place})(document.querySelector('{thirds[part]}'))")
        page.move(thirds[part])
        lit = f"[...document.querySelectorAll('{other}.lit')].map({place})"
        page.until(f"{lit}.length > 0")
        assert page.run(lit) == [at]
        page.click(thirds[part])
        assert page.run(f"document.activeElement.matches('{other}') && ({place})(document.activeElement)") == at


def test_everything_by_keys(page: Page) -> None:
    def focused() -> str:
        return str(page.run("document.activeElement.id || document.activeElement.className"))

    page.press("Tab")
    assert focused() == "tab-read"
    page.press("ArrowRight")
    assert (focused(), page.run("document.querySelector('#read').hidden")) == ("tab-talk", True)
    page.press("ArrowLeft")
    assert (focused(), page.run("document.querySelector('#read').hidden")) == ("tab-read", False)
    for expected in ("file", "pages", "ocr"):
        page.press("Tab")
        assert focused() == expected
    assert page.run("getComputedStyle(document.querySelector('#ocr')).outlineStyle") == "solid"
    read(page)
    page.run("document.querySelector('#download').focus()")
    page.press("Tab")
    assert "box" in focused()
    page.press("Enter")
    assert "block" in focused()
    page.press("Enter")
    assert "box" in focused()
    assert page.run("document.querySelectorAll('.lit').length") == 2


USED = ("button", "textbox", "combobox", "tab", "progressbar", "image", "log")


def test_all_that_can_be_used_has_a_name(page: Page) -> None:
    """As a screen reader has it, on both tabs."""
    read(page)
    for tab in ("read", "talk"):
        page.run(f"document.querySelector('#tab-{tab}').click()")
        seen = {}
        for node in page.call("Accessibility.getFullAXTree")["nodes"]:
            role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
            if not node.get("ignored") and role in USED:
                seen.setdefault(role, []).append(name.strip())
        assert {"button", "tab"} <= set(seen)
        assert all(name for names in seen.values() for name in names), seen
    assert page.run("[...document.querySelectorAll('[role=status], [role=alert], [role=log]')].length") >= 3


TEXTS = "body, header h1, .says .block p, .says .block h3, .sheet h2, #said, .settings label, .drop"
CONTRAST = f"""(() => {{
  const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = (color) => {{
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(Number).map(part);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }};
  const ground = (e) => {{
    const color = e ? getComputedStyle(e).backgroundColor : "rgb(255, 255, 255)";
    return /, 0\\)/.test(color) ? ground(e.parentElement) : color;
  }};
  return [...document.querySelectorAll("{TEXTS}")].map((e) => {{
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort();
    return [(b + 0.05) / (a + 0.05), e.outerHTML.slice(0, 60)];
  }});
}})()"""  # the ratio of WCAG 2.1, section 1.4.3


def test_light_and_dark(page: Page) -> None:
    read(page)
    grounds = {}
    for dark in (False, True):
        page.dark(dark)
        grounds[dark] = page.run("getComputedStyle(document.body).backgroundColor")
        ratios = page.run(CONTRAST)
        assert len(ratios) > 20
        assert min(ratios)[0] >= 4.5
    assert grounds[False] != grounds[True]


def test_a_narrow_window(page: Page) -> None:
    page.size(390, 800)
    read(page)
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("getComputedStyle(document.querySelector('.view')).position") == "static"


@pytest.mark.parametrize("half", [0, 1])  # the browser asks before the eleventh
def test_every_format_can_be_had(page: Page, tmp_path: Path, tiny_pdf: bytes, half: int) -> None:
    """Of a small document: what comes long after the click counts as not wanted by anybody."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    page.downloads(folder)
    (tmp_path / "tiny.pdf").write_bytes(tiny_pdf)
    read(page, tmp_path / "tiny.pdf")
    offered = page.run("[...document.querySelector('#format').options].map((o) => o.value)")
    assert set(offered) == set(FORMATS)
    for count, format in enumerate(offered[half::2], 1):
        page.run(f"document.querySelector('#format').value = {json.dumps(format)}")
        page.click("#download")
        ends = time.monotonic() + 20
        while len(list(folder.iterdir())) < count or list(folder.glob("*.crdownload")):
            assert time.monotonic() < ends, format
            time.sleep(0.02)
    assert all(path.stat().st_size for path in folder.iterdir() if path.suffix != ".csv")  # it has no table
    assert [path.suffix for path in folder.glob("tiny.*") if path.read_bytes().startswith(b"%PDF")] == [".pdf"] * half
    page.allow("clipboardReadWrite", "clipboardSanitizedWrite")
    page.click("#copy")
    page.until("document.querySelector('#said').textContent === 'Copied'")


def test_what_goes_wrong_is_told(page: Page, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing")
    page.drop("#drop", [broken])
    page.until("!document.querySelector('#wrong').hidden")
    assert "broken.pdf" in page.run("document.querySelector('#wrong').textContent")
    read(page)
    assert page.run("document.querySelector('#wrong').hidden")


def ask(page: Page, text: str) -> None:
    page.run("document.querySelector('#question').focus()")
    page.type(text)
    page.press("Enter")


def test_chat_comes_as_it_is_written(page: Page, picture: Path) -> None:
    page.click("#tab-talk")
    page.until("document.querySelector('#model').value === 'sees'")
    page.run(
        "window.lengths = []; new MutationObserver(() => { const e = document.querySelector('.turn:last-child');"
        " window.lengths.push(e.textContent.length); }).observe(document.querySelector('#turns'),"
        " {childList: true, subtree: true, characterData: true}); 1"
    )
    ask(page, "Hello there")
    page.until("document.querySelectorAll('.turn').length === 2 && !document.querySelector('[aria-busy]')", 60)
    lengths = page.run("window.lengths")
    assert len(set(lengths)) > 10  # bit by bit
    assert "tokens in" in page.run("document.querySelector('.told').textContent")
    page.drop("#ask", [picture])
    page.until("document.querySelectorAll('#shown img').length === 1")
    ask(page, "What is this?")
    page.until("document.querySelectorAll('.turn').length === 4 && !document.querySelector('[aria-busy]')", 60)
    assert page.run("document.querySelector('.turn.mine:nth-child(3) img') !== null")
    assert page.run("document.querySelectorAll('.turn .wrong').length") == 0


def test_chat_is_stopped(page: Page, server: Served) -> None:
    page.click("#tab-talk")
    page.until("document.querySelector('#model').value === 'sees'")
    ask(page, "Hello there")
    page.until("!document.querySelector('#halt').hidden && document.querySelector('.turn:last-child').textContent")
    page.click("#halt")
    page.until(
        "document.querySelector('.told')?.textContent.includes('stopped') || !document.querySelector('[aria-busy]')"
    )
    ends = time.monotonic() + 10
    while server.desk.models.running:
        assert time.monotonic() < ends
        time.sleep(0.01)
    page.click("#anew")
    assert page.run("document.querySelector('#turns').children.length") == 0


def test_a_key_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "state", api_key=["secret"]) as server, browser.page(server.url) as page:
        page.until("!document.querySelector('#key-field').hidden")
        page.run("document.querySelector('#key').focus()")
        page.type("secret")
        page.press("Tab")
        read(page)
        page.click("#tab-talk")
        assert not page.run("document.querySelector('#no-model').hidden")
