"""Who reads, who answers, who waits: the engine's work, in ticks: a step of each batch, some reading beside it."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import mlx.core as mx

from docai.checkpoint.backend import on_gpu, total_memory
from docai.nn.batch import alike_rows
from docai.vlm.admission import Budget, Queue
from docai.vlm.batch import Batch
from docai.vlm.boxes import BoxBatch
from docai.vlm.encoding import encode_ahead
from docai.vlm.generate import Chosen, Runtime
from docai.vlm.guess import GuessingBatch
from docai.vlm.job import Job
from docai.vlm.prefix import BlockStore
from docai.vlm.reading import Reading
from docai.vlm.together import read_together, readable_together

_LOG = logging.getLogger(__name__)
_SWEEP = 256  # ticks between which MLX may hoard freed memory, as in mlx-lm


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What an engine takes on.

    `memory`: bytes beside the weights, of which a quarter at most is for the prefix cache; None is nine tenths of what
    there is. `rows`: requests that run at once (None: 32 on a GPU, 8 on a CPU); `waiting`: those that may wait.
    `steady`: what a request gets is the same to the bit whatever runs beside it: a step is always computed for as many
    requests, free places included, and attention for each by itself (see `docai.nn.batch.alike_rows`). `together`:
    short prompts are read in one pass, where no prefix cache is kept (None: on a GPU; on a CPU it gains nothing).
    """

    rows: int | None = None
    waiting: int = 1024
    memory: int | None = None
    steady: bool = False
    together: bool | None = None

    @property
    def most_rows(self) -> int:
        return self.rows or (32 if on_gpu() else 8)


class Scheduler:
    """Runs requests. All but `queue` belongs to one thread."""

    def __init__(self, runtime: Runtime, store: BlockStore, limits: EngineLimits) -> None:
        self._runtime, self._store = runtime, store
        self.rows = limits.most_rows
        self._steady = alike_rows(self.rows) if limits.steady else 0  # places of each batch
        together = on_gpu() if limits.together is None else limits.together
        self._together = together and not (limits.steady or store.on)
        self._step = 2048 if on_gpu() else 512  # tokens of prompts that are read beside a step of the batches
        memory = limits.memory
        if memory is None:
            memory = int(0.9 * total_memory()) - int(mx.get_active_memory())
        store.keep_within(max(0, memory) // 4)  # the rest is for those who run
        if runtime.features is not None:
            runtime.features.most_bytes = min(runtime.features.most_bytes, max(0, memory) // 8)
        self.budget = Budget(runtime, memory, self._step, store, self._steady)
        self.queue = Queue(limits.waiting)
        self._reading: deque[Job] = deque()
        self._read: list[tuple[Job, Chosen]] = []  # they join with the end of the tick
        self._batches: dict[Hashable, Batch] = {}
        self._was_long = False  # whether the chunk read last was of a long prompt
        self._ticks = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done."""
        return not (len(self.queue) or self._reading or self._batches)

    @property
    def running(self) -> list[Job]:
        """The jobs that have been admitted."""
        batched = [job for batch in self._batches.values() for job in batch.running]
        return [*self._reading, *(job for job, _ in self._read), *batched]

    def tick(self) -> None:
        """Queue a step of each batch, read some of the prompts beside it, then see to the tokens of the step before."""
        self._drop_cancelled()
        self._admit()
        for batch in list(self._batches.values()):
            self._guarded(batch, batch.queue)
        self._read_prompts()
        for batch in list(self._batches.values()):
            self._guarded(batch, partial(self._take, batch))
        self._join()
        self._drop_empty()
        self._ticks += 1
        if self._ticks % _SWEEP == 0:
            mx.clear_cache()

    def stop(self, error: BaseException | None) -> None:
        """End all that runs or waits: as cancelled, or by an error."""
        for job in [*self.queue.clear(), *self.running]:
            if error is None:
                job.end("cancelled")
            else:
                job.fail(error)
            job.release()
        self._reading.clear()
        self._read.clear()
        self._batches = {}

    # --- parts of a tick

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._reading if job.cancelled]:
            self._reading.remove(job)
            job.end("cancelled")
            job.release()
        for batch in list(self._batches.values()):
            gone = [job for job in batch.running if job.cancelled]
            for job in gone:
                job.end("cancelled")
            if gone:
                self._guarded(batch, partial(self._leave, batch, gone))
        self._drop_empty()

    def _drop_empty(self) -> None:
        """Forget batches without requests: they have no steps."""
        self._batches = {kind: batch for kind, batch in self._batches.items() if batch.running}

    def _admit(self) -> None:
        """Let in whose turn it is, as long as there is room. Nobody overtakes one that needs more room."""
        while (job := self.queue.first()) is not None:
            running = self.running
            if len(running) >= self.rows or (running and self.budget.needed([*running, job]) > self.budget.free):
                return
            if self.queue.begin(job):
                self._reading.append(job)

    def _read_prompts(self) -> None:
        """Read up to a step's worth of the prompts."""
        left, busy = self._step, bool(self._batches)
        while self._reading and left > 0:
            job = self._turn()
            read = self._several(job, wait=not busy) if self._together else None
            left -= self._one(job, wait=not busy) if read is None else read

    def _one(self, job: Job, *, wait: bool) -> int:
        """Read the next chunk of a job; the number of its tokens."""
        try:
            return self._chunk(job, wait=wait)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job only
            self._give_up(job, error)
            return 0

    def _several(self, job: Job, *, wait: bool) -> int | None:
        """Read a short prompt, with others where there are some; the number of tokens, None for one that is not."""
        network, others = self._runtime.network, [other for other in self._reading if other is not job]
        group = readable_together(network, job, others, self._step)
        if not group:
            return None
        begun = [member for member in group if self._has_begun(member)]
        if not begun:
            return 0
        try:
            read_together(network, [member.reading for member in begun if member.reading is not None], wait=wait)
        except Exception as error:  # noqa: BLE001 - whose fault it is shows when each is read by itself
            _LOG.warning("%d prompts could not be read together, each is read by itself: %r", len(begun), error)
            for member in begun:
                member.reading = None  # its caches may have been filled
            return sum(self._one(member, wait=wait) for member in begun)
        for member in begun:
            self._one(member, wait=wait)
        return len(begun) * max((len(member.request.ids) for member in begun), default=0)

    def _has_begun(self, job: Job) -> bool:
        try:
            return bool(job.reading or self._begun(job))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job only
            self._give_up(job, error)
            return False

    def _give_up(self, job: Job, error: BaseException) -> None:
        self._reading.remove(job)
        job.fail(error)
        job.release()

    def _turn(self) -> Job:
        """Whose prompt is read next: the oldest one, but between two chunks of a long one a short one has its turn."""
        oldest = self._reading[0]
        short = next((job for job in self._reading if job.left <= self._step), oldest)
        chosen = short if self._was_long else oldest
        self._was_long = chosen.left > self._step
        return chosen

    def _chunk(self, job: Job, *, wait: bool) -> int:
        """Read the next chunk of a job; the number of its tokens."""
        reading = job.reading or self._begun(job)
        size = reading.next_size
        if not reading.done:
            reading.advance(wait=wait)
        if reading.done:
            first = job.read()
            self._reading.remove(job)
            self._read.append((job, first))
        return size

    def _begun(self, job: Job) -> Reading:
        """Have a job begin to read; images of the others are encoded with its own."""
        others = [other for other in self._reading if other is not job and other.reading is None]
        encode_ahead(self._runtime.network, [job, *others], together=not self._steady)
        return job.begin(self._store)

    def _join(self) -> None:
        for job, first in self._read:
            kind = self._kind(job)
            batch = self._batches.get(kind) or self._batch(job)
            self._batches[kind] = batch
            self._guarded(batch, partial(batch.join, job, first), [job])
        self._read.clear()

    def _kind(self, job: Job) -> Hashable:
        """What has to be equal for jobs to share a batch. Steady ones do not grow: there may be several of a kind."""
        if not self._steady:
            return job.kind
        if job.guess:  # a step is as long as the guesses of all have it
            return job.kind, job.number
        numbered = ((job.kind, number) for number in itertools.count())
        return next(kind for kind in numbered if (batch := self._batches.get(kind)) is None or not batch.full)

    def _batch(self, job: Job) -> Batch:
        network = self._runtime.network
        if job.boxes:
            return BoxBatch(network, job.boxes)
        return GuessingBatch(network, job.guess) if job.guess else Batch(network, self._steady)

    def _take(self, batch: Batch) -> None:
        self._leave(batch, batch.take())

    def _leave(self, batch: Batch, jobs: list[Job]) -> None:
        batch.leave(jobs, shrink=not len(self.queue))

    # --- what goes wrong

    def _guarded(self, batch: Batch, work: Callable[[], object], more: Sequence[Job] = ()) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the work is for many; whose fault it is shows when each is alone
            self._rescue(batch, error, more)

    def _rescue(self, batch: Batch, error: BaseException, more: Sequence[Job]) -> None:
        """Have all jobs of a batch begin again, each by itself; one that fails by itself has failed."""
        _LOG.warning("a step of %d requests failed, each goes on by itself: %r", len(batch.running), error)
        self._batches = {kind: other for kind, other in self._batches.items() if other is not batch}
        for job in dict.fromkeys([*batch.running, *more]):
            job.release()
            job.failures += 1
            if job.failures > 1:
                job.fail(error)
            elif not job.over:
                self._reading.append(job)
