"""What `docai ocr` and `docai detect` do with their files: one to standard output or a file, many to a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from docai.batch.outputs import Target, check_writable, targets, write_whole
from docai.batch.runner import Row, Summary, run_batch
from docai.batch.work import exit_code_of
from docai.cli.progress import Reporter
from docai.errors import DocaiError, ExitCode, UsageError
from docai.export.figures import assets
from docai.export.formats import ExportOptions, export, format_of
from docai.layout.detections import PageDetections, detections_json, source_of
from docai.render.document import Source, open_document
from docai.render.inputs import InputFile, expand
from docai.tasks.detect import detect_pages
from docai.tasks.ocr import Layout, finish, layout_from, layout_of, read_pages
from docai.tasks.options import DetectOptions, OcrOptions, OutputOptions
from docai.types import Document, PageResult, Status


def run_ocr(inputs: Sequence[str], options: OcrOptions, output: OutputOptions, *, quiet: bool, verbose: int) -> int:
    """The exit code. Raises DocaiError where nothing could be done."""
    formats = formats_of(output.format)
    reporter = Reporter(output.progress, quiet=quiet, verbose=verbose)
    layout, inputs = given_layout(options, inputs)
    if not inputs:
        raise UsageError("expected a file, a folder or - for standard input (see docai ocr --help)")
    many = (
        len(inputs) > 1
        or Path(inputs[0]).is_dir()
        or (any(c in inputs[0] for c in "*?[")
        and not Path(inputs[0]).exists())
    )
    if not many:
        (file,) = expand(inputs, max_bytes=options.max_bytes)
        return _one(file, options, output, formats, layout, reporter)
    if layout is not None:
        raise UsageError("--layout belongs to one document; got several")
    files, missing = _files(inputs, options)
    if output.output == "-":
        return _in_turn(files, missing, options, output, formats, reporter)
    return _batch(files, missing, options, output, formats, reporter)


def formats_of(text: str) -> list[str]:
    """`markdown,json` as known formats. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        format_of(name)
    if not names:
        raise UsageError("format: expected at least one")
    return list(dict.fromkeys(names))


def given_layout(options: OcrOptions, inputs: Sequence[str]) -> tuple[Layout | None, Sequence[str]]:
    """The layout that `--layout` names, and the document: that of the layout where no other is named."""
    if options.layout in (None, "auto", "embedded"):
        return None, inputs
    if options.layout != "-":
        layout = layout_of(options)
        data = Path(str(options.layout)).read_bytes()
    else:
        if "-" in inputs:
            raise UsageError("standard input cannot be both the layout and the document")
        data = sys.stdin.buffer.read()
        layout = layout_from(data)
    return layout, inputs or [source_of(data)]


def _files(inputs: Sequence[str], options: OcrOptions) -> tuple[list[InputFile], list[Row]]:
    """The files of all inputs; an input that names none is a row of the summary, and the others go on."""
    if "-" in inputs:
        raise UsageError("standard input cannot be read together with other files")
    files: dict[Path, InputFile] = {}
    missing = []
    for text in inputs:
        try:
            for file in expand([text], max_bytes=options.max_bytes):
                assert file.path is not None
                files.setdefault(file.path.resolve(), file)
        except DocaiError as error:
            missing.append(Row(text, "failed", 0, (str(error),), int(error.exit_code)))
            first_error = error
    if not files and missing:
        raise first_error
    return list(files.values()), missing


def export_options(output: OutputOptions, *, folder: bool) -> ExportOptions:
    """`auto` images are files where there is a folder for them, and left out on standard output."""
    images = output.images if output.images != "auto" else "ref" if folder else "none"
    return ExportOptions(images=images, furniture=output.furniture)


def _one(
    file: InputFile,
    options: OcrOptions,
    output: OutputOptions,
    formats: list[str],
    layout: Layout | None,
    reporter: Reporter,
) -> int:
    folder = is_folder(output.output, len(formats))
    if output.output != "-":
        check_writable(Path(output.output) if folder else Path(output.output).absolute().parent)
    elif len(formats) > 1:
        raise UsageError("several formats need a folder: name one with -o DIR/")
    with open_document(file, password=options.password, limits=options.limits) as source:
        if output.output == "-" and formats == ["jsonl"]:
            document = _stream(source, options, layout, reporter)
        else:
            document = _read(source, options, layout, reporter)
            chosen = export_options(output, folder=output.output != "-")
            _write(document, source, formats, output.output, folder, file, chosen)
    reporter.notes(source.name, source.notes)
    reporter.outcome(document)
    return _exit_code(document, strict=output.strict)


def is_folder(path: str, formats: int) -> bool:
    """Whether `-o` names a folder: it ends with a slash, is one, or has to hold several formats."""
    return path != "-" and (path.endswith(("/", os.sep)) or Path(path).is_dir() or formats > 1)


def _read(source: Source, options: OcrOptions, layout: Layout | None, reporter: Reporter) -> Document:
    results: list[PageResult] = []
    with reporter.pages(source.name, source.page_count) as tell:
        for page in read_pages(source, options, layout):
            results.append(page)
            tell(page)
    return finish(source, results, options)


def _stream(source: Source, options: OcrOptions, layout: Layout | None, reporter: Reporter) -> Document:
    """Pages to standard output as they finish, then the record of the document pass."""
    from docai.export.jsonl import document_line, page_line

    results: list[PageResult] = []
    with reporter.pages(source.name, source.page_count) as tell:
        for page in read_pages(source, options, layout):
            results.append(page)
            _put(page_line(page))
            tell(page)
    document = finish(source, results, options)
    _put(document_line(document))
    return document


def _put(data: str | bytes) -> None:
    sys.stdout.buffer.write(data.encode() if isinstance(data, str) else data)
    sys.stdout.buffer.flush()


def _write(
    document: Document,
    source: Source,
    formats: list[str],
    output: str,
    folder: bool,
    file: InputFile,
    options: ExportOptions,
) -> None:
    target = targets([file], Path(output))[0] if folder else None
    for form in formats:
        data = export(document, form, options, source)
        if output == "-":
            _put(data if not isinstance(data, str) or data.endswith("\n") else data + "\n")
        else:
            write_whole(target.path(form) if target else Path(output), data)
    if options.images == "ref":
        beside = Path(output) if folder else Path(output).parent
        for name, data in assets(document, options).items():
            write_whole(beside / name, data)


def _exit_code(document: Document, *, strict: bool) -> int:
    code = exit_code_of(document)
    if not code and strict and document.outcome.status is not Status.OK:
        return ExitCode.PARTIAL
    return code


def _in_turn(
    files: Sequence[InputFile],
    missing: list[Row],
    options: OcrOptions,
    output: OutputOptions,
    formats: list[str],
    reporter: Reporter,
) -> int:
    """Several files to standard output, one after the other."""
    if len(formats) > 1:
        raise UsageError("several formats need a folder: name one with -o DIR/")
    summary = Summary(missing)
    chosen = export_options(output, folder=False)
    for file in files:
        try:
            with open_document(file, password=options.password, limits=options.limits) as source:
                document = _read(source, options, None, reporter)
                if formats[0] in ("markdown", "text", "html"):
                    _put(f"<!-- file: {file.name} -->\n\n" if formats[0] != "text" else f"=== {file.name}\n\n")
                _write(document, source, formats, "-", False, file, chosen)
            code, status = exit_code_of(document), document.outcome.status.value
            summary.rows.append(Row(file.name, status, len(document.pages), document.outcome.reasons, code))
        except DocaiError as error:
            summary.rows.append(Row(file.name, "failed", 0, (str(error),), int(error.exit_code)))
    reporter.summary(summary)
    return summary.exit_code(strict=output.strict)


def _batch(
    files: Sequence[InputFile],
    missing: list[Row],
    options: OcrOptions,
    output: OutputOptions,
    formats: list[str],
    reporter: Reporter,
) -> int:
    out = Path(output.output)
    if out.exists() and not out.is_dir():
        raise UsageError(f"several files need a folder: {out} is a file")
    if output.jobs < 1:
        raise UsageError(f"jobs: expected 1 or more; got {output.jobs}")
    chosen = export_options(output, folder=True)
    with reporter.files(len(files)) as on_event:
        summary = run_batch(files, out, formats, options, chosen, jobs=output.jobs, on_event=on_event)
    summary.rows[:0] = missing
    reporter.summary(summary)
    return summary.exit_code(strict=output.strict)


def run_detect(inputs: Sequence[str], options: DetectOptions, form: str, output: str, *, quiet: bool) -> int:
    """The regions of all files: JSON lines, or pictures with the regions drawn in. The exit code."""
    if form not in ("json", "png"):
        raise UsageError(f"format: expected json or png; got {form!r}")
    if not inputs:
        raise UsageError("expected a file, a folder or - for standard input (see docai detect --help)")
    files = expand(inputs, max_bytes=options.max_bytes)
    folder = is_folder(output, 1) or (len(files) > 1 and output != "-")
    places = targets(files, Path(output)) if folder else [None] * len(files)
    codes: list[int] = []
    for file, place in zip(files, places, strict=True):
        try:
            with open_document(file, password=options.password, limits=options.limits) as source:
                _detect_one(source, options, form, output, place)
            codes.append(0)
        except DocaiError as error:
            if len(files) == 1:
                raise
            codes.append(int(error.exit_code))
            Reporter("none", quiet=quiet, verbose=0).error(str(error))
    return ExitCode.PARTIAL if any(codes) else ExitCode.OK


def _detect_one(source: Source, options: DetectOptions, form: str, output: str, place: Target | None) -> None:
    pages = detect_pages(source, options)
    if form == "json" and output == "-":
        for page in pages:
            _put(detections_json(page) + b"\n")
        return
    if form == "json":
        data = b"".join(detections_json(page) + b"\n" for page in pages)
        write_whole(place.stem.with_name(place.stem.name + ".json") if place else Path(output), data)
        return
    drawn = export(Document(source.name, tuple(_as_results(pages))), "png", None, source)
    if output == "-":
        _put(drawn)
    else:
        write_whole(place.path("png") if place else Path(output), drawn)


def _as_results(pages: Iterator[PageDetections]) -> Iterator[PageResult]:
    """Detections as pages whose blocks are their regions, for the overlay."""
    from docai.types import Block

    for found in pages:
        blocks = tuple(Block(f"p{found.page.index + 1}-b{n}", found.page.index, replace(region, order=n - 1))
                       for n, region in enumerate(found.regions, 1))  # fmt: skip
        yield PageResult(found.page, blocks)
