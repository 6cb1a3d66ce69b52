"""What `docai ocr` does with its files: one to standard output or a file, many to a folder."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from docai.batch.journal import PageStore
from docai.batch.outputs import Target, check_writable, spare_inputs, targets, write_outputs, write_whole
from docai.batch.runner import Row, Summary, file_key, run_batch
from docai.batch.work import exit_code_of
from docai.cli.inputs import files_of, given_layout, is_folder, names_many
from docai.cli.output import is_terminal, put
from docai.cli.progress import Reporter
from docai.errors import DocaiError, ExitCode, UsageError
from docai.export.figures import assets
from docai.export.formats import ExportOptions, export, format_of
from docai.export.jsonl import document_line, page_line
from docai.layout.detector import BEST
from docai.render.document import Source, open_document
from docai.render.inputs import InputFile, expand
from docai.tasks.ocr import Layout, best_detector, chosen_pages, finish, read_pages
from docai.tasks.options import OcrOptions, OutputOptions, ParseOutputOptions
from docai.tasks.raw import RAW
from docai.types import Document, PageResult, Status

_BINARY = ("pdf", "png")
_FEWEST_KEPT = 10  # pages of a document from which on the finished ones are kept: shorter ones are soon read again
# Formats that several documents can be written in one after the other; what stands before each of them.
_BEFORE = {
    "markdown": "<!-- file: {} -->\n\n",
    "text": "=== {}\n\n",
    "json": "",
    "jsonl": "",
    "chunks": "",
    "csv": "# {}\n",
}


def run_ocr(inputs: Sequence[str], options: OcrOptions, output: OutputOptions, *, quiet: bool, verbose: int) -> int:
    """The exit code. Raises DocaiError where nothing could be done."""
    if output.format.strip() == RAW:
        from docai.cli.raw import run_raw

        return run_raw(inputs, options, output, quiet=quiet, verbose=verbose)
    formats = formats_of(output.format)
    reporter = Reporter(output.progress, quiet=quiet, verbose=verbose)
    with reporter.heard():
        layout, inputs, named = given_layout(options, inputs)
        many = names_many(inputs)
        if many and layout is not None:
            raise UsageError("--layout belongs to one document; got several")
        if output.output == "-":
            _check_stdout(formats, output, many=many)
        if named is not None:
            reporter.warn(f"reading {named}, which the layout names")
        if options.layout == "auto":
            reporter.warn(_chosen_layout())
        if not many:
            (file,) = expand(inputs, max_bytes=options.max_bytes)
            return _one(file, options, output, formats, layout, reporter)
        files, missing = files_of(inputs, options)
        if output.output == "-":
            return _in_turn(files, missing, options, output, formats[0], reporter)
        return _batch(files, missing, options, output, formats, reporter)


def _chosen_layout() -> str:
    """What `--layout auto` has come to."""
    name = best_detector()
    missing = "" if name == BEST else f" (docai models pull {BEST} gets a better one)"
    return f"layout: {name}{missing}"


def formats_of(text: str) -> list[str]:
    """`markdown,json` as known formats. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        format_of(name)
    if not names:
        raise UsageError("format: expected at least one")
    return list(dict.fromkeys(names))


def _check_stdout(formats: list[str], output: OutputOptions, *, many: bool) -> None:
    """Raise UsageError for what standard output cannot hold."""
    if len(formats) > 1:
        raise UsageError("several formats need a folder: name one with -o DIR/")
    (form,) = formats
    if many and form not in _BEFORE:
        raise UsageError(f"several documents as {form} need a folder: name one with -o DIR/")
    if form in _BINARY and is_terminal():
        raise UsageError(f"{form} is no text for a terminal: name a file with -o, or use a pipe")
    if output.images == "ref":
        raise UsageError("images: ref writes pictures beside the output; name a file or a folder with -o")


def export_options(output: OutputOptions) -> ExportOptions:
    """`auto` images are files beside the output, and left out on standard output."""
    images = output.images if output.images != "auto" else "none" if output.output == "-" else "ref"
    return ExportOptions(images=images, furniture=output.furniture, structure=isinstance(output, ParseOutputOptions))


def _one(
    file: InputFile,
    options: OcrOptions,
    output: OutputOptions,
    formats: list[str],
    layout: Layout | None,
    reporter: Reporter,
) -> int:
    folder = is_folder(output.output, len(formats))
    target = targets([file], Path(output.output))[0] if folder else None
    if output.output != "-":
        _check_place(file, target, Path(output.output), formats)
    with open_document(file, password=options.password, limits=options.limits) as source:
        if output.output == "-":
            document = _print(source, options, output, formats[0], layout, reporter)
        else:
            store = _store(file, source, options, target) if target is not None and layout is None else None
            document = _read(source, options, layout, reporter, store=store)
            _write(document, source, target, output, formats)
            if store is not None and document.outcome.status is not Status.FAILED:
                store.drop()
    reporter.notes(source.name, source.notes)
    reporter.outcome(document)
    return _exit_code(document, strict=output.strict)


def _check_place(file: InputFile, target: Target | None, output: Path, formats: list[str]) -> None:
    """Raise UsageError or OutputError before any work is done for a place that cannot be written to."""
    if target is not None:
        spare_inputs([file], [target], formats)
        check_writable(target.stem.parent)
        return
    if file.path is not None and output.resolve() == file.path.resolve():
        raise UsageError(f"{output} is the document itself; name another file with -o")
    check_writable(output.absolute().parent)


def _store(file: InputFile, source: Source, options: OcrOptions, target: Target) -> PageStore | None:
    """Where the finished pages of a document are kept until all of it is written; a rerun goes on with them."""
    if file.path is None or len(chosen_pages(source, options)) < _FEWEST_KEPT:
        return None
    return PageStore(target.stem.with_name(f".{target.stem.name[:40]}.{file_key(file, options)[:12]}.docai"))


def _write(
    document: Document, source: Source, target: Target | None, output: OutputOptions, formats: list[str]
) -> None:
    chosen = export_options(output)
    if target is not None:
        write_outputs(document, source, target, formats, chosen)
        return
    path = Path(output.output)
    if chosen.shows_pictures(formats):
        for name, data in assets(document, chosen, source).items():
            write_whole(path.parent / name, data)
    write_whole(path, export(document, formats[0], chosen, source))


def _print(
    source: Source,
    options: OcrOptions,
    output: OutputOptions,
    form: str,
    layout: Layout | None,
    reporter: Reporter,
    results: Iterable[PageResult] | None = None,
) -> Document:
    """A document on standard output: JSON lines as the pages finish, other formats at the end.

    `results`: of its pages, where somebody else reads them.
    """
    if form == "jsonl":
        document = _read(source, options, layout, reporter, stream=True, fresh=results)
        put(document_line(document))
        return document
    document = _read(source, options, layout, reporter, fresh=results)
    data = export(document, form, export_options(output), source)
    put(data if not isinstance(data, str) or data.endswith("\n") or form == "csv" else data + "\n")
    return document


def _read(
    source: Source,
    options: OcrOptions,
    layout: Layout | None,
    reporter: Reporter,
    *,
    stream: bool = False,
    store: PageStore | None = None,
    fresh: Iterable[PageResult] | None = None,
) -> Document:
    kept = store.pages().items() if store is not None else ()
    results = {index: page for index, page in kept if page.outcome.status is not Status.FAILED}
    with reporter.pages(source.name, len(chosen_pages(source, options, layout))) as tell:
        for page in results.values():
            tell(page)
        for page in fresh if fresh is not None else read_pages(source, options, layout, skip=frozenset(results)):
            results[page.page.index] = page
            if store is not None:
                store.keep(page)
            if stream:
                put(page_line(page))
            tell(page)
    return finish(source, results.values(), options)


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
    form: str,
    reporter: Reporter,
) -> int:
    """Several files to standard output, one after the other."""
    started, summary = time.monotonic(), Summary(missing)
    for file, source, results in _read_in_turn(files, options):
        try:
            if isinstance(source, DocaiError):
                raise source
            put(_BEFORE[form].format(file.name.replace("\n", " ").replace("--", "- -")))
            document = _print(source, options, output, form, None, reporter, results)
            if form in ("markdown", "text", "csv"):
                put("\n")
            reasons = (*source.notes, *document.outcome.reasons)
            code, status = exit_code_of(document), document.outcome.status.value
            summary.rows.append(Row(file.name, status, len(document.pages), reasons, code))
        except DocaiError as error:
            summary.rows.append(Row(file.name, "failed", 0, (str(error),), int(error.exit_code)))
    summary.seconds = round(time.monotonic() - started, 2)
    reporter.summary(summary)
    return summary.exit_code(strict=output.strict)


def _read_in_turn(
    files: Sequence[InputFile], options: OcrOptions
) -> Iterator[tuple[InputFile, Source | DocaiError, Iterable[PageResult]]]:
    """Each file, open, with the results of its pages; an error for one that cannot be opened.

    A model is asked about pages of several files together.
    """
    if options.reads_together:
        from docai.tasks.files import read_files

        yield from read_files(files, options)
        return
    for file in files:
        try:
            source = open_document(file, password=options.password, limits=options.limits)
        except DocaiError as error:
            yield file, error, ()
            continue
        with source:
            yield file, source, read_pages(source, options)


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
    chosen = export_options(output)
    with reporter.files(len(files)) as on_event:
        summary = run_batch(files, out, formats, options, chosen, jobs=output.jobs, on_event=on_event)
    summary.rows[:0] = missing
    reporter.summary(summary)
    return summary.exit_code(strict=output.strict)
