"""What Gemma 4 computes, by its definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

import mlx.nn as nn  # noqa: E402
from mlx.utils import tree_map_with_path  # noqa: E402

from docai.nn.attention import Attention, AttentionSpec, Borrowing  # noqa: E402
from docai.nn.axial import AxialRope  # noqa: E402
from docai.nn.cache import FullCache, Lent  # noqa: E402
from docai.nn.grids import in_blocks  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.moe import MoeSpec  # noqa: E402
from docai.nn.patch_rows import PatchRows, PatchRowsSpec  # noqa: E402
from docai.nn.per_layer import Inlet, PerLayer, PerLayerSpec  # noqa: E402
from docai.nn.rope import ProportionalScaling, Rope, RopeSpec, frequencies  # noqa: E402
from docai.nn.sandwich_vit import SandwichVit, SandwichVitSpec  # noqa: E402
from docai.nn.twofold import Twofold, TwofoldSpec  # noqa: E402
from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.connector import Averager, AveragerSpec  # noqa: E402
from docai.vlm.vision import Seen  # noqa: E402
from tests.parity.weights import noise, tensor  # noqa: E402


def filled(module: nn.Module) -> dict[str, np.ndarray]:
    """A module's weights, made anew and put in, by name."""
    weights: dict[str, np.ndarray] = {}

    def made(name: str, old: mx.array) -> mx.array:
        weights[name] = tensor(name, old.shape, 3)
        return mx.array(weights[name])

    module.update(tree_map_with_path(made, module.parameters()))
    return {name: value.astype(np.float64) for name, value in weights.items()}


def rms(x: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def close(ours: mx.array, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=1e-4, atol=1e-5)


def test_embeddings_for_each_layer() -> None:
    dims, layers, width = 12, 3, 4
    inner, inlet = PerLayer(dims, layers, PerLayerSpec(width, 20), 1e-6), Inlet(dims, width, "gelu_pytorch_tanh", 1e-6)
    w, v = filled(inner), filled(inlet)
    tokens, x = np.array([[3, 0, 19]]), noise("x", (1, 3, dims), 1).astype(np.float64)
    context = (x @ w["project.weight"].T / np.sqrt(dims)).reshape(1, 3, layers, width)
    own = w["embed.weight"][tokens].reshape(1, 3, layers, width) * 2.0
    expected = (rms(context, w["norm.weight"]) + own) / np.sqrt(2)
    ours = inner(mx.array(tokens), mx.array(x.astype(np.float32)))
    close(ours, expected)
    taken = (gelu(x @ v["gate.weight"].T) * expected[:, :, 1]) @ v["up.weight"].T
    close(inlet(mx.array(x.astype(np.float32)), ours[:, :, 1]), x + rms(taken, v["norm.weight"]))


def test_experts_beside_a_dense_block() -> None:
    dims, experts, top_k = 12, 5, 2
    block = Twofold(
        dims, TwofoldSpec(MlpSpec(8, "gelu_pytorch_tanh"), MoeSpec(experts, top_k, 6, "gelu_pytorch_tanh")), 1e-6
    )
    w, x = filled(block), noise("x", (7, dims), 1).astype(np.float64)

    def feed(rows: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        return (gelu(rows @ gate.T) * (rows @ up.T)) @ down.T

    dense = feed(rms(x, w["dense_norm.weight"]), *(w[f"dense.{n}.weight"] for n in ("gate", "up", "down")))
    expected = rms(dense, w["dense_post_norm.weight"])
    scores = softmax(rms(x, w["router.scale"]) / np.sqrt(dims) @ w["router.proj.weight"].T)
    mixed = np.zeros_like(x)
    for row, score in enumerate(scores):
        chosen = np.argsort(-score)[:top_k]
        for expert in chosen:
            weight = score[expert] / score[chosen].sum() * w["router.per_expert"][expert]
            parts = (w[f"experts.{n}.weight"][expert] for n in ("gate", "up", "down"))
            mixed[row] += weight * feed(rms(x[row], w["norm.weight"]), *parts)
    close(block(mx.array(x.astype(np.float32))), expected + rms(mixed, w["post_norm.weight"]))


def test_values_may_be_keys_and_others_may_see_both() -> None:
    rope = RopeSpec(8, 100.0)
    spec = AttentionSpec(4, 2, 8, rope, scale=1.0, head_norm=True, value_norm=True, values_are_keys=True)
    own, other = Attention(12, spec, 1e-6), Borrowing(12, spec, 1e-6)
    w, v = filled(own), filled(other)
    x = noise("x", (1, 5, 12), 1)
    rotation = Rope(rope).counting(0, 5)

    def heads(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return (x @ weight.T).reshape(1, 5, -1, 8).swapaxes(1, 2)  # (1, heads, 5, 8)

    def turned(x: np.ndarray) -> np.ndarray:
        return np.asarray(rotation(mx.array(x.astype(np.float32))))

    raw = heads(x, w["k.weight"])
    keys, values = (np.repeat(a, 2, axis=1) for a in (turned(rms(raw, w["k_norm.weight"])), rms(raw)))

    def answer(weights: dict[str, np.ndarray]) -> np.ndarray:
        scores = turned(rms(heads(x, weights["q.weight"]), weights["q_norm.weight"])) @ keys.swapaxes(-1, -2)
        seen = softmax(np.where(np.tri(5, dtype=bool), scores, -np.inf)) @ values
        return seen.swapaxes(1, 2).reshape(1, 5, -1) @ weights["o.weight"].T

    for fused in (False, True):
        if fused:
            own.fuse()
        lent = Lent(FullCache())
        close(own(mx.array(x), rotation, lent.mask(5, None), lent), answer(w))
        close(other(mx.array(x), rotation, lent.mask(5, None), lent), answer(v))


def test_only_the_first_pairs_of_a_proportional_rotation_turn() -> None:
    spec = RopeSpec(32, 100.0, scaling=ProportionalScaling(0.25, factor=2.0))
    turns = 100.0 ** -(np.arange(0, 32, 2) / 32) / 2
    np.testing.assert_allclose(frequencies(spec), np.where(np.arange(16) < 4, turns, 0.0))
    x = noise("x", (1, 2, 5, 32), 1)
    at = np.arange(3, 8)[:, None] * frequencies(spec)
    a, b = x[..., :16], x[..., 16:]
    expected = np.concatenate([a * np.cos(at) - b * np.sin(at), b * np.cos(at) + a * np.sin(at)], -1)
    close(Rope(spec).counting(3, 8)(mx.array(x)), expected)
    close(Rope(spec).at(mx.arange(3, 8)[None])(mx.array(x)), expected)


def test_columns_turn_the_first_half_of_a_head_and_rows_the_second() -> None:
    x, rows, columns = noise("x", (6, 2, 16), 1), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
    turns = 100.0 ** -(np.arange(0, 8, 2) / 8)
    halves = []
    for part, places in ((x[..., :8], columns), (x[..., 8:], rows)):
        at = (places[:, None] * turns)[:, None]
        a, b = part[..., :4], part[..., 4:]
        halves += [a * np.cos(at) - b * np.sin(at), b * np.cos(at) + a * np.sin(at)]
    turn = AxialRope(100.0, apart=True).turn(rows.astype(np.int32), columns.astype(np.int32), 16)
    close(turn(mx.array(x)), np.concatenate(halves, -1))


def test_a_tower_by_its_definition() -> None:
    """Row by row, as the reference has it; ours takes blocks of 2 x 2."""
    spec = SandwichVitSpec(12, 1, 2, 8, 10, 2, 9, merge=2, clipped=True)
    tower = SandwichVit(spec)
    w, (h, width) = filled(tower), (4, 6)
    patches = np.abs(noise("patches", (h * width, 12), 1)).astype(np.float64)
    rows, columns = np.indices((h, width)).reshape(2, -1)
    x = (2 * patches - 1) @ w["patch.weight"].T + w["columns.weight"][columns] + w["rows.weight"][rows]

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        low, high, least, most = (
            w[f"blocks.0.{name}.{b}"] for b in ("input_min", "input_max", "output_min", "output_max")
        )
        return np.clip(np.clip(x, low, high) @ w[f"blocks.0.{name}.linear.weight"].T, least, most)

    normed = rms(x, w["blocks.0.attn_norm.weight"])
    q, k, v = (linear(f"attn.{n}", normed).reshape(-1, 2, 8) for n in "qkv")
    turn = AxialRope(100.0, apart=True).turn(rows.astype(np.int32), columns.astype(np.int32), 8)
    q, k = (
        np.asarray(turn(mx.array(rms(a, w[f"blocks.0.attn.{n}_norm.weight"]).astype(np.float32))))
        for a, n in ((q, "q"), (k, "k"))
    )
    out = np.einsum("hij,jhd->ihd", softmax(np.einsum("ihd,jhd->hij", q, k)), rms(v)).reshape(len(x), -1)
    x = x + rms(linear("attn.o", out), w["blocks.0.attn_post_norm.weight"])
    normed = rms(x, w["blocks.0.mlp_norm.weight"])
    branch = linear("mlp.down", gelu(linear("mlp.gate", normed)) * linear("mlp.up", normed))
    x = x + rms(branch, w["blocks.0.mlp_post_norm.weight"])
    order = in_blocks(np.arange(h * width).reshape(h, width), 2)
    ours = tower.encode(mx.array(patches[order].astype(np.float32)), [(1, h, width)]).rows
    np.testing.assert_allclose(np.asarray(ours), x[order], rtol=1e-3, atol=1e-4)

    averager = Averager(AveragerSpec(12, 5, merged=4, standard=True))
    u = filled(averager)
    squares = x.reshape(2, 2, 3, 2, 12).mean(axis=(1, 3)).reshape(6, 12) * np.sqrt(12)
    expected = rms((squares - u["bias"]) * u["scale"]) @ u["up.weight"].T
    image = ImageInput(patches, 6, (1, h, width))
    np.testing.assert_allclose(np.asarray(averager(Seen(ours), image).rows), expected, rtol=1e-3, atol=1e-4)


def test_patches_straight_to_rows() -> None:
    module = PatchRows(PatchRowsSpec(12, 8, 6, 5))
    w, patches = filled(module), noise("patches", (10, 12), 1).astype(np.float64)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = norm(norm(patches, "in_norm") @ w["project.weight"].T + w["project.bias"], "norm")
    columns, rows = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 1, 0, 0, 1, 1])
    x = norm(x + w["columns.weight"][columns] + w["rows.weight"][rows], "placed_norm")
    ours = module.encode(mx.array(patches.astype(np.float32)), [(1, 2, 3), (1, 2, 2)])
    close(ours, rms(x) @ w["up.weight"].T)
