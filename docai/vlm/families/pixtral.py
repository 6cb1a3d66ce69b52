"""Pixtral (Agrawal et al. 2024, arXiv:2410.07073); transformers calls it a `llava` with another tower."""

from __future__ import annotations

from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.families import Family
from docai.vlm.families.nested import (
    PIXTRAL_PROMPT,
    TWO_LAYERS,
    image_token,
    nested_decoder,
    nested_rules,
    vision_config,
)
from docai.vlm.families.towers import pixtral_spec
from docai.vlm.native_images import pixtral_images
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    decoder = nested_decoder(config, "mistral")
    tower = pixtral_spec(vision_config(config), config.get("vision_feature_layer", -1))
    activation, bias = config.get("projector_hidden_act", "gelu"), config.get("multimodal_projector_bias", True)
    projector = ProjectorSpec(tower.hidden, decoder.dims, activation, bias)
    return ModelSpec(decoder, tower, projector, image_token(config, 10))


FAMILY = Family(
    "pixtral",
    ("llava+pixtral", "pixtral"),
    spec,
    nested_rules(TWO_LAYERS),
    PIXTRAL_PROMPT,
    pixtral_images(),
)
