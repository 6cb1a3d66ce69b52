"""The engine: one place where all requests to a model run, many at once.

Requests are submitted from any thread and run on one of the engine's own, which alone computes; they join and leave the
running batch between two tokens. See `docai.vlm.scheduler` for what happens in which order.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from docai.errors import UsageError
from docai.vlm.generate import Request, Runtime
from docai.vlm.job import Job, now
from docai.vlm.prefix import BlockStore
from docai.vlm.request import Generation
from docai.vlm.scheduler import EngineLimits, Scheduler
from docai.vlm.ticket import Ticket


class Engine:
    """Answers requests to one model. Its thread begins with the first one and ends with `close`, or with the engine."""

    def __init__(
        self, runtime: Runtime, *, store: BlockStore | None = None, limits: EngineLimits | None = None
    ) -> None:
        self.runtime = runtime
        self.store = BlockStore(0) if store is None else store
        self._worker = _Worker(Scheduler(runtime, self.store, limits or EngineLimits()))
        self._stop = weakref.finalize(self, self._worker.stop)

    def submit(
        self, request: Request, *, client: str = "", tenant: Hashable = "", started: float | None = None
    ) -> Ticket:
        """Have a request answered. Whoever lets go of the ticket lets go of the answer.

        Clients take turns where requests have to wait. What was read of prompts is shared within a `tenant` only.
        `started` is when the request came in, on the clock of `time.perf_counter`. Raises LimitExceeded for a prompt
        that is too long or can never fit into memory, and where too many requests wait.
        """
        self.runtime.check_length(request.ids, request.images)
        job = Job(self.runtime, request, client, tenant, now() if started is None else started)
        self._worker.submit(job)
        return Ticket(job.outlet, job.result, partial(self._worker.cancel, job))

    def answers(self, requests: Sequence[Request], **how: Any) -> list[Generation]:
        """The answers to requests, in their order; `how`: see `submit`."""
        return [ticket.whole() for ticket in [self.submit(request, **how) for request in requests]]

    @property
    def rows(self) -> int:
        """How many requests can run at once."""
        return self._worker.scheduler.rows

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._worker.scheduler.queue)

    @property
    def running(self) -> int:
        """How many requests have been admitted and are not over: about, as the engine's thread goes on meanwhile."""
        return self._worker.running

    @property
    def silent_s(self) -> float:
        """For how many seconds nothing has come of the step that it is at; 0 where there is nothing to do."""
        began = self._worker.began
        return 0.0 if began is None else time.monotonic() - began

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more: it was closed, or its thread ended by an error."""
        return self._worker.stopping

    def close(self) -> None:
        """End all requests, and the thread."""
        self._stop()


class _Worker:
    """The engine's thread. It does not hold the engine, which may be let go of while nothing runs."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.began: float | None = None  # when the step began that it is at

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def running(self) -> int:
        with contextlib.suppress(RuntimeError):  # it changed while it was counted
            return len(self.scheduler.running)
        return 0

    def submit(self, job: Job) -> None:
        self.scheduler.budget.check(job)
        with self._changed:
            if self._stopping:
                raise UsageError("this engine was closed; load the model again")
            self.scheduler.queue.add(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="docai-engine", daemon=True)
                self._thread.start()
                atexit.register(self.stop)  # a thread that computes while the interpreter ends would crash it
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """End a job: at once where it waits, with its next token where it runs."""
        job.cancelled = True
        if self.scheduler.queue.remove(job):
            job.end("cancelled")

    def stop(self) -> None:
        """End the thread, and all that runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        atexit.unregister(self.stop)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while self._wait():
                self.began = time.monotonic()
                self.scheduler.tick()
                self.began = None
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.began = None
            with self._changed:
                self._stopping = True
                self.scheduler.stop(error)
            mx.synchronize()
            mx.clear_streams()  # what MLX keeps for a thread has to go with it

    def _wait(self) -> bool:
        """Until there is something to do; False where the thread is to end."""
        with self._changed:
            while self.scheduler.idle and not self._stopping:
                self._changed.wait()
            return not self._stopping
