"""Choosing the next token. Everything stays on the device, so the next step is queued before the host reads a token.

Order, as in transformers' `_get_logits_processor`: penalties, bias, bans, the allowed tokens of a grammar; then
temperature, top-k, top-p, min-p. All arithmetic is in float32.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import mlx.core as mx

from docai.vlm.request import Sampling


class Rule(Protocol):
    """Changes the scores of a step (1, V) by what the request has seen so far."""

    def __call__(self, logits: mx.array) -> mx.array: ...

    def note(self, token: mx.array) -> None:
        """Hear of the token (1,) that was chosen."""
        ...


class Sampler:
    """Chooses the tokens of one request. The same seed gives the same tokens, whatever else the process does."""

    def __init__(self, options: Sampling, prompt: Sequence[int], most: int) -> None:
        """`prompt`: the ids before the answer; `most`: the number of tokens that the answer can have."""
        self._options, self._prompt, self._most = options, prompt, most
        self._rules: list[Rule] | None = None  # made with the first scores, which tell the size of the vocabulary
        self._step = 0
        self.greedy = options.temperature == 0 or options.top_k == 1
        self.ruled = bool(ruling(options))  # scores depend on what the request has seen: it is drawn for by itself
        self.seed = None if self.greedy else secrets.randbits(63) if options.seed is None else options.seed

    @property
    def options(self) -> Sampling:
        return self._options

    def __call__(self, logits: mx.array, allowed: mx.array | None = None) -> mx.array:
        """The next token (1,), for scores (1, V); `allowed` (V,) is True for the tokens that may follow."""
        if self._rules is None:
            self._rules = rules_for(self._options, self._prompt, self._most, logits.shape[-1])
        if self.greedy and not self._rules and allowed is None:
            return mx.argmax(logits, axis=-1)
        logits = logits.astype(mx.float32)
        for rule in self._rules:
            logits = rule(logits)
        if allowed is not None:
            logits = mx.where(allowed, logits, -mx.inf)
        token = mx.argmax(logits, axis=-1) if self.seed is None else self._drawn(logits, self.seed)
        for rule in self._rules:
            rule.note(token)
        self._step += 1
        return token

    def _drawn(self, logits: mx.array, seed: int) -> mx.array:
        options = self._options
        return draw(
            logits / options.temperature,
            mx.array(step_key(seed, self._step), dtype=mx.uint32),
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
        )

    def next_key(self) -> tuple[int, int] | None:
        """The key of the next token, which somebody else draws; None for greedy decoding."""
        key = None if self.seed is None else step_key(self.seed, self._step)
        self._step += 1
        return key

    def replay(self, tokens: Sequence[int], vocab: int) -> None:
        """Begin again behind these tokens of the answer, for scores of `vocab` tokens."""
        self._rules = rules_for(self._options, self._prompt, self._most, vocab)
        self._step = 0
        for token in tokens:
            self.force(token)

    def force(self, token: int) -> mx.array:
        """Take this token, whatever its score."""
        chosen = mx.array([token], dtype=mx.uint32)
        for rule in self._rules or ():
            rule.note(chosen)
        self._step += 1
        return chosen


def step_key(seed: int, step: int) -> tuple[int, int]:
    """The random key of one step of one request. A hash of both on the host spares splitting keys on the device."""
    digest = blake2b(f"{seed}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")


def draw(
    logits: mx.array,
    key: mx.array,
    *,
    top_k: int = 0,
    top_p: float | mx.array = 1.0,
    min_p: float | mx.array = 0.0,
) -> mx.array:
    """A token (B,) at random, by scores (B, V) that have their temperature already; `top_p` and `min_p` may be (B, 1).

    One sort serves both top-k and top-p, where either is asked for. `key` is (2,), or (B, 2): what a row draws then
    depends on its own key only. The noise belongs to a token, not to its rank, so a row draws the same token whether or
    not others of its batch have theirs ranked.
    """
    vocab = logits.shape[-1]
    noise = _gumbel(logits.shape, key)
    if not 0 < top_k < vocab and not isinstance(top_p, mx.array) and top_p >= 1:
        return mx.argmax(above(logits, min_p) + noise, axis=-1)
    order = mx.argsort(-logits, axis=-1)[..., : top_k or vocab]  # (B, K), likeliest first
    ranked = nucleus(mx.take_along_axis(logits, order, axis=-1), top_p)
    place = mx.argmax(above(ranked, min_p) + mx.take_along_axis(noise, order, axis=-1), axis=-1)
    return mx.take_along_axis(order, place[..., None], axis=-1)[..., 0]


def _gumbel(shape: tuple[int, ...], key: mx.array) -> mx.array:
    """Noise (B, V) for the Gumbel-max trick, by which it does not matter how many rows are drawn for at once.

    (mx.random.categorical draws for a single row in another way than for several.)
    """
    if key.ndim == 1:
        return mx.random.gumbel(shape, key=key)
    return mx.vmap(lambda own: mx.random.gumbel(shape[1:], key=own))(key)


def nucleus(ranked: mx.array, top_p: float | mx.array) -> mx.array:
    """Of scores that fall along the last axis, the fewest that together are `top_p` probable; the rest is -inf.

    A token stays where those before it are less probable than `top_p`, so the first always does (arXiv:1904.09751).
    With 1 all stay, however the sum is rounded.
    """
    if not isinstance(top_p, mx.array) and top_p >= 1:
        return ranked
    probabilities = mx.softmax(ranked, axis=-1)
    before = mx.cumsum(probabilities, axis=-1, inclusive=False)
    first = mx.arange(ranked.shape[-1]) == 0
    return mx.where(first | (before < top_p) | (mx.array(top_p) >= 1), ranked, -mx.inf)


def above(logits: mx.array, min_p: float | mx.array) -> mx.array:
    """Scores of tokens at least `min_p` times as probable as the likeliest; the rest is -inf (arXiv:2407.01082)."""
    if not isinstance(min_p, mx.array) and min_p <= 0:
        return logits
    floor = logits.max(axis=-1, keepdims=True) + mx.log(mx.array(min_p))
    return mx.where(logits >= floor, logits, -mx.inf)


def ruling(options: Sampling) -> list[str]:
    """The names of the options that ask for rules."""
    off = {
        "repetition_penalty": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "logit_bias": None,
        "no_repeat_ngram": 0,
    }
    return [name for name, value in off.items() if getattr(options, name) != value]


def rules_for(options: Sampling, prompt: Sequence[int], most: int, vocab: int) -> list[Rule]:
    """The rules that these options ask for, in order."""
    rules: list[Rule] = []
    if options.repetition_penalty != 1:
        rules.append(Repetition(options.repetition_penalty, prompt, vocab))
    if options.presence_penalty or options.frequency_penalty:
        rules.append(Occurrence(options.presence_penalty, options.frequency_penalty, vocab))
    if options.bias:
        rules.append(Bias(options.bias, vocab))
    if options.no_repeat_ngram:
        rules.append(NgramBan(options.no_repeat_ngram, prompt, most, vocab))
    return rules


class Repetition:
    """Scores of tokens in the prompt or the answer, divided by the penalty; negative ones multiplied.

    As in transformers, after arXiv:1909.05858.
    """

    def __init__(self, penalty: float, prompt: Sequence[int], vocab: int) -> None:
        self._penalty = penalty
        self._seen = mx.zeros((vocab,), dtype=mx.bool_)
        if known := [token for token in prompt if 0 <= token < vocab]:  # image tokens may lie outside
            self.note(mx.array(known))

    def __call__(self, logits: mx.array) -> mx.array:
        lower = mx.where(logits < 0, logits * self._penalty, logits / self._penalty)
        return mx.where(self._seen, lower, logits)

    def note(self, token: mx.array) -> None:
        self._seen[token] = True


class Occurrence:
    """Presence and frequency penalties over the tokens of the answer, as OpenAI's interface has them."""

    def __init__(self, presence: float, frequency: float, vocab: int) -> None:
        self._presence, self._frequency = presence, frequency
        self._counts = mx.zeros((vocab,))

    def __call__(self, logits: mx.array) -> mx.array:
        return logits - self._frequency * self._counts - self._presence * (self._counts > 0)

    def note(self, token: mx.array) -> None:
        self._counts = self._counts.at[token].add(1.0)


class Bias:
    """A fixed number added to some tokens."""

    def __init__(self, bias: dict[int, float], vocab: int) -> None:
        known = {token: added for token, added in bias.items() if 0 <= token < vocab}
        self._added = mx.zeros((vocab,))
        if known:
            self._added[mx.array(list(known))] = mx.array(list(known.values()))

    def __call__(self, logits: mx.array) -> mx.array:
        return logits + self._added

    def note(self, token: mx.array) -> None:
        """A bias does not change."""


class NgramBan:
    """No `n` tokens in a row may come again; prompt and answer count as one text, as in transformers.

    The text is an array of fixed size, -1 where nothing stands yet: no step has shapes of its own.
    """

    def __init__(self, n: int, prompt: Sequence[int], most: int, vocab: int) -> None:
        self._n, self._vocab, self._length = n, vocab, len(prompt)
        self._text = mx.concatenate([mx.array(list(prompt), dtype=mx.int32), mx.full((most + n,), -1, dtype=mx.int32)])

    def __call__(self, logits: mx.array) -> mx.array:
        n, windows = self._n, self._text.shape[0] - self._n + 1
        same = mx.arange(windows) < self._length - n + 1  # of the earlier windows of n tokens, those that are whole
        for place in range(n - 1):
            last = self._text[self._length - (n - 1) + place] if self._length >= n - 1 else mx.array(-1)
            same = same & (self._text[place : place + windows] == last)
        banned = mx.zeros((self._vocab + 1,), dtype=mx.bool_)  # one place more, for the windows that differ
        same = same & (self._text[n - 1 :] >= 0) & (self._text[n - 1 :] < self._vocab)  # image tokens may lie outside
        banned[mx.where(same, self._text[n - 1 :], self._vocab)] = True
        return mx.where(banned[: self._vocab], -mx.inf, logits)

    def note(self, token: mx.array) -> None:
        self._text[self._length : self._length + 1] = token.astype(mx.int32)
        self._length += 1
