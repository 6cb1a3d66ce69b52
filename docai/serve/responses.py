"""`/v1/responses`: the parts of OpenAI's newer API that its clients use."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from docai.serve.answers import Answers, answering, conversation, finish_of, question_of, usage_of, using
from docai.serve.chat import chat_options, manner_in, settled, tools_of
from docai.serve.desk import Desk, desk_of, tenant_of, while_there
from docai.serve.errors import ApiError, reply
from docai.serve.events import begun, event
from docai.serve.kept import Item
from docai.serve.lists import page_of
from docai.serve.models import Question
from docai.serve.route import Route
from docai.serve.schemas import ChatRequest, ResponsesRequest
from docai.serve.tools import Call, ToolWatch
from docai.vlm.request import Generation

router = APIRouter(route_class=Route, tags=["chat"])


@router.post("/v1/responses")
async def responses(asked: ResponsesRequest, request: Request) -> Response:
    """An answer, in the shape of OpenAI's Responses API."""
    desk = desk_of(request)
    desk.models.find(asked.model)
    before: list[Item] = []
    if asked.previous_response_id is not None:
        before = desk.responses.items(asked.previous_response_id, tenant_of(request))
    as_chat = chat_of(asked, before)
    options = chat_options(as_chat, desk.options)
    talk = await while_there(request, conversation(request, as_chat.messages))
    question = question_of(request, talk, options, tools=tools_of(as_chat))
    shape = _Response(asked, as_chat)
    if asked.stream:
        return await begun(request, shape.streamed(request, question))
    return await while_there(request, shape.whole(request, question))


@router.get("/v1/responses/{number}")
async def response(number: str, request: Request) -> Response:
    """A response that is kept."""
    kept = desk_of(request).responses.find(number, tenant_of(request))
    if kept is None:
        raise _unknown(number)
    return reply(kept.said)


@router.delete("/v1/responses/{number}")
async def delete(number: str, request: Request) -> Response:
    """Forget a response. What goes on from it does not hold any more."""
    if not desk_of(request).responses.drop(number, tenant_of(request)):
        raise _unknown(number)
    return reply({"id": number, "object": "response", "deleted": True})


@router.get("/v1/responses/{number}/input_items")
async def input_items(
    number: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> Response:
    """What was said before a response, earlier responses included; `after` goes on behind the last item of a list."""
    found = desk_of(request).responses.asked(number, tenant_of(request))
    if found is None:
        raise _unknown(number)
    return reply(page_of([_listed(item) for item in found], limit, after, order))


def _unknown(number: str) -> ApiError:
    return ApiError(404, f"there is no response {number[:80]!r} (any more)", code="response_not_found")


def items_of(asked: ResponsesRequest) -> list[Item]:
    """What a request adds to the conversation."""
    given = asked.input
    return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given


_PREFIXES = {"function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def _numbered(item: Item) -> Item:
    """An item of a request with an id, by which lists of items go on."""
    prefix = _PREFIXES.get(str(item.get("type")), "msg")
    return item if isinstance(item.get("id"), str) else {**item, "id": f"{prefix}_{secrets.token_hex(16)}"}


def _listed(item: Item) -> Item:
    """An item as lists have it: with its type, texts as parts."""
    said = {"type": "message", "status": "completed", **item}
    if said["type"] == "message":
        said.setdefault("role", "user")
        if isinstance(said.get("content"), str):
            kind = "output_text" if said["role"] == "assistant" else "input_text"
            more: Item = {"annotations": []} if said["role"] == "assistant" else {}
            said["content"] = [{"type": kind, "text": said["content"], **more}]
    return said


def chat_of(asked: ResponsesRequest, before: Sequence[Item] = ()) -> ChatRequest:
    """The same request, behind the items `before`, to chat completions. Raises ApiError."""
    messages: list[dict[str, Any]] = []
    if asked.instructions:
        messages.append({"role": "system", "content": asked.instructions})
    for item in before:
        messages += _messages(item, "previous_response_id")
    for number, item in enumerate(items_of(asked)):
        messages += _messages(item, f"input.{number}")
    said: dict[str, Any] = {
        "model": asked.model,
        "messages": messages,
        "max_completion_tokens": asked.max_output_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "tools": None if asked.tools is None else [_tool(tool) for tool in asked.tools],
        "tool_choice": asked.tool_choice,
        "reasoning_effort": (asked.reasoning or {}).get("effort"),
        "response_format": _format(asked.text or {}),
    }
    try:
        return ChatRequest.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])).replace("messages.", "input.", 1)
        raise ApiError(422, f"{place}: {first['msg']}", code="invalid_value", param=place) from None


def _messages(item: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
    """The messages that an item of the input stands for."""
    match item.get("type", "message"):
        case "message":
            yield {"role": item.get("role", "user"), "content": item.get("content")}
        case "function_call":
            call = {"name": item.get("name"), "arguments": item.get("arguments")}
            yield {"role": "assistant", "tool_calls": [{"id": str(item.get("call_id", "")), "function": call}]}
        case "function_call_output":
            yield {"role": "tool", "tool_call_id": str(item.get("call_id", "")), "content": item.get("output")}
        case "reasoning":
            return
        case other:
            raise ApiError(400, f"{place}: items of type {str(other)[:60]!r} are not taken", param=place)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise ApiError(400, f"tools: expected functions; got {str(tool.get('type'))[:60]!r}", param="tools")
    return {"type": "function", "function": {name: tool.get(name) for name in ("name", "description", "parameters")}}


def _format(text: dict[str, Any]) -> dict[str, Any] | None:
    wanted = text.get("format")
    if not isinstance(wanted, dict):
        return None
    return {"type": wanted.get("type", "text"), "json_schema": {"schema": wanted.get("schema")}}


class _Response:
    """The shape of a response."""

    def __init__(self, asked: ResponsesRequest, as_chat: ChatRequest) -> None:
        self._asked, self._chat = asked, as_chat
        self._number, self._created, self._sequence = f"resp_{secrets.token_hex(16)}", int(time.time()), 0

    async def whole(self, request: Request, question: Question) -> Response:
        async with self._answering(request, question) as answers:
            (whole,) = await answers.whole()
            said = self._said(answers, whole, self._output(answers, whole))
        self._keep(request, said)
        return reply(said)

    def _stores(self, desk: Desk) -> bool:
        return desk.responses.on and self._asked.store is not False

    def _keep(self, request: Request, said: dict[str, Any]) -> None:
        desk, asked = desk_of(request), self._asked
        if self._stores(desk):
            items = [*map(_numbered, items_of(asked)), *said["output"]]
            desk.responses.keep(said, items, tenant_of(request), asked.previous_response_id)

    @contextlib.asynccontextmanager
    async def _answering(self, request: Request, question: Question) -> AsyncIterator[Answers]:
        async with (
            using(request, self._asked.model, question) as offered,
            answering(request, offered, settled(request, self._chat, question)) as answers,
        ):
            yield answers

    def _output(self, answers: Answers, whole: Generation) -> list[dict[str, Any]]:
        manner, text, calls = manner_in(self._chat, answers), whole.text, list[Call]()
        if manner is not None:
            watch = ToolWatch(manner)
            said = watch.add(text)
            rest, calls = watch.end()
            text = said + rest
        items = [_reasoning(whole.thinking)] if whole.thinking else []
        items += [_message(text)] if text or not calls else []
        return [*items, *map(_call, calls)]

    def _said(self, answers: Answers, whole: Generation | None, output: list[dict[str, Any]]) -> dict[str, Any]:
        asked = self._asked
        cut = whole is not None and finish_of(whole) == "length"
        return {
            "id": self._number,
            "object": "response",
            "created_at": self._created,
            "status": "in_progress" if whole is None else "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "model": answers.offered.name,
            "output": output,
            "parallel_tool_calls": asked.parallel_tool_calls,
            "previous_response_id": asked.previous_response_id,
            "reasoning": {"effort": self._chat.reasoning_effort, "summary": None},
            "store": self._stores(answers.desk),
            "temperature": asked.temperature,
            "text": asked.text or {"format": {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": asked.tools or [],
            "top_p": asked.top_p,
            "truncation": "disabled",
            "usage": None if whole is None else _usage(whole),
            "user": asked.user,
        }

    async def streamed(self, request: Request, question: Question) -> AsyncGenerator[bytes]:
        async with self._answering(request, question) as answers:
            for name in ("created", "in_progress"):
                yield self._event(f"response.{name}", response=self._said(answers, None, []))
            manner = manner_in(self._chat, answers)
            writer = _Writer(self, None if manner is None else ToolWatch(manner))
            whole: Generation | None = None
            async with contextlib.aclosing(answers.parts()) as parts:
                async for part in parts:
                    whole = part.whole
                    if part.piece is not None:
                        for data in writer.add(part.piece.text, thinking=part.piece.thinking):
                            yield data
            assert whole is not None
            for data in writer.end():
                yield data
            said = self._said(answers, whole, writer.items)
            self._keep(request, said)
            yield self._event(f"response.{said['status']}", response=said)

    def _event(self, name: str, **more: Any) -> bytes:
        self._sequence += 1
        return event({"type": name, "sequence_number": self._sequence - 1, **more}, name)


class _Writer:
    """The events of one answer: its items are opened and closed as they come."""

    def __init__(self, response: _Response, watch: ToolWatch | None) -> None:
        self._event, self._watch = response._event, watch
        self.items: list[dict[str, Any]] = []
        self._text = ""
        self._thinking: bool | None = None  # of the item that is open

    def add(self, text: str, *, thinking: bool) -> Iterator[bytes]:
        if not thinking and self._watch is not None:
            text = self._watch.add(text)
        if not text:
            return
        if self._thinking is not thinking:
            yield from self._close()
            yield from self._open(thinking)
        self._text += text
        kind = "reasoning_text" if thinking else "output_text"
        more: dict[str, Any] = {} if thinking else {"logprobs": []}
        yield self._event(f"response.{kind}.delta", **self._place(), content_index=0, delta=text, **more)

    def end(self) -> Iterator[bytes]:
        rest, calls = ("", []) if self._watch is None else self._watch.end()
        self._watch = None
        yield from self.add(rest, thinking=False)
        yield from self._close()
        if not self.items and not calls:
            yield from self._open(False)
            yield from self._close()
        for call in calls:
            yield from self._called(call)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}

    def _open(self, thinking: bool) -> Iterator[bytes]:
        item = _reasoning("") if thinking else _message("")
        opened = {**item, "status": "in_progress", "content": []}
        self.items.append(item)
        self._text, self._thinking = "", thinking
        yield self._event("response.output_item.added", output_index=len(self.items) - 1, item=opened)
        yield self._event("response.content_part.added", **self._place(), content_index=0, part=item["content"][0])

    def _close(self) -> Iterator[bytes]:
        if self._thinking is None:
            return
        item, kind = self.items[-1], "reasoning_text" if self._thinking else "output_text"
        item["content"][0]["text"] = self._text
        more: dict[str, Any] = {} if self._thinking else {"logprobs": []}
        yield self._event(f"response.{kind}.done", **self._place(), content_index=0, text=self._text, **more)
        yield self._event("response.content_part.done", **self._place(), content_index=0, part=item["content"][0])
        yield self._event("response.output_item.done", output_index=len(self.items) - 1, item=item)
        self._thinking = None

    def _called(self, call: Call) -> Iterator[bytes]:
        item = _call(call)
        self.items.append(item)
        place = len(self.items) - 1
        opened = {**item, "status": "in_progress", "arguments": ""}
        yield self._event("response.output_item.added", output_index=place, item=opened)
        yield self._event("response.function_call_arguments.delta", **self._place(), delta=call.arguments)
        yield self._event("response.function_call_arguments.done", **self._place(), arguments=call.arguments)
        yield self._event("response.output_item.done", output_index=place, item=item)


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    number = f"msg_{secrets.token_hex(16)}"
    return {"type": "message", "id": number, "status": "completed", "role": "assistant", "content": content}


def _reasoning(text: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{secrets.token_hex(16)}", "summary": [], "content": content}


def _call(call: Call) -> dict[str, Any]:
    numbers = {"id": f"fc_{secrets.token_hex(16)}", "call_id": f"call_{secrets.token_hex(12)}"}
    said = {"status": "completed", "name": call.name, "arguments": call.arguments}
    return {"type": "function_call", **numbers, **said}


def _usage(whole: Generation) -> dict[str, Any]:
    usage = usage_of([whole])
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": usage["prompt_tokens_details"]["cached_tokens"]},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }
