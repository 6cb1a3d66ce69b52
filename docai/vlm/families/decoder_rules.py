"""The weight rules of text decoders, from the names that transformers and MLX give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from docai.checkpoint.dialect import Drop, Rename, Reshape, Rule, Shift, Split, Stack, Transpose, renames
from docai.nn.delta import DeltaSpec
from docai.nn.mla import LatentSpec
from docai.vlm.families.decoders import KEY_ROWS
from docai.vlm.spec import DecoderSpec

_PLAIN_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "mlp_norm"}
_SANDWICH_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "attn_post_norm",
    "pre_feedforward_layernorm": "mlp_norm",
    "post_feedforward_layernorm": "mlp_post_norm",
}


def decoder_rules(
    spec: DecoderSpec, model: str = "model.", head: str = "lm_head.", *, norm_offset: bool = False
) -> tuple[Rule, ...]:
    """From transformers' names to ours. `model` and `head` are what stands before the body's and the head's.

    `norm_offset`: norms multiply by 1 + w (Gemma); the 1 is added here, once.
    """
    norms = _SANDWICH_NORMS if spec.layers[0].sandwich else _PLAIN_NORMS
    layer, ours = f"{model}layers.{{i}}.", "decoder.layers.{i}."
    shifted = [f"{layer}{name}.weight" for name in (*norms, "self_attn.q_norm", "self_attn.k_norm")]
    return (
        Drop(f"{layer}self_attn.rotary_emb.inv_freq"),
        *(Shift(name, 1.0) for name in (*shifted, f"{model}norm.weight") if norm_offset),
        *renames({name + ".weight": new + ".weight" for name, new in norms.items()}, layer, ours),
        Split(f"{layer}self_attn.qkv_proj.{{part}}", tuple(f"{ours}attn.{n}.{{part}}" for n in "qkv"), 0, _qkv(spec)),
        Rename(f"{layer}self_attn.{{x:q|k|v|o}}_proj.{{part}}", f"{ours}attn.{{x}}.{{part}}"),
        Rename(f"{layer}self_attn.{{x:q|k}}_norm.weight", f"{ours}attn.{{x}}_norm.weight"),
        *_latent_rules(spec, f"{layer}self_attn.", f"{ours}attn."),
        *_delta_rules(spec, f"{layer}linear_attn.", f"{ours}attn.", norm_offset=norm_offset),
        *_expert_rules(layer, ours),
        Split(f"{layer}mlp.gate_up_proj.{{part}}", (f"{ours}mlp.gate.{{part}}", f"{ours}mlp.up.{{part}}")),
        Rename(f"{layer}mlp.{{x:gate|up|down}}_proj.{{part}}", f"{ours}mlp.{{x}}.{{part}}"),
        Rename(f"{model}embed_tokens.weight", "decoder.embed.weight"),
        Rename(f"{model}norm.weight", "decoder.norm.weight"),
        Drop(f"{head}weight") if spec.tied else Rename(f"{head}weight", "decoder.head.weight"),
    )  # fmt: skip


def _latent_rules(spec: DecoderSpec, old: str, ours: str) -> tuple[Rule, ...]:
    """Of latent attention: matrices of keys and values are one as published, turned and apart in MLX's files."""
    attention = spec.layers[0].attention
    if not isinstance(attention, LatentSpec):
        return ()
    whole, sizes = f"{old}kv_b_proj.weight", (attention.plain, attention.value)
    keys = f"{ours}key_down.weight" if attention.key_rows else f"{old}embed_k.weight"
    return (
        Reshape(whole, (attention.heads, sum(sizes), -1)),
        Split(whole, (keys, f"{ours}value_up.weight"), 1, sizes),
        Transpose(f"{old}embed_k.weight", (0, 2, 1)),
        *renames(
            {
                "embed_k.weight": "key_up.weight",
                "embed_q.weight": "key_up.weight",
                "unembed_out.weight": "value_up.weight",
                "q_a_proj.{part}": "q_down.{part}",
                "q_a_layernorm.weight": "q_norm.weight",
                "q_b_proj.{part}": "q_up.{part}",
                "kv_a_proj_with_mqa.{part}": "latent.{part}",
                "kv_a_layernorm.weight": "latent_norm.weight",
            },
            old,
            ours,
        ),
    )


def key_rows_by_names(config: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """The config with what only the tensors of latent attention say: whether its matrices are packed as published.

    mlx-vlm's exports of some models leave the matrix of keys and values whole; a quantized one cannot be turned.
    """
    packed = any(name.endswith("kv_b_proj.scales") or ".attn.key_down." in name for name in names)
    section = {"text_config": {**config["text_config"], KEY_ROWS: packed}} if "text_config" in config else {}
    return {**config, KEY_ROWS: packed, **section}


def _delta_rules(spec: DecoderSpec, old: str, ours: str, *, norm_offset: bool) -> tuple[Rule, ...]:
    """Of gated DeltaNet, whose convolution is a matrix (channels, kernel) with a 1 somewhere.

    MLX puts it last, and adds the 1 of norms up at the same time; so one in another place than is expected is refused.
    """
    if not any(isinstance(layer.attention, DeltaSpec) for layer in spec.layers):
        return ()
    named = {
        "conv1d.weight": "weight",
        "in_proj_{x:qkv|z|b|a}.{part}": "{x}.{part}",
        "A_log": "log_rate",
        "dt_bias": "step_bias",
        "norm.weight": "norm.weight",
        "out_proj.{part}": "o.{part}",
    }
    kernel = f"{old}conv1d.weight"
    return (
        Reshape(kernel, (0, 1, 0) if norm_offset else (0, 0, 1)),
        Reshape(kernel, (0, -1)),
        *renames(named, old, ours),
    )


def _qkv(spec: DecoderSpec) -> tuple[int, int, int]:
    attention = spec.layers[0].attention
    return attention.heads, attention.kv_heads, attention.kv_heads


def _expert_rules(layer: str, ours: str) -> tuple[Rule, ...]:
    """A router and experts: one by one (`experts.N`), stacked by MLX (`switch_mlp`), or fused by transformers 5."""
    experts = f"{ours}mlp.experts."
    return (
        Rename(f"{layer}mlp.gate.weight", f"{ours}mlp.router.weight"),
        Rename(f"{layer}mlp.gate.e_score_correction_bias", f"{ours}mlp.router_bias"),
        Rename(f"{layer}mlp.shared_experts.{{x:gate|up|down}}_proj.{{part}}", f"{ours}mlp.shared.{{x}}.{{part}}"),
        Rename(f"{layer}mlp.shared_expert.{{x:gate|up|down}}_proj.{{part}}", f"{ours}mlp.shared.{{x}}.{{part}}"),
        Rename(f"{layer}mlp.shared_expert_gate.{{part}}", f"{ours}mlp.shared_gate.{{part}}"),
        *(Stack(f"{layer}mlp.experts.{{e}}.{x}_proj.weight", f"{experts}{x}.weight") for x in ("gate", "up", "down")),
        Rename(f"{layer}mlp.switch_mlp.{{x:gate|up|down}}_proj.weight", f"{experts}{{x}}.weight"),
        Split(f"{layer}mlp.experts.gate_up_proj", (f"{experts}gate.weight", f"{experts}up.weight"), 1),
        Rename(f"{layer}mlp.experts.down_proj", f"{experts}down.weight"),
    )
