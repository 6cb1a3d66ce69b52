"""The models that a server offers: loaded when they are asked for, let go of when nobody does, and asked."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import time
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from docai.errors import DocaiError, LimitExceeded, UsageError
from docai.serve import memory
from docai.serve.errors import ApiError, busy
from docai.serve.lane import Lane
from docai.serve.options import ServeOptions
from docai.serve.room import Room
from docai.tasks.load import load
from docai.vlm.request import Answering, Generation, GenerationOptions, Piece
from docai.vlm.ticket import Outlet, Ticket

if TYPE_CHECKING:
    from docai.vlm.clips import Medium
    from docai.vlm.engine import Engine
    from docai.vlm.model import Model
    from docai.vlm.request import Answering

LOG = logging.getLogger("docai.serve")
_SWEEP = 1.0  # seconds between two looks for models that nobody asks


class Closes(Protocol):
    """Something open."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked. Requests of one `client` go in order; what was read is shared within a `tenant` only."""

    messages: Sequence[Mapping[str, Any]]
    media: Sequence[Medium]
    options: GenerationOptions
    template: bool = True
    tools: Sequence[Mapping[str, Any]] | None = None
    client: str = ""
    tenant: Hashable = ""
    most_images: int | None = None
    sources: Sequence[Closes] = ()  # of the pictures; closed once these have been decoded

    def close(self) -> None:
        for source in self.sources:
            source.close()


class Offered:
    """A model by name; `model` is there while it is loaded. `users` keep it from being let go of."""

    def __init__(self, name: str, source: str, options: ServeOptions) -> None:
        self.name, self.source = name, source
        self.room = Room("requests are waiting for this model", lambda: self.rows + options.max_queue_depth)
        self.created = int(time.time())
        self.model: Model | None = None
        self.engine: Engine | None = None
        self.users = 0
        self.stale = False  # to be loaded anew, as settings have changed
        self.readers: dict[Any, Any] = {}  # of documents, by their options
        self.used = time.monotonic()
        self.lock = asyncio.Lock()
        self.loading: asyncio.Future[None] | None = None

    @property
    def rows(self) -> int:
        """How many questions it answers at once."""
        return 1 if self.engine is None else self.engine.rows


class Models:
    """Models by name."""

    def __init__(self, options: ServeOptions, lane: Lane, hands: ThreadPoolExecutor) -> None:
        self._options, self._lane, self._hands = options, lane, hands
        self.offered = {name_of(source): Offered(name_of(source), source, options) for source in options.model or ()}
        self._room = asyncio.Lock()
        self._closing = False

    def find(self, name: str | None) -> Offered:
        """The model of that name; without one, the first. Raises ApiError 404."""
        if not self.offered:
            raise ApiError(
                404, "this server has no model; start it with docai serve --model NAME", code="model_not_found"
            )
        if not name:
            return next(iter(self.offered.values()))
        found = self.offered.get(name) or next((o for o in self.offered.values() if o.source == name), None)
        if found is None:
            known = ", ".join(self.offered)
            raise ApiError(
                404, f"there is no model {name[:100]!r}; there are: {known}", code="model_not_found", param="model"
            )
        return found

    @contextlib.asynccontextmanager
    async def use(self, name: str | None, places: int = 1) -> AsyncIterator[Offered]:
        """A model, loaded, that stays so meanwhile.

        `places`: how many answers are wanted of it; 0 is for what waits elsewhere. Raises ApiError, 503 where too many
        wait already.
        """
        offered = self.find(name)
        offered.room.take(places)
        offered.users += 1
        try:
            async with offered.lock:
                broken = offered.engine is not None and offered.engine.closed
                if broken or (offered.stale and offered.users == 1):
                    await self.unload(offered)
                if offered.model is None:
                    await self._loading(offered)
            yield offered
        finally:
            offered.users -= 1
            offered.room.give(places)
            offered.used = time.monotonic()

    async def _loading(self, offered: Offered) -> None:
        """Wait until a model is loaded, which goes on where the client leaves."""
        if offered.loading is None or offered.loading.done():
            offered.loading = asyncio.ensure_future(self._load(offered))
            offered.loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(offered.loading)

    async def _load(self, offered: Offered) -> None:
        async with self._room:
            if self._closing:
                raise busy("the server is being stopped")
            await self._make_room(offered.source)
            started = time.monotonic()
            try:
                model = await self._lane.do(partial(self._loaded, offered.source))
            except DocaiError as error:
                LOG.error("%s: %s", offered.name, error)
                raise ApiError(503, f"{offered.name} cannot be loaded: {error}", code="not_loaded") from error
            offered.engine = getattr(model, "engine", None)  # encoder-decoder models answer one by one, without
            model.name = offered.name  # where it lies is not for clients
            offered.model = model
            LOG.info("%s: loaded in %.1f s", offered.name, time.monotonic() - started)

    def _loaded(self, source: str) -> Model:
        chosen = self._options
        return load(
            source,
            dtype=chosen.dtype,
            offline=chosen.offline,
            feature_cache=chosen.vision_cache_size,
            prefix_cache=chosen.prefix_cache,
            prefix_disk=chosen.prefix_disk,
        )

    async def _make_room(self, source: str) -> None:
        """Let go of models until there are places and memory for one more, the one first that was idle longest.

        Raises ApiError 503 where all places are taken by models that are asked something.
        """
        loop = asyncio.get_running_loop()
        while loaded := self.loaded:
            full = len(loaded) >= self._options.max_models
            if not full and await loop.run_in_executor(self._hands, memory.fits, source):
                return
            idle = [one for one in loaded if not one.users]
            if full and not idle:
                raise busy(f"{len(loaded)} models are in use, and no more may be loaded (--max-models)")
            if not idle:  # loading it will tell
                return
            await self.unload(min(idle, key=lambda one: one.used))

    async def unload(self, offered: Offered) -> None:
        """Let go of a model."""
        engine, offered.engine, offered.model = offered.engine, None, None
        offered.readers.clear()
        offered.stale = False
        if engine is not None:
            await asyncio.get_running_loop().run_in_executor(self._hands, engine.close)
        del engine
        await self._lane.do(collect)
        LOG.info("%s: let go of", offered.name)

    @property
    def loaded(self) -> list[Offered]:
        return [one for one in self.offered.values() if one.model is not None]

    @property
    def waiting(self) -> int:
        """How many questions wait."""
        return sum(one.engine.waiting for one in self.loaded if one.engine is not None) + self._lane.waiting

    @property
    def running(self) -> int:
        """How many questions are being answered by engines."""
        return sum(one.engine.running for one in self.loaded if one.engine is not None)

    @property
    def broken(self) -> list[str]:
        """Models whose engine has ended by a mistake; the next question loads them anew."""
        return [one.name for one in self.loaded if one.engine is not None and one.engine.closed]

    def silent(self, seconds: float) -> list[str]:
        """Models whose engine has been at one step for longer than that."""
        return [one.name for one in self.loaded if one.engine is not None and one.engine.silent_s > seconds]

    async def sweep(self) -> None:
        """Let go of models that nobody asks, from time to time, for ever."""
        while True:
            await asyncio.sleep(min(_SWEEP, self._options.keep_alive_s or _SWEEP))
            keep = self._options.keep_alive_s
            for one in self.loaded:
                if keep and not one.users and time.monotonic() - one.used > keep:
                    async with one.lock:
                        if not one.users and one.model is not None:
                            await self.unload(one)

    async def preload(self) -> None:
        """Load the models that have room."""
        for name in list(self.offered)[: self._options.max_models]:
            with contextlib.suppress(ApiError):  # it is in the log, and whoever asks is told
                async with self.use(name, places=0):
                    pass

    async def close(self) -> None:
        """End all answers. A model that is just being loaded is waited for: its threads have to end like others'."""
        self._closing = True
        loading = [one.loading for one in self.offered.values() if one.loading is not None]
        await asyncio.gather(*loading, return_exceptions=True)
        for one in self.loaded:
            engine, one.engine, one.model = one.engine, None, None
            if engine is not None:
                await asyncio.get_running_loop().run_in_executor(None, engine.close)

    # --- asking

    async def ask(self, offered: Offered, question: Question) -> Ticket:
        """The answer of a loaded model, which is held by `use`, as it comes. Raises ApiError or DocaiError."""
        started = time.perf_counter()
        if offered.engine is None:
            return self._alone(offered, question)
        engine, loop = offered.engine, asyncio.get_running_loop()
        request = await loop.run_in_executor(self._hands, partial(self._prepared, offered, question))
        if not request.ids:
            raise ApiError(400, "the prompt is empty", code="invalid_value", param="prompt")
        try:
            return engine.submit(request, client=question.client, tenant=question.tenant, started=started)
        except LimitExceeded as error:
            raise ApiError(400, str(error), code="context_length_exceeded", param="messages") from None
        except UsageError:
            if not engine.closed:
                raise
            raise busy("the model has to be loaded again") from None

    @staticmethod
    def _prepared(offered: Offered, question: Question) -> Any:
        model = offered.model
        if model is None:
            raise busy("the model has just been let go of")
        asked = question
        try:
            return model.request(
                asked.messages,
                asked.media,
                asked.options,
                template=asked.template,
                tools=asked.tools,
                most_images=asked.most_images,
            )
        finally:
            asked.close()

    def _alone(self, offered: Offered, question: Question) -> Ticket:
        """An answer of a model that gives one at a time. It comes as a whole."""
        model, outlet = offered.model, Outlet()
        assert model is not None
        alone = _Alone(model, question, outlet)
        task = asyncio.ensure_future(self._lane.do(alone.run))

        def over(done: asyncio.Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            outlet.end(error)

        task.add_done_callback(over)
        return Ticket(outlet, alone.result, partial(_cancel, asyncio.get_running_loop(), alone, task))


def _cancel(loop: asyncio.AbstractEventLoop, alone: _Alone, task: asyncio.Future[None]) -> None:
    alone.cancelled = True
    if not alone.begun and not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


class _Alone:
    """An answer on the thread that computes."""

    def __init__(self, model: Model, question: Question, outlet: Outlet) -> None:
        self._model, self._question, self._outlet = model, question, outlet
        self._stream: Answering | None = None
        self.cancelled = self.begun = False

    def _dropped(self) -> bool:
        """Whether another thread has let go of it meanwhile."""
        return self.cancelled

    def run(self) -> None:
        if self._dropped():
            return
        self.begun = True
        asked = self._question
        stream = self._model.answer(
            asked.messages, asked.media, asked.options, template=asked.template, tools=asked.tools
        )
        self._stream = stream
        texts: list[str] = []
        try:
            for piece in stream:
                texts.append(piece.text)
                if self._dropped():
                    stream.close()
                    return
        finally:
            asked.close()
        self._outlet.put([Piece("".join(texts))])

    def result(self) -> Generation:
        return Generation("", finish_reason="cancelled") if self._stream is None else self._stream.result


def collect() -> None:
    """Give back the memory of what was let go of."""
    gc.collect()
    import mlx.core as mx

    mx.clear_cache()


def name_of(source: str) -> str:
    """What clients call a model: where it is a folder or a file, without the path to it."""
    return Path(os.path.abspath(source)).name if Path(source).exists() else source  # noqa: PTH100 - no symlinks
