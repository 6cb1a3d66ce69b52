"""What docai costs beside the libraries under it, as ratios of one run on one machine.

    python benchmarks/speed.py text FILE.pdf ...     a born-digital page, against pypdfium2's raw text extraction
    python benchmarks/speed.py ocr IMAGE ...         a scanned page, against plain rapidocr on the same pixels
    python benchmarks/speed.py jobs FILE.pdf ...     a folder run with --jobs 2, against --jobs 1
    python benchmarks/speed.py memory                resident memory over 500 small pages

Each prints one JSON object a line. Times are medians over pages; the machine's other load falls on both sides alike,
since the two are taken in turn.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MOST_PAGES = 20  # of one file


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def text(paths: list[str]) -> None:
    """Milliseconds a page: raw text of pypdfium2, and docai from the open file to markdown."""
    import pypdfium2

    from docai.export.formats import export
    from docai.render.document import open_document
    from docai.tasks.ocr import finish, reader_for
    from docai.tasks.options import OcrOptions

    options = OcrOptions(ocr="never")
    reader = reader_for(options)
    raw, ours = [], []
    for path in paths:
        pdf, source = pypdfium2.PdfDocument(path), open_document(path)
        for index in range(min(len(pdf), MOST_PAGES)):
            raw.append(timed(lambda: pdf[index].get_textpage().get_text_bounded()))  # noqa: B023 - called at once
            ours.append(timed(lambda: export(finish(source, [reader.result(source, index)], options), "markdown")))  # noqa: B023
    ratios = [b / a for a, b in zip(raw, ours, strict=True)]
    raw_ms, ours_ms = 1000 * statistics.median(raw), 1000 * statistics.median(ours)
    put(
        "text",
        pages=len(raw),
        raw_ms=raw_ms,
        docai_ms=ours_ms,
        bound_ms=3 * raw_ms + 10,
        median_ratio=statistics.median(ratios),
    )


def ocr(paths: list[str]) -> None:
    """Seconds a page: rapidocr with its defaults, and docai from pixels to blocks."""
    import logging

    import numpy as np
    from PIL import Image
    from rapidocr import RapidOCR

    from docai.render.document import open_document
    from docai.tasks.ocr import reader_for
    from docai.tasks.options import OcrOptions

    logging.disable(logging.INFO)
    plain, reader = RapidOCR(), reader_for(OcrOptions())
    warm = np.full((64, 256, 3), 255, np.uint8)
    plain(warm)
    reader.reading.engine.read(warm)
    raw, ours = [], []
    for path in paths:
        pixels = np.asarray(Image.open(path).convert("RGB"))[:, :, ::-1]
        source = open_document(path)
        raw.append(timed(lambda: plain(pixels)))  # noqa: B023 - called at once
        ours.append(timed(lambda: reader.result(source, 0)))  # noqa: B023
        put("ocr page", file=Path(path).name, rapidocr_s=raw[-1], docai_s=ours[-1], ratio=ours[-1] / raw[-1])
    put("ocr", pages=len(raw), rapidocr_s=sum(raw), docai_s=sum(ours), ratio=sum(ours) / sum(raw))


def jobs(paths: list[str]) -> None:
    """Seconds of a whole folder run with one and with two workers."""
    seconds = {}
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, "-m", "docai", "ocr", *paths, "-o", out, "--jobs", str(count), "-q"]
            seconds[count] = timed(lambda: subprocess.run(command, check=False))  # noqa: B023 - called at once
    put("jobs", files=len(paths), one_s=seconds[1], two_s=seconds[2], speedup=seconds[1] / seconds[2])


def small_pdf(pages: int) -> bytes:
    """A PDF of small pages with a few words each, all different."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for n in range(pages):
        stream = f"BT /F 12 Tf 20 160 Td (Page {n}: some words that differ, {n * n}) Tj ET".encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents %d 0 R"
            b" /Resources << /Font << /F 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, b" ".join(kids))
    body, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(
        b"%010d 00000 n \n" % o for o in offsets
    )
    return bytes(body + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))


def memory(_: list[str]) -> None:
    """Resident memory of the process and its children after 20 and after 500 pages of one run."""
    from docai.render.document import open_document
    from docai.tasks.ocr import read_pages
    from docai.tasks.options import OcrOptions

    source, marks = open_document(small_pdf(500)), {}
    for number, _result in enumerate(read_pages(source, OcrOptions(ocr="never")), 1):
        if number in (20, 500):
            marks[number] = resident_mb()
    put("memory", at_20_mb=marks[20], at_500_mb=marks[500], growth_mb=marks[500] - marks[20])


def resident_mb() -> float:
    """MB resident in this process and the processes it started (Linux)."""
    pids, total = [os.getpid()], 0.0
    while pids:
        pid = pids.pop()
        total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        pids += [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    return total


def put(what: str, **figures: object) -> None:
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps({"what": what, **rounded}), flush=True)


if __name__ == "__main__":
    known = {"text": text, "ocr": ocr, "jobs": jobs, "memory": memory}
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit(__doc__)
    known[sys.argv[1]](sys.argv[2:])
