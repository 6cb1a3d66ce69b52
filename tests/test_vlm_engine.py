"""The engine: many requests at once get what each would get alone, and each gets what it asks for."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.vlm.batch import Batch  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.generate import Request, RequestImage, Runtime  # noqa: E402
from docai.vlm.job import Job  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.prefix import BlockStore  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from docai.vlm.scheduler import EngineLimits  # noqa: E402
from docai.vlm.stream import Pieces  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.engine_texts import Texts, same, tiny_models  # noqa: E402
from tests.parity.stored import CASES, FOLDER, case_of, config_of, images_of, weights_of, written  # noqa: E402
from tests.tiny_checkpoint import byte_level  # noqa: E402


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(tmp_path_factory.mktemp("models"))


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


@pytest.mark.parametrize("name", ["llama", "sliding", "latent", "state", "shared"])
def test_each_gets_what_it_asks_for(folder: Path, name: str) -> None:
    texts = Texts(folder / name)
    cases = [(text, o) for text, o in asked() if name not in ("sliding", "state") or "kv_bits" not in o]
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


@pytest.mark.parametrize(
    ("name", "rows"),
    [*((name, 8) for name in ("llama", "sliding", "qwen", "state", "shared")), ("llama", 6), ("latent", 12)],
)
def test_a_steady_engine_gives_the_same_bits_in_any_company(folder: Path, name: str, rows: int) -> None:
    texts = Texts(folder / name, rows=rows, steady=True)
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


def operations(folder: Path, output: Any) -> int:
    """How many operations a result that has not been computed yet will take."""
    mx.export_to_dot(str(folder / "graph.dot"), output)
    return (folder / "graph.dot").read_text().count("label =")


def test_a_step_takes_as_many_operations_for_many_as_for_one(folder: Path, tmp_path: Path) -> None:
    """What a step costs a GPU is mostly their number."""
    texts = Texts(folder / "llama")
    network, counts = texts.model.network, {}
    for rows in (1, 2, 8):
        batch = Batch(network)
        for number in range(rows):
            job = Job(texts.runtime, texts.request("word " * (number + 1)), "", "", 0.0)
            reading = job.begin(BlockStore(0))
            reading.advance(wait=True)
            batch.join(job, job.read())
        assert batch._now is not None
        mx.eval([a for cache in (batch._caches or batch._own) for a in cache.state], batch._now.tokens)
        logits = network.step(batch._now.tokens[:, None], batch._caches or batch._own, batch._shifts)
        counts[rows] = operations(tmp_path, logits)
    assert counts[1] > 50
    assert counts[2] == counts[8] <= 1.1 * counts[1]
