"""A small model with an engine of its own, for tests of what happens to requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docai.vlm.engine import Engine
from docai.vlm.generate import Request, Runtime
from docai.vlm.model import open_model
from docai.vlm.prefix import BlockStore
from docai.vlm.request import Generation, GenerationOptions
from docai.vlm.scheduler import EngineLimits
from docai.vlm.stream import Pieces
from docai.vlm.thinking import thinking_marks
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl, tiny_qwen3_5, wide_gemma4

LATENT = {
    "kv_lora_rank": 64, "q_lora_rank": None, "qk_rope_head_dim": 32, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}  # fmt: skip


def same(ours: Sequence[Generation], expected: Sequence[Generation]) -> None:
    assert [done.tokens for done in ours] == [done.tokens for done in expected]
    assert [(done.text, done.finish_reason) for done in ours] == [(d.text, d.finish_reason) for d in expected]


def fail(what: str) -> Any:
    raise RuntimeError(what)


def tiny_models(folder: Path) -> Path:
    """Small models in a folder: text, with a sliding window, with latent rows; text and images, also with states or
    with shared keys."""
    tiny_llama(folder / "llama", head_dim=32)
    tiny_llama(folder / "sliding", model_type="mistral", sliding_window=24)
    tiny_llama(folder / "latent", model_type="deepseek_v3", **LATENT)
    tiny_qwen2_vl(folder / "qwen")
    tiny_qwen3_5(folder / "state")
    wide_gemma4(folder / "shared")
    return folder


class Texts:
    """A text model with an engine of its own."""

    def __init__(self, folder: Path, rows: int = 8, store: BlockStore | None = None, **limits: Any) -> None:
        self.model = open_model(str(folder), prefix_cache=0)
        marks = thinking_marks(self.model.tokenizer)
        self.runtime = Runtime(self.model.network, Pieces(self.model.tokenizer), marks)
        self.engine = Engine(self.runtime, store=store, limits=EngineLimits(rows=rows, **limits))
        self._alone = Engine(self.runtime, limits=EngineLimits(rows=1))

    def request(self, text: str, **options: Any) -> Request:
        given = GenerationOptions(**{"max_tokens": 24, "loop_guard": False, **options})
        return Request(self.model.tokenizer.encode(text), options=given, grammar=self.model._grammar(given))

    def alone(self, text: str, **options: Any) -> Generation:
        return self._alone.submit(self.request(text, **options)).whole()
