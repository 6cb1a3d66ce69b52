"""Choosing tokens: filters, penalties and bans against plain NumPy; seeds; log probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.errors import UsageError  # noqa: E402
from docai.vlm.logprobs import Logprobs  # noqa: E402
from docai.vlm.request import Sampling  # noqa: E402
from docai.vlm.sample import Sampler, above, draw, nucleus, rules_for, step_key  # noqa: E402

VOCAB = 40


def scores(seed: int = 3, rows: int = 1, spread: float = 3.0) -> np.ndarray:
    return np.random.RandomState(seed).randn(rows, VOCAB).astype(np.float32) * spread


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def drawn(logits: np.ndarray, times: int = 3000, **filters: float) -> np.ndarray:
    """How often each token comes, as a part of all draws."""
    rows = mx.broadcast_to(mx.array(logits), (times, logits.shape[-1]))
    tokens = np.array(draw(rows, mx.random.key(1), **filters))
    return np.bincount(tokens, minlength=logits.shape[-1]) / times


def ruled(logits: np.ndarray, prompt: Sequence[int], answer: Sequence[int], **options: object) -> np.ndarray:
    """Scores after the rules of `options`, which have seen a prompt and an answer."""
    for_step = mx.array(logits)
    rules = rules_for(Sampling(**options), prompt, 20, logits.shape[-1])
    for token in answer:
        for rule in rules:
            rule.note(mx.array([token]))
    for rule in rules:
        for_step = rule(for_step)
    return np.array(for_step)


def test_greedy_takes_the_likeliest() -> None:
    logits = scores()
    assert Sampler(Sampling(), [], 5)(mx.array(logits)).tolist() == [int(logits.argmax())]
    assert Sampler(Sampling(temperature=2.0, top_k=1), [], 5)(mx.array(logits)).tolist() == [int(logits.argmax())]


def test_draws_follow_the_probabilities() -> None:
    logits = scores()
    assert np.abs(drawn(logits) - softmax(logits)[0]).max() < 0.03


def test_top_k_leaves_k_tokens() -> None:
    logits = scores()
    often = drawn(logits, top_k=5)
    kept = np.argsort(-logits[0])[:5]
    assert set(np.flatnonzero(often)) <= set(kept)
    assert np.abs(often[kept] - softmax(logits[:, kept])[0]).max() < 0.03


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.7, 0.95])
def test_top_p_leaves_the_fewest_that_reach_it(top_p: float) -> None:
    logits = np.sort(scores())[:, ::-1].copy()
    kept = np.isfinite(np.array(nucleus(mx.array(logits), top_p)))[0]
    mass = np.cumsum(softmax(logits)[0])
    fewest = max(1, int(np.searchsorted(mass, top_p)) + 1) if top_p else 1
    assert kept.sum() == fewest
    assert kept[:fewest].all()


def test_top_p_counts_within_top_k() -> None:
    logits = np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32))
    assert set(np.flatnonzero(drawn(logits, top_k=2, top_p=0.5))) == {0}  # 0.4 of the 0.7 that are left
    assert set(np.flatnonzero(drawn(logits, top_p=0.5))) == {0, 1}


def test_min_p_is_measured_by_the_likeliest() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.06, 0.04, 0.1]], np.float32))
    assert np.isfinite(np.array(above(mx.array(logits), 0.15)))[0].tolist() == [True, True, False, False, True]


def test_a_seed_repeats_and_needs_no_global_state() -> None:
    logits = mx.array(scores())

    def answer(seed: int, disturbed: bool) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.5, seed=seed), [], 50)
        out = []
        for _ in range(30):
            if disturbed:
                mx.random.uniform(shape=(3,))
            out += sampler(logits).tolist()
        return out

    assert answer(7, False) == answer(7, True)
    assert answer(7, False) != answer(8, False)


def test_without_a_seed_one_is_made_and_told() -> None:
    first, second = (Sampler(Sampling(temperature=1.0), [], 5).seed for _ in range(2))
    assert first is not None
    assert first != second
    assert Sampler(Sampling(), [], 5).seed is None


def test_steps_have_keys_of_their_own() -> None:
    keys = {step_key(seed, step) for seed in (0, 1, 2**63 - 1) for step in range(50)}
    assert len(keys) == 150


def test_repetition_penalty_over_prompt_and_answer() -> None:
    logits = scores()
    seen = [1, 2, 3, 7]
    expected = logits.copy()
    expected[0, seen] = np.where(logits[0, seen] < 0, logits[0, seen] * 1.3, logits[0, seen] / 1.3)
    assert np.allclose(ruled(logits, [1, 2, 2], [3, 7, 7], repetition_penalty=1.3), expected)


def test_presence_and_frequency_count_the_answer_only() -> None:
    logits = scores()
    expected = logits.copy()
    expected[0, 3] -= 0.5 + 0.25
    expected[0, 7] -= 0.5 + 3 * 0.25
    got = ruled(logits, [1, 2], [7, 3, 7, 7], presence_penalty=0.5, frequency_penalty=0.25)
    assert np.allclose(got, expected)


def test_bias_is_added() -> None:
    logits = scores()
    got = ruled(logits, [], [], logit_bias={3: 2.5, 9: -100, VOCAB + 5: 1})
    assert np.allclose(got[0, 3], logits[0, 3] + 2.5)
    assert got[0, 9] < -90
    assert np.array_equal(ruled(logits, [], [], logit_bias="3:2.5,9:-100"), got)


def banned_by_hand(n: int, text: Sequence[int]) -> set[int]:
    """transformers' definition: what follows earlier occurrences of the last n - 1 tokens."""
    last = tuple(text[len(text) - n + 1 :]) if n > 1 else ()
    if len(text) + 1 < n:
        return set()
    return {text[at + n - 1] for at in range(len(text) - n + 1) if tuple(text[at : at + n - 1]) == last}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_ngram_ban(n: int) -> None:
    random = np.random.RandomState(n)
    for _ in range(20):
        text = random.randint(0, 3, random.randint(0, 14)).tolist()
        cut = random.randint(0, len(text) + 1)
        got = ruled(scores(), text[:cut], text[cut:], no_repeat_ngram=n)
        assert set(np.flatnonzero(np.isinf(got[0]))) == banned_by_hand(n, text), (n, text)


def test_only_allowed_tokens_are_chosen() -> None:
    allowed = mx.arange(VOCAB) == 11
    for temperature in (0.0, 1.0):
        sampler = Sampler(Sampling(temperature=temperature, seed=1), [], 5)
        assert sampler(mx.array(scores()), allowed).tolist() == [11]


def test_a_forced_token_counts() -> None:
    sampler = Sampler(Sampling(presence_penalty=100.0), [], 5)
    logits = np.zeros((1, VOCAB), np.float32)
    logits[0, 4], logits[0, 5] = 2, 1
    assert sampler(mx.array(logits)).tolist() == [4]
    assert sampler.force(5).tolist() == [5]
    assert sampler(mx.array(logits)).tolist()[0] not in (4, 5)


def test_half_precision_is_summed_in_full() -> None:
    logits = mx.array(scores()).astype(mx.bfloat16)
    exact = np.log(softmax(np.array(logits.astype(mx.float32))))[0]
    told = Logprobs(logits, mx.array([3]), 4).told(0, 3, 4, str)
    assert (told.token, told.text) == (3, "3")
    assert np.allclose(told.logprob, exact[3], atol=1e-5)
    assert np.allclose([value for _, _, value in told.top], np.sort(exact)[::-1][:4], atol=1e-5)
    assert np.allclose([exact[token] for token, _, _ in told.top], np.sort(exact)[::-1][:4], atol=1e-5)


def test_each_row_is_told_what_it_asked_for() -> None:
    logits = mx.array(scores(rows=3))
    step = Logprobs(logits, mx.array([3, 7, 9]), 5)
    for row, (token, top) in enumerate([(3, 5), (7, 0), (9, 2)]):
        told, alone = step.told(row, token, top, str), Logprobs(logits[row : row + 1], mx.array([token]), 5)
        assert told.logprob == pytest.approx(alone.told(0, token, 5, str).logprob)
        assert [t for t, _, _ in told.top] == [t for t, _, _ in alone.told(0, token, 5, str).top][:top]
    assert Logprobs(logits, mx.array([3, 7, 9]), 0).told(1, 7, 0, str).top == ()


@pytest.mark.parametrize(
    "options", [{"top_p": 1.5}, {"temperature": -1.0}, {"min_p": float("nan")}, {"logit_bias": "a:b"}, {"top_k": -1}]
)
def test_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Sampling(**options)


@pytest.mark.parametrize("names", [(), ("top_p",), ("min_p",), ("top_p", "min_p")])
@pytest.mark.parametrize("top_k", [0, 5])
def test_rows_that_are_drawn_together_get_what_they_would_get_alone(names: tuple[str, ...], top_k: int) -> None:
    each = {"top_p": [0.5, 0.9, 1.0, 0.7], "min_p": [0.0, 0.1, 0.3, 0.0]}
    for step in range(25):
        logits = mx.array(scores(step, rows=4, spread=1.0))
        keys = [step_key(seed, step) for seed in (1, 2, 3, 2**60)]
        arrays = {name: mx.array(each[name])[:, None] for name in names}
        together = draw(logits, mx.array(keys, dtype=mx.uint32), top_k=top_k, **arrays)
        alone = [
            draw(
                logits[n : n + 1],
                mx.array(key, dtype=mx.uint32),
                top_k=top_k,
                **{name: each[name][n] for name in names},
            ).item()
            for n, key in enumerate(keys)
        ]
        assert together.tolist() == alone


def test_a_sampler_that_begins_again_goes_on_as_before() -> None:
    options = Sampling(temperature=1.0, seed=3, repetition_penalty=1.3, no_repeat_ngram=2, frequency_penalty=0.2)
    steps = [mx.array(scores(step)) for step in range(8)]
    first = Sampler(options, [1, 2, 3], 8)
    tokens = [first(step).item() for step in steps]
    again = Sampler(options, [1, 2, 3], 8)
    again(steps[3])  # of no account
    again.replay(tokens[:5], VOCAB)
    assert [again(step).item() for step in steps[5:]] == tokens[5:]
