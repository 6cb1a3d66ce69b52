"""PaliGemma 1 and 2 (Beyer et al. 2024, arXiv:2407.07726; Steiner et al. 2024, arXiv:2412.03555).

The decoder's embeddings are scaled, its images' rows are not. The whole prompt is a prefix whose tokens see each other.
"""

from __future__ import annotations

from docai.checkpoint.dialect import Rename
from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.families import Family
from docai.vlm.families.nested import PROJECTOR, image_token, nested_decoder, nested_rules, vision_config
from docai.vlm.families.towers import vit_spec
from docai.vlm.images import siglip_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

# What was trained on: images, bos, one request, a line break. There are no turns.
_REQUEST = (
    "{% for part in messages[-1].content if part.type == 'image' %}{{ image }}{% endfor %}{{ bos_token }}"
    "{% for part in messages[-1].content if part.type != 'image' %}{{ part.text }}{% endfor %}{{ '\\n' }}"
)


def spec(config: Config) -> ModelSpec:
    decoder = nested_decoder(config, "gemma", "gemma2")
    tower = vit_spec(vision_config(config), "siglip_vision_model")
    projector = ProjectorSpec(tower.hidden, decoder.dims, activation=None)
    return ModelSpec(decoder, tower, projector, image_token(config, 256_000), image_mask="prompt")


FAMILY = Family(
    "paligemma",
    ("paligemma",),
    spec,
    nested_rules((Rename(f"{PROJECTOR}linear.{{part}}", "connector.up.{part}"),), norm_offset=True),
    PromptSpec(
        placeholder="<image>",
        token="<image>",
        image="<image>",
        template=_REQUEST,
        plain=_REQUEST,
        surround=False,
        captions=("cap en", "caption en", "describe en"),
    ),
    siglip_images(),
)
