"""Short prompts read in one pass. Regions of pages are many and small, and a pass over one of them is mostly launches.

The prompts stand side by side from their first token on, and what the shorter ones lack is filled up behind them, where
none of their tokens looks. Backends make a plan for each shape of arrays that they meet, which takes longer than most
passes, so lengths are rounded up, and prompts are as many as a power of two. Numbers may differ in their last bits from
those of a prompt that is read by itself, so this is not done where blocks of prompts are kept or answers have to be the
same in any company.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from docai.vlm.job import Job
from docai.vlm.network import Network, Prompt
from docai.vlm.reading import Reading, cache_kind, new_caches

_STEP = 64  # tokens: lengths are multiples of it


def readable_together(network: Network, first: Job, others: Sequence[Job], most: int) -> list[Job]:
    """The first job and those of the others with which it fits into a pass of `most` tokens, nearest lengths first.

    None where it cannot be read so at all.
    """
    if not _short(network, first, most):
        return []
    group = [first]
    alike = [job for job in others if _short(network, job, most) and _kind(network, job) == _kind(network, first)]
    for job in sorted(alike, key=lambda job: abs(job.left - first.left)):
        longest = max(member.left for member in (*group, job))
        if _rounded(longest) * (len(group) + 1) <= most:
            group.append(job)
    return group[: 1 << (len(group).bit_length() - 1)]


def _rounded(length: int) -> int:
    return -(-length // _STEP) * _STEP


def _short(network: Network, job: Job, most: int) -> bool:
    layers = [layer.attention for layer in network.spec.decoder.layers]
    if any(layer.state_size for layer in layers):  # it would take in what fills up
        return False
    windows = [*(layer.window for layer in layers), job.request.options.kv_window]
    fits = _rounded(job.left) <= min([most, *(window for window in windows if window is not None)])
    return fits and job.request.options.prefill_step is None and network.spec.image_mask != "prompt" and job.untouched


def _kind(network: Network, job: Job) -> object:
    """What has to be equal. Where places on a plane turn the heads, text alone has none to stand beside."""
    placed = bool(job.request.images) if network.spec.image_mask else None
    return cache_kind(network, job.request), placed


def read_together(network: Network, readings: Sequence[Reading], *, wait: bool) -> None:
    """Read whole prompts, none of which has been begun to be read."""
    prompts = [reading.whole for reading in readings]
    lengths = [len(prompt) for prompt in prompts]
    longest = _rounded(max(lengths))
    caches = new_caches(network, readings[0].options)
    hidden = network.prefill(_side_by_side(prompts, longest), caches)  # (B, L, D)
    ends = hidden[mx.arange(len(readings)), mx.array(np.asarray(lengths) - 1)]
    logits = network.decoder.logits(ends)  # (B, vocabulary)
    for row, (reading, length) in enumerate(zip(readings, lengths, strict=True)):
        for cache, shared in zip(reading.caches, caches, strict=True):
            keys, values = ([a[row : row + 1, :, :length] for a in part] for part in shared.last(longest))
            cache.fill(keys, values, length)
        reading.finish(logits[row : row + 1], wait=wait)


def _side_by_side(prompts: Sequence[Prompt], longest: int) -> Prompt:
    """Prompts as one of several rows, filled up to this length."""
    placed = any(prompt.positions is not None for prompt in prompts)
    levels = range(max(len(prompt.deepstack) for prompt in prompts))
    return Prompt(
        mx.concatenate([_filled(prompt.embeddings, longest, 1) for prompt in prompts]),
        mx.concatenate([_filled(prompt.tokens, longest, 1) for prompt in prompts]),
        mx.concatenate([_positions(p, prompts, longest) for p in prompts], axis=1) if placed else None,
        0,
        _blocks(prompts, longest),
        deepstack=tuple(
            mx.concatenate([_filled(_level(prompt, level), longest, 1) for prompt in prompts]) for level in levels
        ),
        end=max(prompt.end for prompt in prompts),
    )


def _blocks(prompts: Sequence[Prompt], longest: int) -> mx.array | None:
    """(B, L) tokens that see each other; what fills up is in no block."""
    if all(prompt.blocks is None for prompt in prompts):
        return None
    own = (mx.zeros((1, len(prompt)), mx.int32) if prompt.blocks is None else prompt.blocks for prompt in prompts)
    return mx.concatenate([_filled(blocks, longest, 1) for blocks in own])


def _level(prompt: Prompt, level: int) -> mx.array:
    return prompt.deepstack[level] if prompt.deepstack else mx.zeros_like(prompt.embeddings)


def _positions(prompt: Prompt, prompts: Sequence[Prompt], longest: int) -> mx.array:
    """(axes, 1, L); where a prompt has none of its own, its tokens count up along all axes."""
    own = prompt.positions
    if own is None:
        axes = next(len(p.positions) for p in prompts if p.positions is not None)
        return mx.broadcast_to(mx.arange(longest), (axes, 1, longest))
    return _filled(own, longest, 2)


def _filled(a: mx.array, length: int, axis: int) -> mx.array:
    """Zeros behind, up to `length`."""
    missing = length - a.shape[axis]
    return mx.pad(a, [(0, missing if at == axis else 0) for at in range(a.ndim)]) if missing else a
