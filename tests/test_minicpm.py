"""MiniCPM-V 4.6 beside parity: its published config and names, configs that it refuses, slices, numbers of images."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.config import Config
from docai.checkpoint.load import map_weights, shapes_of
from docai.checkpoint.tensors import TensorInfo
from docai.errors import CheckpointError
from docai.preprocess.sliced import SlicedImages
from docai.vlm.families import family_of
from docai.vlm.native_images import sliced_images
from docai.vlm.network import Network
from docai.vlm.prompt import expand
from docai.vlm.spec import ModelSpec
from docai.vlm.videos import sliced_videos

PUBLISHED: dict[str, Any] = {
    "model_type": "minicpmv4_6", "image_token_id": 248_056, "video_token_id": 248_057, "image_size": 1120,
    "insert_layer_id": 6, "drop_vision_last_layer": False, "tie_word_embeddings": True,
    "vision_config": {
        "model_type": "minicpmv4_6_vision", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "image_size": 980, "patch_size": 14,
    },
    "text_config": {
        "model_type": "qwen3_5_text", "vocab_size": 248_094, "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 3584,
        "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262_144,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    },
}  # fmt: skip


def spec_of(config: dict[str, Any]) -> ModelSpec:
    made = family_of(config).spec(Config(config))
    assert isinstance(made, ModelSpec)
    return made


def layer(hidden: int, width: int) -> dict[str, tuple[int, ...]]:
    """What a layer of SigLIP has; the squeeze has its attention."""
    attention = {f"self_attn.{x}_proj.weight": (hidden, hidden) for x in ("q", "k", "v", "out")}
    shapes = {**attention, "mlp.fc1.weight": (width, hidden), "mlp.fc2.weight": (hidden, width)}
    shapes |= {"layer_norm1.weight": (hidden,), "layer_norm2.weight": (hidden,)}
    return shapes | {name.replace("weight", "bias"): shape[:1] for name, shape in shapes.items()}


def published_shapes() -> dict[str, tuple[int, ...]]:
    """The tensors of openbmb/MiniCPM-V-4.6, whose 1300428016 numbers the hub counts."""
    tower, text, one = "model.vision_tower.", "model.language_model.", layer(1152, 4304)
    linear = {
        "in_proj_qkv.weight": (6144, 1024), "in_proj_z.weight": (2048, 1024), "in_proj_a.weight": (16, 1024),
        "in_proj_b.weight": (16, 1024), "conv1d.weight": (6144, 1, 4), "A_log": (16,), "dt_bias": (16,),
        "norm.weight": (128,), "out_proj.weight": (1024, 2048),
    }  # fmt: skip
    attention = {
        "q_proj.weight": (4096, 1024), "k_proj.weight": (512, 1024), "v_proj.weight": (512, 1024),
        "o_proj.weight": (1024, 2048), "q_norm.weight": (256,), "k_norm.weight": (256,),
    }  # fmt: skip
    rest = {
        "mlp.gate_proj.weight": (3584, 1024), "mlp.up_proj.weight": (3584, 1024), "mlp.down_proj.weight": (1024, 3584),
        "input_layernorm.weight": (1024,), "post_attention_layernorm.weight": (1024,),
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {
        f"{tower}embeddings.patch_embedding.weight": (1152, 3, 14, 14),
        f"{tower}embeddings.patch_embedding.bias": (1152,),
        f"{tower}embeddings.position_embedding.weight": (4900, 1152),
        f"{text}embed_tokens.weight": (248_094, 1024),
        f"{text}norm.weight": (1024,),
    }
    joined = {
        f"{tower}post_layernorm": (1152,), f"{tower}vit_merger.pre_norm": (4608,),
        f"{tower}vit_merger.linear_1": (17_216, 4608), f"{tower}vit_merger.linear_2": (1152, 17_216),
        "model.merger.mlp.0.pre_norm": (4608,), "model.merger.mlp.0.linear_1": (4608, 4608),
        "model.merger.mlp.0.linear_2": (1024, 4608),
    }  # fmt: skip
    for name, shape in joined.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for number in range(27):
        shapes |= {f"{tower}encoder.layers.{number}.{name}": shape for name, shape in one.items()}
    shapes |= {f"{tower}vit_merger.{n}": s for n, s in one.items() if n.startswith(("self_attn", "layer_norm1"))}
    for number in range(24):
        mixer = {"linear_attn": linear} if (number + 1) % 4 else {"self_attn": attention}
        own = {f"{kind}.{name}": shape for kind, parts in mixer.items() for name, shape in parts.items()} | rest
        shapes |= {f"{text}layers.{number}.{name}": shape for name, shape in own.items()}
    return shapes


def test_the_published_names_map_completely() -> None:
    spec, shapes = spec_of(PUBLISHED), published_shapes()
    assert sum(map(prod, shapes.values())) == 1_300_428_016
    tensors = {name: TensorInfo("BF16", shape) for name, shape in shapes.items()}
    checkpoint = Checkpoint("minicpm", Path(), PUBLISHED, (), tensors)
    found = map_weights(checkpoint, family_of(PUBLISHED).rules, spec, shapes_of(Network(spec)))
    assert (found.dialect, found.map.dropped) == ("hf", ())


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"insert_layer_id": 27}, "expected an insert_layer_id of the 27 layers, got 27"),
        ({"insert_layer_id": -1}, "expected an insert_layer_id of the 27 layers, got -1"),
        ({"merger_times": 2}, "expected merger_times 1, got 2"),
        ({"merge_kernel_size": [4, 4]}, r"expected merge_kernel_size \[2, 2\], got \[4, 4\]"),
        ({"drop_vision_last_layer": True}, "expected drop_vision_last_layer False, got True"),
        ({"downsample_mode": "8x"}, "expected downsample_mode to be 16x or 4x, got '8x'"),
        ({"vision_config": {"window_kernel_size": [2, 4]}}, r"expected window_kernel_size \[2, 2\], got \[2, 4\]"),
        ({"vision_config": {}}, "expected a vision_config"),
        ({"text_config": {"model_type": "llama"}}, "text decoder 'llama' is not supported here"),
    ],
)
def test_what_no_model_has_is_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        spec_of({**PUBLISHED, **fields})


def test_the_layer_of_the_squeeze_makes_no_difference_where_there_is_none() -> None:
    assert spec_of({**PUBLISHED, "downsample_mode": "4x", "insert_layer_id": 99}).vision is not None


@pytest.mark.parametrize(
    ("size", "slices", "tokens"),
    [
        ((448, 448), (0, 0), 64),
        ((300, 500), (0, 0), 60),  # grown
        ((900, 900), (2, 2), 64 + 4 * 64),
        ((1500, 1000), (4, 2), 70 + 8 * 63),
        ((3508, 2480), (4, 2), 70 + 8 * 63),  # a page, of more than there may be
        ((100, 4000), (1, 3), 50 + 3 * 58),
    ],
)
def test_published_sizes_of_slices(size: tuple[int, int], slices: tuple[int, int], tokens: int) -> None:
    """As its processor in transformers 5.24 has them."""
    processor = sliced_images()({}, {})
    assert isinstance(processor, SlicedImages)
    image = processor(np.zeros((*size, 3), np.uint8))
    assert (tuple(image.extra["slices"]), image.tokens) == (slices, tokens)


def test_images_are_numbered_unless_a_checkpoint_says_not() -> None:
    prompt, rgb = family_of(PUBLISHED).prompt, np.zeros((56, 56, 3), np.uint8)
    said = {"use_image_id": True, "scale_resolution": 56}
    one = "<image><|image_pad|></image>"
    text = prompt.placeholder * 2
    numbered, plain = (sliced_images()({**said, "use_image_id": number}, {})(rgb) for number in (True, False))
    assert expand(text, [numbered] * 2, prompt) == f"<image_id>0</image_id>{one}<image_id>1</image_id>{one}"
    assert expand(text, [plain] * 2, prompt) == one * 2


def test_frames_that_are_put_together_into_pictures_are_refused() -> None:
    """Its processor can put the frames between two seconds into one picture, where it is asked to."""
    assert sliced_videos()({"stack_frames": 1}, {}) == sliced_videos()({}, {})
    with pytest.raises(CheckpointError, match="expected stack_frames 1, got 3"):
        sliced_videos()({"stack_frames": 3}, {})
