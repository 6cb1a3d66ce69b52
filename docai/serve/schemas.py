"""What requests look like: OpenAI's fields, a few of vLLM's and our own beside them. Unknown ones are passed over."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_MOST_TOKENS = 1 << 20
Count = Annotated[int, Field(ge=1, le=_MOST_TOKENS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Stop = Annotated[str, Field(min_length=1, max_length=1000)]


class Said(BaseModel):
    """What requests have in common."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class StreamOptions(Said):
    include_usage: bool = False


class Function(Said):
    name: Annotated[str, Field(min_length=1, max_length=128)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Said):
    type: Literal["function"]
    function: Function


class ResponseFormat(Said):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class Message(Said):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class Sampled(Said):
    """How answers are generated."""

    model: str | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=_MOST_TOKENS)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    max_tokens: Count | None = None
    stop: Stop | list[Stop] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=16)] = 1
    user: str | None = None
    loop_guard: bool = True


class ChatRequest(Sampled):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=4096)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[Tool], Field(max_length=256)] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    reasoning_effort: str | None = None
    enable_thinking: bool | None = None
    thinking: Literal["auto", "on", "off"] | dict[str, Any] | None = None
    thinking_budget: Annotated[int, Field(ge=0, le=_MOST_TOKENS)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    image_tokens: Annotated[int, Field(ge=16, le=_MOST_TOKENS)] | None = None


class CompletionRequest(Sampled):
    """`POST /v1/completions`."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=32)]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool = False


class ResponsesRequest(Said):
    """`POST /v1/responses`."""

    model: str | None = None
    input: str | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=4096)]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stream: bool = False
    text: dict[str, Any] | None = None
    tools: Annotated[list[dict[str, Any]], Field(max_length=256)] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    reasoning: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    user: str | None = None
