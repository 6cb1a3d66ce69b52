"""Vision towers that several families share, CLIP's, SigLIP's and Pixtral's: their configs as specs, and their rules.

The rules start from the names behind `vision_tower.`; `docai.vlm.families.nested` brings every dialect there. Layers
and norms of a checkpoint that no feature comes from are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from docai.checkpoint.dialect import Drop, Rename, Reshape, Rule, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.axial import AxialRope
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.nn.vit import VitSpec
from docai.vlm.config import Config

TOWER = "vision_tower."
# What transformers' configuration classes know.
_VIT = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "image_size": 224, "num_channels": 3,
}  # fmt: skip
_CLIP = {**_VIT, "patch_size": 32, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5}
_SIGLIP = {**_VIT, "patch_size": 16, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
# The tower that most families have, whose sizes published files leave to their code.
SO_400M = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
_KINDS = {"clip": _CLIP, "clip_vision_model": _CLIP, "siglip": _SIGLIP, "siglip_vision_model": _SIGLIP}
_PIXTRAL = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "patch_size": 16, "num_channels": 3, "hidden_act": "gelu",
}  # fmt: skip


def vit_spec(
    config: Config, kind: str, layers: int | Sequence[int] | None = None, *, class_row: bool = False
) -> VitSpec:
    """CLIP or SigLIP as a vision_config says; `kind` where it names none.

    `layers`: those whose outputs are the features, counted as in a list of hidden states, from its end where negative;
    None for the last one, normed. `class_row`: features begin with that of CLIP's class row.
    """
    kind = config.get("model_type", kind)
    if kind not in _KINDS:
        raise CheckpointError(f"vision tower {kind!r} is not supported here; supported: {', '.join(sorted(_KINDS))}")
    config, clip = config.with_defaults(_KINDS[kind]), _KINDS[kind] is _CLIP
    depth: int = config["num_hidden_layers"]
    features = (depth,) if layers is None else feature_layers(layers, depth)
    return VitSpec(
        config["hidden_size"],
        max(features),
        config["num_attention_heads"],
        MlpSpec(config["intermediate_size"], config["hidden_act"], gated=False, bias=True),
        config["image_size"],
        config["patch_size"],
        features,
        channels=config["num_channels"],
        norm_eps=config["layer_norm_eps"],
        patch_bias=not clip,
        class_row=clip,
        keep_class_row=clip and class_row,
        pre_norm=clip,
        post_norm=layers is None,
        unused=depth - max(features),
    )


def pixtral_spec(config: Config, layer: int | Sequence[int], *, merge: int = 1) -> PackedVitSpec:
    """Pixtral's tower (Agrawal et al. 2024, arXiv:2410.07073), up to the one layer that features come from."""
    config = config.with_defaults(_PIXTRAL)
    depth: int = config["num_hidden_layers"]
    built, *others = feature_layers(layer, depth)
    if others:
        raise CheckpointError(f"config.json: expected one vision_feature_layer for a tower of Pixtral, got {layer!r}")
    theta = (config.get("rope_parameters") or {}).get("rope_theta") or config.get("rope_theta", 10_000.0)
    return PackedVitSpec(
        config["hidden_size"],
        built,
        config["num_attention_heads"],
        MlpSpec(config["intermediate_size"], config["hidden_act"]),
        config["patch_size"],
        frames=1,
        channels=config["num_channels"],
        merge=merge,
        norm="rms",
        norm_eps=1e-5,  # of the reference, not in its config
        attention_bias=False,
        rope=AxialRope(theta, staggered=True),
        pre_norm=True,
        unused=depth - built,
    )


def naflex_spec(config: Config, layer: int | None = None, *, merge: int = 1) -> PackedVitSpec:
    """SigLIP 2 over images of any size (Tschannen et al. 2025, arXiv:2502.14786); `layer` as in `vit_spec`."""
    config = config.with_defaults({**_SIGLIP, "num_patches": 256})
    depth: int = config["num_hidden_layers"]
    (built,) = (depth,) if layer is None else feature_layers(layer, depth)
    return PackedVitSpec(
        config["hidden_size"],
        built,
        config["num_attention_heads"],
        MlpSpec(config["intermediate_size"], config["hidden_act"], gated=False, bias=True),
        config["patch_size"],
        frames=1,
        channels=config["num_channels"],
        merge=merge,
        norm_eps=config["layer_norm_eps"],
        patch_bias=True,
        rope=None,
        positions=math.isqrt(config["num_patches"]),
        resampling="smooth",
        post_norm=layer is None,
        unused=depth - built,
    )


def feature_layers(said: int | Sequence[int], depth: int) -> tuple[int, ...]:
    """Layers whose outputs are features, as numbers of layers that are run. Raises CheckpointError."""
    numbers = [said] if isinstance(said, int) else list(said)
    counted = tuple(number if number >= 0 else depth + 1 + number for number in numbers)
    if not counted or not all(0 <= number <= depth for number in counted) or max(counted) == 0:
        raise CheckpointError(f"config.json: vision_feature_layer {said!r} is none of the tower's {depth} layers")
    return counted


def tower_rules(spec: VitSpec | PackedVitSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    """From the names of the tower that `spec` describes to ours. `channels_last`: MLX's convolutions."""
    match spec:
        case VitSpec():
            weight = f"{_PATCH}weight"
            turned = () if channels_last else (Transpose(weight, (0, 2, 3, 1)),)
            return (*turned, *as_matrix(weight, (0, 0, 0, spec.channels)), *_vit_rules(spec))
        case PackedVitSpec(norm="rms"):
            return pixtral_rules(spec, channels_last=channels_last)
        case PackedVitSpec():
            return _vit_rules(spec)


_PATCH = f"{TOWER}embeddings.patch_embedding."


def _vit_rules(spec: VitSpec | PackedVitSpec) -> tuple[Rule, ...]:
    """Of CLIP and SigLIP; patches are of a matrix already."""
    patch, layer, ours = _PATCH, f"{TOWER}encoder.layers.{{i}}.", "vision.blocks.{i}."
    return (
        *_unused(f"{TOWER}encoder.layers.", spec),
        *(Drop(f"{TOWER}{name}") for name in ("embeddings.position_ids", "head.{rest}")),
        Rename(f"{patch}{{part}}", "vision.patch.{part}"),
        Rename(f"{TOWER}embeddings.class_embedding", "vision.class_row"),
        Rename(f"{TOWER}embeddings.position_embedding.{{part}}", "vision.positions.{part}"),
        Rename(f"{TOWER}pre_layrnorm.{{part}}", "vision.pre_norm.{part}"),
        Rename(f"{TOWER}post_layernorm.{{part}}", "vision.post_norm.{part}")
        if spec.post_norm
        else Drop(f"{TOWER}post_layernorm.{{part}}"),
        *renames(
            {
                "layer_norm1.{part}": "norm1.{part}",
                "layer_norm2.{part}": "norm2.{part}",
                "self_attn.{x:q|k|v}_proj.{part}": "attn.{x}.{part}",
                "self_attn.out_proj.{part}": "attn.o.{part}",
                "mlp.fc1.{part}": "mlp.up.{part}",
                "mlp.fc2.{part}": "mlp.down.{part}",
            },
            layer,
            ours,
        ),
    )


def pixtral_rules(spec: PackedVitSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    layer, ours = f"{TOWER}transformer.layers.{{i}}.", "vision.blocks.{i}."
    return (
        *_unused(f"{TOWER}transformer.layers.", spec),
        *((Transpose(f"{TOWER}patch_conv.weight", (0, 3, 1, 2)),) if channels_last else ()),
        *as_matrix(f"{TOWER}patch_conv.weight", (0, spec.channels, 0, 0)),
        Rename(f"{TOWER}patch_conv.weight", "vision.patch.weight"),
        Rename(f"{TOWER}ln_pre.weight", "vision.pre_norm.weight"),
        *renames(
            {
                "attention_norm.weight": "norm1.weight",
                "ffn_norm.weight": "norm2.weight",
                "attention.{x:q|k|v|o}_proj.weight": "attn.{x}.weight",
                "feed_forward.{x:gate|up|down}_proj.weight": "mlp.{x}.weight",
            },
            layer,
            ours,
        ),
    )


def as_matrix(name: str, shape: tuple[int, ...]) -> tuple[Rule, ...]:
    """A convolution over whole patches is a matrix. The first rule refuses one whose channels lie elsewhere.

    `shape`: the number of channels at their axis, 0 for any length.
    """
    return Reshape(name, shape), Reshape(name, (0, -1))


def _unused(layers: str, spec: VitSpec | PackedVitSpec) -> tuple[Rule, ...]:
    return tuple(Drop(f"{layers}{number}.{{rest}}") for number in range(spec.layers, spec.layers + spec.unused))
