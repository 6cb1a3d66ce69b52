"""Conversations for every family that takes images: its special tokens, a chat template of its kind, messages.

Used by make.py (with the reference's processor) and by tests/test_prompt.py. The templates have the shape of the
published ones: what they print, and in which form they want content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

IMAGE = {"type": "image"}


def text(words: str) -> dict[str, str]:
    """A part of text."""
    return {"type": "text", "text": words}


@dataclass(frozen=True)
class Case:
    """A family, the class of its reference processor, and what it is tried with. `images` are (height, width)."""

    family: str
    reference: str
    image_case: str  # of tests.goldens.processors.cases: the image processor and its configuration
    tokens: tuple[str, ...]
    template: str | None
    bos: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of the reference processor
    named: dict[str, str] = field(default_factory=dict)  # names of tokens that it looks up
    config: dict[str, Any] = field(default_factory=dict)  # config.json, beside the image case's


@dataclass(frozen=True)
class Conversation:
    """Messages and the sizes of the images that come with them."""

    messages: list[dict[str, Any]]
    images: tuple[tuple[int, int], ...] = ()


ONE = Conversation([{"role": "user", "content": [IMAGE, text("What is this?")]}], ((60, 100),))
CONVERSATIONS = {
    "one": ONE,
    "after": Conversation([{"role": "user", "content": [text("Look:\n"), IMAGE, text("\n\nWell?")]}], ((90, 31),)),
    "several": Conversation(
        [{"role": "user", "content": [IMAGE, text("and"), IMAGE, text("differ in?")]}], ((80, 300), (64, 64))
    ),
    "turns": Conversation(
        [
            {"role": "user", "content": [IMAGE, text("Hello ☃ 你好\n")]},
            {"role": "assistant", "content": [text("Yes.")]},
            {"role": "user", "content": [text("Sure?")]},
        ],
        ((128, 96),),
    ),
    "words": Conversation([{"role": "user", "content": [text("No image here.")]}]),
}

QWEN = (
    "{% set image_count = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: "
    "{% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}"
    "{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAVA = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
    "{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}{# Render all text next #}{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}"
    "{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
LLAVA_MISTRAL = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}"
    "{{' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'][0]['text'] + '</s> '}}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- else -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
"""
PIXTRAL = (
    "{{- bos_token }}{%- for message in messages %}{%- if message['role'] == 'user' %}{{- '[INST]' }}"
    "{%- if message['content'] is string %}{{- message['content'] }}{%- else %}{%- for part in message['content'] %}"
    "{%- if part['type'] == 'text' %}{{- part['text'] }}{%- elif part['type'] == 'image' %}{{- '[IMG]' }}"
    "{%- else %}{{- raise_exception('Only text and image parts are supported') }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '[/INST]' }}{%- elif message['role'] == 'assistant' %}{%- if message['content'] is string %}"
    "{{- message['content'] + eos_token }}{%- else %}{{- message['content'][0]['text'] + eos_token }}{%- endif %}"
    "{%- else %}{{- raise_exception('Only user and assistant roles are supported') }}{%- endif %}{%- endfor %}"
)

COHERE = (
    "{{ bos_token }}{% for message in messages %}<|START_OF_TURN_TOKEN|>"
    "{{ '<|USER_TOKEN|>' if message['role'] == 'user' else '<|CHATBOT_TOKEN|>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for item in message['content'] %}"
    "{% if item['type'] == 'text' %}{{ item['text'] | trim }}{% elif item['type'] == 'image' %}<image>{% endif %}"
    "{% endfor %}{% endif %}<|END_OF_TURN_TOKEN|>{% endfor %}"
    "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"
)
COHERE_TOKENS = ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>")
AYA_TOKENS = (*COHERE_TOKENS, "<image>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>")
COMPASS_TOKENS = (*COHERE_TOKENS, "<|VISION_START|>", "<|VISION_END|>", "<|IMAGE_PAD|>", "<|VIDEO_PAD|>")

QWEN_TOKENS = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
GEMMA_TOKENS = ("<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>")
GEMMA_NAMED = {
    "image_token": "<image_soft_token>",
    "boi_token": "<start_of_image>",
    "eoi_token": "<end_of_image>",
}
PIXTRAL_TOKENS = ("[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]")
CLIP_OPTIONS = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}

CASES = {
    "qwen2_vl": Case("qwen2_vl", "qwen2_vl.Qwen2VLProcessor", "qwen2_vl", QWEN_TOKENS, QWEN),
    "qwen2_5_vl": Case("qwen2_5_vl", "qwen2_5_vl.Qwen2_5_VLProcessor", "qwen2_vl", QWEN_TOKENS, QWEN),
    "qwen3_vl": Case("qwen3_vl", "qwen3_vl.Qwen3VLProcessor", "qwen3_vl", QWEN_TOKENS, QWEN),
    "llava": Case("llava", "llava.LlavaProcessor", "llava", ("<image>",), LLAVA, bos=True, options=CLIP_OPTIONS),
    "llava_next": Case(
        "llava_next",
        "llava_next.LlavaNextProcessor",
        "llava_next",
        ("<image>",),
        LLAVA_MISTRAL,
        bos=True,
        options=CLIP_OPTIONS,
    ),
    "aya_vision": Case(
        "aya_vision",
        "aya_vision.AyaVisionProcessor",
        "aya_vision",
        AYA_TOKENS,
        COHERE,
        bos=True,
        options={"patch_size": 14, "img_size": 56, "downsample_factor": 2},
    ),
    "cohere_compass": Case(
        "cohere_compass",
        "cohere_compass.CohereCompassProcessor",
        "qwen3_vl",
        COMPASS_TOKENS,
        COHERE.replace("<image>", "<|VISION_START|><|IMAGE_PAD|><|VISION_END|>"),
        bos=True,
    ),
    "paligemma": Case("paligemma", "paligemma.PaliGemmaProcessor", "paligemma", ("<image>",), None, bos=True),
    "gemma3": Case("gemma3", "gemma3.Gemma3Processor", "gemma3", GEMMA_TOKENS, GEMMA, bos=True, named=GEMMA_NAMED),
    "gemma3_pan": Case(
        "gemma3", "gemma3.Gemma3Processor", "gemma3_pan", GEMMA_TOKENS, GEMMA, bos=True, named=GEMMA_NAMED
    ),
    "pixtral": Case(
        "pixtral",
        "pixtral.PixtralProcessor",
        "pixtral",
        PIXTRAL_TOKENS,
        PIXTRAL,
        bos=True,
        options={"patch_size": 16},
    ),
    "mistral3": Case(
        "mistral3",
        "pixtral.PixtralProcessor",
        "mistral3",
        PIXTRAL_TOKENS,
        PIXTRAL,
        bos=True,
        options={"patch_size": 14, "spatial_merge_size": 2},
    ),
}


def config_files(case: Case) -> dict[str, Any]:
    """tokenizer_config.json and chat_template.jinja of a case, by name."""
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    added = {str(300 + number): {"content": token, **flags} for number, token in enumerate(case.tokens)}
    config = {"added_tokens_decoder": added, "bos_token": "<s>", "eos_token": "</s>", **case.named}
    return {"tokenizer_config.json": config, "chat_template.jinja": case.template}
