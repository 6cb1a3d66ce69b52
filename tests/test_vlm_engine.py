"""The engine: many requests at once get what each would get alone, and nothing that happens to one touches another."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import os
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.checkpoint.backend import total_memory  # noqa: E402
from docai.errors import LimitExceeded, UsageError  # noqa: E402
from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.generate import Request, RequestImage, Runtime  # noqa: E402
from docai.vlm.guess import Guesser  # noqa: E402
from docai.vlm.job import Job  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.model import as_messages, open_model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.prefix import BlockStore  # noqa: E402
from docai.vlm.reading import Reading  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions  # noqa: E402
from docai.vlm.scheduler import EngineLimits  # noqa: E402
from docai.vlm.stream import Pieces  # noqa: E402
from docai.vlm.thinking import thinking_marks  # noqa: E402
from docai.vlm.ticket import Ticket  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.parity.stored import CASES, FOLDER, case_of, config_of, images_of, weights_of, written  # noqa: E402
from tests.tiny_checkpoint import byte_level, tiny_llama, tiny_qwen2_vl  # noqa: E402


class Case:
    """A stored case as requests: its own prompt, and others that begin with it or with a part of it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.network = load_network(written(folder, config_of(name), weights_of(name)))
        self.network.fuse()
        self.runtime = Runtime(self.network, Pieces(Tokenizer(byte_level())))
        self.images, self.ids = images_of(name), case_of(name)["tokens"]
        with np.load(FOLDER / f"{name}.npz") as stored:
            self.expected = stored["tokens"].tolist()

    def request(self, number: int, **options: Any) -> Request:
        """One of several that differ in length and content."""
        chance = random.Random(number)
        more = [chance.randrange(5, 40) for _ in range(chance.randrange(12))] if number else []
        chosen = {"max_tokens": 4 + number % 5, "prefill_step": 16, "loop_guard": False, **options}
        seen = [RequestImage((n,), i, lambda i=i: self.network.encode([i])[0]) for n, i in enumerate(self.images)]
        return Request([*self.ids, *more], seen, GenerationOptions(**chosen))

    def engine(self, rows: int) -> Engine:
        return Engine(self.runtime, limits=EngineLimits(rows=rows))


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("checkpoint"))


def same(ours: Sequence[Generation], expected: Sequence[Generation]) -> None:
    assert [done.tokens for done in ours] == [done.tokens for done in expected]
    assert [(done.text, done.finish_reason) for done in ours] == [(d.text, d.finish_reason) for d in expected]


def test_every_family_says_the_same_alone_and_among_others(case: Case) -> None:
    requests = [case.request(number) for number in range(16)]
    alone = case.engine(1)
    expected = [alone.submit(request).whole() for request in requests]
    alone.close()
    assert list(expected[0].tokens) == case.expected[: len(expected[0].tokens)]  # those of the reference
    for rows in (4, 16):
        engine = case.engine(rows)
        same(engine.answers(requests), expected)
        engine.close()
    whole = [case.request(number, prefill_step=None) for number in range(16)]
    engine = Engine(case.runtime, limits=EngineLimits(rows=16, together=True))
    same(engine.answers(whole), expected)
    engine.close()


# --- what a request can ask for, among others; on two small models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_llama(folder / "llama", head_dim=32)
    tiny_llama(folder / "sliding", model_type="mistral", sliding_window=24)
    tiny_llama(folder / "latent", model_type="deepseek_v3", **LATENT)
    tiny_qwen2_vl(folder / "qwen")
    return folder


LATENT = {
    "kv_lora_rank": 64, "q_lora_rank": None, "qk_rope_head_dim": 32, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}  # fmt: skip


class Texts:
    """A text model with an engine of its own."""

    def __init__(self, folder: Path, rows: int = 8, store: BlockStore | None = None, **limits: Any) -> None:
        self.model = open_model(str(folder), prefix_cache=0)
        marks = thinking_marks(self.model.tokenizer)
        self.runtime = Runtime(self.model.network, Pieces(self.model.tokenizer), marks)
        self.engine = Engine(self.runtime, store=store, limits=EngineLimits(rows=rows, **limits))
        self._alone = Engine(self.runtime, limits=EngineLimits(rows=1))

    def request(self, text: str, **options: Any) -> Request:
        given = GenerationOptions(**{"max_tokens": 24, "loop_guard": False, **options})
        return Request(self.model.tokenizer.encode(text), options=given, grammar=self.model._grammar(given))

    def alone(self, text: str, **options: Any) -> Generation:
        return self._alone.submit(self.request(text, **options)).whole()


@pytest.fixture(scope="module")
def llama(folder: Path) -> Iterator[Texts]:
    texts = Texts(folder / "llama")
    yield texts
    texts.engine.close()


SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["invoice", "receipt"]}, "paid": {"type": "boolean"}},
    "required": ["kind", "paid"],
    "additionalProperties": False,
}
ASKED: list[dict[str, Any]] = [
    {},
    {"max_tokens": 1},
    {"max_tokens": 60},
    {"temperature": 1.0, "seed": 1},
    {"temperature": 0.7, "seed": 2, "top_p": 0.9},
    {"temperature": 1.5, "seed": 3, "top_k": 5},
    {"temperature": 1.2, "seed": 4, "min_p": 0.1, "logprobs": 2},
    {"temperature": 1.0, "seed": 5, "top_k": 5, "top_p": 0.8, "max_tokens": 40},
    {"repetition_penalty": 1.2},
    {"temperature": 1.0, "seed": 6, "frequency_penalty": 0.5, "no_repeat_ngram": 3},
    {"logit_bias": {300: 3.0}},
    {"logprobs": 3},
    {"thinking": "on", "thinking_budget": 5},
    {"kv_bits": 8},
    {"kv_bits": 4, "temperature": 1.0, "seed": 8},
    {"kv_bits": 8, "kv_value_bits": 4, "kv_group": 32, "kv_dense_last": True},
    {"kv_window": 16},
    {"prefill_step": 16, "special_tokens": True},
]


def asked() -> list[tuple[str, dict[str, Any]]]:
    """Prompts of many lengths with all that can be asked for."""
    chance = random.Random(5)
    words = ("a", "list", "of", "some", "words", "that", "come", "in", "any", "order", ",", "1", "2", "3")
    return [(" ".join(chance.choices(words, k=chance.randrange(1, 90))), options) for options in ASKED * 2]


@pytest.mark.parametrize("name", ["llama", "sliding", "latent"])
def test_each_gets_what_it_asks_for(folder: Path, name: str) -> None:
    texts = Texts(folder / name)
    cases = [(text, o) for text, o in asked() if name != "sliding" or "kv_bits" not in o]
    expected = [texts.alone(text, **options) for text, options in cases]
    ours = texts.engine.answers([texts.request(text, **options) for text, options in cases])
    same(ours, expected)
    for done, alone in zip(ours, expected, strict=True):
        assert done.usage == alone.usage
        assert done.seed == alone.seed
        assert (done.logprobs is None) == (alone.logprobs is None)
        for one, other in zip(done.logprobs or (), alone.logprobs or (), strict=True):
            assert (one.token, [t for t, *_ in one.top]) == (other.token, [t for t, *_ in other.top])
            assert one.logprob == pytest.approx(other.logprob, abs=1e-3)


@pytest.mark.parametrize("options", [{}, {"kv_bits": 8}, {"stop": ["e"]}, {"max_tokens": 1}])
def test_guessing_changes_no_answer(folder: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama")
    cases = [("one two three one two three one two", {"max_tokens": 100, **options}), ("Hello", {**options}), ("a", {})]
    expected = [texts.alone(text, **asked) for text, asked in cases]
    widths: list[tuple[int, ...]] = []
    steps = Network.steps
    monkeypatch.setattr(
        Network, "steps", lambda self, tokens, *a: (widths.append(tokens.shape), steps(self, tokens, *a))[1]
    )
    for guess in (1, 6):
        requests = [texts.request(text, guess=guess, **asked) for text, asked in cases]
        same(texts.engine.answers(requests), expected)
        same([texts.engine.submit(request).whole() for request in requests], expected)
    if not options:
        assert {shape[1] for shape in widths} == {1, 2, 7}
        assert {shape[0] for shape in widths} >= {1, 4}
        assert len(widths) < 0.9 * 2 * (100 + sum(len(done.tokens) for done in expected))
    texts.engine.close()


def test_only_greedy_answers_of_caches_that_can_be_cut_are_guessed(folder: Path) -> None:
    texts, sliding = Texts(folder / "llama"), Texts(folder / "sliding")

    def guess(of: Texts, **options: Any) -> int:
        return Job(of.runtime, of.request("Hello", guess=4, **options), "", "", 0.0).guess

    assert guess(texts) == 4
    assert guess(texts, kv_bits=8) == 4
    assert guess(sliding) == 0
    for options in ({"temperature": 1.0}, {"logprobs": 1}, {"repetition_penalty": 1.1}, {"kv_window": 32}):
        assert guess(texts, **options) == 0


def test_what_followed_before_is_guessed() -> None:
    guesser = Guesser([1, 2, 3, 4, 5, 9, 2, 3])
    assert guesser.next(3) == [4, 5, 9]
    guesser.add(7)
    assert guesser.next(3) == []
    for token in (2, 3):
        guesser.add(token)
    assert guesser.next(2) == [7, 2]  # the last time counts
    assert Guesser([5]).next(4) == []


def test_guesses_that_are_never_right_pause() -> None:
    guesser = Guesser([1, 2, 3, 1, 2])
    for right in (0, 0, 1, 0, 0):
        assert guesser.next(1) == [3]
        guesser.heard(right)
    guesser.heard(0)
    assert guesser.next(1) == []
    for _ in range(12):
        guesser.add(1)
        assert guesser.next(1) == []
        guesser.add(2)
    assert guesser.next(1) == [1]


@pytest.mark.parametrize("name", ["llama", "sliding", "qwen"])
def test_a_steady_engine_gives_the_same_bits_in_any_company(folder: Path, name: str) -> None:
    texts = Texts(folder / name, rows=8, steady=True)
    cases = [text for text, _ in asked()][:16]
    requests = [texts.request(text, max_tokens=6 + n % 9, logprobs=3) for n, text in enumerate(cases)]
    alone = [texts.engine.submit(request).whole() for request in requests]
    together = texts.engine.answers(requests)
    assert [done.logprobs for done in together] == [done.logprobs for done in alone]
    same(together, [texts._alone.submit(request).whole() for request in requests])
    texts.engine.close()


def test_json_among_others(llama: Texts) -> None:
    pytest.importorskip("llguidance")
    cases: list[dict[str, Any]] = [
        {"json_schema": SCHEMA, "max_tokens": 60},
        {},
        {"json_schema": SCHEMA},
        {"logprobs": 1},
    ]
    expected = [llama.alone("Hello", **options) for options in cases]
    same(llama.engine.answers([llama.request("Hello", **options) for options in cases]), expected)
    assert set(json.loads(expected[0].text)) == {"kind", "paid"}


def test_pieces_come_as_they_are_made(llama: Texts) -> None:
    tickets = [llama.engine.submit(llama.request(text, max_tokens=40)) for text in ("Hello", "Hello world")]
    texts = ["".join(piece.text for piece in ticket) for ticket in tickets]
    assert texts == [ticket.result.text for ticket in tickets]
    assert list(tickets[0]) == []
    timings = tickets[1].result.timings
    assert 0 < timings.first_token_s <= timings.first_token_s + timings.decode_s
    assert timings.prefill_s > 0


def test_stop_strings_and_ends_are_each_request_s_own(llama: Texts) -> None:
    whole = llama.alone("Hello", max_tokens=40).text
    (end,), letter = llama.model.tokenizer.stops, llama.model.tokenizer.encode("e")[0]
    requests = [
        llama.request("Hello", max_tokens=40, stop=[whole[7:10]]),
        llama.request("Hello", max_tokens=40, logit_bias={end: 1000.0}),
        llama.request("Hello", max_tokens=40),
        llama.request("Hello", max_tokens=400, loop_guard=True, logit_bias={letter: 1000.0}),
    ]
    done = llama.engine.answers(requests)
    assert [d.finish_reason for d in done] == ["stop", "stop", "length", "loop"]
    assert [d.text for d in done[:3]] == [whole[: whole.index(whole[7:10])], "", whole]


def test_cancelling_ends_one_and_no_other(llama: Texts) -> None:
    tickets = [llama.engine.submit(llama.request("Hello", max_tokens=600)) for _ in range(3)]
    for ticket in tickets[:2]:
        next(ticket)
    tickets[1].close()
    assert tickets[1].over
    assert tickets[1].result.finish_reason == "cancelled"
    assert 0 < len(tickets[1].result.tokens) < 600
    rest = tickets[0].whole(), tickets[2].whole()
    assert rest[0].tokens == rest[1].tokens
    assert len(rest[0].tokens) == 600


def test_a_ticket_that_is_let_go_of_cancels(llama: Texts) -> None:
    outlet = llama.engine.submit(llama.request("Hello", max_tokens=3000))._outlet
    gc.collect()
    outlet.wait()
    assert outlet.over


def test_cancelling_in_the_queue_is_at_once(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=1)
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))
    next(running)
    waiting = texts.engine.submit(texts.request("Hello"))
    assert texts.engine.waiting == 1
    waiting.cancel()
    assert waiting.over
    assert texts.engine.waiting == 0
    assert (waiting.result.finish_reason, waiting.result.tokens) == ("cancelled", ())
    running.close()
    texts.engine.close()


def test_the_queue_is_bounded_and_clients_take_turns(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=1, waiting=5)
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))
    next(running)
    order: list[str] = []
    tickets = []
    for client in ("a", "a", "a", "b", "c"):
        ticket = texts.engine.submit(texts.request("Hello", max_tokens=2), client=client)
        tickets.append((client, ticket))
    with pytest.raises(LimitExceeded, match="5 requests are waiting"):
        texts.engine.submit(texts.request("Hello"))
    running.close()
    ends = sorted((ticket.whole(), ticket._result.__self__.clock._last, client)[1:] for client, ticket in tickets)
    order = [client for _, client in ends]
    assert order == ["a", "b", "c", "a", "a"]
    texts.engine.close()


def test_memory_decides_who_may_begin(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=8)
    budget, request = texts.engine._worker.scheduler.budget, texts.request("Hello", max_tokens=20)
    job = Job(texts.runtime, request, "", "", 0.0)
    assert 0 < budget.limit < total_memory()
    budget.limit = int(1.5 * budget.needed([job]))
    tickets = [texts.engine.submit(request) for _ in range(5)]
    assert len({ticket.whole().tokens for ticket in tickets}) == 1
    with pytest.raises(LimitExceeded, match="are left beside the weights"):
        texts.engine.submit(texts.request("Hello", max_tokens=4000))
    texts.engine.close()


def test_an_error_in_one_touches_no_other(folder: Path) -> None:
    """In its image, in its grammar as it is sampled, in its text as it is delivered."""
    texts = Texts(folder / "qwen")
    expected = texts.alone("Hello", max_tokens=30)
    image_token = texts.model.network.image_tokens[0]
    image = RequestImage(("x",), ImageInput(np.zeros((16, 96), np.float32), 4, (1, 4, 4)), lambda: fail("image"))

    class Broken:
        done = False

        def allowed(self, vocab: int) -> Any:
            return fail("grammar")

        def add(self, token: int) -> None:
            pass

    bad = [
        Request([5, *[image_token] * 4, 6], [image], GenerationOptions(max_tokens=5)),
        replace(texts.request("Hello"), grammar=Broken()),
        replace(texts.request("Hello"), grammar=type("Late", (Broken,), {"allowed": late})()),
    ]
    good = [texts.engine.submit(texts.request("Hello", max_tokens=30)) for _ in range(2)]
    broken = [texts.engine.submit(request) for request in bad]
    for ticket, says in zip(broken, ("image", "grammar", "late"), strict=True):
        with pytest.raises(RuntimeError, match=says):
            ticket.whole()
    for ticket in good:
        same([ticket.whole()], [expected])
    texts.engine.close()


def fail(what: str) -> Any:
    raise RuntimeError(what)


def late(self: Any, vocab: int) -> Any:
    self.calls = getattr(self, "calls", 0) + 1
    return None if self.calls < 4 else fail("late")


def test_a_step_that_fails_is_tried_again_with_each_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama")
    cases: list[dict[str, Any]] = [{}, {"temperature": 1.0, "seed": 1, "repetition_penalty": 1.2}, {"logprobs": 1}]
    expected = [texts.alone("Hello", **options) for options in cases]
    step, calls = Network.step, []

    def failing(self: Network, tokens: Any, *rest: Any) -> Any:
        calls.append(tokens.shape[0])
        if tokens.shape[0] > 1 and len(calls) > 12:
            fail("out of memory")
        return step(self, tokens, *rest)

    monkeypatch.setattr(Network, "step", failing)
    same(texts.engine.answers([texts.request("Hello", **options) for options in cases]), expected)
    assert max(calls) > 1
    monkeypatch.setattr(Network, "step", lambda *_: fail("no step"))
    with pytest.raises(RuntimeError, match="no step"):
        texts.engine.answers([texts.request("Hello")])
    monkeypatch.setattr(Network, "step", step)
    same(texts.engine.answers([texts.request("Hello")]), expected[:1])
    texts.engine.close()


def test_a_short_prompt_need_not_wait_for_a_long_one(folder: Path) -> None:
    texts = Texts(folder / "llama")
    tickets = [texts.engine.submit(texts.request("word " * count, max_tokens=1)) for count in (700, 690, 1)]
    long, other, short = (ticket.whole().timings.first_token_s for ticket in tickets)
    assert short < long < other
    texts.engine.close()


def test_short_prompts_are_read_in_one_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one kind, up to a step's worth of tokens; one that fails fails alone."""
    texts = Texts(folder / "llama", rows=16, together=True)
    prefill, passes = Network.prefill, []

    def watched(self: Network, prompt: Any, caches: Any) -> Any:
        passes.append(prompt.embeddings.shape[:2])
        return prefill(self, prompt, caches)

    monkeypatch.setattr(Network, "prefill", watched)
    cases: list[tuple[int, dict[str, Any]]] = [(n, {}) for n in (4, 9, 5, 60, 1, 200)] + [(3, {"kv_bits": 8}), (7, {})]
    requests = [texts.request("word " * n, **options) for n, options in cases]
    expected = [texts._alone.submit(request).whole() for request in requests]
    passes.clear()
    image = RequestImage(("x",), ImageInput(np.zeros((16, 96), np.float32), 4, (1, 4, 4)), lambda: fail("image"))
    bad = replace(requests[0], images=[image])
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(request) for request in [*requests[:2], bad, *requests[2:]]]
    with pytest.raises(Exception, match="image"):
        tickets.pop(2).whole()
    same([ticket.whole() for ticket in tickets], expected)
    assert max(rows for rows, _ in passes) >= 4
    assert all(rows * length <= 512 or rows == 1 for rows, length in passes)
    assert len(passes) < len(requests)
    texts.engine.close()


def test_prompts_that_fail_in_one_pass_leave_the_engine_running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama", rows=16, together=True)
    requests = [texts.request("word " * n) for n in (4, 5, 6)]
    expected = [texts._alone.submit(request).whole() for request in requests]
    image = RequestImage(("x",), ImageInput(np.zeros((16, 96), np.float32), 4, (1, 4, 4)), lambda: fail("image"))
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(replace(request, images=[image])) for request in requests]
    for ticket in tickets:
        with pytest.raises(Exception, match="image"):
            ticket.whole()
    finish, calls = Reading.finish, []

    def failing(self: Reading, *rest: Any, **how: Any) -> None:
        calls.append(self)
        finish(self, *rest, **how)
        if len(calls) == 2:
            fail("out of memory")

    monkeypatch.setattr(Reading, "finish", failing)
    with texts.engine._worker._changed:
        tickets = [texts.engine.submit(request) for request in requests]
    same([ticket.whole() for ticket in tickets], expected)
    assert len(calls) >= 2
    texts.engine.close()


@pytest.mark.parametrize("steady", [False, True])
def test_images_of_one_shape_are_encoded_together(folder: Path, steady: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "qwen", rows=8, steady=steady)
    state = np.random.RandomState(2)
    pictures = [state.randint(0, 256, (h, 64, 3)).astype(np.uint8) for h in (48, 48, 64, 48, 64)]
    asked = [[pictures[0], pictures[2]], [pictures[1]], [pictures[3]], [pictures[4]], [pictures[3]], []]
    model = texts.model

    def requests() -> list[Request]:
        given = GenerationOptions(max_tokens=8)
        return [model.request(as_messages("What?", len(seen)), seen, given) for seen in asked]

    expected = [model.engine.submit(request).whole() for request in requests()]
    model.clear()
    encode, passes = Network.encode, []
    monkeypatch.setattr(
        Network, "encode", lambda self, images, **how: (passes.append(len(images)), encode(self, images, **how))[1]
    )
    prepared = requests()
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))  # they come in while something runs
    next(running)
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(request) for request in prepared]
    same([ticket.whole() for ticket in tickets], expected)
    assert sorted(passes) == ([1] * 5 if steady else [2, 3])
    cached = requests()
    assert all(image.cached for request in cached for image in request.images)
    running.close()
    texts.engine.close()


def test_asyncio(llama: Texts) -> None:
    expected = llama.alone("Hello", max_tokens=30)

    async def read(ticket: Ticket) -> str:
        return "".join([piece.text async for piece in ticket])

    async def cancelled(ticket: Ticket) -> Generation:
        task = asyncio.ensure_future(read(ticket))
        await asyncio.sleep(0.02)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        while not ticket.over:
            await asyncio.sleep(0.01)
        return ticket.result

    async def every() -> tuple[list[str], Generation, Generation]:
        tickets = [llama.engine.submit(llama.request("Hello", max_tokens=30)) for _ in range(3)]
        long = llama.engine.submit(llama.request("Hello", max_tokens=3000))
        texts = await asyncio.gather(*map(read, tickets[:2]))
        return list(texts), await tickets[2].whole_async(), await cancelled(long)

    texts, whole, ended = asyncio.run(every())
    assert texts == [expected.text] * 2
    same([whole], [expected])
    assert ended.finish_reason == "cancelled"


def test_closing_ends_what_runs_and_waits(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=1)
    tickets = [texts.engine.submit(texts.request("Hello", max_tokens=3000)) for _ in range(2)]
    next(tickets[0])
    texts.engine.close()
    assert [ticket.whole().finish_reason for ticket in tickets] == ["cancelled", "cancelled"]
    with pytest.raises(UsageError, match="closed"):
        texts.engine.submit(texts.request("Hello"))


def test_an_engine_that_nobody_holds_ends_its_thread(folder: Path) -> None:
    texts = Texts(folder / "llama")
    texts.engine.answers([texts.request("Hello")])
    thread = texts.engine._worker._thread
    assert thread is not None
    del texts
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_a_long_prompt_does_not_hold_up_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama")
    running = texts.engine.submit(texts.request("Hello", max_tokens=200))
    next(running)
    events: list[str] = []
    step, prefill = Network.step, Network.prefill
    monkeypatch.setattr(Network, "step", lambda *a: (events.append("step"), step(*a))[1])
    monkeypatch.setattr(Network, "prefill", lambda *a: (events.append("chunk"), prefill(*a))[1])
    texts.engine.submit(texts.request("word " * 700, max_tokens=2)).whole()
    running.close()
    chunks = [n for n, event in enumerate(events) if event == "chunk"]
    assert len(chunks) > 3
    assert all("step" in events[a:b] for a, b in itertools.pairwise(chunks))
    texts.engine.close()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux")
def test_memory_stays_flat_over_two_thousand_requests(folder: Path) -> None:
    texts = Texts(folder / "qwen", store=BlockStore(1 << 20))
    image_token, network = texts.model.network.image_tokens[0], texts.model.network
    chance = random.Random(4)

    def request(number: int) -> Request:
        ids = [chance.randrange(5, 250) for _ in range(chance.randrange(1, 60))]
        options: dict[str, Any] = {"max_tokens": chance.randrange(1, 6), **chance.choice(MIXED)}
        if number % 4:
            return Request(ids, options=GenerationOptions(**options))
        pixels = np.full((16, 96), number / 2000, np.float32)
        image = ImageInput(pixels, 4, (1, 4, 4))
        seen = RequestImage((number,), image, lambda: network.encode([image])[0])
        return Request([*ids, *[image_token] * 4, 7], [seen], GenerationOptions(**options))

    sizes: list[tuple[int, int]] = []
    for start in range(0, 2000, 50):
        tickets = [texts.engine.submit(request(number)) for number in range(start, start + 50)]
        tickets[3].cancel()
        assert all(ticket.whole().tokens for n, ticket in enumerate(tickets) if n != 3)
        gc.collect()
        mx.clear_cache()
        sizes.append((mx.get_active_memory(), resident()))
    early, late = sizes[10:20], sizes[-10:]
    active, whole = (max(s[n] for s in late) - max(s[n] for s in early) for n in range(2))
    assert active < 200_000, sizes
    assert whole < 20_000_000, sizes
    assert 0 < texts.engine.store.nbytes <= 1 << 20
    texts.engine.close()


MIXED: list[dict[str, Any]] = [{}, {}, {"temperature": 1.0, "top_p": 0.9}, {"repetition_penalty": 1.1}, {"guess": 3}]


def test_tickets_may_come_and_go_at_any_time(folder: Path) -> None:
    """Threads that submit, read, cancel and let go, all at once: every answer that is taken is the right one."""
    texts = Texts(folder / "llama", rows=4, store=BlockStore(1 << 18))
    expected = {n: texts.alone("word " * n, max_tokens=4).tokens for n in range(1, 9)}
    wrong: list[Any] = []

    def client(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(25):
            n = chance.randrange(1, 9)
            ticket = texts.engine.submit(texts.request("word " * n, max_tokens=4), client=str(seed))
            match chance.randrange(4):
                case 0:
                    ticket.cancel()
                case 1:
                    del ticket
                case 2:
                    next(ticket)
                    ticket.close()
                case _:
                    wrong.extend([n] if ticket.whole().tokens != expected[n] else [])

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert not texts.engine.closed
    assert texts.engine.answers([texts.request("word " * 3, max_tokens=4)])[0].tokens == expected[3]
    texts.engine.close()
