"""Youtu-VL (Tencent 2026, arXiv:2601.19798): SigLIP 2 turned by places, in windows, under latent attention."""

from __future__ import annotations

from docai.checkpoint.dialect import Drop, renames
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import Family
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.nested import image_token, nested_rules, vision_config
from docai.vlm.families.qwen_vision import SEQUENTIAL, prompt_spec
from docai.vlm.families.towers import SO_400M, TOWER
from docai.vlm.native_images import block_images
from docai.vlm.spec import ModelSpec

_TEXT = {
    "vocab_size": 283_386, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 40,
    "num_attention_heads": 32, "rope_theta": 5e5, "max_position_embeddings": 32_768,
}  # fmt: skip
_VISION = {
    **SO_400M, "num_channels": 3, "patch_size": 16, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6,
    "spatial_merge_size": 2, "window_size": 256, "fullatt_block_indexes": [7, 15, 23, 26],
}  # fmt: skip


def spec(config: Config) -> ModelSpec:
    """The text's fields stand at the top."""
    decoder = decoder_spec(config.with_defaults(_TEXT), "youtu")
    tower = tower_spec(vision_config(config).with_defaults(_VISION))
    merger = MergerSpec(tower.hidden, decoder.dims, tower.merge**2, norm="rms")
    return ModelSpec(decoder, tower, merger, image_token(config, 128_264), config.get("video_token_id", 128_265))


def tower_spec(vision: Config) -> PackedVitSpec:
    return PackedVitSpec(
        vision["hidden_size"],
        vision["num_hidden_layers"],
        vision["num_attention_heads"],
        MlpSpec(vision["intermediate_size"], vision["hidden_act"], gated=False, bias=True),
        vision["patch_size"],
        frames=1,
        channels=vision["num_channels"],
        merge=vision["spatial_merge_size"],
        norm_eps=vision["layer_norm_eps"],
        patch_bias=True,
        window=vision["window_size"] // vision["spatial_merge_size"] // vision["patch_size"],
        full_layers=tuple(vision["fullatt_block_indexes"]),
        post_norm=True,
    )


_NAMES = (
    *renames(
        {
            "siglip2.vision_model.{rest}": f"{TOWER}{{rest}}",
            "merger.{rest}": f"{TOWER}merger.{{rest}}",
            "model.{x:layers|embed_tokens|norm}.{rest}": "language_model.model.{x}.{rest}",
        }
    ),
    Drop(f"{TOWER}embeddings.position_embedding.{{rest}}"),  # the turns are in their place
)

FAMILY = Family(
    "youtu_vl",
    ("youtu_vl",),
    spec,
    nested_rules(renames(SEQUENTIAL, f"{TOWER}merger.", "connector.merge."), first=_NAMES),
    prompt_spec(system=False, clips=None),
    block_images(),
)
