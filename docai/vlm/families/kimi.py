"""What Kimi-VL and Kimi K2.5 share: DeepSeek-V3's decoder behind MoonViT, their names and their turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from docai.checkpoint.dialect import Rule, renames
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.expansions import Between
from docai.vlm.families.decoder_rules import decoder_rules, key_rows_by_names
from docai.vlm.families.moonvit import PUBLISHED, kimi_merger, moonvit_rules, moonvit_spec
from docai.vlm.families.nested import MERGER, PROJECTOR, by_layout, nested_decoder
from docai.vlm.families.towers import TOWER
from docai.vlm.prompt_spec import MediumPrompt, PromptSpec
from docai.vlm.spec import ModelSpec

PAD = "<|media_pad|>"
_IMAGE = f"image<|media_content|>{PAD}"
# What configs of Kimi K2.5 say of the tower and the projector in words.
_KNOWN = {
    "merge_type": "sd2_tpool", "pos_emb_type": "divided_fixed", "video_attn_type": "spatial_temporal",
    "mm_projector_type": "patchmerger",
}  # fmt: skip
_TURNS = (
    "{% for message in messages %}{% if loop.first and message.role != 'system' %}"
    "<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>{% endif %}"
    "{{ {'user': '<|im_user|>', 'assistant': '<|im_assistant|>'}.get(message.role, '<|im_system|>') }}"
    "{{ message.role }}<|im_middle|>"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>{% endfor %}"
    "<|im_assistant|>assistant<|im_middle|>"
)


def spec(config: Config, *, clips: bool) -> ModelSpec:
    """Of either family. `clips`: see `moonvit_spec`."""
    decoder = nested_decoder(config, "deepseek_v3", "kimi_k2")
    if not config.get("vision_config"):  # exports of mlx-lm leave the tower out
        return ModelSpec(decoder)
    vision = config.section("vision_config")
    vision.expect(**_KNOWN)
    tower = moonvit_spec(vision, clips=clips)
    eps = config.get("projection_layer_norm_eps") or vision.get("projector_ln_eps") or 1e-5
    token = config.get("media_placeholder_token_id") or config.get("image_token_id") or 163_605
    video = config.get("video_token_id")
    return ModelSpec(decoder, tower, kimi_merger(tower, decoder.dims, eps), token, video)


def by_names(config: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """A head that is not there is the embedding, whatever the config, or its class, says of it."""
    tied = not any(name.endswith(("lm_head.weight", "decoder.head.weight")) for name in names)
    text = {**(config.get("text_config") or {}), "tie_word_embeddings": tied}
    return key_rows_by_names({**config, "text_config": text, "tie_word_embeddings": tied}, names)


# Names that transformers 5.24 saves, and those of Kimi K2.5's projector, in those of Kimi-VL.
_NAMES = renames(
    {
        "language_model.model.blocks.{rest}": "language_model.model.layers.{rest}",
        f"{TOWER}encoder.patch_embed.{{rest}}": f"{TOWER}patch_embed.{{rest}}",
        "model.mm_projector.{rest}": "mm_projector.{rest}",
        "mm_projector.proj.0.{part}": f"{PROJECTOR}linear_1.{{part}}",
        "mm_projector.proj.2.{part}": f"{PROJECTOR}linear_2.{{part}}",
        "mm_projector.pre_norm.{part}": f"{PROJECTOR}pre_norm.{{part}}",
    }
)


def _rules(spec: ModelSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    tower = spec.vision
    return (
        *_NAMES,
        *MERGER,
        *PUBLISHED,
        *(moonvit_rules(tower, channels_last=channels_last) if isinstance(tower, PackedVitSpec) else ()),
        *decoder_rules(spec.decoder, "language_model.model.", "language_model.lm_head."),
    )


RULES = by_layout(_rules)


def prompt_spec(begin: str, end: str, clips: MediumPrompt) -> PromptSpec:
    """`begin` and `end`: what stands around an image."""
    return PromptSpec(
        placeholder=_IMAGE,
        token=PAD,
        image=f"{begin}{_IMAGE}{end}",
        template=_TURNS,
        expand=Between("image<|media_content|>", ""),
        stops=("<|im_end|>",),
        clips=clips,
    )
