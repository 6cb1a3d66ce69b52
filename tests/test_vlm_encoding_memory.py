"""What encoding is said to take is what it takes, or somewhat more."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.errors import LimitExceeded  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.packed_vit import PackedVitSpec  # noqa: E402
from docai.nn.sam import SamSpec  # noqa: E402
from docai.nn.sandwich_vit import SandwichVitSpec  # noqa: E402
from docai.nn.vit import VitSpec  # noqa: E402
from docai.preprocess.inputs import ImageInput  # noqa: E402
from docai.vlm.encoding_memory import PASS_VALUES, encoding_bytes  # noqa: E402
from docai.vlm.generate import Request, RequestImage  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from docai.vlm.vision import build_tower, seen_together  # noqa: E402
from tests.engine_texts import Texts, tiny_models  # noqa: E402

PLAIN, GATED = MlpSpec(256, "gelu", gated=False), MlpSpec(256)


def packed(spec: Any, side: int) -> ImageInput:
    pixels = np.random.RandomState(1).standard_normal((side * side, spec.patch_values)).astype(np.float32)
    extra: dict[str, np.ndarray[Any, Any]] = {}
    return ImageInput(pixels, side * side // 4, (1, side, side), extra)


def pictures(count: int, side: int) -> ImageInput:
    return ImageInput(np.random.RandomState(1).standard_normal((count, side, side, 3)).astype(np.float32), 1)


TOWERS: dict[str, tuple[Any, Callable[[Any], ImageInput]]] = {
    "packed": (PackedVitSpec(64, 2, 4, GATED, 8), lambda spec: packed(spec, 20)),
    "packed, many rows": (PackedVitSpec(32, 2, 2, PLAIN, 8), lambda spec: packed(spec, 32)),
    "windows": (PackedVitSpec(64, 2, 4, GATED, 8, window=4, full_layers=(1,)), lambda spec: packed(spec, 20)),
    "sandwich": (SandwichVitSpec(64, 2, 4, 16, 256, 8, 64), lambda spec: packed(spec, 21)),
    "fixed": (VitSpec(64, 2, 4, PLAIN, 224, 14, (2,)), lambda _: pictures(2, 224)),
    "sam": (SamSpec(64, 2, 4, PLAIN, 256, 16, 64, 8, (1,)), lambda _: pictures(1, 256)),
}


@pytest.mark.parametrize("name", TOWERS)
@pytest.mark.parametrize("count", [1, 2])
def test_a_pass_takes_about_what_is_said(name: str, count: int) -> None:
    spec, image = TOWERS[name]
    tower, images = build_tower(spec), [image(spec)] * count
    mx.eval(tower.parameters())
    gc.collect()  # what other tests have left would be freed meanwhile
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval([seen.rows for seen in seen_together(tower, images)])
    taken, said = mx.get_peak_memory() - before, encoding_bytes(spec, images, mx.float32)
    assert taken < said < 2.5 * taken


def test_few_images_are_counted_as_few() -> None:
    spec, image = TOWERS["packed"]
    one, ten, many = (encoding_bytes(spec, [image(spec)] * n, mx.float32) for n in (1, 10, 1000))
    assert one < ten < many
    assert many < 2 * encoding_bytes(spec, [image(spec)] * (PASS_VALUES // image(spec).pixels.size), mx.float32)
    assert encoding_bytes(spec, [], mx.float32) == 0


def test_an_image_that_memory_has_no_room_for_is_refused(tmp_path: Path) -> None:
    texts = Texts(tiny_models(tmp_path) / "qwen")
    token, values = texts.model.network.image_tokens[0], 96

    def request(side: int) -> Request:
        image = ImageInput(np.zeros((side * side, values), np.float32), side * side // 4, (1, side, side))
        seen = RequestImage((side,), image, lambda: texts.model.network.encode([image])[0])
        return Request([5, *[token] * image.tokens, 6], [seen], GenerationOptions(max_tokens=3))

    budget = texts.engine._worker.scheduler.budget
    budget.limit = 40_000_000
    assert texts.engine.submit(request(4)).whole().tokens
    with pytest.raises(LimitExceeded, match="are left beside the weights"):
        texts.engine.submit(request(48))
    texts.engine.close()
