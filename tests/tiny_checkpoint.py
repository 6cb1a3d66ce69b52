"""Tiny random checkpoints as they lie on disk: config, weights, tokenizer, template. What they answer is noise, always
the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from tests.goldens.prompts.cases import GEMMA_4, GEMMA_4_TOKENS
from tests.parity.recipes import gemma4, qwen3_5
from tests.parity.recipes.qwen import QWEN_2_VISION, QWEN_3_VISION, mrope
from tests.parity.weights import tensors

TEXTS = (
    "Hello world, hello  twice.\n\n| a | b |\n|---|---|\n",
    "Größe: 3,5 µm – naïve façade “quoted” …",
    "東京都の人口は約1400万人です。한국어 텍스트 ไทย",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag, 𝒳 ∈ ℝ",
    " leading and trailing ",
)
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
THINK = ("<think>", "</think>")
TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}\
{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}"""
VOCABULARY = 320
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip


def byte_level() -> tokenizers.Tokenizer:
    """As in Qwen and Llama 3, with few merges, so that characters fall into several tokens."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False))
    return made


def tiny_llama(folder: Path, **config: Any) -> Path:
    """A text model in `folder`."""
    return _written(folder, {"model_type": "llama", **TEXT, **config}, _tokenizer())


def tiny_qwen2_vl(folder: Path, *, text_only: bool = False, **config: Any) -> Path:
    """A model that sees; `text_only`: without its tower."""
    backend = _tokenizer()
    ids = {
        "image_token_id": backend.token_to_id("<|image_pad|>"),
        "video_token_id": backend.token_to_id("<|video_pad|>"),
    }
    vision = None if text_only else QWEN_2_VISION
    whole = {
        "model_type": "qwen2_vl",
        **TEXT,
        "rope_parameters": mrope(2, 3, 3),
        "vision_config": vision,
        **ids,
        **config,
    }
    prepare = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 256, "max_pixels": 128 * 128}
    clips = {**prepare, "max_pixels": 64 * 64}
    files = {"preprocessor_config.json": prepare, "video_preprocessor_config.json": clips}
    return _written(folder, whole, backend, files)


def tiny_qwen3_vl(folder: Path) -> Path:
    """A model that reads the times of a video."""
    text = {**TEXT, "head_dim": 16, "rope_parameters": mrope(4, 2, 2, interleaved=True)}
    return _stamped(folder, {"model_type": "qwen3_vl", "text_config": text, "vision_config": QWEN_3_VISION})


def tiny_qwen3_5(folder: Path) -> Path:
    """One that does so, too, and keeps a state in two of its three layers."""
    text = {**qwen3_5.TEXT, "vocab_size": VOCABULARY, "max_position_embeddings": 4096}
    return _stamped(folder, {"model_type": "qwen3_5", "text_config": text, "vision_config": qwen3_5.VISION})


def _stamped(folder: Path, config: dict[str, Any]) -> Path:
    backend = _tokenizer()
    ids = {f"{kind}_token_id": backend.token_to_id(f"<|{kind}_pad|>") for kind in ("image", "video")}
    prepare = {"patch_size": 4, "merge_size": 2, "min_pixels": 256, "max_pixels": 64 * 64}
    clips = {"patch_size": 4, "size": {"shortest_edge": 256, "longest_edge": 6 * 48 * 64}}
    files = {"preprocessor_config.json": prepare, "video_preprocessor_config.json": clips}
    return _written(folder, {**config, **ids}, backend, files)


def wide_gemma4(folder: Path, *, unified: bool = False, **text: Any) -> Path:
    """A Gemma 4 whose last two layers see other layers' keys, or a Unified; heads can be rounded, words are bytes."""
    backend = byte_level()
    backend.add_special_tokens([AddedToken(name, special=True) for name in ("<bos>", *GEMMA_4_TOKENS)])
    ids = {f"{kind}_token_id": backend.token_to_id(f"<|{kind}|>") for kind in ("image", "video", "audio")}
    base = gemma4.UNIFIED if unified else gemma4.SMALL
    sizes = {
        "vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY, "max_position_embeddings": 4096,
        "head_dim": 32, "global_head_dim": 64, "sliding_window": 24,
    }  # fmt: skip
    whole = {
        "model_type": "gemma4_unified" if unified else "gemma4",
        "text_config": {**base, **sizes, **text},
        "vision_config": gemma4.PATCHES if unified else gemma4.CLIPPED,
        **ids,
    }
    said = {"bos_token": "<bos>", "eos_token": "<turn|>", "chat_template": GEMMA_4}
    prepare = {"max_soft_tokens": 12, "do_normalize": False}
    more = {
        "tokenizer_config.json": said,
        "preprocessor_config.json": prepare,
        "video_preprocessor_config.json": {"max_soft_tokens": 4, "num_frames": 6},
    }
    return _written(folder, whole, backend, more)


FALCON_SPECIAL = (
    "<|end_of_text|>", "<|image|>", "<|end_of_image|>", "<|image_cls|>", *(f"<|image_reg_{n}|>" for n in range(1, 5)),
    "<|OCR_PLAIN|>", "<|end_of_query|>",
)  # fmt: skip


def tiny_falcon(folder: Path, **config: Any) -> Path:
    """A Falcon-OCR."""
    backend = byte_level()
    backend.add_special_tokens([AddedToken(name, special=True) for name in FALCON_SPECIAL])
    whole = {
        "model_type": "falcon_ocr", "dim": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16,
        "ffn_dim": 48, "vocab_size": VOCABULARY, "img_id": backend.token_to_id("<|image|>"),
        "eos_id": backend.token_to_id("<|end_of_text|>"), **config,
    }  # fmt: skip
    said = {"eos_token": "<|end_of_text|>", "chat_template": "{{ raise_exception('not for this model') }}"}
    bounds = {"min_image_size": 32, "max_image_size": 512}
    more = {"tokenizer_config.json": said, "preprocessor_config.json": bounds}
    return _written(folder, whole, backend, more)


def _tokenizer() -> tokenizers.Tokenizer:
    backend = byte_level()
    backend.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    backend.add_tokens([AddedToken(name, special=False) for name in THINK])
    return backend


def _written(
    folder: Path, config: dict[str, Any], backend: tokenizers.Tokenizer, more: Mapping[str, Any] | None = None
) -> Path:
    from docai.checkpoint.load import shapes_of
    from docai.vlm.config import Config
    from docai.vlm.families import family_of
    from docai.vlm.network import Network

    folder.mkdir(parents=True, exist_ok=True)
    shapes = shapes_of(Network(family_of(config).spec(Config(config))))
    save_file(tensors(shapes, 1), folder / "model.safetensors", metadata={"format": "docai"})
    backend.save(str(folder / "tokenizer.json"))
    said = {"eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "chat_template": TEMPLATE}
    for name, value in {"config.json": config, "tokenizer_config.json": said, **(more or {})}.items():
        (folder / name).write_text(json.dumps(value))
    return folder
