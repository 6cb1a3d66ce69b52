"""The engine: many requests at once get what each would get alone, and nothing that happens to one touches another."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

from docai.vlm.blocks import BlockStore  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.generate import Request, RequestImage, Runtime  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions  # noqa: E402
from docai.vlm.scheduler import EngineLimits  # noqa: E402
from docai.vlm.stream import Pieces  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.parity.stored import CASES, case_of, config_of, images_of, weights_of, written  # noqa: E402
from tests.tiny_checkpoint import byte_level  # noqa: E402


class Case:
    """A stored case as requests: its own prompt, and others that begin with it or with a part of it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.network = load_network(written(folder, config_of(name), weights_of(name)))
        self.network.fuse()
        self.runtime = Runtime(self.network, Pieces(Tokenizer(byte_level())))
        self.images, self.ids = images_of(name), case_of(name)["tokens"]

    def request(self, number: int, **options: Any) -> Request:
        """One of several that differ in length and content."""
        chance = random.Random(number)
        more = [chance.randrange(5, 40) for _ in range(chance.randrange(12))] if number else []
        chosen = {"max_tokens": 4 + number % 5, "prefill_step": 16, "loop_guard": False, **options}
        seen = [RequestImage((n,), i, lambda i=i: self.network.encode([i])[0]) for n, i in enumerate(self.images)]
        return Request([*self.ids, *more], seen, GenerationOptions(**chosen))

    def alone(self, request: Request) -> Generation:
        return self.runtime.stream(request).whole()


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("checkpoint"))


def same(ours: Sequence[Generation], expected: Sequence[Generation]) -> None:
    assert [done.tokens for done in ours] == [done.tokens for done in expected]
    assert [(done.text, done.finish_reason) for done in ours] == [(d.text, d.finish_reason) for d in expected]


def test_every_family_says_the_same_alone_and_among_others(case: Case) -> None:
    requests = [case.request(number) for number in range(16)]
    expected = [case.alone(request) for request in requests]
    for rows in (1, 4, 16):
        engine = Engine(case.runtime, limits=EngineLimits(rows=rows))
        same(engine.answers(requests), expected)
        engine.close()
