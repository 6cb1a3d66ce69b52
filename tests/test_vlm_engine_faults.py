"""What goes wrong with one request touches no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.generate import Request, RequestImage  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.reading import Reading  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from tests.engine_texts import Texts, fail, same, tiny_models  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(tmp_path_factory.mktemp("models"))


def test_an_error_in_one_touches_no_other(folder: Path) -> None:
    """In its image, in its grammar as it is sampled, in its text as it is delivered."""
    texts = Texts(folder / "qwen")
    expected = texts.alone("Hello", max_tokens=30)
    image_token = texts.model.network.image_tokens[0]
    image = RequestImage(("x",), ImageInput(np.zeros((16, 96), np.float32), 4, (1, 4, 4)), lambda: fail("image"))

    class Broken:
        done = False

        def allowed(self, vocab: int) -> Any:
            return fail("grammar")

        def add(self, token: int) -> None:
            pass

    bad = [
        Request([5, *[image_token] * 4, 6], [image], GenerationOptions(max_tokens=5)),
        replace(texts.request("Hello"), grammar=Broken()),
        replace(texts.request("Hello"), grammar=type("Late", (Broken,), {"allowed": late})()),
    ]
    good = [texts.engine.submit(texts.request("Hello", max_tokens=30)) for _ in range(2)]
    broken = [texts.engine.submit(request) for request in bad]
    for ticket, says in zip(broken, ("image", "grammar", "late"), strict=True):
        with pytest.raises(RuntimeError, match=says):
            ticket.whole()
    for ticket in good:
        same([ticket.whole()], [expected])
    texts.engine.close()


def late(self: Any, vocab: int) -> Any:
    self.calls = getattr(self, "calls", 0) + 1
    return None if self.calls < 4 else fail("late")


def test_a_step_that_fails_is_tried_again_with_each_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama")
    cases: list[dict[str, Any]] = [{}, {"temperature": 1.0, "seed": 1, "repetition_penalty": 1.2}, {"logprobs": 1}]
    expected = [texts.alone("Hello", **options) for options in cases]
    step, calls = Network.step, []

    def failing(self: Network, tokens: Any, *rest: Any) -> Any:
        calls.append(tokens.shape[0])
        if tokens.shape[0] > 1 and len(calls) > 12:
            fail("out of memory")
        return step(self, tokens, *rest)

    monkeypatch.setattr(Network, "step", failing)
    same(texts.engine.answers([texts.request("Hello", **options) for options in cases]), expected)
    assert max(calls) > 1
    monkeypatch.setattr(Network, "step", lambda *_: fail("no step"))
    with pytest.raises(RuntimeError, match="no step"):
        texts.engine.answers([texts.request("Hello")])
    monkeypatch.setattr(Network, "step", step)
    same(texts.engine.answers([texts.request("Hello")]), expected[:1])
    texts.engine.close()


def test_prompts_that_fail_in_one_pass_leave_the_engine_running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama", rows=16, together=True)
    requests = [texts.request("word " * n) for n in (4, 5, 6)]
    expected = [texts._alone.submit(request).whole() for request in requests]
    image = RequestImage(("x",), ImageInput(np.zeros((16, 96), np.float32), 4, (1, 4, 4)), lambda: fail("image"))
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(replace(request, images=[image])) for request in requests]
    for ticket in tickets:
        with pytest.raises(Exception, match="image"):
            ticket.whole()
    finish, calls = Reading.finish, []

    def failing(self: Reading, *rest: Any, **how: Any) -> None:
        calls.append(self)
        finish(self, *rest, **how)
        if len(calls) == 2:
            fail("out of memory")

    monkeypatch.setattr(Reading, "finish", failing)
    with texts.engine._worker._changed:
        tickets = [texts.engine.submit(request) for request in requests]
    same([ticket.whole() for ticket in tickets], expected)
    assert len(calls) >= 2
    texts.engine.close()
