"""`docai serve` to the `openai` client as it is, with tiny random models."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")
openai = pytest.importorskip("openai")

from PIL import Image  # noqa: E402

from docai.serve.tools import ToolWatch, bare, listed, manner_of, tagged  # noqa: E402
from docai.tasks.load import load  # noqa: E402
from docai.vlm.model import Model  # noqa: E402
from tests.serving import Served, served  # noqa: E402
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl  # noqa: E402

HI = [{"role": "user", "content": "Hello there"}]
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["invoice", "receipt"]}, "paid": {"type": "boolean"}},
    "required": ["kind", "paid"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_llama(folder / "text")
    tiny_qwen2_vl(folder / "sees")
    pixels = np.random.RandomState(1).randint(0, 256, (80, 64, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    models = [str(folder / "sees"), str(folder / "text")]
    with served(folder / "state", model=models, max_models=2, media_root=[str(folder)], max_images=3) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def sees(folder: Path) -> Model:
    return load(str(folder / "sees"))


def chat(client: Any, messages: Any = HI, **more: Any) -> Any:
    return client.chat.completions.create(**{"model": "sees", "messages": messages, "max_tokens": 8, **more})


def picture(folder: Path) -> str:
    return "data:image/png;base64," + base64.b64encode((folder / "a.png").read_bytes()).decode()


def about(url: str, text: str = "What?") -> list[dict[str, Any]]:
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}]
    return [{"role": "user", "content": parts}]


def test_an_answer_is_that_of_the_model(client: Any, sees: Model) -> None:
    answer = chat(client)
    expected = sees.generate("Hello there", max_tokens=8)
    assert answer.choices[0].message.content == expected.text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.prompt_tokens == expected.usage.prompt
    assert answer.usage.completion_tokens == 8
    assert answer._request_id


def test_a_stream_is_the_same_answer(client: Any) -> None:
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = chat(client)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert not any(chunk.usage for chunk in chat(client, stream=True))


def test_pictures_by_data_path_and_file(client: Any, folder: Path, sees: Model, tiny_pdf: bytes) -> None:
    expected = sees.generate("What?", [folder / "a.png"], max_tokens=8)
    for url in (picture(folder), str(folder / "a.png"), (folder / "a.png").as_uri()):
        answer = chat(client, about(url))
        assert answer.choices[0].message.content == expected.text
        assert answer.usage.prompt_tokens == expected.usage.prompt
    pdf = base64.b64encode(tiny_pdf).decode()
    for data in (pdf, f"data:application/pdf;base64,{pdf}"):
        parts = [{"type": "file", "file": {"file_data": data, "filename": "b.pdf"}}, {"type": "text", "text": "What?"}]
        answer = chat(client, [{"role": "user", "content": parts}])
        assert answer.usage.prompt_tokens_details.image_tokens > expected.usage.images
    upload = client.files.create(file=("b.pdf", tiny_pdf), purpose="user_data")
    parts[0] = {"type": "file", "file": {"file_id": upload.id}}
    assert chat(client, [{"role": "user", "content": parts}]).usage.prompt_tokens == answer.usage.prompt_tokens


def test_files_are_listed_page_by_page(client: Any) -> None:
    made = [client.files.create(file=(f"{n}.txt", b"x"), purpose=p).id for n, p in enumerate(["batch", "evals"] * 3)]
    found = [file.id for file in client.files.list(limit=2) if file.id in made]  # the client asks for all pages
    assert found == made[::-1]
    assert [file.id for file in client.files.list(purpose="evals", order="asc", limit=1)] == made[1::2]
    assert client.files.content(made[0]).read() == b"x"
    assert client.files.retrieve(made[0]).filename == "0.txt"
    assert all(client.files.delete(number).deleted for number in made)
    assert not list(client.files.list(purpose="evals"))


def test_what_the_client_makes_of_answers(client: Any) -> None:
    """Objects by their class, streams as events, many at once."""
    pydantic = pytest.importorskip("pydantic")
    kind = pydantic.create_model("Kind", paid=(bool, ...))
    asked = {"model": "sees", "messages": HI, "max_tokens": 64}
    assert client.chat.completions.parse(response_format=kind, **asked).choices[0].message.parsed.paid in (True, False)
    assert client.responses.parse(model="sees", input="x", text_format=kind, max_output_tokens=64).output_parsed
    with client.chat.completions.stream(**{**asked, "max_tokens": 4}) as stream:
        assert [event.type for event in stream][-1] == "content.done"

    async def many() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=str(client.base_url), api_key="any", max_retries=0) as other:
            calls = [other.chat.completions.create(**{**asked, "max_tokens": 4}) for _ in range(12)]
            return await asyncio.gather(*calls)

    assert [answer.usage.completion_tokens for answer in asyncio.run(many())] == [4] * 12


def test_several_answers_differ_and_repeat_by_their_seed(client: Any) -> None:
    texts = [choice.message.content for choice in chat(client, n=3, temperature=1, seed=-3).choices]
    assert len(set(texts)) == 3
    assert texts == [choice.message.content for choice in chat(client, n=3, temperature=1, seed=-3).choices]
    streamed = ["", "", ""]
    for chunk in chat(client, n=3, temperature=1, seed=-3, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == texts


def test_what_steers_an_answer(client: Any) -> None:
    plain = chat(client, temperature=0).choices[0].message.content
    first = chat(client, logprobs=True, top_logprobs=2).choices[0].logprobs.content[0]
    assert len(first.top_logprobs) == 2
    assert bytes(first.bytes).decode("utf-8", "replace")[:1] == first.token[:1]
    assert chat(client, stop=plain[3]).choices[0].message.content == plain[:3].partition(plain[3])[0]
    assert chat(client, max_completion_tokens=3).usage.completion_tokens == 3
    assert chat(client, logit_bias={str(token): -100 for token in range(256)}).choices[0].message.content != plain
    for name in ("presence_penalty", "frequency_penalty"):
        assert chat(client, **{name: 2.0}).usage.completion_tokens == 8
    thinks = chat(client, extra_body={"chat_template_kwargs": {"enable_thinking": True}})
    assert thinks.choices[0].message.reasoning_content
    assert thinks.usage.completion_tokens_details.reasoning_tokens == 8


def test_json_by_a_schema(client: Any) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "bill", "schema": SCHEMA, "strict": True}}
    answer = chat(client, response_format=wanted, max_tokens=64)
    assert set(json.loads(answer.choices[0].message.content)) == {"kind", "paid"}
    assert answer.choices[0].finish_reason == "stop"


TOOLS = [{"type": "function", "function": {"name": "book", "description": "Books.", "parameters": SCHEMA}}]


def test_a_tool_that_has_to_be_called(client: Any) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "book"}}):
        answer = chat(client, tools=TOOLS, tool_choice=choice, max_tokens=64).choices[0]
        assert answer.finish_reason == "tool_calls"
        assert answer.message.content is None
        (call,) = answer.message.tool_calls
        assert call.function.name == "book"
        assert set(json.loads(call.function.arguments)) == {"kind", "paid"}
    chunks = [c.choices[0] for c in chat(client, tools=TOOLS, tool_choice="required", max_tokens=64, stream=True)]
    (streamed,) = [chunk.delta.tool_calls[0] for chunk in chunks if chunk.delta.tool_calls]
    assert streamed.function.arguments == call.function.arguments
    assert not any(chunk.delta.content for chunk in chunks)
    assert chunks[-1].finish_reason == "tool_calls"


def test_a_call_goes_back_into_the_conversation(client: Any) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "book", "arguments": '{"kind": "invoice"}'}}
    turns = [
        *HI,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]
    assert chat(client, turns, tools=TOOLS).choices[0].message.content


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (tagged, 'Sure.\n<tool_call>\n{"name": "book", "arguments": {"n": 1}}\n</tool_call>'),
        (tagged, "<tool_call>\n<function=book>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"),
        (listed, '[TOOL_CALLS][{"name": "book", "arguments": {"n": 1}}]'),
        (listed, '[TOOL_CALLS]book[ARGS]{"n": 1}'),
        (bare, '{"name": "book", "parameters": {"n": 1}}'),
    ],
)
def test_calls_as_models_write_them(parse: Any, text: str) -> None:
    (call,) = parse(text)
    assert (call.name, json.loads(call.arguments)) == ("book", {"n": 1})
    templates = {tagged: "tools <tool_call>", listed: "[TOOL_CALLS]", bare: "tools"}
    watch = ToolWatch(manner_of(templates[parse]))
    said = "".join(watch.add(character) for character in text)
    assert watch.end() == ("", [call])
    assert said.strip() in ("", "Sure.")


@pytest.mark.parametrize("text", ["a < b", "<tool", "<tool_call>{broken", "[{no", '{"name": 1}', "[TOOL_CALLS]x"])
def test_what_is_no_call_is_text(text: str) -> None:
    for template in ("tools <tool_call>", "[TOOL_CALLS]", "tools"):
        watch = ToolWatch(manner_of(template))
        said = "".join(watch.add(character) for character in text)
        rest, calls = watch.end()
        assert (said + rest, calls) == (text, [])


def test_completions(client: Any, sees: Model) -> None:
    made = client.completions.create(model="sees", prompt=["a", "b"], n=2, max_tokens=4, logprobs=1, echo=True)
    expected = sees.generate("a", max_tokens=4, template=False)
    assert [choice.text[0] for choice in made.choices] == ["a", "a", "b", "b"]
    assert made.choices[1].text == "a" + expected.text
    assert len(made.choices[0].logprobs.tokens) == 4
    assert made.usage.completion_tokens == 16
    stream = client.completions.create(model="sees", prompt="a", max_tokens=4, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == expected.text


@pytest.mark.parametrize("echo", [False, True])
def test_where_tokens_begin_in_the_text(client: Any, echo: bool) -> None:
    """Each token's text stands at its offset, also of characters of several tokens."""
    asked = {
        "model": "sees",
        "prompt": "né",
        "max_tokens": 12,
        "logprobs": 2,
        "echo": echo,
        "temperature": 1,
        "seed": 5,
    }
    choice = client.completions.create(**asked).choices[0]
    told = choice.logprobs
    assert told.text_offset[0] == (2 if echo else 0)
    assert len(told.text_offset) == len(told.tokens) == 12
    for token, at in zip(told.tokens, told.text_offset, strict=True):
        assert token == "\ufffd" or choice.text[at:].startswith(token) or at == len(choice.text)
    streamed: list[int] = []
    text = ""
    for chunk in client.completions.create(**asked, stream=True):
        text += chunk.choices[0].text
        streamed += chunk.choices[0].logprobs.text_offset if chunk.choices[0].logprobs else []
    assert (text, streamed) == (choice.text, told.text_offset)


def test_an_empty_prompt(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="empty"):
        client.completions.create(model="sees", prompt="", max_tokens=4)


def test_responses(client: Any, folder: Path, sees: Model) -> None:
    expected = sees.generate("Hello there", max_tokens=8)
    made = client.responses.create(model="sees", input="Hello there", max_output_tokens=8)
    assert made.output_text == expected.text
    assert made.status == "incomplete"
    assert made.usage.output_tokens == 8
    with client.responses.stream(model="sees", input="Hello there", max_output_tokens=8) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == expected.text
    parts = [{"type": "input_image", "image_url": picture(folder)}, {"type": "input_text", "text": "What?"}]
    seen = client.responses.create(model="sees", input=[{"role": "user", "content": parts}], max_output_tokens=8)
    assert seen.output_text == sees.generate("What?", [folder / "a.png"], max_tokens=8).text
    tool = {"type": "function", "name": "book", "parameters": SCHEMA}
    called = client.responses.create(model="sees", input="Book", tools=[tool], tool_choice="required")
    (call,) = called.output
    assert (call.type, call.name) == ("function_call", "book")
    back = [
        {"role": "user", "content": "Book"},
        call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "done"},
    ]
    assert client.responses.create(model="sees", input=back, max_output_tokens=4).output_text is not None
    shaped = {"format": {"type": "json_schema", "name": "bill", "schema": SCHEMA}}
    assert json.loads(client.responses.create(model="sees", input="x", text=shaped).output_text)


def test_a_response_goes_on_from_another(client: Any, folder: Path) -> None:
    """It is the same answer as to the whole conversation; instructions do not go along, as at OpenAI."""
    parts = [{"type": "input_image", "image_url": picture(folder)}, {"type": "input_text", "text": "What?"}]
    asked = {"model": "sees", "max_output_tokens": 8}
    first = client.responses.create(input=[{"role": "user", "content": parts}], instructions="Be brief.", **asked)
    second = client.responses.create(input="And now?", previous_response_id=first.id, **asked)
    *_, last = client.responses.create(input="Why?", previous_response_id=second.id, stream=True, **asked)
    third = last.response
    said: list[Any] = [{"role": "user", "content": parts}, first.output[0].model_dump()]
    said.append({"role": "user", "content": "And now?"})
    assert second.output_text == client.responses.create(input=said, **asked).output_text
    said += [second.output[0].model_dump(), {"role": "user", "content": "Why?"}]
    assert third.output_text == client.responses.create(input=said, store=False, **asked).output_text
    assert (third.previous_response_id, third.store) == (second.id, True)
    assert client.responses.retrieve(second.id).output_text == second.output_text
    unkept = client.responses.create(input="x", store=False, **asked)
    assert not unkept.store
    client.responses.delete(first.id)
    for gone in (unkept.id, third.id, "resp_x"):
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(input="x", previous_response_id=gone, **asked)
        assert caught.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    other = {"x-apc-tenant": "another"}
    with pytest.raises(openai.BadRequestError):
        client.responses.create(input="x", previous_response_id=second.id, extra_headers=other, **asked)


def test_what_was_said_before_a_response(client: Any) -> None:
    asked = {"model": "sees", "max_output_tokens": 4}
    first = client.responses.create(input=[{"role": "user", "content": f"No. {n}"} for n in range(3)], **asked)
    second = client.responses.create(input="Why?", previous_response_id=first.id, **asked)
    answer = first.output_text
    said = ["No. 0", "No. 1", "No. 2", answer, "Why?"]
    items = list(client.responses.input_items.list(second.id, order="asc", limit=2))  # the client asks for all pages
    assert [item.content[0].text for item in items] == said
    assert [item.role for item in items] == ["user", "user", "user", "assistant", "user"]
    assert [item.content[0].type for item in items][3:] == ["output_text", "input_text"]
    assert [item.id for item in client.responses.input_items.list(second.id)] == [item.id for item in items][::-1]
    assert [item.content[0].text for item in client.responses.input_items.list(first.id)] == said[2::-1]
    for number, more in ((second.id, {"extra_headers": {"x-apc-tenant": "another"}}), ("resp_x", {})):
        with pytest.raises(openai.NotFoundError):
            client.responses.input_items.list(number, **more)


def test_the_models(client: Any) -> None:
    assert {"sees", "text", "embedded"} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("text").id == "text"
    assert chat(client, model="text").choices[0].message.content


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ({"model": "other"}, 404, "there is no model"),
        ({"messages": []}, 422, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 422, "role"),
        ({"temperature": -1}, 422, "temperature"),
        ({"max_tokens": 0}, 422, "max_tokens"),
        ({"logit_bias": {"x": 1}}, 400, "logit_bias"),
        ({"messages": [{"role": "user", "content": "x " * 5000}]}, 400, "context"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, 400, "audio"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages.0.content.0"),
        ({"messages": about("http://127.0.0.1/a.png")}, 400, "no public host"),
        ({"messages": about("/etc/passwd")}, 400, "media-root"),
        ({"messages": about("data:image/png;base64,AAAA")}, 422, "messages.0.content.0"),
        ({"model": "text", "messages": about("data:image/png;base64,{picture}")}, 400, "model text was loaded without"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, 400, "response_format"),
    ],
)
def test_errors_are_those_of_the_client(
    client: Any, folder: Path, more: dict[str, Any], status: int, says: str
) -> None:
    text = json.dumps(more).replace("data:image/png;base64,{picture}", picture(folder))
    with pytest.raises(openai.APIStatusError) as caught:
        chat(client, **json.loads(text))
    assert caught.value.status_code == status
    assert says in json.dumps(caught.value.body)
    assert caught.value.request_id


def test_too_many_pictures(client: Any, folder: Path) -> None:
    parts = [{"type": "image_url", "image_url": {"url": picture(folder)}}] * 4
    with pytest.raises(openai.APIStatusError) as caught:
        chat(client, [{"role": "user", "content": parts}])
    assert caught.value.status_code == 413


def test_a_bomb_is_refused_before_it_is_decoded(client: Any) -> None:
    made = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(made, "PNG")
    url = "data:image/png;base64," + base64.b64encode(made.getvalue()).decode()
    with pytest.raises(openai.APIStatusError) as caught:
        chat(client, about(url))
    assert caught.value.status_code == 413
