"""LFM2-VL (Liquid AI 2025, arXiv:2511.23404): SigLIP 2 over images of any size, and convolutions between attention."""

from __future__ import annotations

from docai.checkpoint.dialect import Reshape, renames
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.expansions import Tiles
from docai.vlm.families import Family
from docai.vlm.families.nested import MERGER, image_token, nested_decoder, nested_rules, vision_config
from docai.vlm.families.text import CHATML
from docai.vlm.families.towers import naflex_spec
from docai.vlm.native_images import split_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    decoder = nested_decoder(config, "lfm2")
    tower = naflex_spec(vision_config(config), merge=config.get("downsample_factor", 2))
    merger = MergerSpec(
        tower.hidden,
        decoder.dims,
        tower.merge**2,
        norm="layer" if config.get("projector_use_layernorm", True) else None,
        norm_eps=1e-5,  # torch's own; in no config
        norm_joined=True,
        activation=config.get("projector_hidden_act", "gelu"),
        hidden=config.get("projector_hidden_size", 2560),
        bias=config.get("projector_bias", True),
    )
    return ModelSpec(decoder, tower, merger, image_token(config, 396))


_LAYER, _CONV = "language_model.model.layers.{i}.", "decoder.layers.{i}.attn."
# The decoder's names as those of others; its convolutions as ours.
_NAMES = (
    *renames({"model.language_model.{rest}": "language_model.model.{rest}"}),
    Reshape(f"{_LAYER}conv.conv.weight", (0, -1)),
    *renames(
        {
            f"{_LAYER}conv.conv.{{part}}": f"{_CONV}{{part}}",
            f"{_LAYER}conv.in_proj.{{part}}": f"{_CONV}project.{{part}}",
            f"{_LAYER}conv.out_proj.{{part}}": f"{_CONV}out.{{part}}",
            f"{_LAYER}operator_norm.weight": f"{_LAYER}input_layernorm.weight",
            f"{_LAYER}ffn_norm.weight": f"{_LAYER}post_attention_layernorm.weight",
            f"{_LAYER}self_attn.out_proj.{{part}}": f"{_LAYER}self_attn.o_proj.{{part}}",
            f"{_LAYER}self_attn.{{x:q|k}}_layernorm.weight": f"{_LAYER}self_attn.{{x}}_norm.weight",
            f"{_LAYER}feed_forward.w1.{{part}}": f"{_LAYER}mlp.gate_proj.{{part}}",
            f"{_LAYER}feed_forward.w2.{{part}}": f"{_LAYER}mlp.down_proj.{{part}}",
            f"{_LAYER}feed_forward.w3.{{part}}": f"{_LAYER}mlp.up_proj.{{part}}",
            "language_model.model.embedding_norm.weight": "language_model.model.norm.weight",
        }
    ),
)

FAMILY = Family(
    "lfm2_vl",
    ("lfm2_vl", "lfm2-vl"),
    spec,
    nested_rules(MERGER, first=_NAMES),
    PromptSpec(
        placeholder="<image>",
        token="<image>",
        image="<image>",
        template=CHATML,
        expand=Tiles("<|image_start|>", "<|image_end|>", "<|img_row_{}_col_{}|>", "<|img_thumbnail|>"),
    ),
    split_images(),
)
