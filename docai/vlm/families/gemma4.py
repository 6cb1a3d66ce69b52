"""Gemma 4 (Google 2026): a tower with positions of columns and rows, whose patches are averaged 3 x 3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from docai.checkpoint.dialect import Drop, Rename, Reshape, Rule, Split, renames
from docai.errors import CheckpointError
from docai.nn.clipped import BOUNDS
from docai.nn.sandwich_vit import SandwichVitSpec
from docai.vlm.audio import mel_sounds
from docai.vlm.config import Config
from docai.vlm.connector import AveragerSpec
from docai.vlm.families import Family
from docai.vlm.families.gemma4_decoder import gemma4_rules
from docai.vlm.families.gemma4_hearing import conformer_hearing, hearing_rules
from docai.vlm.families.gemma4_parts import PARTS, PROMPT, base_spec
from docai.vlm.images import budget_images
from docai.vlm.spec import ModelSpec
from docai.vlm.videos import budget_videos

_VISION = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16, "num_attention_heads": 12,
    "head_dim": 64, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "pooling_kernel_size": 3,
    "patch_size": 16, "position_embedding_size": 10_240, "use_clipped_linears": False, "standardize": False,
}  # fmt: skip


def spec(config: Config) -> ModelSpec:
    base = base_spec(config, "gemma4_text", conformer_hearing)
    if not config.get("vision_config"):
        return base
    vision = config.section("vision_config").with_defaults(_VISION)
    tower = _tower(vision)
    averager = AveragerSpec(
        tower.hidden, base.decoder.dims, tower.merge**2, tower.norm_eps, standard=vision["standardize"]
    )
    return replace(base, vision=tower, connector=averager)


def _tower(vision: Config) -> SandwichVitSpec:
    heads = vision["num_attention_heads"]
    if vision.get("num_key_value_heads", heads) != heads:
        raise CheckpointError(f"config.json: expected {heads} num_key_value_heads of the tower, as it has heads")
    return SandwichVitSpec(
        vision["hidden_size"],
        vision["num_hidden_layers"],
        heads,
        vision["head_dim"],
        vision["intermediate_size"],
        vision["patch_size"],
        vision["position_embedding_size"],
        vision["pooling_kernel_size"],
        vision["hidden_activation"],
        (vision.get("rope_parameters") or {}).get("rope_theta", 100.0),
        vision["rms_norm_eps"],
        vision["use_clipped_linears"],
    )


def rules(spec: ModelSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    text = gemma4_rules(spec.decoder, "language_model.model.", "language_model.lm_head.")
    heard = hearing_rules(spec.hearing, channels_last=channels_last)
    if not isinstance(spec.vision, SandwichVitSpec):
        return (*PARTS, Drop("vision_tower.{rest}"), Drop("embed_vision.{rest}"), *heard, *text)
    return (*PARTS, *_tower_rules(spec.vision), *heard, *text)


def _tower_rules(tower: SandwichVitSpec) -> tuple[Rule, ...]:
    table, layer, ours = "vision_tower.patch_embedder.position_embedding_table", "encoder.layers.{i}.", "blocks.{i}."
    unclipped = () if tower.clipped else tuple(Drop(f"vision_tower.{layer}{{rest}}.{bound}") for bound in BOUNDS)
    return (
        *unclipped,
        Reshape(table, (-1, tower.hidden)),  # columns, then rows
        Split(table, ("vision.columns.weight", "vision.rows.weight")),
        Rename("vision_tower.std_{part:bias|scale}", "connector.{part}"),
        Rename("embed_vision.embedding_projection.{part}", "connector.up.{part}"),
        *renames(
            {
                "patch_embedder.input_proj.{part}": "patch.{part}",
                f"{layer}input_layernorm.weight": f"{ours}attn_norm.weight",
                f"{layer}post_attention_layernorm.weight": f"{ours}attn_post_norm.weight",
                f"{layer}pre_feedforward_layernorm.weight": f"{ours}mlp_norm.weight",
                f"{layer}post_feedforward_layernorm.weight": f"{ours}mlp_post_norm.weight",
                f"{layer}self_attn.{{x:q|k}}_norm.weight": f"{ours}attn.{{x}}_norm.weight",
                f"{layer}self_attn.{{x:q|k|v|o}}_proj.{{rest}}": f"{ours}attn.{{x}}.{{rest}}",
                f"{layer}mlp.{{x:gate|up|down}}_proj.{{rest}}": f"{ours}mlp.{{x}}.{{rest}}",
            },
            "vision_tower.",
            "vision.",
        ),
    )


_IMAGES = budget_images("position_embedding_size", 10_240, whole=False)

FAMILY = Family(
    "gemma4",
    ("gemma4",),
    spec,
    {dialect: partial(rules, channels_last=dialect == "mlx") for dialect in ("hf", "transformers", "mlx")},
    PROMPT,
    _IMAGES,
    text_only=True,
    videos=budget_videos(_IMAGES),
    sounds=mel_sounds,
)
