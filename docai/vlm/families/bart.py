"""What families over BART or mBART share: their configs as stacks of layers, and their names."""

from __future__ import annotations

from docai.checkpoint.dialect import Drop, Rename, Rule, renames
from docai.nn.cross import CrossSpec
from docai.nn.mlp import MlpSpec
from docai.vlm.config import Config
from docai.vlm.encdec import StackSpec

# What transformers' configuration classes know, of both.
BART = {
    "d_model": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096, "encoder_attention_heads": 16,
    "decoder_layers": 12, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16, "activation_function": "gelu",
    "max_position_embeddings": 1024,
}  # fmt: skip
_LAYER = {
    "self_attn.{x:q|k|v}_proj.{part}": "attn.{x}.{part}",
    "self_attn.out_proj.{part}": "attn.o.{part}",
    "self_attn_layer_norm.{part}": "attn_norm.{part}",
    "encoder_attn.{x:q|k|v}_proj.{part}": "cross.{x}.{part}",
    "encoder_attn.out_proj.{part}": "cross.o.{part}",
    "encoder_attn_layer_norm.{part}": "cross_norm.{part}",
    "fc1.{part}": "mlp.up.{part}",
    "fc2.{part}": "mlp.down.{part}",
    "final_layer_norm.{part}": "mlp_norm.{part}",
}


def stack_spec(config: Config, side: str, *, pre_norm: bool, positions: bool) -> StackSpec:
    """The `encoder` or the `decoder` of a config."""
    mlp = MlpSpec(config[f"{side}_ffn_dim"], config["activation_function"], gated=False, bias=True)
    layer = CrossSpec(config["d_model"], config[f"{side}_attention_heads"], mlp, pre_norm)
    return StackSpec(config[f"{side}_layers"], layer, config["max_position_embeddings"] if positions else 0)


def bart_rules(prefix: str, head: str, *, tied: bool, shared: str = "shared.") -> tuple[Rule, ...]:
    """From the names behind `prefix` to ours. `shared`: the table of embeddings; copies of it are dropped."""
    tables = ("encoder.embed_tokens.", "decoder.embed_tokens.")
    return (
        Rename(f"{prefix}{shared}{{part}}", "decoder.embed.{part}"),
        *(Drop(f"{prefix}{table}{{part}}") for table in tables if table != shared),
        Drop(f"{head}{{part}}") if tied else Rename(f"{head}{{part}}", "decoder.head.{part}"),
        *renames(
            {
                "embed_positions.{part}": "positions.{part}",
                "layernorm_embedding.{part}": "embed_norm.{part}",
                "layer_norm.{part}": "norm.{part}",
                **{f"layers.{{i}}.{old}": f"layers.{{i}}.{new}" for old, new in _LAYER.items()},
            },
            f"{prefix}{{side:encoder|decoder}}.",
            "{side}.",
        ),
    )
