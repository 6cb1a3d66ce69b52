"""MiniCPM-V 4.6 (OpenBMB 2026): SigLIP over slices, whose patches are merged within it and behind it, and Qwen3.5."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from docai.checkpoint.dialect import Drop, Rule, renames
from docai.errors import CheckpointError
from docai.nn.packed_vit import PackedVitSpec
from docai.nn.squeeze import SqueezeSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.expansions import Slices
from docai.vlm.families import Family, Rules
from docai.vlm.families.nested import (
    LAYERS,
    MERGER,
    PROJECTOR,
    image_token,
    nested_decoder,
    packed_rules,
    vision_config,
)
from docai.vlm.families.text import CHATML
from docai.vlm.families.towers import TOWER, naflex_spec
from docai.vlm.native_images import sliced_images
from docai.vlm.prompt_spec import MediumPrompt, PromptSpec
from docai.vlm.spec import ModelSpec
from docai.vlm.videos import sliced_videos


def spec(config: Config) -> ModelSpec:
    config.expect(merger_times=1, merge_kernel_size=[2, 2], drop_vision_last_layer=False)
    decoder = nested_decoder(config, "qwen3_5_text")
    vision = vision_config(config).with_defaults({"image_size": 224, "patch_size": 16})
    tower = tower_spec(vision, config.get("insert_layer_id", 6), config.get("downsample_mode", "16x"))
    merger = MergerSpec(tower.hidden, decoder.dims, norm_joined=True)
    return ModelSpec(decoder, tower, merger, image_token(config, 248_056), config.get("video_token_id", 248_057))


def tower_spec(vision: Config, after: int, mode: str) -> PackedVitSpec:
    """Patches become one behind layer `after` or, in `mode` 4x, only behind the tower."""
    if mode not in ("16x", "4x"):
        raise CheckpointError(f"config.json: expected downsample_mode to be 16x or 4x, got {mode!r}")
    vision.expect(window_kernel_size=[2, 2])
    table = vision["image_size"] // vision["patch_size"]
    tower = replace(naflex_spec(vision, merge=2), positions=table, resampling="nearest")
    if mode == "4x":
        return tower
    if not 0 <= after < tower.layers:
        raise CheckpointError(f"config.json: expected an insert_layer_id of the {tower.layers} layers, got {after}")
    return replace(tower, merge=4, squeeze=SqueezeSpec(after, 4 * tower.mlp.width))


_NAMES = renames(
    {
        "model.{name:merger|vision_tower}.{rest}": "{name}.{rest}",
        "vpm.{rest}": f"{TOWER}{{rest}}",
        "llm.{rest}": "language_model.{rest}",
        f"{TOWER}vit_merger.{{rest}}": "vit_merger.{rest}",
        "merger.mlp.0.{rest}": f"{PROJECTOR}{{rest}}",
    }
)
_UNUSED = Drop("vit_merger.{rest}")  # where patches are merged only once
_SQUEEZE = {
    "layer_norm1.{part}": "norm1.{part}",
    "self_attn.{x:q|k|v}_proj.{part}": "attn.{x}.{part}",
    "self_attn.out_proj.{part}": "attn.o.{part}",
    "pre_norm.{part}": "norm2.{part}",
    **LAYERS,
}
_DIALECTS = packed_rules((*MERGER, *renames(_SQUEEZE, "vit_merger.", "vision.squeeze.")), norm_offset=True)


def _rules(model: ModelSpec, *, others: Rules) -> tuple[Rule, ...]:
    once = isinstance(model.vision, PackedVitSpec) and model.vision.squeeze is None
    return *_NAMES, *((_UNUSED,) if once else ()), *others(model)


_SLICES = Slices("<image>", "</image>", "<slice>", "</slice>")

FAMILY = Family(
    "minicpmv4_6",
    ("minicpmv4_6",),
    spec,
    {dialect: partial(_rules, others=rules) for dialect, rules in _DIALECTS.items()},
    PromptSpec(
        placeholder="<|image_pad|>",
        token="<|image_pad|>",
        image="<|image_pad|>",
        template=CHATML,
        expand=_SLICES,
        number="<image_id>{}</image_id>",
        clips=MediumPrompt("<|video_pad|>", "<|video_pad|>", "<|video_pad|>", _SLICES),
    ),
    sliced_images(),
    videos=sliced_videos(),
)
