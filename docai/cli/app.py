"""The command line. Heavy libraries are loaded by the commands that need them, so that help answers at once."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docai import __version__
from docai.cli.options import settings, takes
from docai.errors import DocaiError, ExitCode
from docai.tasks.options import DetectOptions, OcrOptions, OutputOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="docai",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Text, structure and answers out of PDFs, scans and photos, on your own machine.",
)

Inputs = Annotated[
    list[str] | None, typer.Argument(help="Files, folders or patterns; - reads standard input.", show_default=False)
]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more; -vv shows tracebacks.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say errors only.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"docai {__version__}")  # noqa: T201 - data goes to stdout
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Text, structure and answers out of PDFs, scans and photos, on your own machine."""


@app.command()
@takes(OcrOptions, OutputOptions)
def ocr(
    options: OcrOptions, output: OutputOptions, inputs: Inputs = None, verbose: Verbose = 0, quiet: Quiet = False
) -> None:
    """Turn documents into text and structure."""
    from docai.cli.run import run_ocr

    _exit(run_ocr(inputs or [], options, output, quiet=quiet, verbose=verbose))


@app.command()
@takes(DetectOptions)
def detect(
    options: DetectOptions,
    inputs: Inputs = None,
    format: Annotated[str, typer.Option("--format", "-f", help="json or png.", envvar="DOCAI_FORMAT")] = "json",
    output: Annotated[str, typer.Option("--output", "-o", help="File or folder; - is standard output.")] = "-",
    verbose: Verbose = 0,  # noqa: ARG001 - read from the command line where an error is told
    quiet: Quiet = False,
) -> None:
    """Find the regions of pages: labels, boxes and reading order."""
    from docai.cli.run import run_detect

    _exit(run_detect(inputs or [], options, format, output, quiet=quiet))


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verbose: Verbose = 0,  # noqa: ARG001
) -> None:
    """Show versions, engines and limits, and what is missing."""
    from docai.tasks.doctor import report, report_json

    print(report_json() if as_json else report())  # noqa: T201


@app.command(name="eval")
def evaluate(
    predicted: Annotated[str, typer.Argument(help="What a tool wrote: a file or a folder.")],
    truth: Annotated[str, typer.Argument(help="What it should have written: a file or a folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verbose: Verbose = 0,  # noqa: ARG001
) -> None:
    """Measure text against the truth: CER, WER, similarity, reading order, tables."""
    from docai.tasks.eval import evaluate as measure
    from docai.tasks.eval import table, table_json

    scores = measure(predicted, truth)
    print(table_json(scores) if as_json else table(scores))  # noqa: T201


def _exit(code: int) -> None:
    if code:
        raise typer.Exit(code)


def bare_layout(arguments: Sequence[str]) -> list[str]:
    """`--layout` without a value reads standard input: give it the `-` that says so."""
    out: list[str] = []
    for at, argument in enumerate(arguments):
        following = arguments[at + 1] if at + 1 < len(arguments) else "--"
        alone = argument == "--layout" and following.startswith("-") and following != "-"
        out.append("--layout=-" if alone else argument)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with a documented exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone; that is no error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.OK
    sys.exit(int(code))


def _run(words: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        result: Any = command.main(bare_layout(words), prog_name="docai", standalone_mode=False, default_map=settings())
        return result if isinstance(result, int) else ExitCode.OK
    except DocaiError as error:
        return _tell(error, str(error), int(error.exit_code), words)
    except KeyboardInterrupt:
        return _tell(None, "interrupted", ExitCode.INTERRUPTED, words)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the border of the program
        return _foreign(error, words)


def _foreign(error: Exception, words: list[str]) -> int:
    """Errors of the command-line library are usage errors; any other is our own mistake."""
    kind = type(error).__name__
    if kind == "Abort":
        return _tell(None, "interrupted", ExitCode.INTERRUPTED, words)
    if hasattr(error, "format_message"):
        return _tell(None, f"{error.format_message()} (see docai --help)", ExitCode.USAGE, words)
    if isinstance(error, OSError) and error.errno in (28, 122):
        return _tell(error, f"cannot write: {error.strerror}; free some space", ExitCode.OUTPUT, words)
    text = f"internal error ({kind}: {error}); please report it, with what -vv shows"
    return _tell(error, text, ExitCode.INTERNAL, words)


def _tell(error: Exception | None, text: str, code: int, words: list[str]) -> int:
    print(f"docai: error: {text}", file=sys.stderr)  # noqa: T201
    verbose = sum(w.count("v") for w in words if w.startswith("-v") and set(w[1:]) == {"v"}) + words.count("--verbose")
    if error is not None and verbose >= 2:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return int(code)
