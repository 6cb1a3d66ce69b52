"""GOT-OCR 2.0 as its authors published it, and MLX's exports of that: a flat config, a vocabulary of tiktoken."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rule, renames
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families.got_vision import (
    IMAGE_TOKEN,
    NO_REPEAT,
    ONE_PICTURE,
    PROJECTOR,
    TOWER,
    model_spec,
    prompt_spec,
    rules,
)
from docai.vlm.images import cut_images
from docai.vlm.spec import ModelSpec

# Fields by which mlx-vlm describes the tower; the original config says nothing of it.
_FIELDS = {
    "embed_dim": "hidden_size", "depth": "num_hidden_layers", "num_heads": "num_attention_heads",
    "in_chans": "num_channels", "img_size": "image_size", "out_chans": "output_channels",
}  # fmt: skip
_PARTS = renames(
    {
        "model.vision_tower_high.{rest}": f"{TOWER}{{rest}}",
        "model.mm_projector_vary.{part}": f"{PROJECTOR}{{part}}",
        "model.{name:embed_tokens|layers|norm}.{rest}": "language_model.model.{name}.{rest}",
        "lm_head.{part}": "language_model.lm_head.{part}",
    }
)
_NECK = {"conv1": "neck.conv1", "norm1": "neck.norm1", "conv2": "neck.conv2", "norm2": "neck.norm2"}
_NUMBERED = {"neck.0": "neck.conv1", "neck.1": "neck.norm1", "neck.2": "neck.conv2", "neck.3": "neck.norm2"}


def spec(config: Config) -> ModelSpec:
    said = config.section("vision_config")
    names = {**{name: name for name in ("patch_size", "window_size", "global_attn_indexes")}, **_FIELDS}
    vision = {new: said[old] for old, new in names.items() if old in said}
    if "mlp_ratio" in said:
        vision["mlp_dim"] = int(vision.get("hidden_size", 768) * said["mlp_ratio"])
    return model_spec(config, Config(vision), config.get("im_patch_token", IMAGE_TOKEN))


def original(spec: ModelSpec, *, channels_last: bool = False) -> tuple[Rule, ...]:
    necks = renames({f"{old}.{{part}}": f"{new}.{{part}}" for old, new in (_NUMBERED | _NECK).items()}, TOWER, TOWER)
    return (*_PARTS, *necks, *rules(spec, channels_last=channels_last))


FAMILY = Family(
    "got",
    ("GOT", "got"),
    spec,
    {"hf": original, "mlx": partial(original, channels_last=True)},
    prompt_spec(indent=8),
    cut_images(),
    no_video=ONE_PICTURE,
    no_repeat_ngram=NO_REPEAT,
)
