"""Mage-VL (Microsoft 2026, huggingface.co/microsoft/Mage-VL): a tower of its own under Qwen3."""

from __future__ import annotations

from docai.checkpoint.dialect import Split, renames
from docai.errors import CheckpointError
from docai.nn.axial import LaneRope
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import Family
from docai.vlm.families.nested import image_token, nested_decoder, packed_rules, vision_config
from docai.vlm.families.qwen_vision import SEQUENTIAL, prompt_spec
from docai.vlm.families.towers import TOWER
from docai.vlm.native_images import qwen_images
from docai.vlm.spec import ModelSpec

_VISION = {
    "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    "patch_size": 16, "num_channels": 3, "layer_norm_eps": 1e-6, "rope_theta": 10_000.0, "hidden_act": "gelu",
    "spatial_merge_size": 2,
}  # fmt: skip


def spec(config: Config) -> ModelSpec:
    decoder = nested_decoder(config, "qwen3")
    tower = tower_spec(vision_config(config).with_defaults(_VISION))
    merger = MergerSpec(tower.hidden, decoder.dims, tower.merge**2, norm_eps=tower.norm_eps)
    return ModelSpec(decoder, tower, merger, image_token(config, 151_655))


def tower_spec(vision: Config) -> PackedVitSpec:
    """Mage-ViT as a vision_config says."""
    vision.expect(use_head=False, use_patch_position_encoding=False)
    tower = PackedVitSpec(
        vision["hidden_size"],
        vision["num_hidden_layers"],
        vision["num_attention_heads"],
        MlpSpec(vision["intermediate_size"], vision["hidden_act"], gated=False, bias=True),
        vision["patch_size"],
        frames=1,
        channels=vision["num_channels"],
        merge=vision["spatial_merge_size"],
        norm="rms" if vision.get("layer_norm_type") == "rms_norm" else "layer",
        norm_eps=vision["layer_norm_eps"],
        rope=LaneRope(vision["rope_theta"]),
        pre_norm=True,
    )
    if tower.head_dim % 32:
        raise CheckpointError(f"config.json, vision_config: expected heads of a multiple of 32, got {tower.head_dim}")
    return tower


_LAYER = f"{TOWER}encoder.layers.{{i}}.self_attn."
_NAMES = (
    *renames({"model.visual.{rest}": f"{TOWER}{{rest}}", f"{TOWER}layernorm_pre.{{part}}": "vision.pre_norm.{part}"}),
    *renames({"proj.{part}": "out_proj.{part}"}, _LAYER, _LAYER),
    Split(f"{_LAYER}qkv.{{part}}", tuple(f"{_LAYER}{x}_proj.{{part}}" for x in "qkv")),
)
_MERGER = renames(SEQUENTIAL, f"{TOWER}merger.", "connector.merge.")

FAMILY = Family(
    "mage_vl",
    ("mage_vl",),
    spec,
    packed_rules(_MERGER, first=_NAMES),
    prompt_spec(system=False, clips=None),
    qwen_images(patch=16, temporal=1),
)
