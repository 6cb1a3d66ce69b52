"""Gated DeltaNet gives what its recurrence says, however tokens come in: whole, in parts, or beside others."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from docai.nn import delta
from docai.nn.batch import Places, batch_cache
from docai.nn.cache import StateCache
from docai.nn.delta import DeltaNet, DeltaSpec, delta_rule, unit_lower_inverse
from docai.vlm.prefix import Block, restore

DIMS, EPS = 16, 1e-6
SPECS = {
    "grouped": DeltaSpec.of(6, 2, value_dim=5, key_dim=8, kernel=4),
    "single": DeltaSpec.of(3, 3, value_dim=8, key_dim=4, kernel=2),
}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def layer(spec: DeltaSpec) -> DeltaNet:
    made, state = DeltaNet(DIMS, spec, EPS), np.random.RandomState(3)
    for module in (made.qkv, made.z, made.b, made.a, made.o, made):
        module["weight"] = mx.array(0.4 * state.standard_normal(module["weight"].shape).astype(np.float32))
    made.norm.weight = mx.array(1 + 0.2 * state.standard_normal(spec.head_dim).astype(np.float32))
    made.log_rate = mx.array(state.uniform(-4, 1, spec.heads).astype(np.float32))  # some fade slowly, some fast
    made.step_bias = mx.array(state.standard_normal(spec.heads).astype(np.float32))
    return made


def rows(seed: int, length: int) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal((1, length, DIMS)).astype(np.float32)


def through(made: DeltaNet, x: np.ndarray, cache: StateCache) -> np.ndarray:
    return np.asarray(made(mx.array(x), None, None, cache))


def recurrence(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, fade: np.ndarray, beta: np.ndarray, state: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of one head, token by token, in float64: q, k (L, key), v (L, value), fade, beta (L,), state (key, value)."""
    out = []
    for t in range(len(q)):
        state = np.exp(fade[t]) * state
        state = state + beta[t] * np.outer(k[t], v[t] - state.T @ k[t])
        out.append(state.T @ q[t])
    return np.array(out), state


def by_definition(made: DeltaNet, spec: DeltaSpec, x: np.ndarray) -> np.ndarray:
    """The whole layer on rows (1, L, D), in float64."""

    def weight(module: object) -> np.ndarray:
        return np.asarray(module["weight"], np.float64)

    def sigmoid(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-a))

    x, kernel = x[0].astype(np.float64), weight(made)
    before = np.concatenate([np.zeros((spec.kernel - 1, len(kernel))), x @ weight(made.qkv).T])
    mixed = np.array([(before[t : t + spec.kernel] * kernel.T).sum(axis=0) for t in range(len(x))])
    keys = spec.kv_heads * spec.key_dim
    q, k, v = np.split(mixed * sigmoid(mixed), [keys, 2 * keys], axis=1)
    fade = -np.exp(np.asarray(made.log_rate, np.float64)) * np.log1p(
        np.exp(x @ weight(made.a).T + np.asarray(made.step_bias, np.float64))
    )
    beta, gate = sigmoid(x @ weight(made.b).T), x @ weight(made.z).T
    heads = []
    for head in range(spec.heads):
        at = head // (spec.heads // spec.kv_heads) * spec.key_dim
        one = [a[:, at : at + spec.key_dim] for a in (q, k)]
        one = [a / np.sqrt((a * a).sum(axis=1, keepdims=True) + 1e-6) for a in one]
        value = slice(head * spec.head_dim, (head + 1) * spec.head_dim)
        empty = np.zeros((spec.key_dim, spec.head_dim))
        out, _ = recurrence(one[0] * spec.key_dim**-0.5, one[1], v[:, value], fade[:, head], beta[:, head], empty)
        normed = out / np.sqrt((out * out).mean(axis=1, keepdims=True) + EPS) * weight(made.norm)
        heads.append(normed * gate[:, value] * sigmoid(gate[:, value]))
    return np.concatenate(heads, axis=1) @ weight(made.o).T


@pytest.mark.parametrize("parts", [[140], [1] * 9, [2, 1, 5, 3], [70, 1, 1, 66], [64, 128]], ids=str)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_it_is_its_definition(spec: DeltaSpec, parts: list[int]) -> None:
    made, cache, x = layer(spec), StateCache(), rows(1, sum(parts))
    ends = np.cumsum(parts)
    out = [through(made, x[:, end - n : end], cache) for n, end in zip(parts, ends, strict=True)]
    assert cache.offset == sum(parts)
    assert sum(a.size for a in cache.state) == spec.state_size
    np.testing.assert_allclose(np.concatenate(out, axis=1)[0], by_definition(made, spec, x), **CLOSE)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_joined_it_is_the_same(spec: DeltaSpec) -> None:
    made, x = layer(spec), rows(2, 20)
    expected = through(made, x, StateCache())
    made.fuse()
    assert "qkv" not in made
    np.testing.assert_allclose(through(made, x, StateCache()), expected, rtol=1e-5, atol=1e-5)


def test_translated_for_a_gpu_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, outputs = rows(4, 9), []
    for gpu in (False, True):
        monkeypatch.setattr(delta, "on_gpu", lambda gpu=gpu: gpu)
        made, cache = layer(SPECS["single"]), StateCache()
        outputs.append([through(made, x[:, at : at + 1], cache) for at in range(9)])
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)


HARD = {
    "as it comes": {},
    "one key": {"same key": True, "fade": 0.0, "beta": 1.0},  # each value takes the place of the one before
    "all fades": {"fade": -200.0},
    "nothing is put in": {"beta": 0.0},
}


@pytest.mark.parametrize("length", [1, 2, 63, 65, 200, 700])
@pytest.mark.parametrize("hard", HARD.values(), ids=HARD)
def test_chunks_are_the_recurrence(hard: dict[str, float], length: int) -> None:
    """Also where powers of the triangular system would be far too large for float32; what fills up changes nothing."""
    state = np.random.RandomState(5)
    q, k = (state.standard_normal((1, 2, length, 8)) for _ in range(2))
    k = np.broadcast_to(k[:, :, :1], k.shape) if "same key" in hard else k
    q, k = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, k))
    v, start = state.standard_normal((1, 2, length, 6)), state.standard_normal((1, 2, 8, 6))
    fade = np.full((1, 2, length), hard["fade"]) if "fade" in hard else -state.uniform(0, 2, (1, 2, length))
    beta = np.full((1, 2, length), hard["beta"]) if "beta" in hard else state.uniform(0, 1, (1, 2, length))
    given = [mx.array(a.astype(np.float32)) for a in (q, k, v, fade, beta, start)]
    out, after = delta_rule(*given)
    for head in range(2):
        expected, left = recurrence(*(a[0, head] for a in (q, k, v, fade, beta, start)))
        np.testing.assert_allclose(np.asarray(out)[0, head], expected, **CLOSE)
        np.testing.assert_allclose(np.asarray(after)[0, head], left, **CLOSE)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_triangular_systems_are_solved(size: int) -> None:
    below = np.tril(np.random.RandomState(size).uniform(-0.3, 0.3, (3, 2, size, size)), -1)
    inverse = np.asarray(unit_lower_inverse(mx.array(below.astype(np.float32))))
    np.testing.assert_allclose(inverse, np.linalg.inv(np.eye(size) + below), rtol=1e-3, atol=1e-5)


def test_places_are_as_if_alone_while_others_join_and_leave() -> None:
    spec = SPECS["grouped"]
    made, places = layer(spec), Places(2)
    batch, texts, at = batch_cache(StateCache(), places), {n: rows(n, 90) for n in range(1, 5)}, {}
    expected = {n: by_definition(made, spec, text) for n, text in texts.items()}
    held: dict[int, int] = {}  # place -> text

    def join(place: int, text: int, prompt: int) -> None:
        own = StateCache()
        through(made, texts[text][:, :prompt], own)
        batch.join(place, own)
        places.set(place, prompt)
        held[place], at[text] = text, prompt

    def steps(count: int) -> None:
        for _ in range(count):
            given = [texts[held[p]][:, at[held[p]]] if p in held else rows(99, 1)[:, 0] for p in range(len(places))]
            out = np.asarray(made(mx.array(np.stack(given)), None, None, batch))
            places.advance(1)
            for place, text in held.items():
                np.testing.assert_allclose(out[place, 0], expected[text][at[text]], **CLOSE)
                at[text] += 1

    join(0, 1, 2)  # shorter than the convolution
    steps(3)
    join(1, 2, 70)
    steps(4)
    del held[0]
    places.set(0, 0)
    steps(2)
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
    steps(5)
    assert sum(a.size for a in batch.state) == spec.state_size


def test_a_state_is_kept_whole_and_goes_on_to_the_bit() -> None:
    made, x, cache, blocks = layer(SPECS["grouped"]), rows(7, 60), StateCache(), []
    for start, end in ((0, 20), (20, 30), (30, 33)):
        through(made, x[:, start:end], cache)
        blocks.append(Block.of([cache], end - start))
    again = StateCache()
    restore(blocks, [again])
    assert again.offset == 33
    for start, end in ((33, 34), (34, 50), (50, 60)):
        expected = through(made, x[:, start:end], cache)
        np.testing.assert_array_equal(through(made, x[:, start:end], again), expected)


def test_a_state_does_not_forget() -> None:
    cache = StateCache()
    through(layer(SPECS["single"]), rows(1, 4), cache)
    assert cache.trim(0)
    assert not cache.trim(1)
    assert cache.offset == 4


def test_a_state_keeps_nothing_alive_beside_itself() -> None:
    spec = DeltaSpec.of(8, 8, value_dim=32, key_dim=32, kernel=4)
    made, cache = DeltaNet(DIMS, spec, EPS), StateCache()
    mx.eval(made.parameters())
    before = mx.get_active_memory()
    out = made(mx.array(rows(1, 2048)), None, None, cache)  # what is mixed takes 6 MB
    mx.eval(out, cache.state)
    del out
    assert mx.get_active_memory() - before < 1 << 20
