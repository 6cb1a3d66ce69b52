"""Text decoders under the families: their configs as `DecoderSpec`s.

Field names and defaults are those of transformers' configuration classes: a config.json may leave out what its class
knows (LLaVA 1.5's text_config names hardly anything).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from docai.errors import CheckpointError
from docai.nn.attention import AttentionSpec
from docai.nn.delta import DeltaSpec
from docai.nn.gated_attention import GatedAttentionSpec
from docai.nn.mla import LatentSpec
from docai.nn.mlp import MlpSpec
from docai.nn.moe import MoeSpec
from docai.nn.short_conv import ShortConvSpec
from docai.vlm.config import Config
from docai.vlm.families.ropes import magnitude, rope_parameters, rope_spec
from docai.vlm.spec import DecoderSpec, LayerSpec

KEY_ROWS = "kv_b_quantized"  # ours, not of any config: see `LatentSpec.key_rows`
_LLAMA = {
    "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
_QWEN = {**_LLAMA, "vocab_size": 151_936, "intermediate_size": 22_016, "max_position_embeddings": 32_768}
_QWEN_3_5 = {
    **_LLAMA, "vocab_size": 248_320, "intermediate_size": 12_288, "num_attention_heads": 16, "num_key_value_heads": 4,
    "max_position_embeddings": 32_768, "head_dim": 256, "partial_rotary_factor": 0.25, "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}  # fmt: skip
_GEMMA = {
    **_LLAMA, "vocab_size": 256_000, "max_position_embeddings": 8192, "tie_word_embeddings": True,
    "hidden_act": "gelu_pytorch_tanh", "head_dim": 256,
}  # fmt: skip
_COHERE = {
    **_LLAMA, "vocab_size": 256_000, "hidden_size": 8192, "intermediate_size": 22_528, "num_hidden_layers": 40,
    "num_attention_heads": 64, "max_position_embeddings": 8192, "layer_norm_eps": 1e-5, "sliding_window": 4096,
}  # fmt: skip
_GEMMA_2 = {
    **_GEMMA, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "sliding_window": 4096,
}  # fmt: skip
_LATENT = {
    **_LLAMA, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "qk_nope_head_dim": 128, "rope_interleave": True,
}  # fmt: skip
_DEEPSEEK = {
    **_LATENT, "vocab_size": 129_280, "hidden_size": 7168, "intermediate_size": 18_432, "num_hidden_layers": 61,
    "num_attention_heads": 128, "max_position_embeddings": 4096, "moe_intermediate_size": 2048, "n_shared_experts": 1,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3,
    "norm_topk_prob": True, "routed_scaling_factor": 2.5,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "mistral": {
        **_LLAMA, "intermediate_size": 14_336, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
        "sliding_window": 4096,
    },
    "lfm2": {
        **_LLAMA, "vocab_size": 65_536, "hidden_size": 2560, "intermediate_size": 12_288, "num_key_value_heads": 8,
        "max_position_embeddings": 128_000, "rope_theta": 1e6, "norm_eps": 1e-5, "tie_word_embeddings": True,
        "conv_bias": False, "conv_L_cache": 3, "block_multiple_of": 256, "block_auto_adjust_ff_dim": True,
    },
    "phi3": {
        **_LLAMA, "vocab_size": 32_064, "hidden_size": 3072, "intermediate_size": 8192, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
    },
    "qwen2": {**_QWEN, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3": {**_QWEN, "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3_moe": {
        **_QWEN, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_key_value_heads": 4,
        "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": 128,
        "norm_topk_prob": False, "sliding_window": 4096, "max_window_layers": 28,
    },
    "qwen3_5_text": _QWEN_3_5,
    "qwen3_5_moe_text": {
        **_QWEN_3_5, "hidden_size": 2048, "num_hidden_layers": 40, "num_key_value_heads": 2, "num_experts": 256,
        "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    },
    "cohere2": {**_COHERE, "logit_scale": 0.0625, "tie_word_embeddings": True, "sliding_window_pattern": 4},
    "cohere_compass_text": _COHERE,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": {
        **_DEEPSEEK, "vocab_size": 163_840, "num_attention_heads": 64, "max_position_embeddings": 262_144,
        "n_routed_experts": 384, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "rms_norm_eps": 1e-5,
        "routed_scaling_factor": 2.827, "rope_theta": 5e4,
    },
    "youtu": {
        **_LATENT, "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 16,
        "max_position_embeddings": 131_072, "tie_word_embeddings": True, "num_experts_per_tok": 1,
        "first_k_dense_replace": 0, "norm_topk_prob": True, "routed_scaling_factor": 1.0,
    },
    "gemma": {
        **_GEMMA, "hidden_size": 3072, "intermediate_size": 24_576, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 16,
    },
    "gemma2": {**_GEMMA_2, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0},
    "gemma3_text": {
        **_GEMMA_2, "vocab_size": 262_208, "max_position_embeddings": 131_072, "rope_theta": 1e6,
        "rope_local_base_freq": 10_000.0, "sliding_window_pattern": 6,
    },
}  # fmt: skip


def decoder_spec(config: Config, kind: str | None = None) -> DecoderSpec:
    """The decoder that a text config describes; `kind` where its model_type is missing or another.

    Raises CheckpointError for a kind that is not known.
    """
    kind = kind or config.get("model_type")
    if kind not in DEFAULTS:
        raise CheckpointError(f"text decoder {kind!r} is not supported; supported: {', '.join(sorted(DEFAULTS))}")
    config = config.with_defaults(DEFAULTS[kind])
    makers: dict[str, Callable[[Config], DecoderSpec]] = {
        "cohere2": _cohere_2, "cohere_compass_text": _cohere_compass, "gemma": _gemma, "gemma2": _gemma_2,
        "gemma3_text": _gemma_3, "lfm2": _lfm_2, "phi3": _phi_3, "qwen2": _qwen_2, "qwen3": _qwen_3,
        "qwen3_moe": _qwen_3, "qwen3_5_text": _qwen_3_5, "qwen3_5_moe_text": _qwen_3_5,
        "youtu": _latent, "deepseek_v3": _latent, "kimi_k2": _latent,
    }  # fmt: skip
    return makers.get(kind, _llama)(config)


def _llama(config: Config) -> DecoderSpec:
    attention = _attention(config, qkv_bias=config["attention_bias"], out_bias=config["attention_bias"])
    mlp = MlpSpec(config["intermediate_size"], config["hidden_act"], bias=config["mlp_bias"])
    window = config.get("sliding_window")
    return _decoder(config, [LayerSpec(_windowed(attention, window), mlp)] * config["num_hidden_layers"])


def _phi_3(config: Config) -> DecoderSpec:
    mlp = MlpSpec(config["intermediate_size"], config["hidden_act"])
    attention = _windowed(_attention(config), config.get("sliding_window"))
    return _decoder(config, [LayerSpec(attention, mlp)] * config["num_hidden_layers"])


def _qwen_2(config: Config) -> DecoderSpec:
    attention = _attention(config, qkv_bias=True)
    mlp = MlpSpec(config["intermediate_size"], config["hidden_act"])
    return _decoder(config, [LayerSpec(_windowed(attention, w), mlp) for w in _qwen_windows(config)])


def _qwen_3(config: Config) -> DecoderSpec:
    bias = config["attention_bias"]
    attention = _attention(config, qkv_bias=bias, out_bias=bias, head_norm=True)
    mlps = [_qwen_mlp(config, number) for number in range(config["num_hidden_layers"])]
    windows = _qwen_windows(config)
    return _decoder(config, [LayerSpec(_windowed(attention, w), m) for w, m in zip(windows, mlps, strict=True)])


def _qwen_mlp(config: Config, number: int) -> MlpSpec | MoeSpec:
    experts = config.get("num_local_experts") or config.get("num_experts")  # the former since transformers 5
    dense = not experts or number in config.get("mlp_only_layers", ())
    if dense or (number + 1) % config["decoder_sparse_step"]:
        return MlpSpec(config["intermediate_size"], config["hidden_act"])
    return MoeSpec(
        experts, config["num_experts_per_tok"], config["moe_intermediate_size"], config["hidden_act"],
        normalized=config["norm_topk_prob"],
    )  # fmt: skip


def _qwen_3_5(config: Config) -> DecoderSpec:
    """Gated DeltaNet in most layers, attention with gates in the others."""
    bias, kinds = config["attention_bias"], _layer_kinds(config, config["full_attention_interval"], "linear_attention")
    plain = _attention(config)
    mixers = {
        "full_attention": GatedAttentionSpec(
            plain.heads, plain.kv_heads, plain.head_dim, plain.rope, qkv_bias=bias, out_bias=bias
        ),
        "linear_attention": DeltaSpec.of(
            config["linear_num_value_heads"],
            config["linear_num_key_heads"],
            value_dim=config["linear_value_head_dim"],
            key_dim=config["linear_key_head_dim"],
            kernel=config["linear_conv_kernel_dim"],
            activation=config["hidden_act"],
        ),
    }
    if other := set(kinds) - mixers.keys():
        raise CheckpointError(f"config.json: layer_types: expected {' or '.join(mixers)}; got {other.pop()!r}")
    mlp = _qwen_3_5_mlp(config)
    return _decoder(config, [LayerSpec(mixers[kind], mlp) for kind in kinds])


def _qwen_3_5_mlp(config: Config) -> MlpSpec | MoeSpec:
    experts, act = config.get("num_local_experts") or config.get("num_experts"), config["hidden_act"]
    if not experts:
        return MlpSpec(config["intermediate_size"], act)
    shared = MlpSpec(config["shared_expert_intermediate_size"], act)
    return MoeSpec(
        experts, config["num_experts_per_tok"], config["moe_intermediate_size"], act, shared=shared, shared_gate=True
    )


def _qwen_windows(config: Config) -> list[int | None]:
    count = config["num_hidden_layers"]
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    kinds = config.get("layer_types") or [
        "sliding_attention" if number >= config["max_window_layers"] else "full_attention" for number in range(count)
    ]
    return [window if kind == "sliding_attention" else None for kind in kinds]


def _gemma(config: Config) -> DecoderSpec:
    mlp = MlpSpec(config["intermediate_size"], _gelu(config))
    return _decoder(config, [LayerSpec(_attention(config), mlp)] * config["num_hidden_layers"], scaled=True)


def _gemma_2(config: Config) -> DecoderSpec:
    cap, kinds = config.get("attn_logit_softcapping"), _layer_kinds(config, 2)
    attention = _attention(config, scale=config["query_pre_attn_scalar"] ** -0.5, cap=cap)
    mlp = MlpSpec(config["intermediate_size"], _gelu(config))
    windows = [config["sliding_window"] if kind == "sliding_attention" else None for kind in kinds]
    return _decoder(config, [LayerSpec(_windowed(attention, w), mlp, True) for w in windows], scaled=True)


def _gemma_3(config: Config) -> DecoderSpec:
    """Local layers turn by a theta of their own, and are not scaled."""
    cap, kinds = config.get("attn_logit_softcapping"), _layer_kinds(config, config["sliding_window_pattern"])
    local = {"rope_theta": config["rope_local_base_freq"]}
    common = {"scale": config["query_pre_attn_scalar"] ** -0.5, "cap": cap, "head_norm": True}
    attention = {
        "full_attention": _attention(config, rope=rope_parameters(config, "full_attention"), **common),
        "sliding_attention": _windowed(
            _attention(config, rope=rope_parameters(config, "sliding_attention", local), **common),
            config["sliding_window"],
        ),
    }
    mlp = MlpSpec(config["intermediate_size"], _gelu(config))
    return _decoder(config, [LayerSpec(attention[kind], mlp, True) for kind in kinds], scaled=True)


def _cohere_2(config: Config) -> DecoderSpec:
    """Layers that see everything have no positions."""
    whole = _unturned(config, qkv_bias=config["attention_bias"], out_bias=config["attention_bias"])
    rope = replace(rope_spec(config, rope_parameters(config), whole.head_dim), interleaved=True)
    local = replace(whole, rope=rope, window=config["sliding_window"])
    kinds = _layer_kinds(config, config["sliding_window_pattern"])
    return _parallel(config, [local if kind == "sliding_attention" else whole for kind in kinds])


def _cohere_compass(config: Config) -> DecoderSpec:
    """Each kind of layers has its positions, or, where those are null, none."""
    whole = _unturned(config, qkv_bias=config["attention_bias"], out_bias=config["attention_bias"])
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    said = config.get("rope_parameters", {})
    ropes = {kind: said[kind] if kind in said else rope_parameters(config) for kind in kinds}
    attention = {
        kind: replace(
            whole,
            rope=rope_spec(config, rope, whole.head_dim) if rope else None,
            window=config["sliding_window"] if kind == "sliding_attention" else None,
        )
        for kind, rope in ropes.items()
    }
    return _parallel(config, [attention[kind] for kind in kinds])


def _parallel(config: Config, layers: list[AttentionSpec]) -> DecoderSpec:
    """Cohere's: layers whose branches stand side by side, and norms of its own."""
    mlp = MlpSpec(config["intermediate_size"], config["hidden_act"])
    spec = _decoder(config, [LayerSpec(attention, mlp, parallel=True) for attention in layers])
    return replace(spec, norm="layer", norm_eps=config["layer_norm_eps"], logit_scale=config.get("logit_scale", 1.0))


def _lfm_2(config: Config) -> DecoderSpec:
    """Attention in some layers, short convolutions in the others."""
    dims, count = config["hidden_size"], config["num_hidden_layers"]
    attended = config.get("full_attn_idxs", range(count))
    kinds = config.get("layer_types") or ["full_attention" if n in attended else "conv" for n in range(count)]
    mlp = MlpSpec(_lfm_2_width(config), "silu")
    attention = _attention(config, head_norm=True)
    mixers = {"conv": ShortConvSpec.of(dims, config["conv_L_cache"], bias=config["conv_bias"])}
    spec = _decoder(config, [LayerSpec(mixers.get(kind, attention), mlp) for kind in kinds])
    tied = config.get("tie_embedding", config["tie_word_embeddings"])  # the first files call it so
    return replace(spec, norm_eps=config["norm_eps"], tied=tied)


def _lfm_2_width(config: Config) -> int:
    """The width of feed-forward blocks, which is said before two thirds of it are taken and rounded up."""
    width: int = config.get("block_ff_dim", config["intermediate_size"])
    if not config["block_auto_adjust_ff_dim"]:
        return width
    width = int(config.get("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
    return -(-width // config["block_multiple_of"]) * config["block_multiple_of"]


def _latent(config: Config) -> DecoderSpec:
    """Latent attention and, behind the first layers, experts (DeepSeek-V3); Youtu's layers are dense but for a few."""
    said, bias = rope_parameters(config), config["attention_bias"]
    rope = replace(rope_spec(config, said, config["qk_rope_head_dim"]), interleaved=bool(config["rope_interleave"]))
    attention = LatentSpec.of(
        config["num_attention_heads"],
        rope,
        rank=config["kv_lora_rank"],
        plain=config["qk_nope_head_dim"],
        value=config["v_head_dim"],
        scale=magnitude(said.get("factor", 1.0), said.get("mscale_all_dim") or 0.0) ** 2,
        query_rank=config.get("q_lora_rank"),
        qkv_bias=bias,
        out_bias=bias,
        key_rows=config.get(KEY_ROWS, False),
    )
    mlps = [_latent_mlp(config, number) for number in range(config["num_hidden_layers"])]
    return _decoder(config, [LayerSpec(attention, mlp) for mlp in mlps])


def _latent_mlp(config: Config, number: int) -> MlpSpec | MoeSpec:
    experts, activation = config.get("n_routed_experts"), config["hidden_act"]
    dense = not experts or number < config["first_k_dense_replace"] or number % config.get("moe_layer_freq", 1)
    if dense:
        return MlpSpec(config["intermediate_size"], activation, bias=config["mlp_bias"])
    config.expect(scoring_func="sigmoid", topk_method="noaux_tc")
    width, shared = config["moe_intermediate_size"], config.get("n_shared_experts") or 0
    top_k, groups, top_groups = (config.get(name) or 1 for name in ("num_experts_per_tok", "n_group", "topk_group"))
    return MoeSpec(
        experts,
        top_k,
        width,
        activation,
        normalized=config["norm_topk_prob"],
        shared=MlpSpec(width * shared, activation) if shared else None,
        scoring="sigmoid",
        groups=groups,
        top_groups=top_groups,
        scale=float(config["routed_scaling_factor"]),
    )


def _gelu(config: Config) -> str:
    """The first files of Gemma say "gelu" in hidden_act and mean its approximation, as all code reads it."""
    name: str = config.get("hidden_activation") or config["hidden_act"]
    return "gelu_pytorch_tanh" if name == "gelu" else name


def _layer_kinds(config: Config, every: int, other: str = "sliding_attention") -> list[str]:
    """`layer_types`, or full attention in every `every`-th layer and the other kind between them."""
    count = config["num_hidden_layers"]
    kinds: list[str] = config.get("layer_types") or [
        "full_attention" if (number + 1) % every == 0 else other for number in range(count)
    ]
    return kinds


def _decoder(config: Config, layers: list[LayerSpec], *, scaled: bool = False) -> DecoderSpec:
    return DecoderSpec(
        config["hidden_size"],
        config["vocab_size"],
        tuple(layers),
        config["max_position_embeddings"],
        norm_eps=config["rms_norm_eps"],
        tied=config["tie_word_embeddings"],
        embed_scale=math.sqrt(config["hidden_size"]) if scaled else 1.0,
        logit_cap=config.get("final_logit_softcapping"),
    )


def _attention(config: Config, *, rope: dict[str, Any] | None = None, **more: Any) -> AttentionSpec:
    spec = _unturned(config, **more)
    return replace(spec, rope=rope_spec(config, rope or rope_parameters(config), spec.head_dim))


def _unturned(config: Config, **more: Any) -> AttentionSpec:
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return AttentionSpec(heads, config.get("num_key_value_heads") or heads, head_dim, None, **more)


def _windowed(attention: AttentionSpec, window: int | None) -> AttentionSpec:
    return replace(attention, window=window)
