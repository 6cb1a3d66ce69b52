"""Florence-2 (Xiao et al. 2023, arXiv:2311.06242): DaViT and BART, as Microsoft, transformers and MLX write it."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Drop, Rename, Rule, Split, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.davit import DavitSpec, StageSpec
from docai.nn.placed import PlacerSpec, Rows
from docai.vlm.config import Config
from docai.vlm.encdec import EncDecSpec
from docai.vlm.families import Family
from docai.vlm.families.bart import BART, bart_rules, stack_spec
from docai.vlm.images import florence_images
from docai.vlm.markers import ADDED_TOKENS, CAPTIONS, asked
from docai.vlm.prompt_spec import PromptSpec

# Of the base model; a config that leaves these out is transformers'.
_TOWER = {
    "depths": [1, 1, 9, 1], "embed_dim": [128, 256, 512, 1024], "num_heads": [4, 8, 16, 32],
    "num_groups": [4, 8, 16, 32], "patch_size": [7, 3, 3, 3], "patch_stride": [4, 2, 2, 2],
    "patch_padding": [3, 1, 1, 1], "patch_prenorm": [False, True, True, True], "window_size": 12, "mlp_ratio": 4.0,
    "activation_function": "gelu", "max_temporal_embeddings": 100, "max_position_embeddings": 50,
}  # fmt: skip
_ROWS: dict[str, Rows] = {"spatial_avg_pool": "mean", "temporal_avg_pool": "each", "last_frame": "each"}
_STAGE = ("embed_dim", "depths", "num_heads", "num_groups", "patch_size", "patch_stride", "patch_padding")


def spec(config: Config) -> EncDecSpec:
    text, vision = config.section("text_config", BART), config.section("vision_config", _TOWER)
    if text.get("scale_embedding", False):
        raise CheckpointError("config.json, text_config: scale_embedding is not known of Florence-2")
    tower, out = _tower(vision), text["d_model"]
    bart = partial(stack_spec, text, pre_norm=False, positions=True)
    return EncDecSpec(
        text.get("vocab_size", config.get("vocab_size", 51_289)),
        tower,
        _placer(config, vision, tower.width, out),
        bart("decoder"),
        text["max_position_embeddings"],
        bart("encoder"),
        tied=config.get("tie_word_embeddings", True),
        start=text.get("decoder_start_token_id", 2),
        first=text.get("forced_bos_token_id", text.get("bos_token_id", 0)),  # whatever a file leaves out of it
    )


def _tower(vision: Config) -> DavitSpec:
    widths = vision.get("dim_embed") or vision["embed_dim"]
    columns = [widths if name == "embed_dim" else vision[name] for name in (*_STAGE, "patch_prenorm")]
    if len({len(column) for column in columns}) != 1:
        raise CheckpointError(f"config.json, vision_config: expected lists of {len(widths)} stages each")
    stages = tuple(StageSpec(*row) for row in zip(*columns, strict=True))
    ratio, activation = vision["mlp_ratio"], vision["activation_function"]
    return DavitSpec(stages, vision["window_size"], ratio, activation, vision.get("in_chans", 3))


def _placer(config: Config, vision: Config, dims: int, out: int) -> PlacerSpec:
    """Original files describe it in objects, within the vision_config or beside it."""
    where = [part for part in (vision, config) if "image_pos_embed" in part or "image_feature_source" in part]
    said = where[0] if where else Config({})
    place, moment = said.section("image_pos_embed"), said.section("visual_temporal_embedding")
    kinds = place.get("type", "learned_abs_2d"), moment.get("type", "COSINE")
    if kinds != ("learned_abs_2d", "COSINE"):
        raise CheckpointError(f"config.json, vision_config: expected positions learned_abs_2d and COSINE; got {kinds}")
    sources = said.get("image_feature_source", ["spatial_avg_pool", "temporal_avg_pool"])
    if not sources or not set(sources) <= set(_ROWS):
        raise CheckpointError(f"config.json: expected image_feature_source of {', '.join(_ROWS)}; got {sources!r}")
    return PlacerSpec(
        dims,
        out,
        place.get("max_pos_embeddings", vision["max_position_embeddings"]),
        moment.get("max_temporal_embeddings", vision["max_temporal_embeddings"]),
        tuple(_ROWS[source] for source in sources),
    )


# Names of transformers, in those of the original.
_CONVERTED = renames(
    {
        "model.vision_tower.{rest}": "vision_tower.{rest}",
        "model.language_model.{rest}": "language_model.model.{rest}",
        "lm_head.{part}": "language_model.lm_head.{part}",
        "model.multi_modal_projector.image_projection.weight": "connector.project.weight",
        "model.multi_modal_projector.image_position_embed.{rest}": "image_pos_embed.{rest}",
        "model.multi_modal_projector.{rest}": "{rest}",
        "vision_tower.convs.{i}.conv.{part}": "vision_tower.convs.{i}.proj.{part}",
    }
) + renames(
    {
        "conv{n}.{part:weight|bias}": "conv{n}.fn.dw.{part}",
        "norm1.{part}": "window_attn.norm.{part}",
        "{kind:window|channel}_attn.{part:qkv|proj}.{end}": "{kind}_attn.fn.{part}.{end}",
        "norm2.{part}": "ffn.norm.{part}",
        "ffn.fc{n}.{part}": "ffn.fn.net.fc{n}.{part}",
    },
    "vision_tower.blocks.{i}.{j}.{name:spatial|channel}_block.",
    "vision_tower.blocks.{i}.{j}.{name}_block.",
)


def rules(spec: EncDecSpec, *, channels_last: bool = False) -> tuple[Rule, ...]:
    block, ours = "vision_tower.blocks.{i}.{j}.{name:spatial|channel}_block.", "vision.stages.{i}.pairs.{j}.{name}."
    convolutions = ("vision_tower.convs.{i}.proj.weight", f"{block}conv{{n}}.fn.dw.weight")
    attention = f"{block}{{kind:window|channel}}_attn."
    return (
        *_CONVERTED,
        Drop("language_model.final_logits_bias"),
        *(() if channels_last else (Transpose(name, (0, 2, 3, 1)) for name in convolutions)),
        Split(f"{attention}fn.qkv.{{part}}", tuple(f"{ours}attn.{x}.{{part}}" for x in "qkv")),
        *renames({"fn.proj.{part}": "attn.o.{part}", "norm.{part}": "norm1.{part}"}, attention, ours),
        *renames(
            {
                "conv{n}.fn.dw.{part}": "conv{n}.{part}",
                "ffn.norm.{part}": "norm2.{part}",
                "ffn.fn.net.fc1.{part}": "mlp.up.{part}",
                "ffn.fn.net.fc2.{part}": "mlp.down.{part}",
            },
            block,
            ours,
        ),
        Rename("vision_tower.convs.{i}.proj.{part}", "vision.stages.{i}.conv.{part}"),
        Rename("vision_tower.convs.{i}.norm.{part}", "vision.stages.{i}.norm.{part}"),
        Transpose("image_projection", (1, 0)),
        Rename("image_projection", "connector.project.weight"),
        Rename("image_proj_norm.{part}", "connector.norm.{part}"),
        Rename("image_pos_embed.{name:row|column}_embeddings.{part}", "connector.{name}s.{part}"),
        Rename("visual_temporal_embed.pos_idx_to_embed", "connector.moments"),
        *bart_rules("language_model.model.", "language_model.lm_head.", tied=spec.tied),
    )


FAMILY = Family(
    "florence2",
    ("florence2",),
    spec,
    {"hf": rules, "transformers": rules, "mlx": partial(rules, channels_last=True)},
    PromptSpec(placeholder="<image>", captions=CAPTIONS),
    florence_images(),
    asked=asked,
    added_tokens=ADDED_TOKENS,
    remarks={
        "large-ft": "conversions of Florence-2-large-ft are known to answer with nothing but <s>; "
        "Florence-2-base-ft and Florence-2-large do not"
    },
)
