"""Gemma 4 Unified (Google 2026): patches of 48 pixels straight into the decoder, without a tower."""

from __future__ import annotations

from dataclasses import replace

from docai.checkpoint.dialect import Reshape, Rule, Split, Transpose, renames
from docai.nn.patch_rows import PatchRowsSpec
from docai.vlm.audio import raw_sounds
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families.gemma4_hearing import raw_hearing
from docai.vlm.families.gemma4_parts import PROMPT, UNSEEN, base_spec, whole_rules
from docai.vlm.native_images import budget_images
from docai.vlm.spec import ModelSpec
from docai.vlm.videos import budget_videos

_VISION = {
    "patch_size": 16, "pooling_kernel_size": 3, "mm_embed_dim": 3840, "mm_posemb_size": 1120, "rms_norm_eps": 1e-6,
}  # fmt: skip


def spec(config: Config) -> ModelSpec:
    base = base_spec(config, "gemma4_unified_text", raw_hearing)
    if not config.get("vision_config"):
        return base
    vision = config.section("vision_config").with_defaults(_VISION)
    side = vision["patch_size"] * vision["pooling_kernel_size"]
    rows = PatchRowsSpec(
        3 * side**2, vision["mm_embed_dim"], base.decoder.dims, vision["mm_posemb_size"], vision["rms_norm_eps"]
    )
    return replace(base, connector=rows)


def rules(spec: ModelSpec) -> tuple[Rule, ...]:
    seen = _rows_rules(spec.connector) if isinstance(spec.connector, PatchRowsSpec) else UNSEEN
    return whole_rules(spec, seen, channels_last=False)  # it has no convolutions


def _rows_rules(rows: PatchRowsSpec) -> tuple[Rule, ...]:
    table = "vision_embedder.pos_embedding"
    return (
        Transpose(table, (1, 0, 2)),
        Reshape(table, (-1, rows.hidden)),  # columns, then rows
        Split(table, ("connector.columns.weight", "connector.rows.weight")),
        *renames(
            {
                "vision_embedder.patch_ln1.{part}": "in_norm.{part}",
                "vision_embedder.patch_dense.{part}": "project.{part}",
                "vision_embedder.patch_ln2.{part}": "norm.{part}",
                "vision_embedder.pos_norm.{part}": "placed_norm.{part}",
                "embed_vision.embedding_projection.{part}": "up.{part}",
            },
            new="connector.",
        ),
    )


_IMAGES = budget_images("mm_posemb_size", 1120, whole=True)

FAMILY = Family(
    "gemma4_unified",
    ("gemma4_unified",),
    spec,
    dict.fromkeys(("hf", "transformers", "mlx"), rules),
    PROMPT,
    _IMAGES,
    text_only=True,
    videos=budget_videos(_IMAGES),
    sounds=raw_sounds,
    sound_with_video=True,
)
