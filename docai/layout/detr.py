"""What the configs and checkpoints of RT-DETR and its kin have in common. Foreign names end here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from docai.checkpoint.config import Config
from docai.checkpoint.dialect import Drop, Rename, Rule, renames
from docai.checkpoint.folding import AddKernels, Copy, FoldNorm
from docai.errors import CheckpointError
from docai.layout.families import Rules
from docai.layout.spec import DetectorSpec
from docai.nn.activation import ACTIVATIONS
from docai.nn.deform import DeformSpec
from docai.nn.hgnet import HgNetSpec, HgStageSpec
from docai.nn.hybrid import HybridSpec
from docai.nn.mlp import MlpSpec
from docai.nn.queries import QuerySpec
from docai.nn.resnet import ResNetSpec

# What the configuration classes of the backbones fill in.
_RESNET = {
    "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3], "layer_type": "bottleneck",
    "hidden_act": "relu", "num_channels": 3, "downsample_in_first_stage": False, "downsample_in_bottleneck": False,
}  # fmt: skip
_HGNET = {
    "stem_channels": [3, 32, 48], "stem_strides": [2, 1, 1, 2, 1], "stage_in_channels": [48, 128, 512, 1024],
    "stage_mid_channels": [48, 96, 192, 384], "stage_out_channels": [128, 512, 1024, 2048],
    "stage_num_blocks": [1, 1, 3, 1], "stage_downsample": [False, True, True, True],
    "stage_downsample_strides": [2, 2, 2, 2], "stage_light_block": [False, False, True, True],
    "stage_kernel_size": [3, 3, 5, 5], "stage_numb_of_layers": [6, 6, 6, 6], "hidden_act": "relu",
    "use_learnable_affine_block": False,
}  # fmt: skip
_MODEL = {
    "d_model": 256, "encoder_hidden_dim": 256, "encoder_in_channels": [512, 1024, 2048], "feat_strides": [8, 16, 32],
    "encoder_layers": 1, "encoder_ffn_dim": 1024, "encoder_attention_heads": 8, "encode_proj_layers": [2],
    "positional_encoding_temperature": 10_000, "encoder_activation_function": "gelu", "activation_function": "silu",
    "normalize_before": False, "hidden_expansion": 1.0, "num_queries": 300, "decoder_in_channels": [256, 256, 256],
    "decoder_ffn_dim": 1024, "num_feature_levels": 3, "decoder_n_points": 4, "decoder_layers": 6,
    "decoder_attention_heads": 8, "decoder_activation_function": "relu", "learn_initial_query": False,
    "layer_norm_eps": 1e-5, "batch_norm_eps": 1e-5, "decoder_offset_scale": 0.5, "decoder_method": "default",
}  # fmt: skip
_BATCH_NORM = 1e-5  # of all that the configs do not set


def settings(config: Config) -> Config:
    """A config over the defaults of its class. Raises CheckpointError for ways that no published checkpoint uses."""
    said = config.with_defaults(_MODEL)
    for name, wanted in (("normalize_before", False), ("learn_initial_query", False), ("batch_norm_eps", _BATCH_NORM)):
        if said[name] != wanted:
            raise CheckpointError(f"config.json: {name} {said[name]!r} is not supported; expected {wanted!r}")
    return said


def backbone(config: Config, default: str) -> HgNetSpec | ResNetSpec:
    """The backbone that `backbone_config` describes; `default`: its model_type where that is left out."""
    section = config.section("backbone_config")
    kind = section.get("model_type", default)
    if kind == "rt_detr_resnet":
        return _resnet(section.with_defaults(_RESNET))
    if kind == "hgnet_v2":
        return _hgnet(section.with_defaults(_HGNET))
    raise CheckpointError(f"config.json: backbone {kind!r} is not supported; expected rt_detr_resnet or hgnet_v2")


def _resnet(said: Config) -> ResNetSpec:
    return ResNetSpec(
        said["embedding_size"],
        tuple(said["hidden_sizes"]),
        tuple(said["depths"]),
        said["num_channels"],
        activation(said["hidden_act"]),
        bottleneck=said["layer_type"] == "bottleneck",
        stride_first=said["downsample_in_bottleneck"],
        shrink_first=said["downsample_in_first_stage"],
    )


def _hgnet(said: Config) -> HgNetSpec:
    if said["use_learnable_affine_block"]:
        raise CheckpointError("config.json: use_learnable_affine_block is not supported")
    columns = (
        "stage_in_channels", "stage_mid_channels", "stage_out_channels", "stage_num_blocks", "stage_numb_of_layers",
        "stage_kernel_size", "stage_downsample_strides", "stage_downsample", "stage_light_block",
    )  # fmt: skip
    stages = [
        HgStageSpec(inputs, middle, outputs, blocks, layers, kernel, stride if down else 0, light)
        for inputs, middle, outputs, blocks, layers, kernel, stride, down, light in zip(
            *(said[column] for column in columns), strict=True
        )
    ]
    return HgNetSpec(
        tuple(said["stem_channels"]),
        tuple(said["stem_strides"]),
        tuple(stages),
        activation(said["hidden_act"]),
    )


def activation(name: str) -> str:
    """An activation that we have. Raises CheckpointError."""
    if name not in ACTIVATIONS:
        raise CheckpointError(f"config.json: activation {name!r} is not supported; expected {', '.join(ACTIVATIONS)}")
    return name


def encoder(said: Config) -> HybridSpec:
    """The hybrid encoder."""
    dims = said["encoder_hidden_dim"]
    mlp = MlpSpec(said["encoder_ffn_dim"], activation(said["encoder_activation_function"]), gated=False, bias=True)
    return HybridSpec(
        dims,
        len(said["encoder_in_channels"]),
        said["encoder_attention_heads"],
        mlp,
        layers=said["encoder_layers"],
        attended=tuple(said["encode_proj_layers"]),
        hidden=int(dims * said["hidden_expansion"]),
        activation=activation(said["activation_function"]),
        norm_eps=said["layer_norm_eps"],
        temperature=float(said["positional_encoding_temperature"]),
        placed=said.get("eval_size") is None,  # the reference drops positions where a config fixes their size
    )


def queries(said: Config, classes: int, *, shared: bool = False, normed: bool = False) -> QuerySpec:
    """The decoder and its queries."""
    mlp = MlpSpec(said["decoder_ffn_dim"], activation(said["decoder_activation_function"]), gated=False, bias=True)
    if said["decoder_method"] not in ("default", "discrete"):
        raise CheckpointError(f"config.json: decoder_method {said['decoder_method']!r} is not supported")
    deform = DeformSpec(
        said["decoder_attention_heads"],
        said["num_feature_levels"],
        said["decoder_n_points"],
        said["decoder_offset_scale"],
        nearest=said["decoder_method"] == "discrete",
    )
    return QuerySpec(
        said["d_model"],
        said["decoder_layers"],
        said["num_queries"],
        classes,
        said["decoder_attention_heads"],
        mlp,
        deform,
        shared=shared,
        normed=normed,
        norm_eps=said["layer_norm_eps"],
    )


def classes_of(config: Config) -> int:
    """How many classes a detector tells apart: as many as `id2label` names."""
    named: Any = config.get("id2label")
    return len(named) if isinstance(named, Mapping) else int(config["num_labels"])


def check_channels(spec: DetectorSpec) -> DetectorSpec:
    """The spec, where its backbone gives what its encoder takes. Raises CheckpointError."""
    given = spec.backbone.channels[-len(spec.inputs) :]
    if given != spec.inputs:
        raise CheckpointError(f"config.json: encoder_in_channels {spec.inputs} do not fit the backbone's {given}")
    if spec.masks is not None and spec.backbone.channels[: -len(spec.inputs)][-1:] != (spec.masks.fine,):
        raise CheckpointError(f"config.json: x4_feat_dim {spec.masks.fine} does not fit {spec.backbone.channels}")
    return spec


# --- Weights. Rules bring each dialect to the names of PyTorch's modules first, without norms; then to ours.

_ATTENTION = {
    "self_attn.{x:q|k|v}_proj.{part}": "attn.{x}.{part}",
    "self_attn.{x:out_proj|o_proj}.{part}": "attn.o.{part}",
    "self_attn_layer_norm.{part}": "attn_norm.{part}",
    "final_layer_norm.{part}": "mlp_norm.{part}",
    "fc1.{part}": "mlp.up.{part}",
    "fc2.{part}": "mlp.down.{part}",
    "mlp.fc1.{part}": "mlp.up.{part}",
    "mlp.fc2.{part}": "mlp.down.{part}",
}
_CROSS = {
    "encoder_attn.sampling_offsets.{part}": "cross.offsets.{part}",
    "encoder_attn.attention_weights.{part}": "cross.attention.{part}",
    "encoder_attn.value_proj.{part}": "cross.value.{part}",
    "encoder_attn.output_proj.{part}": "cross.out.{part}",
    "encoder_attn_layer_norm.{part}": "cross_norm.{part}",
}
_FUSION = {"conv1.{part}": "deep.{part}", "conv2.{part}": "straight.{part}", "conv3.{part}": "out.{part}"}
_HG_STEM = {"stem1": "enter", "stem2a": "narrow", "stem2b": "widen", "stem3": "join", "stem4": "leave"}
_STAGE = "backbone.encoder.stages.{i}."
_BACKBONES: tuple[Rule, ...] = (
    *(Rename(f"backbone.embedder.{old}.{{part}}", f"backbone.stem.{new}.{{part}}") for old, new in _HG_STEM.items()),
    Rename(f"{_STAGE}downsample.{{part}}", "backbone.stages.{i}.down.{part}"),
    Rename(
        f"{_STAGE}blocks.{{j}}.layers.{{k}}.conv1.{{part}}", "backbone.stages.{i}.blocks.{j}.layers.{k}.point.{part}"
    ),
    Rename(
        f"{_STAGE}blocks.{{j}}.layers.{{k}}.conv2.{{part}}", "backbone.stages.{i}.blocks.{j}.layers.{k}.depth.{part}"
    ),
    Rename(f"{_STAGE}blocks.{{j}}.layers.{{k}}.{{part}}", "backbone.stages.{i}.blocks.{j}.layers.{k}.{part}"),
    Rename(f"{_STAGE}blocks.{{j}}.aggregation.0.{{part}}", "backbone.stages.{i}.blocks.{j}.squeeze.{part}"),
    Rename(f"{_STAGE}blocks.{{j}}.aggregation.1.{{part}}", "backbone.stages.{i}.blocks.{j}.excite.{part}"),
    Rename("backbone.embedder.embedder.{i}.{part}", "backbone.stem.{i}.{part}"),
    Rename(f"{_STAGE}layers.{{j}}.layer.{{k}}.{{part}}", "backbone.stages.{i}.blocks.{j}.steps.{k}.{part}"),
    Rename(f"{_STAGE}layers.{{j}}.shortcut.{{part}}", "backbone.stages.{i}.blocks.{j}.shortcut.{part}"),
    Rename(f"{_STAGE}layers.{{j}}.shortcut.{{x:1|proj}}.{{part}}", "backbone.stages.{i}.blocks.{j}.shortcut.{part}"),
)


def _fusions(old: str, new: str) -> tuple[Rule, ...]:
    branches = f"{old}bottlenecks.{{j}}.conv1.{{part}}", f"{old}bottlenecks.{{j}}.conv2.{{part}}"
    return AddKernels(branches, f"{new}reps.{{j}}.{{part}}"), *renames(_FUSION, old, new)


_SHARED: tuple[Rule, ...] = (
    *_BACKBONES,
    Rename("encoder_input_proj.{i}.{part}", "project.{i}.{part}"),
    Rename("decoder_input_proj.{i}.{part}", "levels.{i}.{part}"),
    *renames(_ATTENTION, "encoder.{kind:aifi|encoder}.{i}.layers.{j}.", "encoder.attention.{i}.layers.{j}."),
    Rename("encoder.lateral_convs.{i}.{part}", "encoder.lateral.{i}.{part}"),
    Rename("encoder.downsample_convs.{i}.{part}", "encoder.shrink.{i}.{part}"),
    *_fusions("encoder.fpn_blocks.{i}.", "encoder.down.{i}."),
    *_fusions("encoder.pan_blocks.{i}.", "encoder.up.{i}."),
    *renames(_ATTENTION | _CROSS, "decoder.layers.{i}.", "decoder.layers.{i}."),
    Drop("decoder.layers.{i}.encoder_attn.n_points_scale"),  # 1 / points
    Rename("decoder.query_pos_head.layers.{i}.{part}", "decoder.position.layers.{i}.{part}"),
    Rename("enc_output.{x:0|fc}.{part}", "select.linear.{part}"),
    Rename("enc_output.{x:1|ln}.{part}", "select.row_norm.{part}"),
    Rename("enc_score_head.{part}", "select.score.{part}"),
    Rename("enc_bbox_head.layers.{i}.{part}", "select.box.layers.{i}.{part}"),
    Drop("denoising_class_embed.weight"),  # for training
    Drop("{x:anchors|valid_mask}"),  # which are computed
)
# How convolutions and their norms are called: (convolution, norm) behind a common prefix.
_PAIRS = (("convolution", "normalization"), ("conv", "norm"))
_PROJECTIONS = ("encoder_input_proj.{i}", "decoder_input_proj.{i}")


def _folded_from_torch() -> tuple[Rule, ...]:
    return (
        *(FoldNorm(f"{{rest}}.{conv}", f"{{rest}}.{norm}", "{rest}", _BATCH_NORM) for conv, norm in _PAIRS),
        *(FoldNorm(f"{name}.0", f"{name}.1", name, _BATCH_NORM) for name in _PROJECTIONS),
    )


def _folded_from_mlx() -> tuple[Rule, ...]:
    return (FoldNorm("{rest}.conv", "{rest}.bn", "{rest}", _BATCH_NORM, channels_last=True),)


def dialects(before: Mapping[str, tuple[Rule, ...]], heads: Rules) -> dict[str, Rules]:
    """The rules of every dialect. `before`: a family's own that come first in each; `heads`: those of its heads."""
    stripped = {
        "transformers": (Rename("model.{rest}", "{rest}"), Rename("backbone.model.{rest}", "backbone.{rest}")),
        "mlx": (Rename("vision.hybrid_encoder.{rest}", "encoder.{rest}"), Rename("vision.{rest}", "{rest}")),
    }
    folded = {"transformers": _folded_from_torch(), "mlx": _folded_from_mlx()}
    return {
        name: partial(_rules, (*stripped[name], *before.get(name, ()), *folded[name]), heads)
        for name in ("transformers", "mlx")
    }


def _rules(first: tuple[Rule, ...], heads: Rules, spec: DetectorSpec) -> tuple[Rule, ...]:
    return (*first, *heads(spec), *_SHARED)


def tied(*names: str) -> tuple[Rule, ...]:
    """Weights under several names, of which a file may hold any: each missing one is a copy of the first there is."""
    return tuple(Copy(f"{one}.{{rest}}", f"{other}.{{rest}}") for one in names for other in names if one != other)
