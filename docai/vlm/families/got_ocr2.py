"""GOT-OCR 2.0 as transformers has it: a text and a vision config, its own names."""

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
from docai.vlm.families.nested import image_token
from docai.vlm.images import cut_images
from docai.vlm.spec import ModelSpec

# Newer files have one more level.
_PARTS = renames(
    {
        "model.language_model.{rest}": "language_model.model.{rest}",
        "lm_head.{part}": "language_model.lm_head.{part}",
        f"model.{TOWER}{{rest}}": f"{TOWER}{{rest}}",
        f"model.{PROJECTOR}{{rest}}": f"{PROJECTOR}{{rest}}",
        f"{PROJECTOR}conv_upsampler1.{{part}}": f"{TOWER}net_2.{{part}}",
        f"{PROJECTOR}conv_upsampler2.{{part}}": f"{TOWER}net_3.{{part}}",
        f"{PROJECTOR}multimodal_projector.{{part}}": f"{PROJECTOR}{{part}}",
    }
) + renames(
    {
        "layers.{i}.layer_norm{n}.{part}": "blocks.{i}.norm{n}.{part}",
        "layers.{i}.{rest}": "blocks.{i}.{rest}",
        "patch_embed.projection.{part}": "patch_embed.proj.{part}",
        "neck.layer_norm{n}.{part}": "neck.norm{n}.{part}",
    },
    TOWER,
    TOWER,
)


def spec(config: Config) -> ModelSpec:
    text = config.section("text_config", {"tie_word_embeddings": config.get("tie_word_embeddings", True)})
    return model_spec(text, config.section("vision_config"), image_token(config, IMAGE_TOKEN))


def converted(spec: ModelSpec, *, channels_last: bool = False) -> tuple[Rule, ...]:
    return (*_PARTS, *rules(spec, channels_last=channels_last))


FAMILY = Family(
    "got_ocr2",
    ("got_ocr2",),
    spec,
    {"transformers": converted, "mlx": partial(converted, channels_last=True)},
    prompt_spec(spaced=True),
    cut_images(),
    no_video=ONE_PICTURE,
    no_repeat_ngram=NO_REPEAT,
)
