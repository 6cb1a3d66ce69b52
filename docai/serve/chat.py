"""`/v1/chat/completions` as OpenAI has it."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.serve import single
from docai.serve.answers import (
    Answers,
    Part,
    answering,
    conversation,
    finish_of,
    logprob_json,
    options_of,
    question_of,
    sampling_of,
    usage_of,
    using,
)
from docai.serve.desk import desk_of, while_there
from docai.serve.errors import ApiError, reply
from docai.serve.events import DONE, begun, event
from docai.serve.models import Question
from docai.serve.options import ServeOptions
from docai.serve.route import Route
from docai.serve.schemas import ChatRequest, ResponseFormat
from docai.serve.tools import FORCED, Manner, ToolWatch, forced_schema, manner_of
from docai.vlm.request import Generation, GenerationOptions

router = APIRouter(route_class=Route, tags=["chat"])


@router.post("/v1/chat/completions")
async def chat(asked: ChatRequest, request: Request) -> Response:
    """The next turn of a conversation."""
    desk_of(request).models.find(asked.model)
    options = chat_options(asked, desk_of(request).options)
    talk = await while_there(request, conversation(request, asked.messages))
    question = question_of(request, talk, options, tools=tools_of(asked))
    shape = _Chat(asked)
    if asked.stream:
        return await begun(request, shape.streamed(request, question))
    return await while_there(request, shape.whole(request, question))


def chat_options(asked: ChatRequest, server: ServeOptions) -> GenerationOptions:
    """How a conversation is answered; what the request leaves open is the server's to say. Raises ApiError."""
    names = ("max_tokens", "thinking", "thinking_budget")
    defaults = {name: getattr(server, name) for name in names if getattr(server, name) is not None}
    said = sampling_of(asked)
    if asked.max_completion_tokens is not None:
        said["max_tokens"] = asked.max_completion_tokens
    if asked.logprobs or asked.top_logprobs:
        said["logprobs"] = asked.top_logprobs or 0
    if asked.image_tokens is not None:
        said["image_tokens"] = asked.image_tokens
    said = {**defaults, **said, **_thinking(asked)}
    schema = forced_of(asked) or schema_of(asked.response_format)
    if schema is not None:
        said["json_schema"] = schema
    return options_of(said)


def _thinking(asked: ChatRequest) -> dict[str, Any]:
    """Whether to think, by the names that different servers have for it."""
    said: dict[str, Any] = {}
    given = asked.thinking
    if isinstance(given, str):
        said["thinking"] = given
    elif given is not None:
        said["thinking"] = "on" if given.get("type") == "enabled" else "off"
        if isinstance(given.get("budget_tokens"), int):
            said["thinking_budget"] = given["budget_tokens"]
    wanted = asked.enable_thinking
    if wanted is None:
        wanted = (asked.chat_template_kwargs or {}).get("enable_thinking")
    if isinstance(wanted, bool):
        said["thinking"] = "on" if wanted else "off"
    if asked.reasoning_effort is not None and "thinking" not in said:
        said["thinking"] = "off" if asked.reasoning_effort == "none" else "on"
    if asked.thinking_budget is not None:
        said["thinking_budget"] = asked.thinking_budget
    return said


def schema_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    """The JSON schema that an answer has to follow. Raises ApiError."""
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    schema = (wanted.json_schema or {}).get("schema")
    if not isinstance(schema, dict):
        raise ApiError(400, "response_format: expected json_schema.schema, an object", param="response_format")
    return schema


def tools_of(asked: ChatRequest) -> list[dict[str, Any]] | None:
    """The tools as templates take them."""
    if not asked.tools or asked.tool_choice == "none":
        return None
    return [tool.model_dump(exclude_none=True) for tool in asked.tools]


def forced_of(asked: ChatRequest) -> dict[str, Any] | None:
    """The schema of an answer that has to be a call. Raises ApiError for a function that there is not."""
    choice, tools = asked.tool_choice, tools_of(asked)
    if choice in (None, "none", "auto"):
        return None
    name = None
    if isinstance(choice, dict):
        said = choice.get("function")
        name = said.get("name") if isinstance(said, dict) else choice.get("name")
    names = [tool["function"]["name"] for tool in tools or ()]
    if not names or (isinstance(choice, dict) and name not in names):
        raise ApiError(400, f"tool_choice: expected one of {', '.join(names) or 'no tools'}", param="tool_choice")
    return forced_schema(tools or (), name)


def manner_in(asked: ChatRequest, answers: Answers) -> Manner | None:
    """How calls of tools are told from text; None where there are no tools."""
    if not tools_of(asked):
        return None
    model = answers.offered.model
    return FORCED if forced_of(asked) else manner_of(None if model is None else model.tokenizer.chat_template)


def settled(request: Request, asked: ChatRequest, question: Question) -> Question:
    """The question to a loaded model: special tokens are kept where calls of tools begin with one."""
    offered = desk_of(request).models.find(asked.model)
    model = offered.model
    if model is not None and offered.engine is None:
        single.check(asked.messages, question)
        return replace(question, options=single.plain(question.options))
    if model is None or not tools_of(asked) or forced_of(asked):
        return question
    special = manner_of(model.tokenizer.chat_template).special
    return replace(question, options=replace(question.options, special_tokens=special)) if special else question


async def beside(answers: Answers, question: Question, whole: Generation) -> dict[str, Any]:
    """What belongs into a message beside its text, of models that answer about one picture."""
    model = answers.offered.model
    if model is None or answers.offered.engine is not None:
        return {}
    return await answers.desk.by_hand(single.told, model, question, whole)


class _Chat:
    """The shape of an answer of chat completions."""

    def __init__(self, asked: ChatRequest) -> None:
        self._asked = asked
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time())}

    async def whole(self, request: Request, question: Question) -> Response:
        """All answers in one."""
        async with using(request, self._asked.model, question, self._asked.n) as offered:
            question = settled(request, self._asked, question)
            async with answering(request, offered, question, self._asked.n) as answers:
                wholes = await answers.whole()
                more = [await beside(answers, question, whole) for whole in wholes]
                manner = manner_in(self._asked, answers)
                said = {
                    **self._head,
                    "object": "chat.completion",
                    "model": answers.offered.name,
                    "choices": [self._choice(index, whole, manner, more[index]) for index, whole in enumerate(wholes)],
                    "usage": usage_of(wholes),
                    "system_fingerprint": None,
                }
        return reply(said)

    def _choice(self, index: int, answer: Generation, manner: Manner | None, more: dict[str, Any]) -> dict[str, Any]:
        text, calls = _divided(answer.text, manner)
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        message |= more
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if calls:
            message["tool_calls"] = calls
        told = None
        if answer.logprobs is not None:
            told = {"content": [logprob_json(token) for token in answer.logprobs], "refusal": None}
        reason = "tool_calls" if calls else finish_of(answer)
        choice = {"index": index, "message": message, "logprobs": told, "finish_reason": reason}
        return choice | ({"docai": {"finish_reason": answer.finish_reason}} if answer.finish_reason == "loop" else {})

    async def streamed(self, request: Request, question: Question) -> AsyncGenerator[bytes]:
        """Events of the answers as they come."""
        async with using(request, self._asked.model, question, self._asked.n) as offered:
            question = settled(request, self._asked, question)
            async with answering(request, offered, question, self._asked.n) as answers:
                wholes: list[Generation] = []
                shapes = [_Deltas(index, manner_in(self._asked, answers)) for index in range(self._asked.n)]
                for index in range(self._asked.n):
                    delta = {"role": "assistant", "content": ""}
                    yield self._chunk(answers, [{"index": index, "delta": delta, "finish_reason": None}])
                async with contextlib.aclosing(answers.parts()) as parts:
                    async for part in parts:
                        more = {} if part.whole is None else await beside(answers, question, part.whole)
                        for choice in shapes[part.index].take(part):
                            if choice["finish_reason"]:
                                choice["delta"] |= more
                            yield self._chunk(answers, [choice])
                        wholes += [part.whole] if part.whole is not None else []
                if self._asked.stream_options and self._asked.stream_options.include_usage:
                    yield self._chunk(answers, [], usage_of(wholes))
        yield DONE

    def _chunk(self, answers: Answers, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        said = {**self._head, "object": "chat.completion.chunk", "model": answers.offered.name, "choices": choices}
        if self._asked.stream_options and self._asked.stream_options.include_usage:
            said["usage"] = usage
        return event(said)


class _Deltas:
    """The choices of one answer, as it comes."""

    def __init__(self, index: int, manner: Manner | None) -> None:
        self._index = index
        self._watch = None if manner is None else ToolWatch(manner)

    def take(self, part: Part) -> list[dict[str, Any]]:
        if part.piece is not None:
            piece = part.piece
            told = {"content": [logprob_json(token) for token in piece.logprobs]} if piece.logprobs else None
            if piece.thinking:
                return [self._choice({"reasoning_content": piece.text}, told)]
            text = piece.text if self._watch is None else self._watch.add(piece.text)
            return [self._choice({"content": text}, told)] if text or told else []
        assert part.whole is not None
        out, reason = [], finish_of(part.whole)
        if self._watch is not None:
            text, calls = self._watch.end()
            out += [self._choice({"content": text})] if text else []
            out += [
                self._choice({"tool_calls": [{"index": n, **call.as_json()}]}) for n, call in enumerate(calls)
            ]  # fmt: skip
            reason = "tool_calls" if calls else reason
        return [*out, self._choice({}, reason=reason)]

    def _choice(
        self, delta: dict[str, Any], told: dict[str, Any] | None = None, reason: str | None = None
    ) -> dict[str, Any]:
        return {"index": self._index, "delta": delta, "logprobs": told, "finish_reason": reason}


def _divided(text: str, manner: Manner | None) -> tuple[str, list[dict[str, Any]]]:
    """An answer's text without its calls, and these."""
    if manner is None:
        return text, []
    watch = ToolWatch(manner)
    said = watch.add(text)
    rest, calls = watch.end()
    return said + rest, [call.as_json() for call in calls]
