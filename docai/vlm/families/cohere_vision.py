"""What Aya Vision and Command A Vision share: SigLIP, squares of whose rows become one, gated, and Cohere2."""

from __future__ import annotations

from docai.checkpoint.dialect import Rename, Split
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families.nested import PROJECTOR, image_token, nested_decoder, nested_rules, vision_config
from docai.vlm.families.towers import vit_spec
from docai.vlm.spec import ModelSpec

# The turns of Command R and Aya, for checkpoints without a chat template.
TURNS = (
    "{{ bos_token }}{% for message in messages %}<|START_OF_TURN_TOKEN|>"
    "{{ {'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'}.get(message.role, '<|SYSTEM_TOKEN|>') }}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|END_OF_TURN_TOKEN|>{% endfor %}"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
)
# The second half of the first layer is the gate.
RULES = nested_rules(
    (
        Rename(f"{PROJECTOR}layernorm.{{part}}", "connector.merge.norm.{part}"),
        Split(f"{PROJECTOR}linear_1.{{part}}", ("connector.merge.up.{part}", "connector.merge.gate.{part}")),
        Rename(f"{PROJECTOR}linear_2.{{part}}", "connector.merge.down.{part}"),
    )
)


def model_spec(config: Config, layer: int | list[int] | None, width: int | None, *, normed: bool) -> ModelSpec:
    """`layer`: the tower's whose rows are taken; None for the last one, normed. `width`: of the gated layer and its
    gate together, where the config does not say it; `normed`: blocks of rows are normed first.
    """
    decoder = nested_decoder(config, "cohere2")
    tower = vit_spec(vision_config(config).with_defaults({"hidden_size": 1152}), "siglip_vision_model", layer)
    merger = MergerSpec(
        tower.hidden * len(tower.features),
        decoder.dims,
        config.get("downsample_factor", 2) ** 2,
        norm="layer" if normed else None,
        norm_eps=config.get("adapter_layer_norm_eps", 1e-6),
        norm_joined=True,
        activation="silu",
        hidden=config.get("alignment_intermediate_size", width or decoder.dims) // 2,
        gated=True,
        by_lines=True,
    )
    return ModelSpec(decoder, tower, merger, image_token(config, 255_036))
