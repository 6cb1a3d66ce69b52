"""Makes the README's pictures from the sample article: `python scripts/make_images.py` (needs chromium for two)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH = 900


def main() -> None:
    sys.path.insert(0, str(ROOT))  # for what the tests have
    os.chdir(ROOT)  # the HTML names its source as it was given
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        overlay(Path(folder))
        html(Path(folder))
        page(Path(folder))


def overlay(folder: Path) -> None:
    """The regions of the first page, drawn in."""
    run("detect", "samples/article.pdf", "--pages", "1", "--format", "png", "-o", folder / "overlay.png")
    shrunk(folder / "overlay.png", IMAGES / "overlay.png")


def html(folder: Path) -> None:
    """The HTML output as a browser shows it."""
    run("ocr", "samples/article.pdf", "--pages", "1", "--format", "html", "-o", folder / "article.html")
    browser = program()
    shot = folder / "html.png"
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,900")
    where = (f"--user-data-dir={folder / 'profile'}", f"--screenshot={shot}", (folder / "article.html").as_uri())
    subprocess.run([browser, *flags, *where], check=True, capture_output=True)
    shrunk(shot, IMAGES / "html.png", width=1200)


def page(folder: Path) -> None:
    """The server's page with a document that was dropped on it."""
    from tests.browser import Browser
    from tests.serving import served

    sheets = "document.querySelectorAll('.sheet').length === 2"
    with (
        served(folder / "state") as server,
        contextlib.closing(Browser(program(), folder / "server's")) as browser,
        browser.page(server.url) as shown,
    ):
        shown.size(1400, 1000)
        shown.drop("#drop", [ROOT / "samples" / "article.pdf"])
        shown.until(f"{sheets} && !document.querySelector('#formats').hidden")
        shown.until("[...document.querySelectorAll('.paper img')].every((image) => image.naturalWidth > 0)")
        shown.move(".sheet .block:nth-child(8)")
        shown.run("scrollTo(0, 0)")
        shown.picture(folder / "serve.png")
    shrunk(folder / "serve.png", IMAGES / "serve.png", width=1400)


def program() -> str:
    """The browser. Raises SystemExit without one."""
    from tests.browser import found

    name = found()
    if name is None:
        raise SystemExit("chromium is not installed: not all pictures are made")
    return name


def run(*words: str | Path) -> None:
    from docai.cli.app import main as command

    try:
        command([str(word) for word in words])
    except SystemExit as ended:
        if ended.code:
            raise


def shrunk(source: Path, target: Path, width: int = WIDTH) -> None:
    """A picture of `width` pixels with few colours: small enough for a repository."""
    image = Image.open(source).convert("RGB")
    image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.quantize(96).save(target, optimize=True)


if __name__ == "__main__":
    main()
