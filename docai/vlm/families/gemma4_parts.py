"""What Gemma 4 and Gemma 4 Unified share beside their decoder (Google 2026): names, tokens, turns, pictures, sounds."""

from __future__ import annotations

from collections.abc import Callable

from docai.checkpoint.dialect import Drop, Rule, renames
from docai.vlm.config import Config
from docai.vlm.expansions import Between, Timed
from docai.vlm.families.gemma4_decoder import TURNS, gemma4_decoder, gemma4_rules, looks_ahead, text_config
from docai.vlm.families.gemma4_hearing import hearing_rules
from docai.vlm.hearing import HearingSpec
from docai.vlm.prompt_spec import MediumPrompt, PromptSpec
from docai.vlm.spec import ModelSpec

# From files of transformers, as published ones are, to those of MLX.
_PARTS = renames(
    {
        "model.language_model.{rest}": "language_model.model.{rest}",
        "lm_head.{rest}": "language_model.lm_head.{rest}",
        "model.{part:vision_tower|vision_embedder|embed_vision|audio_tower|embed_audio}.{rest}": "{part}.{rest}",
    }
)


UNSEEN = tuple(Drop(f"{part}.{{rest}}") for part in ("vision_tower", "vision_embedder", "embed_vision"))


def base_spec(config: Config, kind: str, hearing: Callable[[Config, int], HearingSpec | None]) -> ModelSpec:
    """The decoder, how it hears, and the tokens of images, clips and sounds."""
    text = text_config(config.section("text_config"), kind)
    decoder = gemma4_decoder(text)
    heard = hearing(config, decoder.dims)
    return ModelSpec(
        decoder,
        hearing=heard,
        audio_token=config.get("audio_token_id", 258_881) if heard else None,
        image_token=config.get("image_token_id", 258_880),
        video_token=config.get("video_token_id", 258_884),
        image_mask="image" if looks_ahead(text) else None,
    )


def whole_rules(spec: ModelSpec, seen: tuple[Rule, ...], *, channels_last: bool) -> tuple[Rule, ...]:
    """From transformers' names, or MLX's, to ours; `seen`: those of what sees, or `UNSEEN`."""
    heard = hearing_rules(spec.hearing, channels_last=channels_last)
    return (*_PARTS, *seen, *heard, *gemma4_rules(spec.decoder, "language_model.model.", "language_model.lm_head."))


def _minutes(seconds: float) -> str:
    """As it stands before a frame."""
    return f"{int(seconds // 60):02d}:{int(seconds % 60):02d} "


PROMPT = PromptSpec(
    placeholder="<|image|>",
    token="<|image|>",
    image="\n\n<|image|>\n\n",
    template=TURNS,
    expand=Between("<|image>", "<image|>"),
    stops=("<turn|>",),
    clips=MediumPrompt(
        "<|video|>", "<|video|>", "\n\n<|video|>\n\n", Timed("<|image>", "<image|>", time=_minutes, between=" ")
    ),
    sounds=MediumPrompt("<|audio|>", "<|audio|>", "<|audio|>", Between("<|audio>", "<audio|>")),
)
