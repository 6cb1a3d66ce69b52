"""Memory decides who may begin, and stays flat."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

import mlx.nn as nn  # noqa: E402

from docai.checkpoint.backend import total_memory  # noqa: E402
from docai.errors import LimitExceeded  # noqa: E402
from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.admission import number_type  # noqa: E402
from docai.vlm.generate import Request, RequestImage  # noqa: E402
from docai.vlm.job import Job  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.prefix import BlockStore  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from tests.engine_texts import Texts, tiny_models  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("mode", ["affine", "mxfp4"])
def test_what_is_quantized_has_the_numbers_of_the_rest(folder: Path, mode: str) -> None:
    """Scales of some modes are bytes."""
    network = load_network(folder / "llama", dtype="bfloat16")
    assert isinstance(network, Network)
    assert number_type(network) == mx.bfloat16
    nn.quantize(network.decoder, 32, 4, mode=mode, class_predicate=lambda name, _: name == "embed")
    assert "scales" in network.decoder.embed
    assert number_type(network) == mx.bfloat16
    caches = network.caches()
    network.prefill(network.prompt([1, 2, 3]), caches)
    assert {array.dtype for cache in caches for array in cache.state} == {mx.bfloat16}


def test_memory_decides_who_may_begin(folder: Path) -> None:
    texts = Texts(folder / "llama", rows=8)
    budget, request = texts.engine._worker.scheduler.budget, texts.request("Hello", max_tokens=20)
    job = Job(texts.runtime, request, "", "", 0.0)
    assert 0 < budget.limit < total_memory()
    budget.limit = int(1.5 * budget.needed([job]))
    tickets = [texts.engine.submit(request) for _ in range(5)]
    assert len({ticket.whole().tokens for ticket in tickets}) == 1
    with pytest.raises(LimitExceeded, match="are left beside the weights"):
        texts.engine.submit(texts.request("Hello", max_tokens=4000))
    texts.engine.close()


@pytest.mark.parametrize("name", ["llama", "sliding", "latent", "state", "shared"])
def test_caches_take_no_more_than_is_counted(folder: Path, name: str) -> None:
    texts = Texts(folder / name)
    budget = texts.engine._worker.scheduler.budget
    asked: list[dict[str, Any]] = [{}, {"kv_window": 32}]
    if name not in ("sliding", "state"):
        asked += [{"kv_bits": 8}, {"kv_bits": 8, "kv_value_bits": 4}, {"kv_bits": 4, "kv_dense_last": True}]
    for options in asked:
        job = Job(texts.runtime, texts.request("word " * 60, **options), "", "", 0.0)
        reading = job.begin(BlockStore(0))
        while not reading.done:
            reading.advance(wait=True)
        taken = sum(a.nbytes for cache in reading.caches for a in cache.state)
        counted = budget._caches(job, len(job.request.ids))
        assert taken <= counted <= 1.5 * taken, options
    texts.engine.close()


def test_all_places_of_a_steady_batch_count(folder: Path) -> None:
    plain, steady = (Texts(folder / "llama", rows=8, steady=steady) for steady in (False, True))
    budgets = [texts.engine._worker.scheduler.budget for texts in (plain, steady)]
    for guess, times in ((0, 8), (2, 1)):
        job = Job(plain.runtime, plain.request("Hello", guess=guess), "", "", 0.0)
        one, all_places = (budget._batch([job]) for budget in budgets)
        assert all_places == times * one
        batch = steady.engine._worker.scheduler._batch(job)
        reading = job.begin(BlockStore(0))
        reading.advance(wait=True)
        batch.join(job, job.read())
        assert one / 2 < batch.nbytes < all_places
    for texts in (plain, steady):
        texts.engine.close()


def test_scores_count_where_attention_is_not_one_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docai.vlm.admission.on_gpu", lambda: True)
    texts = Texts(folder / "llama")
    budget = texts.engine._worker.scheduler.budget
    fused, rounded = (
        budget._peak(Job(texts.runtime, texts.request("word " * 60, **options), "", "", 0.0))
        for options in ({}, {"kv_bits": 8})
    )
    ids, heads = len(texts.request("word " * 60).ids), texts.model.network.spec.decoder.layers[0].attention.heads
    assert rounded - fused == 2 * 4 * heads * 512 * ids
    texts.engine.close()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


MIXED: list[dict[str, Any]] = [{}, {}, {"temperature": 1.0, "top_p": 0.9}, {"repetition_penalty": 1.1}, {"guess": 3}]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux")
def test_memory_stays_flat_over_two_thousand_requests(folder: Path) -> None:
    texts = Texts(folder / "qwen", store=BlockStore(1 << 20))
    image_token, network = texts.model.network.image_tokens[0], texts.model.network
    chance = random.Random(4)

    def request(number: int) -> Request:
        ids = [chance.randrange(5, 250) for _ in range(chance.randrange(1, 60))]
        options: dict[str, Any] = {"max_tokens": chance.randrange(1, 6), **chance.choice(MIXED)}
        if number % 4:
            return Request(ids, options=GenerationOptions(**options))
        pixels = np.full((16, 96), number / 2000, np.float32)
        image = ImageInput(pixels, 4, (1, 4, 4))
        seen = RequestImage((number,), image, lambda: network.encode([image])[0])
        return Request([*ids, *[image_token] * 4, 7], [seen], GenerationOptions(**options))

    sizes: list[tuple[int, int]] = []
    for start in range(0, 2000, 50):
        tickets = [texts.engine.submit(request(number)) for number in range(start, start + 50)]
        tickets[3].cancel()
        assert all(ticket.whole().tokens for n, ticket in enumerate(tickets) if n != 3)
        gc.collect()
        mx.clear_cache()
        sizes.append((mx.get_active_memory(), resident()))
    early, late = sizes[10:20], sizes[-10:]
    active, whole = (max(s[n] for s in late) - max(s[n] for s in early) for n in range(2))
    assert active < 200_000, sizes
    assert whole < 20_000_000, sizes
    assert 0 < texts.engine.store.nbytes <= 1 << 20
    texts.engine.close()
