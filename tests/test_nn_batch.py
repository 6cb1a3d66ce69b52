"""Caches of a batch: each place gives what its request's own cache would, whoever joins and leaves beside it."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from docai.nn import batch as batch_module
from docai.nn.batch import BatchCache, Places, alike_rows, batch_cache, storage_columns
from docai.nn.cache import Cache, FullCache, QuantizedCache, RotatingCache
from docai.nn.rope import LongScaling, Rope, RopeSpec
from docai.nn.rounding import Rounding
from docai.nn.scores import Scoring

HEADS, KV_HEADS, DIMS = 4, 2, 64
KINDS: dict[str, Callable[[], Cache]] = {
    "full": FullCache,
    "ring": lambda: RotatingCache(6),
    "wide ring": lambda: RotatingCache(300),
    "rounded": QuantizedCache,
    "mixed rounding": lambda: QuantizedCache(Rounding(8, 4, 32)),
}
SCORING = {"plain": Scoring(DIMS**-0.5), "capped": Scoring(DIMS**-0.5, cap=2.0)}


def qkv(seed: int, length: int) -> list[mx.array]:
    state = np.random.RandomState(seed)
    shapes = [(1, HEADS, length, DIMS), *[(1, KV_HEADS, length, DIMS)] * 2]
    return [mx.array(state.standard_normal(shape).astype(np.float32)) for shape in shapes]


def taken(cache: Cache | BatchCache, parts: list[mx.array], scoring: Scoring) -> np.ndarray:
    mask = cache.mask(parts[0].shape[2], None)
    return np.asarray(cache.attend(*parts, scoring, mask))


class Alone:
    """A request by itself: what a batch has to equal."""

    def __init__(self, kind: Callable[[], Cache], seed: int, prompt: int, scoring: Scoring) -> None:
        self.cache, self.seed, self.scoring = kind(), seed, scoring
        taken(self.cache, qkv(seed, prompt), scoring)

    def next(self) -> list[mx.array]:
        self.seed += 100
        return qkv(self.seed, 1)

    def step(self, parts: list[mx.array]) -> np.ndarray:
        return taken(self.cache, parts, self.scoring)


@pytest.mark.parametrize("scoring", SCORING.values(), ids=SCORING)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_places_are_as_if_alone_while_others_join_and_leave(kind: Callable[[], Cache], scoring: Scoring) -> None:
    places = Places(2)
    batch = batch_cache(kind(), places)
    held: dict[int, Alone] = {}

    def join(place: int, seed: int, prompt: int) -> None:
        held[place] = Alone(kind, seed, prompt, scoring)
        batch.join(place, held[place].cache)
        places.set(place, prompt)

    def steps(count: int) -> None:
        for _ in range(count):
            news = {place: row.next() for place, row in held.items()}
            empty = qkv(99, 1)
            parts = [mx.concatenate([news.get(p, empty)[n] for p in range(len(places))]) for n in range(3)]
            together = taken(batch, parts, scoring)
            places.advance(1)
            for place, row in held.items():
                alone = row.step(news[place])
                np.testing.assert_allclose(together[place], alone[0], rtol=1e-4, atol=1e-5)
                assert places.lengths[place] == row.cache.offset

    join(0, 1, 5)
    steps(3)
    join(1, 2, 250)  # grows beyond the first storage on its way
    steps(8)
    del held[0]
    places.set(0, 0)
    steps(1)
    join(0, 3, 17)
    steps(2)
    batch.resize([1, 0], 4)
    places.resized([1, 0], 4)
    held = {0: held[1], 1: held[0]}
    join(3, 4, 1)
    steps(2)
    batch.resize([3], 1)
    places.resized([3], 1)
    held = {0: held[3]}
    steps(9)


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("sinks", [None, mx.linspace(-2, 3, HEADS)], ids=["plain", "sinks"])
def test_heads_with_keys_of_their_own(sinks: mx.array | None, cuda: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "on_cuda", lambda: cuda)
    scoring = Scoring(0.3, sinks=sinks)
    places, state = Places(2), np.random.RandomState(3)

    def drawn(rows: int, length: int) -> list[mx.array]:
        return [mx.array(state.standard_normal((rows, HEADS, length, DIMS)).astype(np.float32)) for _ in range(3)]

    caches = [FullCache(), FullCache()]
    for cache, length in zip(caches, (4, 9), strict=True):
        taken(cache, drawn(1, length), scoring)
    batch = batch_cache(caches[0], places)
    for place, cache in enumerate(caches):
        batch.join(place, cache)
        places.set(place, cache.offset)
    news = drawn(2, 1)
    together = taken(batch, news, scoring)
    for place, cache in enumerate(caches):
        alone = taken(cache, [a[place : place + 1] for a in news], scoring)
        np.testing.assert_allclose(together[place], alone[0], rtol=1e-4, atol=1e-5)


def test_some_tokens_at_once_are_as_one_after_the_other() -> None:
    places = Places(2)
    for kind in (FullCache, QuantizedCache):
        rows = [Alone(kind, seed, prompt, SCORING["plain"]) for seed, prompt in ((1, 7), (2, 3))]
        batch = batch_cache(kind(), places)
        for place, row in enumerate(rows):
            batch.join(place, row.cache)
            places.set(place, row.cache.offset)
        news = [qkv(10, 4), qkv(11, 4)]
        together = taken(batch, [mx.concatenate(pair) for pair in zip(*news, strict=True)], SCORING["plain"])
        for place, row in enumerate(rows):
            alone = [row.step([a[:, :, n : n + 1] for a in news[place]]) for n in range(4)]
            np.testing.assert_allclose(together[place], np.concatenate(alone, axis=2)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("alike", "expected"),
    [({2, 4, 8}, {1: 1, 2: 2, 3: 4, 6: 8, 8: 8, 12: 8, 32: 8}), ({2, 4, 8, 16, 32}, {6: 8, 12: 16}), (set(), {6: 1})],
)
def test_as_many_rows_as_are_alike(alike: set[int], expected: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docai.nn.batch._alike", lambda count, *_: count in alike)
    assert {most: alike_rows.__wrapped__(most) for most in expected} == expected


def test_a_row_s_product_is_the_same_in_each_place() -> None:
    chance = np.random.RandomState(1)
    weight, row = mx.array(chance.randn(192, 96).astype(np.float32)), chance.randn(96).astype(np.float32)
    count = alike_rows(32)
    products = []
    for place in range(count):
        rows = chance.randn(count, 1, 96).astype(np.float32)
        rows[place] = row
        products.append((mx.array(rows) @ weight.T)[place])
    assert all(mx.array_equal(product, products[0]) for product in products)


def test_a_storage_takes_what_its_places_need() -> None:
    places = Places(4)
    batch = batch_cache(RotatingCache(300), places)
    batch.join(0, Alone(lambda: RotatingCache(300), 1, 700, SCORING["plain"]).cache)
    assert sum(a.nbytes for a in batch.state) == 4 * 300 * 2 * KV_HEADS * DIMS * 4
    assert [storage_columns(n) for n in (1, 256, 257, 2049, 16385)] == [256, 256, 512, 3072, 20480]


def test_long_ropes_turn_each_sequence_by_its_own_length() -> None:
    scaling = LongScaling((1.0,) * 4, (2.0, 3.0, 4.0, 5.0), 20, 1.1)
    rope = Rope(RopeSpec(8, scaling=scaling))
    x = mx.array(np.random.RandomState(1).standard_normal((2, 1, 1, 8)).astype(np.float32))
    together = rope.counting(mx.array([4, 30]), mx.array([5, 31]))(x)
    for row, offset in enumerate((4, 30)):
        alone = rope.counting(offset, offset + 1)(x[row : row + 1])
        np.testing.assert_allclose(np.asarray(together[row]), np.asarray(alone[0]), rtol=1e-5, atol=1e-6)
