"""The parent's side of the process that reads all files of a run together, since what reads is one model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from docai import errors
from docai.batch.process import Event, Process, events_of
from docai.batch.work import Job
from docai.errors import DocaiError, InternalError

COMMAND = (sys.executable, "-m", "docai.batch.together_worker")


class Together(Process):
    """A process that asks for files as it needs them. Where it dies or is silent for `quiet` seconds, it is ended.

    `threads` open files and prepare their pages. After `recycle` pages it gets no further files.
    """

    def __init__(self, quiet: float, threads: int, recycle: int) -> None:
        super().__init__()
        self._quiet, self._threads, self._recycle = quiet, threads, recycle

    def do(self, jobs: Iterator[Job], tell: Callable[[Job, Event], None]) -> list[Job] | None:
        """Let the process do jobs: pages and closing events (`done`, `failed`) are told as they come.

        None where there are none; where it died, those that were under way. Whatever is left of `jobs` is for the next
        call, with a fresh process. Raises a DocaiError where what reads cannot be had.
        """
        waiting = next(jobs, None)
        if waiting is None:
            return None
        begun, number, pages = dict[int, Job](), 0, 0
        try:
            process = self._begin(COMMAND)
            self._say({"threads": self._threads})
            for event in events_of(process, self._quiet):
                match event["event"]:
                    case "next":
                        job = (waiting or next(jobs, None)) if pages < self._recycle else None
                        waiting = None
                        if job is None:
                            self._say(None)
                        else:
                            begun[number] = job
                            self._say({"number": number, "job": job.to_json()})
                            number += 1
                    case "end":
                        break
                    case "unable":
                        raise error_of(event)
                    case kind:
                        job = begun[event.pop("number")]
                        if kind == "page":
                            pages += not event.get("kept")
                        else:
                            begun = {n: other for n, other in begun.items() if other is not job}
                        tell(job, event)
        except (OSError, TimeoutError):  # it is gone, or hangs
            pass
        finally:
            self.stop()
        return [*begun.values(), *([waiting] if waiting is not None else [])]


def error_of(event: Event) -> DocaiError:
    """The error that a process met."""
    kind = getattr(errors, event["error"], InternalError)
    error: DocaiError = kind(event["message"])
    return error
