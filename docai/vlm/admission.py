"""Who may begin when: a bounded queue that is fair to clients, and a budget of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from docai.checkpoint.backend import in_bytes, on_gpu
from docai.errors import LimitExceeded
from docai.nn.attention import AttentionSpec
from docai.nn.batch import storage_columns
from docai.nn.cache import Cache, QuantizedCache, RotatingCache
from docai.nn.latent_cache import RoundedLatentCache
from docai.nn.mlp import MlpSpec
from docai.nn.rounding import SCALE_BYTES, SMALLEST_GROUP
from docai.vlm.encoding_memory import encoding_bytes
from docai.vlm.generate import Runtime
from docai.vlm.job import Job
from docai.vlm.network import Network
from docai.vlm.prefix import BlockStore
from docai.vlm.reading import new_caches
from docai.vlm.request import GenerationOptions


class Queue:
    """Jobs that wait. Clients take turns, so that one with many requests does not keep the others waiting; the requests
    of one client go in order. Threads share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: OrderedDict[str, deque[Job]] = OrderedDict()
        self._lock = threading.RLock()  # a ticket may be let go of, so cancel, at any place, this thread's too

    def __len__(self) -> int:
        return sum(map(len, self._clients.values()))

    def add(self, job: Job) -> None:
        """Raises LimitExceeded where it is full."""
        with self._lock:
            if len(self) >= self._most:
                raise LimitExceeded(
                    f"{self._most} requests are waiting already, and no more are taken; try again later"
                )
            self._clients.setdefault(job.client, deque()).append(job)

    def first(self) -> Job | None:
        """Who is next."""
        with self._lock:
            return next((jobs[0] for jobs in self._clients.values()), None)

    def begin(self, job: Job) -> bool:
        """Take out who is next; then it is the next client's turn. False where it was taken out meanwhile."""
        with self._lock:
            waited = self.remove(job)
            if job.client in self._clients:
                self._clients.move_to_end(job.client)
            return waited

    def remove(self, job: Job) -> bool:
        """Take a job out; False where it does not wait."""
        with self._lock:
            jobs = self._clients.get(job.client)
            if jobs is None or job not in jobs:
                return False
            jobs.remove(job)
            if not jobs:
                del self._clients[job.client]
            return True

    def clear(self) -> list[Job]:
        """Take out all."""
        with self._lock:
            jobs = [job for waiting in self._clients.values() for job in waiting]
            self._clients.clear()
            return jobs


@dataclass(frozen=True, slots=True)
class LayerCost:
    """What the cache of a layer takes: `token` bytes for each of up to `most` tokens (None: of all), `fixed` of any."""

    token: int
    most: int | None
    fixed: int = 0

    def of(self, columns: int) -> int:
        """Bytes of so many tokens."""
        return self.fixed + self.token * (columns if self.most is None else min(columns, self.most))


class Budget:
    """Bytes beside the weights, and what requests will take of them at most.

    It counts on each answer becoming as long as it may, so that what was admitted never has to be turned out again.
    """

    def __init__(self, runtime: Runtime, limit: int, step: int, store: BlockStore, steady: int = 0) -> None:
        """`limit`: bytes beside the weights; `step`: tokens of a chunk; `store`: what keeps blocks of prompts.

        `steady`: batches have so many places each (0: as many as are taken, up to a power of two).
        """
        self._network, self._features = runtime.network, runtime.features
        self.limit, self._store = limit, store
        self._item = number_type(runtime.network).size
        self._step, self._steady = step, steady
        self._costs: dict[tuple[int | None, ...], list[LayerCost]] = {}

    def check(self, job: Job) -> None:
        """Raise LimitExceeded for a job that would not fit even by itself."""
        needed = self.needed([job])
        if needed > self.free:
            asked = f"a prompt of {len(job.request.ids)} tokens and an answer of up to {job.most}"
            left = in_bytes(max(0, self.free))
            raise LimitExceeded(
                f"{asked} need {in_bytes(needed)}, but only {left} are left beside the weights; ask for fewer tokens, "
                "or round the context (--kv-bits)"
            )

    @property
    def free(self) -> int:
        """Bytes for requests: what is kept of prompts and images has its own."""
        kept = 0 if self._features is None else self._features.most_bytes
        return self.limit - self._store.most_bytes - kept

    def needed(self, jobs: Sequence[Job]) -> int:
        """The most bytes that these jobs take at once."""
        kinds: dict[object, list[Job]] = {}
        for job in jobs:
            kinds.setdefault(job.kind, []).append(job)
        batches = sum(self._batch(kind) for kind in kinds.values())
        read = [self._caches(job, len(job.request.ids)) for job in jobs if not job.answer.tokens]
        fetched = max(read, default=0) if self._store.shelved else 0  # blocks of one at a time, beside its caches
        peak = max((self._peak(job) for job in jobs), default=0)
        peak = max(peak, self._encoding(jobs))  # images are encoded before anything of a prompt is read
        return batches + sum(read) + fetched + peak

    def _batch(self, jobs: Sequence[Job]) -> int:
        """The storage of a batch; growing takes a second one for a moment, a layer at a time."""
        places, longest = self._places(jobs), max(jobs, key=lambda job: job.length)
        layers = self._layer_bytes(longest, longest.length + longest.guess)
        return places * (sum(layers) + max(layers) + 2 * 4 * self._network.spec.decoder.vocabulary)

    def _places(self, jobs: Sequence[Job]) -> int:
        """How many places jobs of one kind get."""
        if not self._steady:
            return 1 << (len(jobs) - 1).bit_length()
        if jobs[0].guess or jobs[0].boxes:  # each is by itself
            return len(jobs)
        return -(-len(jobs) // self._steady) * self._steady

    def _caches(self, job: Job, tokens: int) -> int:
        return sum(self._layer_bytes(job, tokens))

    def _layer_bytes(self, job: Job, tokens: int) -> list[int]:
        columns = storage_columns(tokens)
        return [cost.of(columns) for cost in self._layers(job.request.options)]

    def _layers(self, options: GenerationOptions) -> list[LayerCost]:
        key = options.context_kind
        if key not in self._costs:
            caches = new_caches(self._network, options)
            layers = zip(self._network.spec.decoder.keeping, caches, strict=True)
            self._costs[key] = [self._layer(attention, cache) for attention, cache in layers]
        return self._costs[key]

    def _layer(self, attention: AttentionSpec, cache: Cache) -> LayerCost:
        if attention.state_size:
            return LayerCost(0, None, attention.state_size * mx.float32.size)
        numbers = 2 * attention.kept_heads * attention.head_dim
        if isinstance(cache, QuantizedCache):
            both = cache.rounding.key_bits, cache.rounding.value_bits
            bits = max(both) if isinstance(cache, RoundedLatentCache) else sum(both) / 2
            return LayerCost(int(numbers * bits / 8) + 2 * SCALE_BYTES * numbers // SMALLEST_GROUP, None)
        return LayerCost(numbers * self._item, cache.window if isinstance(cache, RotatingCache) else None)

    def _peak(self, job: Job) -> int:
        """What reading a chunk takes: activations and, where attention is not one kernel, its scores."""
        spec = self._network.spec.decoder
        chunk = job.request.options.prefill_step or self._step
        width = max(layer.mlp.width if isinstance(layer.mlp, MlpSpec) else spec.dims * 4 for layer in spec.layers)
        width += 0 if spec.per_layer is None else spec.per_layer.width * len(spec.layers)
        activations = chunk * (3 * width + 8 * spec.dims) * self._item
        attention = [layer.attention for layer in spec.layers]
        heads = max((one.heads for one in attention if not one.state_size), default=0)
        capped = any(one.cap is not None for one in attention if not one.state_size)
        fused = on_gpu() and not (capped or job.request.options.kv_bits)
        scores = 0 if fused else 2 * 4 * heads * chunk * len(job.request.ids)
        states = 4 * chunk * max(one.working_size for one in attention)
        return activations + scores + states + len(job.request.ids) * spec.dims * self._item

    def _encoding(self, jobs: Sequence[Job]) -> int:
        """What encoding the images takes that are still to be encoded, those of several jobs in one pass."""
        asked = {image.key: image for job in jobs if job.untouched for image in job.request.images if not image.cached}
        made = {key for job in jobs for key in job.features}
        images = [image.input for key, image in asked.items() if key not in made]
        return encoding_bytes(self._network.spec.vision, images, number_type(self._network))


def number_type(network: Network) -> mx.Dtype:
    """The type of a network's activations, so of what its caches keep."""
    dtype: mx.Dtype = network.decoder.norm.weight.dtype  # a norm is never quantized
    return dtype
