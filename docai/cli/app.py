"""The command line. Heavy libraries are loaded by the commands that need them, so that help answers at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from docai.cli.common import SETTINGS, AsJson, Quiet, Verbose, leave
from docai.cli.models import models
from docai.cli.options import settings, takes
from docai.cli.output import ReaderGone, always_stderr, put, say
from docai.errors import DocaiError, ExitCode
from docai.serve.options import McpOptions, ServeOptions
from docai.tasks.options import (
    CaptionOptions,
    ChatOptions,
    ClipOptions,
    DetectOptions,
    DetectOutputOptions,
    GroundModelOptions,
    GroundOptions,
    GroundOutputOptions,
    ModelOptions,
    OcrOptions,
    OutputOptions,
    ParseOptions,
    ParseOutputOptions,
    PictureOptions,
    SoundOptions,
    VideoOptions,
)
from docai.version import __version__
from docai.vlm.request import GenerationOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="docai",
    rich_markup_mode=None,  # rich doubles the time that help takes
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Text, structure and answers out of PDFs, scans and photos, on your own machine.",
    epilog=SETTINGS,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(models)

Inputs = Annotated[
    list[str] | None, typer.Argument(help="Files, folders or patterns; - reads standard input.", show_default=False)
]


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"docai {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version, show_default=False),
    ] = False,
) -> None:
    """Text, structure and answers out of PDFs, scans and photos, on your own machine."""


@app.command(epilog=SETTINGS)
@takes(OcrOptions, OutputOptions)
def ocr(
    options: OcrOptions, output: OutputOptions, inputs: Inputs = None, verbose: Verbose = 0, quiet: Quiet = False
) -> None:
    """Turn documents into text and structure."""
    from docai.cli.run import run_ocr

    leave(run_ocr(inputs or [], options, output, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(ParseOptions, ParseOutputOptions)
def parse(
    options: ParseOptions,
    output: ParseOutputOptions,
    inputs: Inputs = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Give the full structure of documents: blocks with boxes, tables, formulas, figures."""
    from docai.cli.run import run_ocr
    from docai.tasks.parse import as_ocr

    leave(run_ocr(inputs or [], as_ocr(options), output, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(DetectOptions, DetectOutputOptions)
def detect(
    options: DetectOptions,
    output: DetectOutputOptions,
    inputs: Inputs = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Find the regions of pages, and their order."""
    from docai.cli.run_detect import run_detect

    leave(run_detect(inputs or [], options, output, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(ChatOptions, PictureOptions, ClipOptions, SoundOptions, ModelOptions, GenerationOptions)
def chat(
    options: ChatOptions,
    pictures: PictureOptions,
    clips: ClipOptions,
    sounds: SoundOptions,
    model: ModelOptions,
    generation: GenerationOptions,
    inputs: Inputs = None,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Ask a model about images, documents, videos and sounds."""
    from docai.cli.chat import run_chat

    run = partial(run_chat, inputs or [], options, pictures, clips, sounds, model, generation)
    leave(run(as_json=as_json, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(VideoOptions, ClipOptions, SoundOptions, ModelOptions, GenerationOptions)
def video(
    options: VideoOptions,
    clips: ClipOptions,
    sounds: SoundOptions,
    model: ModelOptions,
    generation: GenerationOptions,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Videos, and images beside them; then the question.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Ask a model about videos."""
    from docai.cli.video import run_video

    run = partial(run_video, inputs or [], options, clips, sounds, model, generation)
    leave(run(as_json=as_json, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(CaptionOptions, PictureOptions, ModelOptions, GenerationOptions)
def caption(
    options: CaptionOptions,
    pictures: PictureOptions,
    model: ModelOptions,
    generation: GenerationOptions,
    inputs: Inputs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.", show_default=False)] = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Say what images show."""
    from docai.cli.caption import run_caption

    words = inputs or []
    leave(run_caption(words, options, pictures, model, generation, as_json=as_json, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(GroundOptions, GroundOutputOptions, PictureOptions, GroundModelOptions, GenerationOptions)
def ground(
    options: GroundOptions,
    output: GroundOutputOptions,
    pictures: PictureOptions,
    model: GroundModelOptions,
    generation: GenerationOptions,
    image: Annotated[str, typer.Argument(help="A picture or a document; - reads standard input.")],
    phrases: Annotated[
        list[str] | None,
        typer.Argument(help="What to look for; nothing: all that the model has names for.", show_default=False),
    ] = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Find things in images by their names."""
    from docai.cli.ground import run_ground

    leave(run_ground(image, phrases or [], options, output, pictures, model, generation, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(ServeOptions)
def serve(options: ServeOptions, verbose: Verbose = 0, quiet: Quiet = False) -> None:
    """Read documents and chat over HTTP."""
    from docai.serve.run import serve as run

    leave(run(options, quiet=quiet, verbose=verbose))


@app.command(epilog=SETTINGS)
@takes(McpOptions)
def mcp(options: McpOptions) -> None:
    """Be the tools of a model elsewhere, over the Model Context Protocol."""
    from docai.serve.mcp import serve_mcp

    leave(serve_mcp(options.model, offline=options.offline, root=options.root))


@app.command()
def doctor(as_json: AsJson = False, verbose: Verbose = 0) -> None:  # noqa: ARG001 - `_tell` looks for -vv itself
    """Show versions, engines, limits and what is missing."""
    from docai.tasks.doctor import exit_code, findings, report, report_json

    found = findings()
    put((report_json(found) if as_json else report(found)) + "\n")
    leave(exit_code(found))


@app.command(name="eval")
def evaluate(
    predicted: Annotated[str, typer.Argument(help="What a tool wrote: a file or a folder.")],
    truth: Annotated[str, typer.Argument(help="What it should have written: a file or a folder.")],
    as_json: AsJson = False,
    verbose: Verbose = 0,  # noqa: ARG001
) -> None:
    """Measure text, order and tables against the truth; docs/measures.md says how."""
    from docai.tasks.eval import evaluate as measure
    from docai.tasks.eval import table, table_json

    scores = measure(predicted, truth)
    put((table_json(scores) if as_json else table(scores)) + "\n")


def bare_layout(arguments: Sequence[str]) -> list[str]:
    """`--layout` without a value reads standard input: give it the `-` that says so."""
    out: list[str] = []
    for at, argument in enumerate(arguments):
        following = arguments[at + 1] if at + 1 < len(arguments) else "--"
        alone = argument == "--layout" and following.startswith("-") and following != "-"
        out.append("--layout=-" if alone else argument)
    return out


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with a documented exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    always_stderr()
    _let_terminate()
    sys.exit(int(_run(words)))


def _let_terminate() -> None:
    """SIGTERM ends a run as Ctrl-C does: no worker lives on, and the journal is whole."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def _run(words: list[str]) -> int:
    try:
        command = typer.main.get_command(app)
        result: Any = command.main(
            bare_layout(words), prog_name="docai", standalone_mode=False, default_map=settings(command)
        )
        if result == ExitCode.INTERRUPTED:  # typer makes this of Ctrl-C
            return _interrupted(words)
        return result if isinstance(result, int) else ExitCode.OK
    except ReaderGone:
        return ExitCode.OK
    except DocaiError as error:
        return _tell(error, str(error), int(error.exit_code), words)
    except KeyboardInterrupt:
        return _interrupted(words)
    except Exception as error:  # noqa: BLE001 - the border of the program
        return _foreign(error, words)


def _interrupted(words: list[str]) -> int:
    into = any(word.startswith(("-o", "--output")) for word in words)
    message = "interrupted; the same command goes on from here" if into else "interrupted"
    return _tell(None, message, ExitCode.INTERRUPTED, words)


def _foreign(error: Exception, words: list[str]) -> int:
    """Errors of the command-line library are usage errors; any other is our own mistake."""
    kind = type(error).__name__
    if kind == "Abort" and not isinstance(error.__cause__, EOFError):  # older ones of typer make this of it
        return _interrupted(words)
    if kind == "NoArgsIsHelpError":
        say(error.format_message())  # type: ignore[attr-defined]
        return ExitCode.USAGE
    if hasattr(error, "format_message"):
        return _tell(None, f"{error.format_message()} (see docai --help)", ExitCode.USAGE, words)
    if isinstance(error, OSError) and error.errno in (28, 122):
        return _tell(error, f"cannot write: {error.strerror}; free some space", ExitCode.OUTPUT, words)
    text = f"internal error ({kind}: {error}); please run it again with -vv and report what that shows"
    return _tell(error, text, ExitCode.INTERNAL, words)


def _tell(error: Exception | None, text: str, code: int, words: list[str]) -> int:
    say(f"docai: error: {text}")
    if error is not None and _verbosity(words) >= 2:
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    return int(code)


def _verbosity(words: list[str]) -> int:
    """How often -v stands on the command line, which may not have been understood."""
    said = sum(w.count("v") for w in words if w.startswith("-") and w[1:] and set(w[1:]) <= {"v", "q"})
    set_outside = os.environ.get("DOCAI_VERBOSE", "")
    return said + words.count("--verbose") or (int(set_outside) if set_outside.isdecimal() else 0)
