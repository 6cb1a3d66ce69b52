"""A worker of a folder run: `python -m docai.batch.worker`. Jobs come in as JSON lines, events go out as JSON lines."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import orjson

from docai.batch.work import Job, run_job
from docai.errors import DocaiError, ExitCode
from docai.export.json import dumps
from docai.render.orphan import exit_with_parent


def main() -> None:
    """Work until the parent closes the pipe. Native libraries that write to stdout or stderr are not heard."""
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    exit_with_parent()

    def tell(event: dict[str, Any]) -> None:
        left = memoryview(dumps(event) + b"\n")
        while left:
            left = left[os.write(out, left) :]

    for line in sys.stdin.buffer:
        tell(closing_event(Job.from_json(orjson.loads(line)), tell))


def closing_event(job: Job, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Do one job; how it ended: `done`, `more` (go on in a fresh process) or `failed`."""
    try:
        done = run_job(job, tell)
    except DocaiError as error:
        return {"event": "failed", "message": str(error), "exit_code": int(error.exit_code)}
    except Exception as error:  # noqa: BLE001 - the border of the process: a mistake of ours costs one file
        text = f"internal error ({type(error).__name__}: {error})"
        code = int(ExitCode.INTERNAL)
        return {"event": "failed", "message": text, "exit_code": code, "trace": traceback.format_exc()}
    if done is None:
        return {"event": "more"}
    return {
        "event": "done",
        "outputs": done.outputs,
        "statuses": done.statuses,
        "reasons": list(done.reasons),
        "exit_code": int(done.exit_code),
    }


if __name__ == "__main__":
    main()
