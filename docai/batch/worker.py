"""A worker of a folder run: `python -m docai.batch.worker`. Jobs come in as JSON lines, events go out as JSON lines."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

from docai.batch.work import Job, run_job
from docai.errors import DocaiError, ExitCode
from docai.render.orphan import exit_with_parent
from docai.types import PageResult


def main() -> None:
    """Work until the parent closes the pipe. Native libraries that write to stdout or stderr are not heard."""
    out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    exit_with_parent()
    for line in sys.stdin.buffer:
        for event in events(Job.from_json(orjson.loads(line)), out):
            send(out, event)


def events(job: Job, out: Any) -> list[dict[str, Any]]:
    """Do one job, telling each page as it is done; the closing event."""

    def on_page(page: PageResult, total: int) -> None:
        send(out, page_event(page, total))

    try:
        done = run_job(job, on_page)
    except DocaiError as error:
        return [{"event": "failed", "message": str(error), "exit_code": int(error.exit_code)}]
    except Exception as error:  # noqa: BLE001 - the border of the process: a mistake of ours costs one file
        text = f"internal error ({type(error).__name__}: {error})"
        return [{"event": "failed", "message": text, "exit_code": int(ExitCode.INTERNAL)}]
    return [
        {
            "event": "done",
            "outputs": done.outputs,
            "statuses": done.statuses,
            "reasons": list(done.reasons),
            "exit_code": int(done.exit_code),
        }
    ]


def page_event(page: PageResult, total: int) -> dict[str, Any]:
    """A finished page, as an event."""
    return {
        "event": "page",
        "page": page.page.index + 1,
        "pages": total,
        "status": page.outcome.status.value,
        "reasons": list(page.outcome.reasons),
        "seconds": page.seconds,
    }


def send(out: Any, event: dict[str, Any]) -> None:
    """One event, at once."""
    out.write(orjson.dumps(event) + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
