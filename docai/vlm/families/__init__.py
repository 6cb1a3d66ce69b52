"""Model families. Each is data in a module of its own, found by the `model_type` of a config.json.

A family says how a foreign config becomes a `ModelSpec` and foreign tensors its weights, how images are prepared, and
how a prompt is written. It has no forward pass and imports no other family.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from docai.checkpoint.recipes import later_family
from docai.errors import CheckpointError

if TYPE_CHECKING:
    from docai.checkpoint.dialect import Rule
    from docai.preprocess.clips import ClipProcessor
    from docai.preprocess.inputs import ImageProcessor
    from docai.preprocess.sounds import SoundProcessor
    from docai.vlm.ask import Asked
    from docai.vlm.config import Config
    from docai.vlm.encdec import EncDecSpec
    from docai.vlm.prompt_spec import PromptSpec
    from docai.vlm.spec import ModelSpec
    from docai.vlm.tokenizer import Tokenizer

Rules = Callable[[Any], "tuple[Rule, ...]"]  # of the family's spec


@dataclass(frozen=True, slots=True)
class Family:
    """What has to be said of a family of models.

    `spec` reads a config. `rules` gives the weight rules of each dialect, best guess first. `images` makes the image
    processor from preprocessor_config.json and config.json; None for families without a tower. `text_only`: there are
    checkpoints without the tower's weights, to be used for text.

    `videos` makes the processor of clips. A family with a tower that has none sees them as pictures, unless `no_video`
    says why not. `sounds` makes the processor of sounds, of families that hear; `sound_with_video`: videos beside them,
    too. `no_repeat_ngram`: answers never repeat so many tokens, where nothing else is asked for.

    Encoder-decoder models have `asked`, which puts a prompt into ids. `added_tokens` belong into a vocabulary that
    lacks them. `remarks`: what the user should know of checkpoints whose name has this in it. `by_names`: the config
    with what it leaves to the names of the tensors.
    """

    name: str
    model_types: tuple[str, ...]
    spec: Callable[[Config], ModelSpec | EncDecSpec]
    rules: Mapping[str, Rules]
    prompt: PromptSpec
    images: Callable[[Mapping[str, Any], Mapping[str, Any]], ImageProcessor] | None = None
    text_only: bool = False
    asked: Callable[[str, Tokenizer], Asked] | None = None
    added_tokens: tuple[str, ...] = ()
    remarks: Mapping[str, str] = field(default_factory=dict)
    by_names: Callable[[Mapping[str, Any], Collection[str]], Mapping[str, Any]] | None = None
    videos: Callable[[Mapping[str, Any], Mapping[str, Any]], ClipProcessor] | None = None
    no_video: str = ""
    no_repeat_ngram: int = 0
    sounds: Callable[[Mapping[str, Any], Mapping[str, Any]], SoundProcessor] | None = None
    sound_with_video: bool = False


# model_type -> the module of its family. `a+b`: an `a` whose vision_config has model_type `b` is of another family.
FAMILIES: dict[str, str] = {
    "aya_vision": "aya_vision",
    "bunny-llama": "bunny_llama",
    "cohere2_vision": "cohere2_vision",
    "cohere_compass": "cohere_compass",
    "deepseek_v3": "deepseek",
    "florence2": "florence2",
    "falcon_ocr": "falcon_ocr",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma3",
    "gemma3_text": "gemma",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4_text",
    "gemma4_unified": "gemma4_unified",
    "gemma4_unified_text": "gemma4_text",
    "GOT": "got",
    "got": "got",
    "got_ocr2": "got_ocr2",
    "kimi_k2": "deepseek",
    "kimi_k25": "kimi_k25",
    "kimi_vl": "kimi_vl",
    "lfm2-vl": "lfm2_vl",
    "lfm2_vl": "lfm2_vl",
    "llama": "llama",
    "llmjpvl": "llmjpvl",
    "llava": "llava",
    "llava+pixtral": "pixtral",
    "llava-qwen2": "llava_bunny",
    "llava_next": "llava_next",
    "locateanything": "locateanything",
    "mage_vl": "mage_vl",
    "minicpmv4_6": "minicpmv4_6",
    "mistral": "llama",
    "mistral3": "mistral3",
    "nemotron_parse": "nemotron_parse",
    "paligemma": "paligemma",
    "phi3": "phi3",
    "phi3_v": "phi3_v",
    "phi4-siglip": "phi4_siglip",
    "pixtral": "pixtral",
    "qwen2": "qwen",
    "qwen2_5_vl": "qwen2_5_vl",
    "qwen2_vl": "qwen2_vl",
    "qwen3": "qwen",
    "qwen3_5": "qwen3_5",
    "qwen3_5_moe": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "qwen3_moe": "qwen",
    "qwen3_vl": "qwen3_vl",
    "qwen3_vl_moe": "qwen3_vl",
    "youtu_vl": "youtu_vl",
}


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that a config.json names. Raises CheckpointError for one that is not supported."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(_unsupported(kind))
    vision = config.get("vision_config")
    tower = vision.get("model_type") if isinstance(vision, Mapping) else None
    module = FAMILIES.get(f"{kind}+{tower}", FAMILIES[kind])
    family: Family = import_module(f"{__name__}.{module}").FAMILY
    return family


def _unsupported(kind: object) -> str:
    if not isinstance(kind, str):
        return f"config.json: expected a model_type, got {kind!r}; is this a checkpoint of transformers or MLX?"
    if later := later_family(kind):
        return f"model_type {kind!r} ({later}) is not supported yet; supported: {', '.join(sorted(FAMILIES))}"
    near = difflib.get_close_matches(kind, FAMILIES, n=3)
    hint = f" (near it: {', '.join(near)})" if near else ""
    return f"model_type {kind!r} is not supported{hint}; supported: {', '.join(sorted(FAMILIES))}"
