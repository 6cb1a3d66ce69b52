"""LLM-jp-VL and Jagle-VL (LLM-jp 2025): SigLIP 2 over tiles, squares of its rows made one, and Llama or Qwen3."""

from __future__ import annotations

from docai.checkpoint.dialect import renames
from docai.preprocess.normalize import HALF
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.expansions import Between
from docai.vlm.families import Family
from docai.vlm.families.nested import PROJECTOR, nested_decoder, nested_rules, vision_config
from docai.vlm.families.towers import SO_400M, TOWER, vit_spec
from docai.vlm.images import cut_images
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

# Harmony's turns, whose last one the published processor opens.
_TURNS = (
    "{% if messages[0].role != 'system' %}<|start|>system<|message|>You are LLM-jp-VL, a Multimodal LLM trained by "
    "LLM-jp.<|end|>{% endif %}{% for message in messages %}<|start|>{{ message.role }}"
    "{{ '<|channel|>final' if message.role == 'assistant' }}<|message|>"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|end|>{% endfor %}<|start|>assistant"
)


def spec(config: Config) -> ModelSpec:
    part = "llm_config" if "llm_config" in config else "text_config"
    decoder = nested_decoder(config, "llama", "qwen3", "qwen2", part=part)
    tower = vit_spec(vision_config(config).with_defaults({**SO_400M, "image_size": 512}), "siglip_vision_model")
    config.expect(select_layer=-1)
    merger = MergerSpec(
        tower.hidden,
        decoder.dims,
        round(1 / config.get("downsample_ratio", 0.5)) ** 2,
        norm_eps=1e-5,  # torch's own; in no config
        norm_joined=True,
        hidden=decoder.dims,
        by_lines=True,
    )
    token = config.get("img_context_token_id", config.get("image_token_index", 14))
    return ModelSpec(decoder, tower, merger, token)


_NAMES = renames({"vision_backbone.vision_model.{rest}": f"{TOWER}{{rest}}", "mlp1.{rest}": f"{PROJECTOR}{{rest}}"})
_MERGER = renames(
    {"0.{part}": "norm.{part}", "1.{part}": "up.{part}", "3.{part}": "down.{part}"}, PROJECTOR, "connector.merge."
)

FAMILY = Family(
    "llmjpvl",
    ("llmjpvl",),
    spec,
    nested_rules(_MERGER, first=_NAMES),
    PromptSpec(
        placeholder="<image>",
        token="<|image_pad|>",
        image="<image>",
        template=_TURNS,
        expand=Between("<|image_start|>", "<|image_end|>"),
        stops=("<|return|>", "<|end|>"),
        opening="<|channel|>final<|message|>",
        context=4096,
    ),
    cut_images(edge=512, patch=16, merge=2, cut=True, mean=HALF, std=HALF),
)
