"""How the engine reads prompts: whose turn it is, what is read or encoded in one pass."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.generate import Request, RequestImage  # noqa: E402
from docai.vlm.model import as_messages  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from tests.engine_texts import Texts, fail, same, tiny_models  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(tmp_path_factory.mktemp("models"))


def test_a_short_prompt_need_not_wait_for_a_long_one(folder: Path) -> None:
    texts = Texts(folder / "llama")
    requests, now = [texts.request("word " * count, max_tokens=1) for count in (700, 690, 1)], time.perf_counter()
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(request, started=now) for request in requests]
    long, other, short = (ticket.whole().timings.first_token_s for ticket in tickets)
    assert short < long < other
    texts.engine.close()


def test_short_prompts_are_read_in_one_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one kind, up to a step's worth of tokens; one that fails fails alone."""
    texts = Texts(folder / "llama", rows=16, together=True)
    prefill, passes = Network.prefill, []

    def watched(self: Network, prompt: Any, caches: Any, **how: Any) -> Any:
        passes.append(prompt.embeddings.shape[:2])
        return prefill(self, prompt, caches, **how)

    monkeypatch.setattr(Network, "prefill", watched)
    cases: list[tuple[int, dict[str, Any]]] = [(n, {}) for n in (4, 9, 5, 60, 1, 200)] + [(3, {"kv_bits": 8}), (7, {})]
    requests = [texts.request("word " * n, **options) for n, options in cases]
    expected = [texts._alone.submit(request).whole() for request in requests]
    passes.clear()
    image = RequestImage(("x",), ImageInput(np.zeros((16, 96), np.float32), 4, (1, 4, 4)), lambda: fail("image"))
    bad = replace(requests[0], images=[image])
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(request) for request in [*requests[:2], bad, *requests[2:]]]
    with pytest.raises(Exception, match="image"):
        tickets.pop(2).whole()
    same([ticket.whole() for ticket in tickets], expected)
    assert max(rows for rows, _ in passes) >= 3  # four were to be read, one of which failed
    assert all(rows * length <= 512 or rows == 1 for rows, length in passes)
    assert len(passes) < len(requests)
    texts.engine.close()


@pytest.mark.parametrize("steady", [False, True])
def test_images_of_one_shape_are_encoded_together(folder: Path, steady: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "qwen", rows=8, steady=steady)
    state = np.random.RandomState(2)
    pictures = [state.randint(0, 256, (h, 64, 3)).astype(np.uint8) for h in (48, 48, 64, 48, 64)]
    asked = [[pictures[0], pictures[2]], [pictures[1]], [pictures[3]], [pictures[4]], [pictures[3]], []]
    model = texts.model

    def requests() -> list[Request]:
        given = GenerationOptions(max_tokens=8)
        return [model.request(as_messages("What?", len(seen)), seen, given) for seen in asked]

    expected = [model.engine.submit(request).whole() for request in requests()]
    model.clear()
    encode, passes = Network.encode, []
    monkeypatch.setattr(
        Network, "encode", lambda self, images, **how: (passes.append(len(images)), encode(self, images, **how))[1]
    )
    prepared = requests()
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))  # they come in while something runs
    next(running)
    with texts.engine._worker._changed:  # all at once
        tickets = [texts.engine.submit(request) for request in prepared]
    same([ticket.whole() for ticket in tickets], expected)
    assert sorted(passes) == ([1] * 5 if steady else [2, 3])
    cached = requests()
    assert all(image.cached for request in cached for image in request.images)
    running.close()
    texts.engine.close()


def test_a_long_prompt_does_not_hold_up_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(folder / "llama")
    running = texts.engine.submit(texts.request("Hello", max_tokens=3000))
    next(running)
    events: list[str] = []
    step, prefill = Network.step, Network.prefill
    monkeypatch.setattr(Network, "step", lambda *a: (events.append("step"), step(*a))[1])
    monkeypatch.setattr(Network, "prefill", lambda *a, **k: (events.append("chunk"), prefill(*a, **k))[1])
    texts.engine.submit(texts.request("word " * 700, max_tokens=2)).whole()
    running.close()
    chunks = [n for n, event in enumerate(events) if event == "chunk"]
    assert len(chunks) > 3
    assert all("step" in events[a:b] for a, b in itertools.pairwise(chunks))
    texts.engine.close()
