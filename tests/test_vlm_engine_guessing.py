"""Guessing ahead changes no answer, and is left alone where it does not help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

from docai.vlm.guess import Guesser  # noqa: E402
from docai.vlm.job import Job  # noqa: E402
from docai.vlm.model import open_model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from tests.engine_texts import Texts, same, tiny_models  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("options", [{}, {"kv_bits": 8}, {"stop": ["e"]}, {"max_tokens": 1}])
def test_guessing_changes_no_answer(folder: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama")
    cases = [("one two three one two three one two", {"max_tokens": 100, **options}), ("Hello", {**options}), ("a", {})]
    expected = [texts.alone(text, **asked) for text, asked in cases]
    widths: list[tuple[int, ...]] = []
    steps = Network.steps
    monkeypatch.setattr(
        Network, "steps", lambda self, tokens, *a: (widths.append(tokens.shape), steps(self, tokens, *a))[1]
    )
    for guess in (1, 6):
        requests = [texts.request(text, guess=guess, **asked) for text, asked in cases]
        same(texts.engine.answers(requests), expected)
        same([texts.engine.submit(request).whole() for request in requests], expected)
    if not options:
        assert {shape[1] for shape in widths} == {1, 2, 7}
        assert {shape[0] for shape in widths} >= {1, 4}
        assert len(widths) < 0.9 * 2 * (100 + sum(len(done.tokens) for done in expected))
    texts.engine.close()


def test_a_steady_engine_guesses_for_each_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a step is depends on what is guessed, so nobody else's guesses may be in it."""
    texts = Texts(folder / "llama", steady=True)
    shapes: list[tuple[int, ...]] = []
    steps = Network.steps
    monkeypatch.setattr(
        Network, "steps", lambda self, tokens, *a: (shapes.append(tokens.shape), steps(self, tokens, *a))[1]
    )
    requests = [texts.request(text, guess=6, max_tokens=50) for text in ("one two one two", "Hello", "a")]
    alone = [texts.engine.submit(request).whole() for request in requests]
    by_itself, shapes[:] = sorted(shapes), []
    same(texts.engine.answers(requests), alone)
    assert sorted(shapes) == by_itself
    assert set(shapes) == {(1, 1), (1, 7)}
    texts.engine.close()


def test_only_greedy_answers_of_caches_that_can_be_cut_are_guessed(folder: Path) -> None:
    texts, sliding = Texts(folder / "llama"), Texts(folder / "sliding")

    def guess(of: Texts, **options: Any) -> int:
        return Job(of.runtime, of.request("Hello", guess=4, **options), "", "", 0.0).guess

    assert guess(texts) == 4
    assert guess(texts, kv_bits=8) == 4
    assert guess(sliding) == 0
    for options in ({"temperature": 1.0}, {"logprobs": 1}, {"repetition_penalty": 1.1}, {"kv_window": 32}):
        assert guess(texts, **options) == 0


def test_one_that_is_cancelled_ends_quietly(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = Texts(folder / "llama")
    stream = texts.engine.submit(texts.request("one two one two", guess=4, max_tokens=400))
    for number, _ in enumerate(stream):
        if number == 3:
            stream.cancel()
    assert stream.whole().finish_reason == "cancelled"
    again = texts.engine.submit(texts.request("one two one two", guess=4))
    same([again.whole()], [texts.alone("one two one two")])
    texts.engine.close()
    assert caplog.text == ""


@pytest.mark.parametrize(("name", "told"), [("llama", 0), ("latent", 0), ("sliding", 1), ("state", 1), ("shared", 1)])
def test_a_model_says_once_that_it_takes_no_guesses(
    folder: Path, name: str, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    model = open_model(str(folder / name), prefix_cache=0)
    for guess in (0, 4, 4):
        model.request([{"role": "user", "content": "Hello"}], [], GenerationOptions(guess=guess))
        assert caplog.text.count("guess is left out") == (told if guess else 0)
    model.engine.close()


def test_what_followed_before_is_guessed() -> None:
    guesser = Guesser([1, 2, 3, 4, 5, 9, 2, 3])
    assert guesser.next(3) == [4, 5, 9]
    guesser.add(7)
    assert guesser.next(3) == []
    for token in (2, 3):
        guesser.add(token)
    assert guesser.next(2) == [7, 2]  # the last time counts
    assert Guesser([5]).next(4) == []


def test_guesses_that_are_never_right_pause() -> None:
    guesser = Guesser([1, 2, 3, 1, 2])
    for right in (0, 0, 1, 0, 0):
        assert guesser.next(1) == [3]
        guesser.heard(right)
    guesser.heard(0)
    assert guesser.next(1) == []
    for _ in range(12):
        guesser.add(1)
        assert guesser.next(1) == []
        guesser.add(2)
    assert guesser.next(1) == [1]
