"""Writes the sample documents and their expected texts into this folder: `python samples/make.py`.

Needs the extra `samples` and the fonts that README.md names; who only uses the samples needs neither.
"""

from __future__ import annotations

from pathlib import Path

from source import arabic, article, invoice, japanese, scan, slides

HERE = Path(__file__).parent


def main() -> None:
    pdf, whole, first_page = article.make()
    write("article.pdf", pdf, whole)
    write("article-scan.jpg", scan.scan(pdf), first_page)
    write("invoice.pdf", *invoice.make())
    write("receipt.jpg", *scan.receipt())
    write("arabic.pdf", *arabic.make())
    write("cjk.pdf", *japanese.make())
    write("slides.mp4", *slides.make())


def write(name: str, data: bytes, expected: str) -> None:
    """A sample and what it says."""
    (HERE / name).write_bytes(data)
    (HERE / "expected" / f"{Path(name).stem}.md").write_text(expected, encoding="utf-8")


if __name__ == "__main__":
    main()
