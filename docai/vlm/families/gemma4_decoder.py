"""The decoder of Gemma 4 (Google 2026) and what its checkpoints call its weights.

Layers are of two kinds, with heads, keys and rotation of their own. The last ones of small models see the keys and
values of the last layer of their kind that has some; every layer of those takes in embeddings of its own.
"""

from __future__ import annotations

import math
from typing import Any

from docai.checkpoint.dialect import Drop, Rename, Rule, Split, Stack, renames
from docai.errors import CheckpointError
from docai.nn.attention import AttentionSpec
from docai.nn.mlp import MlpSpec
from docai.nn.moe import MoeSpec
from docai.nn.per_layer import PerLayerSpec
from docai.nn.twofold import TwofoldSpec
from docai.vlm.config import Config
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.ropes import rope_spec
from docai.vlm.spec import DecoderSpec, LayerSpec

FULL, SLIDING = "full_attention", "sliding_attention"
_UNIFIED: dict[str, Any] = {
    "vocab_size": 262_144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512,
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 262_144, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True, "attention_bias": False, "sliding_window": 1024, "attention_k_eq_v": False,
    "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "use_bidirectional_attention": "vision",
}  # fmt: skip
_DEFAULTS = {
    "gemma4_text": {
        **_UNIFIED, "max_position_embeddings": 131_072, "sliding_window": 512, "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262_144, "use_bidirectional_attention": None,
    },
    "gemma4_unified_text": _UNIFIED,
}  # fmt: skip
_ROPE = {
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
}
# The turns of Gemma 4, for checkpoints without a chat template.
TURNS = (
    "{{ bos_token }}{% for message in messages %}"
    "<|turn>{{ 'model' if message.role == 'assistant' else message.role }}\n"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<turn|>\n{% endfor %}"
    "<|turn>model{{ '\\n' }}"  # Jinja would drop a bare line break
)


def text_config(config: Config, kind: str) -> Config:
    """The part about the text, with what its class knows; `kind` where it names none. Raises CheckpointError."""
    kind = config.get("model_type", kind)
    if kind not in _DEFAULTS:
        raise CheckpointError(f"text decoder {kind!r} is not supported here; supported: {', '.join(_DEFAULTS)}")
    return config.with_defaults(_DEFAULTS[kind])


def looks_ahead(text: Config) -> bool:
    """Whether the tokens of an image see each other. Raises CheckpointError where all tokens do."""
    said = text.get("use_bidirectional_attention")
    if said not in (None, "vision"):
        raise CheckpointError(
            f"config.json: use_bidirectional_attention {said!r} is that of a model that writes nothing; "
            "supported: vision, or none"
        )
    return bool(said)


def gemma4_decoder(text: Config) -> DecoderSpec:
    """The decoder of a `text_config`. Raises CheckpointError."""
    looks_ahead(text)
    kinds = _layer_kinds(text)
    lenders = _lenders(kinds, text["num_kv_shared_layers"])
    layers = [
        LayerSpec(
            _attention(text, number, kind), _mlp(text, borrows=lender is not None), sandwich=True, scaled=True,
            lender=lender,
        )
        for number, (kind, lender) in enumerate(zip(kinds, lenders, strict=True))
    ]  # fmt: skip
    inner = text["hidden_size_per_layer_input"]
    return DecoderSpec(
        text["hidden_size"],
        text["vocab_size"],
        tuple(layers),
        text["max_position_embeddings"],
        norm_eps=text["rms_norm_eps"],
        tied=text["tie_word_embeddings"],
        embed_scale=math.sqrt(text["hidden_size"]),
        logit_cap=text.get("final_logit_softcapping"),
        per_layer=_per_layer(text, inner) if inner else None,
    )


def _per_layer(text: Config, width: int) -> PerLayerSpec:
    """Embeddings of so many numbers for each layer. Raises CheckpointError where tokens have none."""
    own, blank = text["vocab_size_per_layer_input"], text.get("pad_token_id") or 0
    if own < text["vocab_size"] or not 0 <= blank < own:
        raise CheckpointError(
            f"config.json: vocab_size_per_layer_input {own} leaves out tokens of {text['vocab_size']}, or the one that "
            f"stands for images, {blank}"
        )
    return PerLayerSpec(width, own, blank)


def _layer_kinds(text: Config) -> list[str]:
    """Of each layer; the last one always sees everything."""
    count = text["num_hidden_layers"]
    said = text.get("layer_types") or [SLIDING if (number + 1) % 6 else FULL for number in range(count)]
    if len(said) != count or set(said) - {FULL, SLIDING}:
        raise CheckpointError(f"config.json: expected layer_types of {count} layers, {FULL} or {SLIDING}; got {said}")
    return [*said[:-1], FULL]


def _lenders(kinds: list[str], shared: int) -> list[int | None]:
    """The layer whose keys each one sees, None for its own."""
    own = kinds[: len(kinds) - shared]
    if not 0 <= shared < len(kinds) or set(kinds) - set(own):
        raise CheckpointError(
            f"config.json: {shared} num_kv_shared_layers of {len(kinds)} leave no layer of each kind before them"
        )
    last = {kind: number for number, kind in enumerate(own)}
    return [None] * len(own) + [last[kind] for kind in kinds[len(own) :]]


def _attention(text: Config, number: int, kind: str) -> AttentionSpec:
    said, full = _own(text, number, kind), kind == FULL
    head_dim = said.get("head_dim", text["head_dim"])
    return AttentionSpec(
        text["num_attention_heads"],
        said.get("num_key_value_heads", text["num_key_value_heads"]),
        head_dim,
        rope_spec(text, (text.get("rope_parameters") or _ROPE)[kind], head_dim),
        scale=1.0,
        qkv_bias=text["attention_bias"],
        out_bias=text["attention_bias"],
        head_norm=True,
        window=None if full else text["sliding_window"],
        value_norm=True,
        values_are_keys=full and text["attention_k_eq_v"],
        ahead="never" if full else "in window",
    )


def _own(text: Config, number: int, kind: str) -> dict[str, Any]:
    """What the heads of a layer have other than most, in the newer form (`per_layer_config`) or the published one."""
    if text.get("per_layer_config") is not None:
        return dict(text["per_layer_config"].get(str(number), {}))
    if kind == SLIDING:
        return {}
    heads = text.get("num_global_key_value_heads") if text["attention_k_eq_v"] else None
    return {"head_dim": text["global_head_dim"], **({"num_key_value_heads": heads} if heads else {})}


def _mlp(text: Config, *, borrows: bool) -> MlpSpec | TwofoldSpec:
    """Layers without keys of their own may be twice as wide."""
    wide = 2 if borrows and text.get("use_double_wide_mlp") else 1
    dense = MlpSpec(wide * text["intermediate_size"], text["hidden_activation"])
    if not text.get("enable_moe_block"):
        return dense
    experts = MoeSpec(
        text["num_experts"], text["top_k_experts"], text["moe_intermediate_size"], text["hidden_activation"]
    )
    return TwofoldSpec(dense, experts)


def gemma4_rules(spec: DecoderSpec, model: str, head: str) -> tuple[Rule, ...]:
    """From transformers' names to ours; `model` and `head` as in `decoder_rules`."""
    layer, ours = f"{model}layers.{{i}}.", "decoder.layers.{i}."
    borrowers = [number for number, layer in enumerate(spec.layers) if layer.lender is not None]
    return (
        *(Drop(f"{model}layers.{n}.self_attn.{{x:k_proj|v_proj|k_norm|v_norm}}.{{rest}}") for n in borrowers),
        *renames(
            {
                "embed_tokens_per_layer.weight": "embed.weight",
                "per_layer_model_projection.{part}": "project.{part}",
                "per_layer_projection_norm.weight": "norm.weight",
            },
            model,
            "decoder.per_layer.",
        ),
        *renames(
            {
                "layer_scalar": "scale",
                "per_layer_input_gate.{part}": "inlet.gate.{part}",
                "per_layer_projection.{part}": "inlet.up.{part}",
                "post_per_layer_input_norm.weight": "inlet.norm.weight",
            },
            layer,
            ours,
        ),
        *(_twofold_rules(layer, ours) if isinstance(spec.layers[0].mlp, TwofoldSpec) else ()),
        *decoder_rules(spec, model, head),
    )


def _twofold_rules(layer: str, ours: str) -> tuple[Rule, ...]:
    """Experts are fused as published, one by one, or stacked by MLX (`switch_glu`)."""
    experts = f"{ours}mlp.experts."
    return (
        *renames(
            {
                "pre_feedforward_layernorm.weight": "dense_norm.weight",
                "post_feedforward_layernorm_1.weight": "dense_post_norm.weight",
                "pre_feedforward_layernorm_2.weight": "norm.weight",
                "post_feedforward_layernorm_2.weight": "post_norm.weight",
                "mlp.{x:gate|up|down}_proj.{part}": "dense.{x}.{part}",
                "router.scale": "router.scale",
                "router.per_expert_scale": "router.per_expert",
                "router.proj.{part}": "router.proj.{part}",
            },
            layer,
            f"{ours}mlp.",
        ),
        *(Stack(f"{layer}experts.{{e}}.{x}_proj.weight", f"{experts}{x}.weight") for x in ("gate", "up", "down")),
        Rename(f"{layer}experts.switch_glu.{{x:gate|up|down}}_proj.weight", f"{experts}{{x}}.weight"),
        Split(f"{layer}experts.gate_up_proj", (f"{experts}gate.weight", f"{experts}up.weight"), 1),
        Rename(f"{layer}experts.down_proj", f"{experts}down.weight"),
    )
