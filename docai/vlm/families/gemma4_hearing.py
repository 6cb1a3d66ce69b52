"""How Gemma 4 hears (Google 2026): by a Conformer, or, its Unified, samples straight into the decoder."""

from __future__ import annotations

from docai.checkpoint.dialect import Drop, Reshape, Rule, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.clipped import BOUNDS
from docai.nn.conformer import ConformerSpec
from docai.vlm.config import Config
from docai.vlm.hearing import HearingSpec

_AUDIO = {
    "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8, "hidden_act": "silu",
    "subsampling_conv_channels": (128, 32), "conv_kernel_size": 5, "residual_weight": 0.5, "attention_chunk_size": 12,
    "attention_context_left": 13, "attention_context_right": 0, "attention_logit_cap": 50.0,
    "use_clipped_linears": True, "rms_norm_eps": 1e-6, "gradient_clipping": 1e10, "output_proj_dims": 1536,
}  # fmt: skip
_SHRINK, _LAYER = "subsample_conv_projection.", "layers.{i}."


def conformer_hearing(config: Config, dims: int) -> HearingSpec | None:
    """The tower of an `audio_config` and the way into a decoder of `dims`; None where there is none."""
    if not config.get("audio_config"):
        return None
    audio = config.section("audio_config").with_defaults(_AUDIO)
    first, second = audio["subsampling_conv_channels"]
    if first % 4 or audio["hidden_size"] % audio["num_attention_heads"]:
        raise CheckpointError(
            f"config.json: a tower of {first} bins and {audio['hidden_size']} numbers cannot be cut into fours and "
            f"{audio['num_attention_heads']} heads"
        )
    tower = ConformerSpec(
        audio["hidden_size"],
        audio["num_hidden_layers"],
        audio["num_attention_heads"],
        bins=first,  # as many as channels: no config has a number of its own for them
        out=audio["output_proj_dims"],
        channels=(first, second),
        kernel=audio["conv_kernel_size"],
        chunk=audio["attention_chunk_size"],
        past=audio["attention_context_left"] - 1,
        ahead=audio["attention_context_right"],
        cap=audio["attention_logit_cap"],
        bound=audio["gradient_clipping"],
        feed_scale=audio["residual_weight"],
        activation=audio["hidden_act"],
        norm_eps=audio["rms_norm_eps"],
        clipped=audio["use_clipped_linears"],
    )
    return HearingSpec(tower.out, dims, tower, tower.norm_eps)


def raw_hearing(config: Config, dims: int) -> HearingSpec | None:
    """The way of samples into a decoder of `dims`; None without an `audio_config`."""
    if not config.get("audio_config"):
        return None
    audio = config.section("audio_config").with_defaults({"audio_embed_dim": 640, "rms_norm_eps": 1e-6})
    return HearingSpec(audio["audio_embed_dim"], dims, norm_eps=audio["rms_norm_eps"])


def hearing_rules(hearing: HearingSpec | None, *, channels_last: bool) -> tuple[Rule, ...]:
    """From transformers' names to ours; `channels_last`: MLX's convolutions."""
    if hearing is None:
        return (Drop("audio_tower.{rest}"), Drop("embed_audio.{rest}"))
    up = renames({"embed_audio.embedding_projection.{part}": "hearing.up.{part}"})
    return up if hearing.tower is None else (*_tower_rules(hearing.tower, channels_last=channels_last), *up)


def _tower_rules(tower: ConformerSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    convolution = f"audio_tower.{_SHRINK}layer{{n}}.conv.weight"
    unclipped = () if tower.clipped else tuple(Drop(f"audio_tower.{_LAYER}{{rest}}.{bound}") for bound in BOUNDS)
    steps = {
        f"{_LAYER}feed_forward{number}.{theirs}": f"{_LAYER}{place}.{ours}"
        for number, place in ((1, "feed_before"), (2, "feed_behind"))
        for theirs, ours in (
            ("ffw_layer_1.{rest}", "up.{rest}"),
            ("ffw_layer_2.{rest}", "down.{rest}"),
            ("pre_layer_norm.weight", "norm_before.weight"),
            ("post_layer_norm.weight", "norm_behind.weight"),
        )
    }
    attention, mixing = f"{_LAYER}self_attn.", f"{_LAYER}lconv1d."
    return (
        *unclipped,
        *(() if channels_last else (Transpose(convolution, (0, 2, 3, 1)),)),
        Reshape(f"audio_tower.{mixing}depthwise_conv1d.weight", (0, -1)),
        *renames(
            {
                f"{_SHRINK}layer{{n}}.conv.weight": "shrink.{n}.weight",
                f"{_SHRINK}layer{{n}}.norm.weight": "shrink.{n}.norm.weight",
                f"{_SHRINK}input_proj_linear.{{part}}": "enter.{part}",
                "output_proj.{part}": "leave.{part}",
                **steps,
                f"{_LAYER}norm_pre_attn.weight": f"{_LAYER}norm_before.weight",
                f"{_LAYER}norm_post_attn.weight": f"{_LAYER}norm_behind.weight",
                f"{_LAYER}norm_out.weight": f"{_LAYER}norm_out.weight",
                f"{attention}{{x:q|k|v}}_proj.{{rest}}": f"{_LAYER}attention.{{x}}.{{rest}}",
                f"{attention}post.{{rest}}": f"{_LAYER}attention.out.{{rest}}",
                f"{attention}relative_k_proj.{{part}}": f"{_LAYER}attention.relative.{{part}}",
                f"{attention}per_dim_scale": f"{_LAYER}attention.scale",
                f"{mixing}linear_{{x:start|end}}.{{rest}}": f"{_LAYER}convolution.{{x}}.{{rest}}",
                f"{mixing}depthwise_conv1d.weight": f"{_LAYER}convolution.weight",
                f"{mixing}pre_layer_norm.weight": f"{_LAYER}convolution.norm.weight",
                f"{mixing}conv_norm.weight": f"{_LAYER}convolution.norm_inner.weight",
            },
            "audio_tower.",
            "hearing.tower.",
        ),
    )
