"""`docai models`: pull, list, show, convert, verify."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.cli.common import SETTINGS, AsJson, Quiet, Verbose, leave
from docai.cli.options import takes
from docai.cli.output import put
from docai.errors import ExitCode
from docai.tasks.models_options import ConvertOptions

models = typer.Typer(
    name="models",
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Get, list, explain, convert and check models.",
    epilog=SETTINGS,
)

Name = Annotated[str, typer.Argument(help="A folder, a GGUF file, a repo id (org/name) or a short name.")]


@models.command(epilog=SETTINGS)
@takes(SourceOptions)
def pull(options: SourceOptions, name: Name, quiet: Quiet = False, verbose: Verbose = 0) -> None:  # noqa: ARG001
    """Download a model, or what is missing of it; print its folder."""
    from docai.checkpoint.hub import pull as fetch

    put(f"{fetch(name, revision=options.revision, offline=options.offline, quiet=quiet)}\n")


@models.command(name="list", epilog=SETTINGS)
def list_(as_json: AsJson = False, verbose: Verbose = 0) -> None:  # noqa: ARG001
    """List the models in the cache, the short names and the families that docai reads."""
    from docai.tasks.models import list_models

    found = list_models()
    _show(found, "list_report", as_json)


@models.command(epilog=SETTINGS)
@takes(LoadOptions)
def show(options: LoadOptions, name: Name, as_json: AsJson = False, verbose: Verbose = 0) -> None:  # noqa: ARG001
    """Explain a model: what it is, its layers, where their weights come from, the memory that it takes."""
    from docai.tasks.models import show_model

    _show(show_model(name, options), "show_report", as_json)


@models.command(epilog=SETTINGS)
@takes(SourceOptions)
def verify(options: SourceOptions, name: Name, as_json: AsJson = False, verbose: Verbose = 0) -> None:  # noqa: ARG001
    """Check the hashes of a model's files, and that every tensor has its place."""
    from docai.cli.bytes_bar import bytes_bar
    from docai.tasks.models import verify_model

    with bytes_bar("verifying", shown=sys.stderr.isatty()) as tell:
        found = verify_model(name, options, on_progress=tell)
    _show(found, "verify_report", as_json)
    leave(ExitCode.DEPENDENCY if found["problems"] else ExitCode.OK)


@models.command(epilog=SETTINGS)
@takes(ConvertOptions)
def convert(
    options: ConvertOptions,
    name: Name,
    quiet: Quiet = False,
    verbose: Verbose = 0,  # noqa: ARG001
) -> None:
    """Write a model in docai's own layout, dense or quantized; print its folder."""
    from docai.cli.bytes_bar import bytes_bar
    from docai.tasks.convert import convert_model

    with bytes_bar("converting", shown=not quiet and sys.stderr.isatty()) as tell:
        convert_model(name, options, quiet=quiet, on_progress=tell)
    put(f"{options.output}\n")


def _show(found: dict[str, Any], report: str, as_json: bool) -> None:
    if as_json:
        from docai.tasks.models import as_json as told

        put(told(found) + "\n")
        return
    from docai.cli import models_report

    put(getattr(models_report, report)(found))
