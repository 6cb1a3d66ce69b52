"""nanoLLaVA, made as Bunny is (He et al. 2024, arXiv:2402.11530): SigLIP, a projector of two layers, and Qwen2."""

from __future__ import annotations

from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.families import Family
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.nested import LLAVA_NAMES, OUTSIDE, TWO_LAYERS, nested_rules, vision_config
from docai.vlm.families.text import CHATML
from docai.vlm.families.towers import SO_400M, vit_spec
from docai.vlm.images import siglip_images
from docai.vlm.prompt import PromptSpec
from docai.vlm.spec import ModelSpec

_VISION = {**SO_400M, "image_size": 384, "patch_size": 14}


def spec(config: Config) -> ModelSpec:
    kind = "llama" if config.get("model_type") == "bunny-llama" else "qwen2"
    decoder = decoder_spec(config.section("text_config") if config.get("text_config") else config, kind)
    tower = vit_spec(vision_config(config).with_defaults(_VISION), "siglip_vision_model", -1)
    return ModelSpec(decoder, tower, ProjectorSpec(tower.hidden, decoder.dims), OUTSIDE)


FAMILY = Family(
    "llava_bunny",
    ("llava-qwen2",),
    spec,
    nested_rules(TWO_LAYERS, first=LLAVA_NAMES),
    PromptSpec(placeholder="<image>", token="<image>", image="<image>\n", template=CHATML, token_id=OUTSIDE),
    siglip_images(edge=384, patch=14),
)
