"""Gemma 4, text only (Google 2026)."""

from __future__ import annotations

from docai.checkpoint.dialect import Rule
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families.gemma4_decoder import TURNS, gemma4_decoder, gemma4_rules, text_config
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec


def spec(config: Config) -> ModelSpec:
    return ModelSpec(gemma4_decoder(text_config(config, "gemma4_text")))


def rules(spec: ModelSpec) -> tuple[Rule, ...]:
    return gemma4_rules(spec.decoder, "model.", "lm_head.")


FAMILY = Family(
    "gemma4_text",
    ("gemma4_text", "gemma4_unified_text"),
    spec,
    {"transformers": rules, "mlx": rules},
    PromptSpec(template=TURNS, stops=("<turn|>",)),
)
