"""Nemotron-Parse (Chumachenko et al. 2025, arXiv:2511.20478), 1.x and 2.0: C-RADIO and mBART's decoder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from docai.checkpoint.dialect import Drop, Rename, Reshape, Rule, Split, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.mlp import MlpSpec
from docai.nn.radio import NeckSpec, RadioSpec
from docai.vlm.config import Config
from docai.vlm.controls import asked
from docai.vlm.encdec import EncDecSpec
from docai.vlm.families import Family
from docai.vlm.families.bart import BART, bart_rules, stack_spec
from docai.vlm.images import canvas_images
from docai.vlm.prompt_spec import PromptSpec

# timm's names of vision transformers: (hidden, layers, heads)
_VITS = {"small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16), "huge": (1280, 32, 16)}
_DECODER = {**BART, "decoder_layers": 10, "max_position_embeddings": 9000, "vocab_size": 72_256}


def spec(config: Config) -> EncDecSpec:
    text = config.section("decoder" if config.get("decoder") else "text_config", _DECODER)
    tower = _tower(config.section("encoder" if config.get("encoder") else "vision_config"))
    decoder = stack_spec(text, "decoder", pre_norm=True, positions=False)
    return EncDecSpec(
        text["vocab_size"],
        tower,
        NeckSpec(tower.hidden, decoder.dims, classes=len(tower.summary)),
        decoder,
        min(text["max_position_embeddings"], config.get("max_sequence_length", text["max_position_embeddings"])),
        embed_scale=decoder.dims**0.5 if text.get("scale_embedding", True) else 1.0,
        tied=config.get("tie_word_embeddings", True),
        start=config.get("decoder_start_token_id", 2),
        exact=True,  # two best tokens are often within what bfloat16 can tell apart
    )


def _tower(encoder: Config) -> RadioSpec:
    args = encoder.section("args")
    hidden, layers, heads = _size(args.get("model", encoder.get("model", "vit_huge_patch16_224")))
    hidden = encoder.get("hidden_size", hidden)
    width = int(hidden * encoder.get("mlp_ratio", 4.0))
    classes, patch = encoder.get("num_cls_tokens", 4), encoder.get("patch_size", 16)
    return RadioSpec(
        hidden,
        encoder.get("num_layers", layers),
        encoder.get("num_heads", heads),
        MlpSpec(width, "gelu", gated=False, bias=True),
        patch,
        prefix=classes + encoder.get("num_register_tokens", 4),
        classes=classes,
        summary=tuple(encoder.get("summary_idxs", (0, 1, 2))),
    )


def _size(name: str) -> tuple[int, int, int]:
    for word, size in _VITS.items():
        if name.startswith(f"vit_{word}_patch"):
            return size
    raise CheckpointError(f"config.json, encoder: expected a vit_{'|'.join(_VITS)}; got {name!r}")


# Names of mlx-vlm, in those of the original.
_EXPORTED = renames(
    {
        "vision_tower.patch_embed.weight": "encoder.patches.embedder.weight",
        "vision_tower.pos_embed": "encoder.patches.pos_embed",
        "vision_tower.cls_token": "encoder.patches.cls_token.token",
        "vision_tower.blocks.{rest}": "encoder.tower_blocks.{rest}",
        "vision_tower.neck.{rest}": "encoder.{rest}",
        "language_model.model.shared.{part}": "decoder.embed_tokens.{part}",
        "language_model.model.decoder.{rest}": "decoder.{rest}",
        "language_model.lm_head.{part}": "lm_head.{part}",
        "encoder.model_encoder.radio_model.model.patch_generator.{rest}": "encoder.patches.{rest}",
        "encoder.model_encoder.radio_model.model.blocks.{rest}": "encoder.tower_blocks.{rest}",
    }
)
_NECK = {
    "conv1.{part}": "project.{part}",
    "layer_norm1.{part}": "project_norm.{part}",
    "conv2.weight": "join.weight",
    "layer_norm2.{part}": "join_norm.{part}",
    "sum_proj.{part}": "summary.{part}",
    "layer_norm3.{part}": "summary_norm.{part}",
}


def rules(spec: EncDecSpec, *, channels_last: bool = False) -> tuple[Rule, ...]:
    tower, neck = spec.vision, spec.connector
    assert isinstance(tower, RadioSpec)
    assert isinstance(neck, NeckSpec)
    block, ours = "encoder.tower_blocks.{i}.", "vision.blocks.{i}."
    across = (0, 1, neck.across, 0) if channels_last else (0, 0, 1, neck.across)
    return (
        Drop("encoder.{rest}summary_idxs"),
        Drop("encoder.{rest}input_conditioner.{part}"),
        Drop("decoder.extra_{rest}"),  # heads for more tokens at once, of training
        *_EXPORTED,
        Rename("encoder.patches.embedder.weight", "vision.patch.weight"),
        Reshape("encoder.patches.pos_embed", (-1, tower.hidden)),
        Rename("encoder.patches.pos_embed", "vision.positions"),
        Rename("encoder.patches.cls_token.token", "vision.prefix"),
        Split(f"{block}attn.qkv.{{part}}", tuple(f"{ours}attn.{x}.{{part}}" for x in "qkv")),
        *renames(
            {
                "attn.proj.{part}": "attn.o.{part}",
                "mlp.fc1.{part}": "mlp.up.{part}",
                "mlp.fc2.{part}": "mlp.down.{part}",
                "norm{n}.{part}": "norm{n}.{part}",
            },
            block,
            ours,
        ),
        Reshape("encoder.conv1.weight", (0, -1)),
        Reshape("encoder.conv2.weight", across),  # refuses one whose channels lie elsewhere
        *(() if channels_last else (Transpose("encoder.conv2.weight", (0, 2, 3, 1)),)),
        Reshape("encoder.conv2.weight", (0, -1)),
        *renames(_NECK, "encoder.", "connector."),
        *bart_rules("", "lm_head.", tied=spec.tied, shared="decoder.embed_tokens."),
    )


def by_names(config: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """A head in the file counts: 1.x has one of its own, and no config that is known to say so.

    Exports of MLX have one in any case, which a config that ties it makes a copy of the embedding.
    """
    tied = config.get("tie_word_embeddings") is True
    own = "lm_head.weight" in names or (not tied and "language_model.lm_head.weight" in names)
    return {**config, "tie_word_embeddings": False} if own or "decoder.head.weight" in names else config


FAMILY = Family(
    "nemotron_parse",
    ("nemotron_parse",),
    spec,
    {"hf": rules, "mlx": partial(rules, channels_last=True)},
    PromptSpec(placeholder="<image>"),
    canvas_images(),
    asked=asked,
    by_names=by_names,
)
