"""Gemma 3 (Gemma Team 2025, arXiv:2503.19786): SigLIP, pooled. The rows of an image see each other."""

from __future__ import annotations

import math

from docai.checkpoint.dialect import Rename, Shift, Transpose
from docai.errors import CheckpointError
from docai.vlm.config import Config
from docai.vlm.connector import PoolerSpec
from docai.vlm.expansions import Framed
from docai.vlm.families import Family
from docai.vlm.families.nested import PROJECTOR, image_token, nested_decoder, nested_rules, vision_config
from docai.vlm.families.towers import vit_spec
from docai.vlm.images import gemma_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<start_of_turn>{{ 'model' if message.role == 'assistant' else 'user' }}\n"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<end_of_turn>\n{% endfor %}"
    "<start_of_turn>model{{ '\\n' }}"  # Jinja would drop a bare line break
)


def spec(config: Config) -> ModelSpec:
    decoder = nested_decoder(config, "gemma3_text")
    tower = vit_spec(vision_config(config), "siglip_vision_model")
    tokens = config.get("mm_tokens_per_image", 256)
    side = math.isqrt(tokens)
    if side**2 != tokens or tower.side % side:
        raise CheckpointError(
            f"config.json: {tower.side} x {tower.side} patches cannot be pooled to mm_tokens_per_image {tokens}"
        )
    pooler = PoolerSpec(tower.hidden, decoder.dims, tower.side // side, tower.norm_eps)
    return ModelSpec(decoder, tower, pooler, image_token(config, 262_144), image_mask="image")


_POOLER_RULES = (
    Transpose(f"{PROJECTOR}mm_input_projection_weight", (1, 0)),  # stored input by output
    Rename(f"{PROJECTOR}mm_input_projection_weight", "connector.up.weight"),
    Shift(f"{PROJECTOR}mm_soft_emb_norm.weight", 1.0),
    Rename(f"{PROJECTOR}mm_soft_emb_norm.weight", "connector.norm.weight"),
)

FAMILY = Family(
    "gemma3",
    ("gemma3",),
    spec,
    nested_rules(_POOLER_RULES, norm_offset=True),
    PromptSpec(
        placeholder="<start_of_image>",
        token="<image_soft_token>",
        image="<start_of_image>",
        template=_TEMPLATE,
        expand=Framed("\n\n<start_of_image>", "<end_of_image>\n\n"),
    ),
    gemma_images(),
)
