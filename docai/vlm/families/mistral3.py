"""Mistral Small 3.1 and later (Mistral AI 2025): Pixtral's tower, whose patches are joined two by two."""

from __future__ import annotations

from docai.checkpoint.dialect import renames
from docai.vlm.config import Config
from docai.vlm.connector import JoinerSpec
from docai.vlm.families import Family
from docai.vlm.families.nested import (
    PIXTRAL_PROMPT,
    PROJECTOR,
    TWO_LAYERS,
    image_token,
    nested_decoder,
    nested_rules,
    vision_config,
)
from docai.vlm.families.towers import pixtral_spec
from docai.vlm.native_images import pixtral_images
from docai.vlm.spec import ModelSpec

_JOIN = renames(
    {"norm.weight": "norm.weight", "patch_merger.merging_layer.weight": "join.weight"}, PROJECTOR, "connector."
)


def spec(config: Config) -> ModelSpec:
    decoder = nested_decoder(config, "mistral")
    merge = config.get("spatial_merge_size", 2)
    tower = pixtral_spec(vision_config(config), config.get("vision_feature_layer", -1), merge=merge)
    joiner = JoinerSpec(
        tower.hidden,
        decoder.dims,
        merge**2,
        decoder.norm_eps,
        config.get("projector_hidden_act", "gelu"),
        config.get("multimodal_projector_bias", False),
    )
    return ModelSpec(decoder, tower, joiner, image_token(config, 10))


FAMILY = Family(
    "mistral3",
    ("mistral3",),
    spec,
    nested_rules((*_JOIN, *TWO_LAYERS)),
    PIXTRAL_PROMPT,
    pixtral_images(patch=14, edge=1540, merge=2),
)
