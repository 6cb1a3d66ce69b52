"""The packed vision transformer: order, windows, positions and attention, each against its definition."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten, tree_unflatten

from docai.nn import segments
from docai.nn.axial import AxialRope, LaneRope, Turn
from docai.nn.grids import Grid, in_blocks, interpolated, layout
from docai.nn.mlp import MlpSpec
from docai.nn.norm import NormKind
from docai.nn.packed_vit import PackedAttention, PackedVit, PackedVitSpec
from docai.nn.segments import Run, attend_all, attend_segments, runs
from docai.nn.squeeze import Squeeze, SqueezeSpec

GRIDS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 7).map(lambda n: 2 * n), st.integers(1, 7).map(lambda n: 2 * n)),
    min_size=1,
    max_size=3,
)


def random(*shape: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.RandomState(seed).standard_normal(shape).astype(np.float32))


def attention(q: mx.array, k: mx.array, v: mx.array, seen: np.ndarray) -> np.ndarray:
    """Softmax attention by its definition: (N, heads, d) each, `seen` (N, N) -> (N, heads * d)"""
    a, b, c = (np.asarray(x).swapaxes(0, 1).astype(np.float64) for x in (q, k, v))
    scores = np.where(seen, a @ b.swapaxes(1, 2) * a.shape[-1] ** -0.5, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = (weights / weights.sum(axis=-1, keepdims=True)) @ c
    return out.swapaxes(0, 1).reshape(len(seen), -1)


def test_patches_come_in_blocks_row_by_row() -> None:
    numbers = np.arange(4 * 6).reshape(4, 6)
    first, second = [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11], [12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23]
    assert in_blocks(numbers, 2).tolist() == first + second
    assert in_blocks(numbers, 1).tolist() == list(range(24))


def test_blocks_are_made_of_smaller_blocks() -> None:
    numbers = np.arange(4 * 8).reshape(4, 8)
    squares = [[0, 1, 8, 9], [2, 3, 10, 11], [16, 17, 24, 25], [18, 19, 26, 27]]
    assert in_blocks(numbers, 4, 2)[:16].tolist() == np.ravel(squares).tolist()
    assert in_blocks(numbers, 4, 2)[16:].tolist() == (np.ravel(squares) + 4).tolist()


@given(GRIDS, st.integers(1, 4))
def test_windows_are_stretches_of_their_size(grids: list[Grid], window: int) -> None:
    plain, plan = layout(grids, 2), layout(grids, 2, window)
    assert plan.order is not None
    assert plan.back is not None
    np.testing.assert_array_equal(plan.order[plan.back], np.arange(len(plan.order)))
    np.testing.assert_array_equal(plan.rows[plan.back], plain.rows)
    np.testing.assert_array_equal(plan.columns[plan.back], plain.columns)
    assert plan.steps == plain.steps == runs(h * w for t, h, w in grids for _ in range(t))
    step = np.concatenate([np.repeat(np.arange(t), h * w) + 10 * n for n, (t, h, w) in enumerate(grids)])
    homes = np.stack([step[plan.order], plan.rows // (2 * window), plan.columns // (2 * window)], axis=1)
    at = 0
    for run in plan.windows:
        for _ in range(run.count):
            (home,) = np.unique(homes[at : at + run.length], axis=0)
            assert (homes == home).all(axis=1).sum() == run.length
            at += run.length
    assert at == len(homes)


def test_windows_of_a_picture_are_few_runs() -> None:
    plan = layout([(1, 36, 50)], 2, 4)  # 5 x 7 windows of 4 x 4 blocks, the last ones cut
    assert plan.windows == (Run(24, 64), Run(6, 32), Run(4, 16), Run(1, 8))


def test_segments_see_themselves_only() -> None:
    parts = [random(23, 2, 8, seed=n) for n in range(3)]
    number = np.repeat(np.arange(6), [4, 4, 4, 6, 2, 3])
    found = attend_segments(*parts, runs([4, 4, 4, 6, 2, 3]), 8**-0.5)
    np.testing.assert_allclose(found, attention(*parts, number[:, None] == number), atol=1e-5)


@pytest.mark.parametrize("bytes_at_a_time", [1, 4 * 2 * 11 * 3, 1 << 28])
def test_attention_in_slices_is_the_same(bytes_at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [random(11, 2, 8, seed=n) for n in range(3)]
    whole = attention(*parts, np.ones((11, 11), bool))
    monkeypatch.setattr(segments, "SCORE_BYTES", bytes_at_a_time)
    monkeypatch.setattr(segments, "fused_width", lambda _: None)
    np.testing.assert_allclose(attend_segments(*parts, (Run(1, 11),), 8**-0.5), whole, atol=1e-5)


def test_widened_heads_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [random(1, 2, 11, 72, seed=n) for n in range(3)]
    plain = attend_all(*parts, 72**-0.5)
    monkeypatch.setattr(segments, "fused_width", lambda _: 80)
    assert attend_all(*parts, 72**-0.5).shape == plain.shape
    np.testing.assert_allclose(attend_all(*parts, 72**-0.5), plain, atol=1e-5)


@pytest.mark.parametrize("staggered", [False, True])
def test_heads_turn_by_row_and_column(staggered: bool) -> None:
    rows, columns = np.array([0, 2, 5], np.int32), np.array([0, 7, 1], np.int32)
    x = random(3, 2, 8)
    turned = Turn.by(AxialRope(100.0, staggered).angles(rows, columns, 8))(x)
    frequency = 100.0 ** (-np.array([0, 2, 4, 6]) / 8)
    across = frequency[[1, 3]] if staggered else frequency[[0, 2]]
    angles = np.concatenate([rows[:, None] * frequency[[0, 2]], columns[:, None] * across], axis=1)
    pairs = np.asarray(x)[..., :4] + 1j * np.asarray(x)[..., 4:]
    expected = pairs * np.exp(1j * angles)[:, None]
    np.testing.assert_allclose(turned, np.concatenate([expected.real, expected.imag], axis=-1), atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 5, 9])
def test_tables_are_sampled_corner_on_corner(length: int) -> None:
    table = np.random.RandomState(0).standard_normal(5)
    over_rows, over_columns = interpolated((1, length, 3), 5)
    at = np.linspace(0, 4, length)
    np.testing.assert_allclose(over_rows @ table, np.interp(at, np.arange(5), table), atol=1e-6)
    assert over_columns.shape == (3, 5)


@pytest.mark.parametrize("length", [1, 3, 5, 7, 10])
def test_the_nearest_of_a_table_is_the_one_in_which_a_patch_begins(length: int) -> None:
    over_rows, over_columns = interpolated((1, length, 2), 5, "nearest")
    expected = [max(k for k in range(5) if k * length <= i * 5) for i in range(length)]
    np.testing.assert_array_equal(over_rows, np.eye(5)[expected])
    np.testing.assert_array_equal(over_columns, np.eye(5)[[0, 2]])


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_squares_of_patches_become_one(kind: NormKind) -> None:
    """By its definition: attention within a square, then two layers over its rows side by side, and their mean."""
    spec = PackedVitSpec(8, 1, 2, MlpSpec(24), 2, norm=kind, rope=None, squeeze=SqueezeSpec(0, 20))
    assert spec.squeeze is not None
    part = Squeeze(spec.squeeze, 8, kind, 1e-6, PackedAttention(spec))
    numbers = tree_flatten(part.parameters())
    part.update(tree_unflatten([(name, random(*a.shape, seed=n)) for n, (name, a) in enumerate(numbers)]))
    w = {name: np.asarray(a, np.float64) for name, a in tree_flatten(part.parameters())}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normed(name: str, x: np.ndarray) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True) if kind == "layer" else x
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * w[f"{name}.weight"] + w.get(f"{name}.bias", 0)

    x = np.asarray(random(12, 8, seed=99), np.float64)
    q, k, v = (linear(f"attn.{name}", normed("norm1", x)).reshape(12, 2, 4) for name in "qkv")
    same = np.arange(12)[:, None] // 4 == np.arange(12) // 4
    x = x + linear("attn.o", attention(mx.array(q), mx.array(k), mx.array(v), same))
    inner = linear("up", normed("norm2", x.reshape(3, 32)))
    inner = inner / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    expected = linear("down", inner) + x.reshape(3, 4, 8).mean(axis=1)
    np.testing.assert_allclose(part(random(12, 8, seed=99)), expected, rtol=1e-4, atol=1e-4)


def test_a_tower_sees_squares_behind_the_layer_that_makes_them() -> None:
    """Company changes nothing, neither before nor behind; without layers behind it, rows are those of squares."""
    mlp = MlpSpec(24, bias=True)
    tower = PackedVit(PackedVitSpec(16, 3, 2, mlp, 2, frames=1, merge=4, rope=None, squeeze=SqueezeSpec(1, 20)))
    first, second = random(32, 12), random(48, 12, seed=1)
    together = tower.encode(mx.concatenate([first, second]), [(1, 4, 8), (1, 12, 4)]).rows
    alone = [tower.encode(first, [(1, 4, 8)]).rows, tower.encode(second, [(1, 12, 4)]).rows]
    assert together.shape == (20, 16)
    np.testing.assert_allclose(together, mx.concatenate(alone), atol=1e-5)


def test_company_changes_nothing() -> None:
    spec = PackedVitSpec(
        16, 3, 2, MlpSpec(24, bias=True), 2, window=2, full_layers=(1,), positions=3, taps=(0, 2), norm="rms"
    )
    tower = PackedVit(spec)
    grids: list[Grid] = [(1, 6, 10), (2, 8, 4)]
    first, second = random(60, 24), random(64, 24, seed=1)
    together = tower.encode(mx.concatenate([first, second]), grids)
    alone = [tower.encode(pixels, [grid]) for pixels, grid in zip((first, second), grids, strict=True)]
    np.testing.assert_allclose(together.rows, mx.concatenate([one.rows for one in alone]), atol=1e-5)
    assert len(together.taps) == 2
    for tap, parts in zip(together.taps, zip(*(one.taps for one in alone), strict=True), strict=True):
        np.testing.assert_allclose(tap, mx.concatenate(list(parts)), atol=1e-5)


def test_steps_of_a_clip_do_not_see_each_other() -> None:
    tower = PackedVit(PackedVitSpec(16, 2, 2, MlpSpec(24), 2))
    patches = random(32, 24)
    clip = tower.encode(patches, [(2, 4, 4)])
    stills = [tower.encode(patches[at : at + 16], [(1, 4, 4)]).rows for at in (0, 16)]
    np.testing.assert_allclose(clip.rows, mx.concatenate(stills), atol=1e-5)


def test_lanes_of_a_pair_have_angles_of_their_own() -> None:
    """Mage-ViT's turns by their definition: lane 2i is turned by the angle of lane 2i, its neighbour by its own."""
    width, theta = 64, 100.0
    rows, columns = np.array([0, 3, 5], np.int32), np.array([2, 0, 7], np.int32)
    x = np.random.RandomState(1).standard_normal((3, 2, width))
    angles = np.zeros((3, width))
    for lane in range(width):
        kind, at = lane % 32, 0  # 8 angles of time, 12 of rows, 12 of columns
        for size, places in ((8, None), (12, rows), (12, columns)):
            if at <= kind < at + size and places is not None:
                angles[:, lane] = places * theta ** (-(kind - at) / size)
            at += size
    expected = np.empty_like(x)
    for lane in range(0, width, 2):
        a, b = x[..., lane], x[..., lane + 1]
        expected[..., lane] = a * np.cos(angles[:, lane])[:, None] - b * np.sin(angles[:, lane])[:, None]
        expected[..., lane + 1] = b * np.cos(angles[:, lane + 1])[:, None] + a * np.sin(angles[:, lane + 1])[:, None]
    turned = LaneRope(theta).turn(rows, columns, width)(mx.array(x.astype(np.float32)))
    np.testing.assert_allclose(np.asarray(turned), expected, rtol=1e-5, atol=1e-5)


def test_steps_of_a_clip_are_seen_together_and_averaged() -> None:
    """By its definition: sinusoids of the steps, attention over a whole clip, the mean of a place's rows."""
    spec = PackedVitSpec(
        16, 1, 2, MlpSpec(24, gated=False, bias=True), 2, frames=1, patch_bias=True, positions=3, averaged=True
    )
    tower, grids = PackedVit(spec), [(1, 2, 4), (3, 2, 2)]
    numbers = tree_flatten(tower.parameters())
    tower.update(tree_unflatten([(name, 0.3 * random(*a.shape, seed=n)) for n, (name, a) in enumerate(numbers)]))
    patches = random(8 + 12, 12, seed=99)
    found = np.asarray(tower.encode(patches, grids).rows)
    plain = PackedVit(replace(spec, averaged=False))
    plain.update(tower.parameters())
    # images are as they are without; a clip is computed anew
    np.testing.assert_allclose(found[:8], plain.encode(patches[:8], grids[:1]).rows, atol=1e-5)
    x = np.asarray(plain._embedded(patches[8:], grids[1:]))
    frequency = 10_000.0 ** -(np.arange(0, 16, 2) / 16)
    for step in range(3):
        x[4 * step : 4 * step + 4] += np.concatenate([np.sin(step * frequency), np.cos(step * frequency)])
    block, plan = tower.blocks[0], layout(grids[1:], 2)
    turn = AxialRope().turn(plan.rows, plan.columns, 8)
    expected = np.asarray(block(mx.array(x.astype(np.float32)), turn, (Run(1, 12),)))
    np.testing.assert_allclose(found[8:], expected.reshape(3, 4, 16).mean(axis=0), atol=1e-5)
