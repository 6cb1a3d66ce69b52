"""What `docai detect` does with its files: JSON lines, a table, COCO's JSON, or pictures with the regions drawn in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from docai.batch.outputs import Target, check_writable, spare_inputs, targets, write_whole
from docai.cli.inputs import files_of, is_folder, names_many
from docai.cli.output import is_terminal, put
from docai.cli.progress import Reporter
from docai.errors import DocaiError, ExitCode, UsageError
from docai.export.detections import as_coco, as_csv
from docai.export.formats import export
from docai.layout.detections import PageDetections, detections_json
from docai.render.document import Source, open_document
from docai.render.inputs import InputFile, expand
from docai.tasks.detect import detect_pages
from docai.tasks.options import DetectOptions, DetectOutputOptions
from docai.types import Block, Document, PageResult


def _json_line(page: PageDetections) -> bytes:
    return detections_json(page) + b"\n"


# Formats that pages are written in one after the other.
_LINES: dict[str, Callable[[PageDetections], str | bytes]] = {
    "json": _json_line,
    "csv": lambda page: as_csv([page], header=False),
}
_SUFFIXES = {"json": ".json", "png": ".png", "csv": ".csv", "coco": ".coco.json"}


def run_detect(
    inputs: Sequence[str], options: DetectOptions, output: DetectOutputOptions, *, quiet: bool, verbose: int
) -> int:
    """The regions of all files. The exit code. Raises DocaiError where nothing could be done."""
    reporter = Reporter("none", quiet=quiet, verbose=verbose)
    with reporter.heard():
        many = names_many(inputs)
        files, missing = files_of(inputs, options) if many else (expand(inputs, max_bytes=options.max_bytes), [])
        places = _places(files, output, many=many)
        for row in missing:
            reporter.error(row.reasons[0])
        codes = [row.exit_code for row in missing]
        if (output.format, output.output) == ("csv", "-"):
            put(as_csv(()))
        for file, place in zip(files, places, strict=True):
            try:
                codes.append(_one(file, options, output, place, reporter))
            except DocaiError as error:
                if not many:
                    raise
                codes.append(int(error.exit_code))
                reporter.error(str(error))
    return codes[0] if not many else ExitCode.PARTIAL if any(codes) else ExitCode.OK


def _places(files: Sequence[InputFile], output: DetectOutputOptions, *, many: bool) -> Sequence[Target | None]:
    """Where the outputs of each file go, in a folder. Raises UsageError or OutputError for a place that cannot be."""
    if output.output == "-":
        if output.format == "png" and (many or is_terminal()):
            raise UsageError("png goes into a file or a folder: name one with -o")
        if output.format == "coco" and many:
            raise UsageError("coco is one object a document: name a folder with -o")
        return [None] * len(files)
    out = Path(output.output)
    if not many and not is_folder(output.output):
        check_writable(out.absolute().parent)
        return [None]
    if out.exists() and not out.is_dir():
        raise UsageError(f"several files need a folder: {out} is a file")
    check_writable(out)
    places = targets(files, out)
    spare_inputs(files, places, [] if output.format == "coco" else [output.format])  # no input ends in .coco.json
    return places


def _one(
    file: InputFile, options: DetectOptions, output: DetectOutputOptions, place: Target | None, reporter: Reporter
) -> int:
    """The exit code of one file: that of its pages' error where none could be read, 1 where some could not."""
    codes: list[int] = []

    def failed(error: DocaiError) -> None:
        codes.append(int(error.exit_code))
        reporter.error(str(error))

    with open_document(file, password=options.password, limits=options.limits) as source:
        pages = list(_told(detect_pages(source, options, on_error=failed, on_note=reporter.warn), output))
        reporter.notes(source.name, source.notes)
        if pages:
            _write(pages, source, output, place)
    return 0 if not codes else ExitCode.PARTIAL if pages else codes[0]


def _told(pages: Iterable[PageDetections], output: DetectOutputOptions) -> Iterator[PageDetections]:
    """The pages, each on standard output at once where it goes there in a format of lines."""
    for page in pages:
        if output.output == "-" and output.format in _LINES:
            put(_LINES[output.format](page))
        yield page


def _write(pages: Sequence[PageDetections], source: Source, output: DetectOutputOptions, place: Target | None) -> None:
    if output.output != "-":
        path = place.stem.with_name(f"{place.stem.name}{_SUFFIXES[output.format]}") if place else Path(output.output)
        write_whole(path, _whole(pages, source, output.format))
    elif output.format not in _LINES:
        put(_whole(pages, source, output.format))


def _whole(pages: Sequence[PageDetections], source: Source, form: str) -> str | bytes:
    """All pages in one format."""
    if form == "json":
        return b"".join(map(_json_line, pages))
    if form == "csv":
        return as_csv(pages)
    if form == "coco":
        return as_coco(pages)
    return export(Document(source.name, tuple(map(_as_result, pages))), "png", None, source)


def _as_result(found: PageDetections) -> PageResult:
    """Detections as a page whose blocks are its regions, for the overlay."""
    index = found.page.index
    blocks = tuple(
        Block(f"p{index + 1}-b{number}", index, replace(region, order=number - 1))
        for number, region in enumerate(found.regions, 1)
    )
    return PageResult(found.page, blocks)
