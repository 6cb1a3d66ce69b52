"""`/v1/completions` as OpenAI has it: how a text goes on."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.serve.answers import (
    Answers,
    answering,
    finish_of,
    finite,
    options_of,
    question_of,
    sampling_of,
    using,
)
from docai.serve.desk import desk_of, while_there
from docai.serve.errors import ApiError, reply
from docai.serve.events import DONE, begun, event
from docai.serve.messages import Conversation
from docai.serve.models import Offered, Question
from docai.serve.route import Route
from docai.serve.schemas import CompletionRequest
from docai.vlm.request import Generation, GenerationOptions, TokenLogprob
from docai.vlm.stream import Detokenizer, Pieces

router = APIRouter(route_class=Route, tags=["chat"])


@router.post("/v1/completions")
async def completions(asked: CompletionRequest, request: Request) -> Response:
    """How a text goes on, without a chat template."""
    desk_of(request).models.find(asked.model)
    said = sampling_of(asked)
    if asked.logprobs is not None:
        said["logprobs"] = asked.logprobs
    options = options_of(said)
    prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
    if len(prompts) * asked.n > 64:
        raise ApiError(400, "n: more than 64 answers at once", param="n")
    questions = [
        question_of(request, Conversation([{"role": "user", "content": prompt}]), _apart(options, n), template=False)
        for prompt in prompts
        for n in range(asked.n)
    ]
    shape = _Completion(asked, prompts)
    if asked.stream:
        return await begun(request, shape.streamed(request, questions))
    return await while_there(request, shape.whole(request, questions))


def _apart(options: GenerationOptions, number: int) -> GenerationOptions:
    return options if options.seed is None else replace(options, seed=(options.seed + number) % (1 << 63))


class _Completion:
    """The shape of an answer of completions."""

    def __init__(self, asked: CompletionRequest, prompts: Sequence[str]) -> None:
        self._asked, self._prompts = asked, prompts
        self._head = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time())}

    @contextlib.asynccontextmanager
    async def _answering(self, request: Request, questions: Sequence[Question]) -> AsyncIterator[Answers]:
        async with (
            using(request, self._asked.model, questions[0], len(questions)) as offered,
            answering(request, offered, questions[0], several=questions) as answers,
        ):
            yield answers

    async def whole(self, request: Request, questions: Sequence[Question]) -> Response:
        async with self._answering(request, questions) as answers:
            wholes = await answers.whole()
            choices = [
                self._choice(
                    index, self._prompt(index) + whole.text, whole, _Places(answers.offered, self._begin(index))
                )
                for index, whole in enumerate(wholes)
            ]
            usage = _usage(wholes, self._asked.n)
            said = {**self._head, "model": answers.offered.name, "choices": choices, "usage": usage}
        return reply(said)

    async def streamed(self, request: Request, questions: Sequence[Question]) -> AsyncGenerator[bytes]:
        wanted = self._asked.stream_options is not None and self._asked.stream_options.include_usage
        async with self._answering(request, questions) as answers:
            wholes: list[Generation] = []
            head = {**self._head, "model": answers.offered.name}
            for index in range(len(questions) if self._asked.echo else 0):
                yield event({**head, "choices": [self._choice(index, self._prompt(index))]})
            places = [_Places(answers.offered, self._begin(index)) for index in range(len(questions))]
            async with contextlib.aclosing(answers.parts()) as parts:
                async for part in parts:
                    wholes += [part.whole] if part.whole is not None else []
                    text = "" if part.piece is None else part.piece.text
                    choice = self._choice(part.index, text, part.whole, places[part.index])
                    if part.piece is not None and part.piece.logprobs:
                        choice["logprobs"] = places[part.index].told(part.piece.logprobs)
                    yield event({**head, "choices": [choice]} | ({"usage": None} if wanted else {}))
            if wanted:
                yield event({**head, "choices": [], "usage": _usage(wholes, self._asked.n)})
        yield DONE

    def _prompt(self, index: int) -> str:
        """What stands before an answer."""
        return self._prompts[index // self._asked.n] if self._asked.echo else ""

    def _begin(self, index: int) -> int:
        return len(self._prompt(index))

    def _choice(
        self, index: int, text: str, whole: Generation | None = None, places: _Places | None = None
    ) -> dict[str, Any]:
        told = None
        if whole is not None and whole.logprobs is not None and places is not None:
            rest = whole.logprobs[places.count :]  # of a stream: what came with no text
            told = places.told(rest) if rest or not places.count else None
        reason = None if whole is None else finish_of(whole)
        return {"index": index, "text": text, "logprobs": told, "finish_reason": reason}


class _Places:
    """Log probabilities of one answer as completions have them, with the place in its text where each token begins."""

    def __init__(self, offered: Offered, begin: int) -> None:
        """`begin`: the characters that stand before the answer."""
        assert offered.model is not None
        pieces = Pieces(offered.model.tokenizer) if offered.engine is None else offered.engine.runtime.pieces
        self._text, self._at = Detokenizer(pieces), begin
        self.count = 0

    def told(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        """The next tokens of the answer."""
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [finite(token.logprob) for token in tokens],
            "top_logprobs": [{text: finite(value) for _, text, value in one.top} for one in tokens],
            "text_offset": [self._place(token.token) for token in tokens],
        }

    def _place(self, token: int) -> int:
        place = self._at
        self._at += len(self._text.add(token))
        self.count += 1
        return place


def _usage(wholes: Sequence[Generation], n: int) -> dict[str, Any]:
    """Each prompt counts once."""
    prompt = sum(whole.usage.prompt for whole in wholes) // max(1, n)
    generated = sum(whole.usage.generated for whole in wholes)
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}
