"""A worker of a folder run: `python -m docai.batch.worker`. Jobs come in as JSON lines, events go out as JSON lines."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from docai.batch.lines import line_of, value_of
from docai.batch.work import Done, Job, Tell, run_job
from docai.errors import DocaiError, ExitCode
from docai.render.orphan import exit_with_parent


def main() -> None:
    """Work until the parent closes the pipe."""
    tell = parent_told()
    for line in sys.stdin.buffer:
        tell(closing_event(Job.from_json(value_of(line)), tell))


def parent_told() -> Tell:
    """How the parent is told events. Native libraries that write to stdout or stderr are not heard from now on."""
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    exit_with_parent()

    def tell(event: dict[str, Any]) -> None:
        left = memoryview(line_of(event) + b"\n")
        while left:
            left = left[os.write(out, left) :]

    return tell


def closing_event(job: Job, tell: Tell) -> dict[str, Any]:
    """Do one job; how it ended: `done`, `more` (go on in a fresh process) or `failed`."""
    try:
        done = run_job(job, tell)
    except Exception as error:  # noqa: BLE001 - the border of the process: a mistake of ours costs one file
        return failure(error)
    return {"event": "more"} if done is None else success(done)


def success(done: Done) -> dict[str, Any]:
    """The event of a file that was read and written."""
    return {
        "event": "done",
        "outputs": done.outputs,
        "statuses": done.statuses,
        "reasons": list(done.reasons),
        "exit_code": int(done.exit_code),
    }


def failure(error: Exception) -> dict[str, Any]:
    """The event of a file that could not be read or written; with a trace, where the mistake is ours."""
    if isinstance(error, DocaiError):
        return {"event": "failed", "message": str(error), "exit_code": int(error.exit_code)}
    text = f"internal error ({type(error).__name__}: {error})"
    trace = "".join(traceback.format_exception(error))
    return {"event": "failed", "message": text, "exit_code": int(ExitCode.INTERNAL), "trace": trace}


if __name__ == "__main__":
    main()
