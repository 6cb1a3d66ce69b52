"""Parameters that commands share, beside those of their option classes."""

from __future__ import annotations

from typing import Annotated

import typer

SETTINGS = "Each option is read from DOCAI_NAME in the environment, too, and from docai.toml (upwards from here)."

Verbose = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, help="Say more; -vv shows tracebacks.", envvar="DOCAI_VERBOSE",
        show_envvar=False, show_default=False,
    ),
]  # fmt: skip
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Say errors only.", envvar="DOCAI_QUIET", show_envvar=False, show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.", show_default=False)]


def leave(code: int) -> None:
    """End a command with an exit code, unless that is 0."""
    if code:
        raise typer.Exit(code)
