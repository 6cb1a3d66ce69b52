"""What nanoLLaVA and Bunny over Llama 3 share (He et al. 2024, arXiv:2402.11530): SigLIP and a small projector."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.families import Family
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.nested import LLAVA_NAMES, OUTSIDE, TWO_LAYERS, nested_rules
from docai.vlm.families.towers import SO_400M, vit_spec
from docai.vlm.images import siglip_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec


def bunny_family(name: str, model_type: str, decoder: str, template: str, *, fixed: bool = False) -> Family:
    """A family over a `decoder`; `template` and `fixed` as in `PromptSpec`."""
    return Family(
        name,
        (model_type,),
        partial(_spec, kind=decoder),
        nested_rules(TWO_LAYERS, first=LLAVA_NAMES),
        PromptSpec("<image>", "<image>", "<image>\n", template, token_id=OUTSIDE, fixed=fixed),
        siglip_images(edge=384, patch=14),
        by_names=_tower_by_names,
    )


def _tower_by_names(config: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """The config with the layers that the tower has: the published code drops the last one, whatever is said of it."""
    found = [re.search(r"vision_(?:tower|model)\..*\blayers\.(\d+)\.|^vision\.blocks\.(\d+)\.", name) for name in names]
    layers = {one[1] or one[2] for one in found if one}
    if not layers:
        return config
    return {**config, "vision_config": {**(config.get("vision_config") or {}), "num_hidden_layers": len(layers)}}


def _spec(config: Config, *, kind: str) -> ModelSpec:
    decoder = decoder_spec(config.section("text_config") if config.get("text_config") else config, kind)
    vision = config.section("vision_config", {**SO_400M, "image_size": 384, "patch_size": 14})
    tower = vit_spec(vision, "siglip_vision_model", -1)
    return ModelSpec(decoder, tower, ProjectorSpec(tower.hidden, decoder.dims), OUTSIDE)
