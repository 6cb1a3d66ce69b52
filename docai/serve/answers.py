"""Answers of models for all routes that ask them: options made of requests, several answers at once, usage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request

from docai.errors import DocaiError
from docai.serve.desk import Desk, desk_of, owner_of, tenant_of
from docai.serve.errors import ApiError, busy, translated
from docai.serve.messages import Conversation, Reader
from docai.serve.models import Offered, Question
from docai.serve.schemas import Message, Sampled
from docai.vlm.request import Generation, GenerationOptions, Piece, TokenLogprob
from docai.vlm.ticket import Ticket


def sampling_of(asked: Sampled) -> dict[str, Any]:
    """What requests say of sampling, as options; what they leave out is left out."""
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop
    given = {
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "top_k": None if asked.top_k is None else max(0, asked.top_k),
        "min_p": asked.min_p,
        "seed": None if asked.seed is None else asked.seed % (1 << 63),
        "presence_penalty": asked.presence_penalty,
        "frequency_penalty": asked.frequency_penalty,
        "repetition_penalty": asked.repetition_penalty,
        "logit_bias": None if asked.logit_bias is None else _bias(asked.logit_bias),
        "max_tokens": asked.max_tokens,
        "stop": stops or None,
        "loop_guard": asked.loop_guard,
    }
    return {name: value for name, value in given.items() if value is not None}


def _bias(given: Mapping[str, float]) -> dict[int, float]:
    try:
        return {int(token): added for token, added in given.items()}
    except ValueError:
        raise ApiError(400, "logit_bias: expected token ids as keys", param="logit_bias") from None


def options_of(said: Mapping[str, Any]) -> GenerationOptions:
    """Options, checked. Raises ApiError naming what is wrong."""
    try:
        return GenerationOptions(**said)
    except DocaiError as error:
        told = translated(error)
        told.param = str(error).partition(":")[0]
        raise told from error


async def conversation(request: Request, messages: Sequence[Message]) -> Conversation:
    """Messages with the pictures that they name."""
    desk = desk_of(request)
    return await desk.got(Reader(desk.media, desk.options, owner_of(request)).read, messages)


def question_of(
    request: Request,
    talk: Conversation,
    options: GenerationOptions,
    *,
    template: bool = True,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Question:
    """What is asked, for whom."""
    owner, tenant = owner_of(request), tenant_of(request)
    client = owner or (request.client.host if request.client else "")
    return Question(
        talk.messages, talk.media, options, template=template, tools=tools, client=client, tenant=tenant,
        most_images=desk_of(request).options.max_images, sources=talk.sources,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the answer `index`: a piece of it or, at its end, the whole."""

    index: int
    piece: Piece | None = None
    whole: Generation | None = None


class Answers:
    """Several answers to one question, all under way at once. Leaving it ends them."""

    def __init__(self, desk: Desk, offered: Offered, tickets: Sequence[Ticket]) -> None:
        self.desk, self.offered, self._tickets = desk, offered, tickets

    async def whole(self) -> list[Generation]:
        """All answers, once they have ended."""
        parts = {part.index: part.whole async for part in self.parts() if part.whole is not None}
        return [parts[index] for index in sorted(parts)]

    async def parts(self) -> AsyncGenerator[Part]:
        """The pieces of all answers as they come."""
        if len(self._tickets) == 1:
            async for part in self._one(0):
                yield part
            return
        queue: asyncio.Queue[Part | BaseException | None] = asyncio.Queue(64)
        tasks = [asyncio.ensure_future(self._pump(index, queue)) for index in range(len(self._tickets))]
        try:
            left = len(tasks)
            while left:
                got = await queue.get()
                if isinstance(got, Part):
                    yield got
                elif got is None:
                    left -= 1
                else:
                    raise got
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, index: int, queue: asyncio.Queue[Part | BaseException | None]) -> None:
        try:
            async for part in self._one(index):
                await queue.put(part)
            await queue.put(None)
        except Exception as error:  # noqa: BLE001 - raised where the queue is read
            await queue.put(error)

    async def _one(self, index: int) -> AsyncIterator[Part]:
        ticket = self._tickets[index]
        async for piece in ticket:
            yield Part(index, piece)
        result = ticket.result
        self.desk.metrics.answered(result)
        if result.finish_reason == "cancelled":
            raise busy("the answer was ended, as the server is being stopped")
        yield Part(index, None, result)

    def cancel(self) -> None:
        for ticket in self._tickets:
            ticket.cancel()


@contextlib.asynccontextmanager
async def using(request: Request, model: str | None, question: Question, places: int = 1) -> AsyncIterator[Offered]:
    """The model that a question is for, in use; the question's pictures are let go of in the end. Raises ApiError."""
    desk = desk_of(request)
    try:
        async with desk.models.use(model, places) as offered:
            yield offered
    finally:
        await desk.by_hand(question.close)


@contextlib.asynccontextmanager
async def answering(
    request: Request, offered: Offered, question: Question, count: int = 1, several: Sequence[Question] = ()
) -> AsyncIterator[Answers]:
    """The answers of a model that is in use to a question, `count` of them, or one to each of `several`."""
    desk = desk_of(request)
    tickets: list[Ticket] = []
    answers = Answers(desk, offered, tickets)
    try:
        for asked in several or [_seeded(question, number) for number in range(count)]:
            tickets.append(await desk.models.ask(offered, asked))  # noqa: PERF401 - to be cancelled, if one fails
        desk.metrics.count("mm_cache_queries_total", len(question.media))
        yield answers
    finally:
        answers.cancel()


def _seeded(question: Question, number: int) -> Question:
    """The question for one of several answers: by the same seed they would all be one."""
    seed = question.options.seed
    if not number or seed is None:
        return question
    return replace(question, options=replace(question.options, seed=(seed + number) % (1 << 63)))


def usage_of(answers: Sequence[Generation]) -> dict[str, Any]:
    """Tokens as OpenAI counts them: those of the prompt once."""
    prompt = max((answer.usage.prompt for answer in answers), default=0)
    generated = sum(answer.usage.generated for answer in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {
            "cached_tokens": max((answer.usage.reused for answer in answers), default=0),
            "image_tokens": max((answer.usage.images for answer in answers), default=0),
            "audio_tokens": max((answer.usage.audio for answer in answers), default=0),
        },
        "completion_tokens_details": {"reasoning_tokens": sum(answer.usage.thinking for answer in answers)},
    }


def finish_of(answer: Generation) -> str:
    """Why an answer ended. One that was ended as it only repeated itself is not whole, either."""
    return "stop" if answer.finish_reason == "stop" else "length"


def logprob_json(told: TokenLogprob) -> dict[str, Any]:
    """A token's log probability as chat completions have it."""
    top = [{"token": text, "logprob": finite(value), "bytes": list(_bytes(text))} for _, text, value in told.top]
    own = {"token": told.text, "logprob": finite(told.logprob), "bytes": list(_bytes(told.text))}
    return {**own, "top_logprobs": top}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def finite(value: float) -> float:
    """A log probability as OpenAI gives it, for the impossible too: JSON has no infinity."""
    return max(value, -9999.0)
