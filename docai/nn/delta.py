"""Gated DeltaNet (Yang, Kautz & Hatamizadeh 2024, arXiv:2412.06464): attention whose past is a matrix of fixed size.

Each head keeps a matrix S that maps keys to values. A token lets all of it fade, takes out what S has under its key,
as far as beta says, and puts its value there; its query reads the result:

    S <- exp(g) S;  S <- S + k (beta (v - S^T k))^T;  o = S^T q

Many tokens are taken in a chunk at a time (Yang et al. 2024, arXiv:2406.06484). Within a chunk the values that are put
in depend on each other by a triangular system, which is solved for all chunks at once; only S goes from one to the
next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import mlx.core as mx
import mlx.nn as nn

from docai.checkpoint.backend import on_gpu
from docai.nn.activation import ACTIVATIONS, gated
from docai.nn.attention import AttentionSpec, in_heads
from docai.nn.batch import BatchStateCache
from docai.nn.cache import Arrays, LayerCache, StateCache
from docai.nn.linear import joined
from docai.nn.mask import Mask
from docai.nn.norm import rms
from docai.nn.rope import Rotation
from docai.nn.short_conv import convolved, no_rows

_CHUNK = 64  # tokens; the triangular systems are of this size
_AT_ONCE = 512  # tokens whose chunks are made ready together: each takes some 12 kB a head for a moment
_L2_EPS = 1e-6  # of the norm of queries and keys, as in flash-linear-attention


@dataclass(frozen=True, slots=True)
class DeltaSpec(AttentionSpec):
    """One layer. `heads` of values, in groups that share one of `kv_heads` heads of queries and keys; a value has
    `head_dim` numbers, a key `key_dim`. All three are mixed over `kernel` tokens before, and activated.

    Raises ValueError for numbers that make no layer.
    """

    key_dim: int = 0
    kernel: int = 0
    activation: str = "silu"

    def __post_init__(self) -> None:
        AttentionSpec.__post_init__(self)
        if self.key_dim < 1 or self.kernel < 1:
            raise ValueError(f"keys of {self.key_dim} numbers, mixed over {self.kernel} tokens, make no layer")

    @classmethod
    def of(
        cls, heads: int, key_heads: int, *, value_dim: int, key_dim: int, kernel: int, activation: str = "silu"
    ) -> DeltaSpec:
        return cls(heads, key_heads, value_dim, None, key_dim=key_dim, kernel=kernel, activation=activation)

    @property
    def widths(self) -> tuple[int, int, int]:
        """Numbers of a token's queries, keys and values."""
        keys = self.kv_heads * self.key_dim
        return keys, keys, self.heads * self.head_dim

    @property
    def kept_heads(self) -> int:
        return 0

    @property
    def state_size(self) -> int:
        return self.heads * self.key_dim * self.head_dim + (self.kernel - 1) * sum(self.widths)

    @property
    def working_size(self) -> int:
        return 8 * self.heads * (self.key_dim + self.head_dim)  # as measured for heads of 128 numbers


class DeltaNet(nn.Module):
    """Names: qkv, z, b, a (joined: inputs), weight (channels, kernel), log_rate, step_bias (heads), norm, o."""

    def __init__(self, dims: int, spec: DeltaSpec, norm_eps: float) -> None:
        super().__init__()
        width = sum(spec.widths)
        self.qkv = nn.Linear(dims, width, bias=False)
        self.z = nn.Linear(dims, spec.widths[2], bias=False)
        self.b = nn.Linear(dims, spec.heads, bias=False)
        self.a = nn.Linear(dims, spec.heads, bias=False)
        self.weight = mx.zeros((width, spec.kernel))
        self.log_rate = mx.zeros((spec.heads,))
        self.step_bias = mx.zeros((spec.heads,))
        self.norm = nn.RMSNorm(spec.head_dim, eps=norm_eps)
        self.o = nn.Linear(spec.widths[2], dims, bias=False)
        self._spec, self._gated = spec, gated("silu")
        self._step = stepping(spec) if on_gpu() else partial(taken, spec)

    def fuse(self) -> None:
        """Join what shares its input; done once, after the weights are loaded."""
        one = joined((self.qkv, self.z, self.b, self.a))
        if one is not None:
            self.inputs = one
            del self.qkv, self.z, self.b, self.a

    def __call__(self, x: mx.array, _rotation: Rotation | None, _mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        assert isinstance(cache, StateCache | BatchStateCache), "these keep a state"
        qkv, z, b, a = self._projected(x)
        take = self._step if x.shape[1] == 1 else partial(taken, self._spec)
        held = cache.held(lambda: self._empty(qkv))
        out, *held = take(qkv, b, a, *held, self.weight, self.log_rate, self.step_bias)
        cache.hold(held, x.shape[1])
        out = self.norm(out.astype(x.dtype))  # (B, L, heads, value)
        return self.o(self._gated(z.reshape(out.shape), out).reshape(z.shape))

    def _projected(self, x: mx.array) -> list[mx.array]:
        if "inputs" not in self:
            return [layer(x) for layer in (self.qkv, self.z, self.b, self.a)]
        channels, values = self.weight.shape[0], self._spec.widths[2]
        borders = [channels, channels + values, channels + values + self._spec.heads]
        return [*mx.split(self.inputs(x), borders, axis=-1)]

    def _empty(self, qkv: mx.array) -> Arrays:
        """What is known before the first token: rows (B, 1, kernel - 1, channels) and S (B, heads, key, value)."""
        spec = self._spec
        state = mx.zeros((qkv.shape[0], spec.heads, spec.key_dim, spec.head_dim), mx.float32)
        return [no_rows(qkv, self.weight), state]


def taken(
    spec: DeltaSpec,
    qkv: mx.array,
    b: mx.array,
    a: mx.array,
    rows: mx.array,
    state: mx.array,
    weight: mx.array,
    log_rate: mx.array,
    step_bias: mx.array,
) -> tuple[mx.array, mx.array, mx.array]:
    """What tokens read of a state (B, L, heads, value), and the rows and the state behind them.

    qkv (B, L, channels), b and a (B, L, heads); rows and state as in `DeltaNet._empty`.
    """
    mixed, rows = convolved(rows, qkv, weight)
    q, k, v = _heads(spec, ACTIVATIONS[spec.activation](mixed))
    fade = -mx.exp(log_rate.astype(mx.float32)) * nn.softplus(a.astype(mx.float32) + step_bias)
    beta = mx.sigmoid(b.astype(mx.float32))
    out, state = delta_rule(q, k, v, fade.swapaxes(1, 2), beta.swapaxes(1, 2), state)
    return out.transpose(0, 2, 1, 3), rows, state


@cache
def stepping(spec: DeltaSpec) -> Callable[..., tuple[mx.array, mx.array, mx.array]]:
    """`taken` for one token, where all that is not a product of matrices becomes a few kernels.

    For GPUs, whose time goes into starting kernels; a CPU would gain nothing, and translate each of them first.
    """
    return mx.compile(partial(taken, spec))


def _heads(spec: DeltaSpec, x: mx.array) -> list[mx.array]:
    """(B, L, channels) -> queries, keys and values in heads, (B, heads, L, n), in float32; keys are of length 1."""
    keys, _, _ = spec.widths
    parts = mx.split(x.astype(mx.float32), [keys, 2 * keys], axis=-1)
    counts = (spec.kv_heads, spec.kv_heads, spec.heads)
    q, k, v = (in_heads(part, part.shape[-1] // count) for part, count in zip(parts, counts, strict=True))
    q, k = (mx.repeat(_unit(part), spec.heads // spec.kv_heads, axis=1) for part in (q, k))
    return [q * spec.key_dim**-0.5, k, v]


def _unit(x: mx.array) -> mx.array:
    """x / sqrt(sum x^2 + eps), along the last axis."""
    size = x.shape[-1]
    return rms(x, _L2_EPS / size) * size**-0.5


def delta_rule(
    q: mx.array, k: mx.array, v: mx.array, fade: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, mx.array]:
    """What the queries of L tokens read, (B, heads, L, value), and the state behind them.

    q, k (B, heads, L, key), v (B, heads, L, value); fade (at most 0: a logarithm) and beta (B, heads, L); state
    (B, heads, key, value). All in float32.
    """
    if q.shape[2] == 1:
        return _step(q, k, v, fade, beta, state)
    parts = []
    for at in range(0, q.shape[2], _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        taken_in = q[:, :, some], k[:, :, some], v[:, :, some], fade[:, :, some], beta[:, :, some]
        out, state = _chunks(*taken_in, state)
        parts.append(out)
    return mx.concatenate(parts, axis=2), state


def _step(
    q: mx.array, k: mx.array, v: mx.array, fade: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, mx.array]:
    """One token: the state is read once, for key and query at the same time, and written once."""
    left = mx.exp(fade)[..., None]  # (B, heads, 1, 1)
    read = (mx.concatenate([k, q], axis=2) @ state) * left  # (B, heads, 2, value)
    put = (v - read[:, :, :1]) * beta[..., None]  # (B, heads, 1, value)
    out = read[:, :, 1:] + (q * k).sum(axis=-1, keepdims=True) * put
    return out, state * left + k.swapaxes(2, 3) * put


def _chunks(
    q: mx.array, k: mx.array, v: mx.array, fade: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, mx.array]:
    """Many tokens. Those that fill up the last chunk have no key and do not fade: they leave the state as it is."""
    length = q.shape[2]
    size = min(_CHUNK, 1 << (length - 1).bit_length())
    q, k, v, fade, beta = (_cut(a, size) for a in (q, k, v, fade[..., None], beta[..., None]))
    faded = mx.cumsum(fade, axis=3)  # (B, heads, N, C, 1): since the chunk began
    seen = mx.tril(mx.ones((size, size), mx.bool_))
    between = mx.exp(mx.where(seen, faded - faded.swapaxes(3, 4), -mx.inf))  # (B, heads, N, C, C)
    keys = k.swapaxes(3, 4)
    system = mx.tril(beta * (k @ keys) * between, -1)
    since = mx.exp(faded)
    solved = unit_lower_inverse(system) @ mx.concatenate([v * beta, k * (beta * since)], axis=-1)
    put, known = mx.split(solved, [v.shape[-1]], axis=-1)
    asked = mx.concatenate([known, q * since], axis=3)  # (B, heads, N, 2C, key): all that is asked of the state
    behind = (k * mx.exp(faded[..., -1:, :] - faded)).swapaxes(3, 4)
    left = since[..., -1:, :]
    puts, reads = [], []
    for n in range(q.shape[2]):
        answered = asked[:, :, n] @ state
        puts.append(put[:, :, n] - answered[:, :, :size])
        reads.append(answered[:, :, size:])
        state = state * left[:, :, n] + behind[:, :, n] @ puts[-1]
    out = mx.stack(reads, axis=2) + ((q @ keys) * between) @ mx.stack(puts, axis=2)
    return out.flatten(2, 3)[:, :, :length], state


def _cut(a: mx.array, size: int) -> mx.array:
    """(B, heads, L, n) -> (B, heads, N, size, n), filled up with zeros."""
    missing = -a.shape[2] % size
    a = mx.pad(a, [(0, 0), (0, 0), (0, missing), (0, 0)]) if missing else a
    return a.reshape(*a.shape[:2], -1, size, a.shape[3])


def unit_lower_inverse(a: mx.array) -> mx.array:
    """The inverse of I + a for a strictly lower triangular a (..., n, n), n a power of 2.

    Blocks on the diagonal are inverted by twos: that of [[p, 0], [c, s]] is [[p', 0], [-s' c p', s']]. Unlike powers of
    a, no number on the way is larger than those of the inverse.
    """
    n, size = a.shape[-1], 1
    inverse = mx.ones((*a.shape[:-2], n, 1, 1), a.dtype)  # of the blocks on the diagonal, (..., n / size, size, size)
    while size < n:
        pairs = a.reshape(*a.shape[:-2], n // (2 * size), 2 * size, n // (2 * size), 2 * size)
        corners = mx.moveaxis(mx.diagonal(pairs[..., size:, :, :size], axis1=-4, axis2=-2), -1, -3)
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        below = mx.concatenate([-(second @ corners @ first), second], axis=-1)
        inverse = mx.concatenate([mx.pad(first, [(0, 0)] * (a.ndim) + [(0, size)]), below], axis=-2)
        size *= 2
    return inverse[..., 0, :, :]
