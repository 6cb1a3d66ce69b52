"""The tower of Gemma 4 (Google 2026) and the way out of it: its config, and what its weights are called."""

from __future__ import annotations

from docai.checkpoint.dialect import Drop, Rename, Reshape, Rule, Split, renames
from docai.errors import CheckpointError
from docai.nn.clipped import BOUNDS
from docai.nn.sandwich_vit import SandwichVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import AveragerSpec

_VISION = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16, "num_attention_heads": 12,
    "head_dim": 64, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "pooling_kernel_size": 3,
    "patch_size": 16, "position_embedding_size": 10_240, "use_clipped_linears": False, "standardize": False,
}  # fmt: skip


def tower_spec(config: Config) -> SandwichVitSpec:
    """The tower of a `vision_config`. Raises CheckpointError."""
    vision = config.with_defaults(_VISION)
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


def averager_spec(config: Config, tower: SandwichVitSpec, out: int) -> AveragerSpec:
    """What leads from it into a decoder of `out` numbers."""
    standard = config.with_defaults(_VISION)["standardize"]
    return AveragerSpec(tower.hidden, out, tower.merge**2, tower.norm_eps, standard=standard)


def tower_rules(tower: SandwichVitSpec) -> tuple[Rule, ...]:
    """From transformers' names to ours."""
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
