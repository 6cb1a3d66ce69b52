"""What `--format raw` does with its files: the answers of a model, one a page, on standard output or in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from docai.batch.outputs import check_writable, write_whole
from docai.cli.inputs import files_of, is_folder, names_many
from docai.cli.output import put
from docai.cli.progress import Reporter
from docai.errors import DocaiError, ExitCode, UsageError
from docai.render.document import open_document
from docai.render.inputs import InputFile, expand
from docai.tasks.options import OcrOptions, OutputOptions
from docai.tasks.raw import as_text, raw_pages


def run_raw(inputs: Sequence[str], options: OcrOptions, output: OutputOptions, *, quiet: bool, verbose: int) -> int:
    """The exit code: 1 where some files could not be read. Raises DocaiError where nothing could be done."""
    reporter = Reporter(output.progress, quiet=quiet, verbose=verbose)
    with reporter.heard():
        many = names_many(inputs)
        if options.layout is not None:
            raise UsageError("format: raw is the answer about whole pages; leave --layout out")
        if output.output != "-":
            _check_place(output.output, many=many)
        if not many:
            (file,) = expand(inputs, max_bytes=options.max_bytes)
            _told(_answers(file, options, reporter), output)
            return ExitCode.OK
        files, missing = files_of(inputs, options)
        for row in missing:
            reporter.error(row.reasons[0])
        codes = [row.exit_code for row in missing]
        for file in files:
            try:
                put(f"=== {file.name}\n\n{_answers(file, options, reporter)}\n")
            except DocaiError as error:
                codes.append(int(error.exit_code))
                reporter.error(str(error))
        return ExitCode.PARTIAL if any(codes) else ExitCode.OK


def _check_place(place: str, *, many: bool) -> None:
    if many or is_folder(place):
        raise UsageError("format: raw goes to standard output, or for one document into a file")
    check_writable(Path(place).absolute().parent)


def _answers(file: InputFile, options: OcrOptions, reporter: Reporter) -> str:
    """The answers about a file's pages."""
    pages = []
    with open_document(file, password=options.password, limits=options.limits) as source:
        for index, answer in raw_pages(source, options):
            if answer.finish_reason != "stop":
                reporter.warn(f"{source.name}, page {index + 1}: the answer does not end: {answer.finish_reason}")
            pages.append(answer.text)
    return as_text(pages)


def _told(text: str, output: OutputOptions) -> None:
    if output.output == "-":
        put(text)
    else:
        write_whole(Path(output.output), text.encode("utf-8", "replace"))
