"""Bunny and nanoLLaVA as their authors publish them: a config that says nothing of the tower, which has 26 layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.load import map_weights, shapes_of
from docai.checkpoint.tensors import TensorInfo
from docai.errors import CheckpointError
from docai.nn.vit import VitSpec
from docai.vlm.families import family_of
from docai.vlm.loading import resolve
from docai.vlm.network import Network
from docai.vlm.spec import ModelSpec

TEXT: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
    "mm_vision_tower": "google/siglip-so400m-patch14-384", "image_aspect_ratio": "pad",
}  # fmt: skip


def published_shapes(layers: int, *, bias: bool) -> dict[str, tuple[int, ...]]:
    tower, text = "model.vision_tower.vision_tower.vision_model.", "model.layers.0."
    matrices = {
        f"{text}self_attn.q_proj": (32, 32), f"{text}self_attn.k_proj": (16, 32), f"{text}self_attn.v_proj": (16, 32),
        "model.mm_projector.0": (32, 1152), "model.mm_projector.2": (32, 32),
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (100, 32), "lm_head.weight": (100, 32), "model.norm.weight": (32,),
        f"{text}input_layernorm.weight": (32,), f"{text}post_attention_layernorm.weight": (32,),
        f"{text}self_attn.o_proj.weight": (32, 32), f"{text}mlp.gate_proj.weight": (48, 32),
        f"{text}mlp.up_proj.weight": (48, 32), f"{text}mlp.down_proj.weight": (32, 48),
        f"{tower}embeddings.patch_embedding.weight": (1152, 3, 14, 14),
        f"{tower}embeddings.patch_embedding.bias": (1152,),
        f"{tower}embeddings.position_embedding.weight": (729, 1152),
        f"{tower}post_layernorm.weight": (1152,), f"{tower}post_layernorm.bias": (1152,),
    }  # fmt: skip
    for number in range(layers):
        at = f"{tower}encoder.layers.{number}."
        matrices |= {f"{at}self_attn.{x}_proj": (1152, 1152) for x in ("q", "k", "v", "out")}
        matrices |= {f"{at}mlp.fc1": (4304, 1152), f"{at}mlp.fc2": (1152, 4304)}
        matrices |= {f"{at}layer_norm{n}": (1152,) for n in (1, 2)}
    for name, shape in matrices.items():
        shapes |= {f"{name}.weight": shape} | ({f"{name}.bias": shape[:1]} if bias or text not in name else {})
    return shapes


def published(kind: str, layers: int) -> Checkpoint:
    shapes = published_shapes(layers, bias=kind == "llava-qwen2")
    tensors = {name: TensorInfo("F16", shape) for name, shape in shapes.items()}
    return Checkpoint(kind, Path(), {**TEXT, "model_type": kind}, (), tensors)


@pytest.mark.parametrize("layers", [26, 27])
@pytest.mark.parametrize("kind", ["bunny-llama", "llava-qwen2"])
def test_the_tower_has_the_layers_that_are_there(kind: str, layers: int) -> None:
    checkpoint = published(kind, layers)
    family, spec = resolve(checkpoint)
    assert isinstance(spec, ModelSpec)
    vision = spec.vision
    assert isinstance(vision, VitSpec)
    found = map_weights(checkpoint, family.rules, spec, shapes_of(Network(spec)))
    assert (found.dialect, len(found.map.dropped)) == ("hf", 2)  # the norm behind the tower
    assert (vision.hidden, vision.layers, vision.features) == (1152, layers, (layers,))
    assert (vision.image, vision.patch) == (384, 14)


def test_without_a_tower_they_are_refused() -> None:
    whole = published("bunny-llama", 2)
    tensors = {name: info for name, info in whole.tensors.items() if "vision" not in name}
    with pytest.raises(CheckpointError, match="expected the weights of a vision tower"):
        resolve(Checkpoint("bare", Path(), whole.config, (), tensors))


def test_pictures_are_padded_to_squares_without_a_file_that_says_how() -> None:
    images = family_of({"model_type": "bunny-llama"}).images
    assert images is not None
    wide = images({}, TEXT)(np.zeros((10, 90, 3), np.uint8))
    assert wide.tokens == 729
    assert wide.pixels.shape == (1, 384, 384, 3)
    assert [float(wide.pixels[0, at, 0, 0]) for at in (0, 192)] == pytest.approx([127 / 127.5 - 1, -1], abs=1e-3)


def test_a_strange_number_of_a_layer_makes_no_more_layers() -> None:
    whole = published("bunny-llama", 2)
    strange = "model.vision_tower.vision_tower.vision_model.encoder.layers.999999999.layer_norm1.bias"
    spec = resolve(
        Checkpoint("strange", Path(), whole.config, (), {**whole.tensors, strange: TensorInfo("F16", (1,))})
    )[1]
    assert isinstance(spec, ModelSpec)
    assert isinstance(spec.vision, VitSpec)
    assert spec.vision.layers == 3
