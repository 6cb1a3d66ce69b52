"""Phi-4-reasoning-vision (Microsoft 2026): SigLIP 2 over images of any size, a projector of two layers, and Phi-4."""

from __future__ import annotations

from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.families import Family
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.nested import LLAVA_NAMES, OUTSIDE, TWO_LAYERS, nested_rules, vision_config
from docai.vlm.families.towers import SO_400M, naflex_spec
from docai.vlm.native_images import bounded_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

_TEXT = {
    "vocab_size": 100_352, "hidden_size": 5120, "intermediate_size": 17_920, "num_hidden_layers": 40,
    "num_attention_heads": 40, "num_key_value_heads": 10, "rope_theta": 5e5, "max_position_embeddings": 32_768,
}  # fmt: skip
# ChatML's turns with a mark behind the role.
_TURNS = (
    "{% for message in messages %}<|im_start|>{{ message.role }}<|im_sep|>"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>{% endfor %}"
    "<|im_start|>assistant<|im_sep|>"
)


def spec(config: Config) -> ModelSpec:
    decoder = decoder_spec(config.with_defaults(_TEXT), "phi3")
    tower = naflex_spec(vision_config(config).with_defaults(SO_400M), config.get("mm_vision_select_layer", -2))
    return ModelSpec(decoder, tower, ProjectorSpec(tower.hidden, decoder.dims), OUTSIDE)


FAMILY = Family(
    "phi4_siglip",
    ("phi4-siglip",),
    spec,
    nested_rules(TWO_LAYERS, first=LLAVA_NAMES),
    PromptSpec(placeholder="<image>", token="<image>", image="<image>\n", template=_TURNS, token_id=OUTSIDE),
    bounded_images(),
)
