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
    """A family, the class of its reference processor, and what it is tried with. `images` are (height, width).

    A reference that begins with `published.` is in a checkpoint's own repo: stated.py says anew what it does. `mark`:
    what stands for an image in messages whose content is a text, as those templates want it ({} is its number, from 1).
    """

    family: str
    reference: str
    image_case: str  # of tests.goldens.processors.cases: the image processor and its configuration
    tokens: tuple[str, ...]
    template: str | None
    bos: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of the reference processor
    named: dict[str, str] = field(default_factory=dict)  # names of tokens that it looks up
    config: dict[str, Any] = field(default_factory=dict)  # config.json, beside the image case's
    mark: str = ""


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
QWEN_3_5 = """{%- set seen = namespace(images=0, asked=0) -%}
{%- macro shown(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
                {%- set seen.images = seen.images + 1 -%}
                {%- if add_vision_id %}{{- 'Picture ' ~ seen.images ~ ': ' -}}{% endif -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part.type == 'video' or 'video' in part -%}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- elif 'text' in part -%}
                {{- part.text -}}
            {%- else -%}
                {{- raise_exception('Unexpected item type in content.') -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- for message in messages if message.role == 'user' -%}
    {%- set seen.asked = seen.asked + 1 -%}
{%- endfor -%}
{%- if not seen.asked %}{{- raise_exception('No user query found in messages.') -}}{% endif -%}
{%- for message in messages -%}
    {%- set content = shown(message.content) | trim -%}
    {%- if message.role == 'assistant' and '</think>' in content -%}
        {%- set content = content.split('</think>')[-1].lstrip('\n') -%}
    {%- endif -%}
    {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if enable_thinking is defined and enable_thinking is false -%}
        {{- '<think>\n\n</think>\n\n' -}}
    {%- else -%}
        {{- '<think>\n' -}}
    {%- endif -%}
{%- endif -%}
"""
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
GEMMA_4 = """\
{%- macro shown(part) -%}
    {%- if part.type == 'text' -%}
        {{- part.text | trim -}}
    {%- elif part.type in ('image', 'video') -%}
        {{- '\\n\\n<|' + part.type + '|>\\n\\n' -}}
    {%- elif part.type == 'audio' -%}
        {{- '<|audio|>' -}}
    {%- endif -%}
{%- endmacro -%}
{{- bos_token -}}
{%- for message in messages -%}
    {{- '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' -}}
    {%- if message.content is string -%}
        {{- message.content | trim -}}
    {%- else -%}
        {%- for part in message.content -%}{{- shown(part) -}}{%- endfor -%}
    {%- endif -%}
    {{- '<turn|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|turn>model\\n' -}}{%- endif -%}
"""
GEMMA_4_NAMED = {
    "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
    "boa_token": "<|audio>", "eoa_token": "<audio|>",
}  # fmt: skip
GEMMA_4_TOKENS = (*GEMMA_4_NAMED.values(), "<|video|>", "<|turn>", "<turn|>")
KIMI_TOKENS = (
    "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|im_end|>", "<|media_start|>",
    "<|media_begin|>", "<|media_content|>", "<|media_end|>", "<|media_pad|>",
)  # fmt: skip
KIMI_VL = (
    "{%- for message in messages -%}{%- if loop.first and messages[0]['role'] != 'system' -%}"
    "{{'<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>'}}{%- endif -%}"
    "{%- if message['role'] == 'system' -%}{{'<|im_system|>'}}{%- endif -%}"
    "{%- if message['role'] == 'user' -%}{{'<|im_user|>'}}{%- endif -%}"
    "{%- if message['role'] == 'assistant' -%}{{'<|im_assistant|>'}}{%- endif -%}"
    "{{- message['role'] -}}{{'<|im_middle|>'}}{%- if message['content'] is string -%}"
    "{{- message['content'] + '<|im_end|>' -}}{%- else -%}{%- for content in message['content'] -%}"
    "{%- if content['type'] == 'image' or 'image' in content or 'image_url' in content -%}"
    "{{'<|media_start|>image<|media_content|><|media_pad|><|media_end|>'}}"
    "{%- else -%}{{content['text']}}{%- endif -%}{%- endfor -%}{{'<|im_end|>'}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{'<|im_assistant|>assistant<|im_middle|>'}}{%- endif -%}"
)
KIMI_K25 = """{%- macro content_of(msg) -%}{%- set c = msg.get('content') -%}{%- if c is string -%}{{ c }}
{%- elif c is not none -%}{% for content in c -%}{% if content['type'] in ['image', 'image_url'] -%}
<|media_begin|>image<|media_content|><|media_pad|><|media_end|>
{% elif content['type'] in ['video', 'video_url'] -%}<|kimi_k25_video_placeholder|>
{% else -%}{{ content['text'] }}{%- endif -%}{%- endfor -%}{%- endif -%}{%- endmacro -%}
{%- for message in messages -%}<|im_{{ message['role'] }}|>{{ message['role'] }}<|im_middle|>{{ content_of(message) }}
{%- if message['role'] == 'assistant' %}<think></think>{% endif -%}<|im_end|>{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>
{%- if thinking is defined and thinking is false -%}<think></think>{%- else -%}<think>{%- endif -%}{%- endif -%}"""
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
MINICPM_NAMED = {
    "image_start_token": "<image>",
    "image_end_token": "</image>",
    "slice_start_token": "<slice>",
    "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>",
    "image_id_end_token": "</image_id>",
}
COHERE_2_NAMED = {
    "image_token": "<|IMG_PATCH|>",
    "boi_token": "<|START_OF_IMG|>",
    "eoi_token": "<|END_OF_IMG|>",
    "img_line_break_token": "<|IMG_LINE_BREAK|>",
}
LFM2 = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LFM2_TILES = tuple(f"<|img_row_{row}_col_{column}|>" for row in range(1, 11) for column in range(1, 11))
LFM2_TOKENS = (
    "<|im_start|>", "<|im_end|>", "<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *LFM2_TILES,
)  # fmt: skip
NANO_LLAVA = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "Answer the questions.<|im_end|>\n{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_3 = (
    "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim }}"
    "<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA_3_TOKENS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
PHI_3 = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
PHI_4 = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] }}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"
)
HARMONY = (
    "{%- set said = namespace(first='You are LLM-jp-VL, a Multimodal LLM trained by LLM-jp.') -%}"
    "{%- for message in messages if message['role'] == 'system' -%}{%- set said.first = message['content'] -%}"
    "{%- endfor -%}<|start|>system<|message|>{{ said.first }}<|end|>{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}<|start|>user<|message|>{{ message['content'] }}<|end|>"
    "{%- elif message['role'] == 'assistant' -%}<|start|>assistant<|channel|>final<|message|>"
    "{{ message['content'] }}<|end|>{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"
)
HARMONY_TOKENS = (
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|image_pad|>", "<|image_start|>",
    "<|image_end|>",
)  # fmt: skip
CLIP_OPTIONS = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}

CASES = {
    "qwen2_vl": Case("qwen2_vl", "qwen2_vl.Qwen2VLProcessor", "qwen2_vl", QWEN_TOKENS, QWEN),
    "qwen2_5_vl": Case("qwen2_5_vl", "qwen2_5_vl.Qwen2_5_VLProcessor", "qwen2_vl", QWEN_TOKENS, QWEN),
    "qwen3_vl": Case("qwen3_vl", "qwen3_vl.Qwen3VLProcessor", "qwen3_vl", QWEN_TOKENS, QWEN),
    "qwen3_5": Case("qwen3_5", "qwen3_vl.Qwen3VLProcessor", "qwen3_vl", QWEN_TOKENS, QWEN_3_5),
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
    "cohere2_vision": Case(
        "cohere2_vision",
        "cohere2_vision.Cohere2VisionProcessor",
        "cohere2_vision",
        (*AYA_TOKENS, "<|IMG_LINE_BREAK|>"),
        COHERE.replace("<image>", "<|IMG_PATCH|>"),
        bos=True,
        named=COHERE_2_NAMED,
    ),
    "lfm2_vl": Case("lfm2_vl", "lfm2_vl.Lfm2VlProcessor", "lfm2_vl_strips", LFM2_TOKENS, LFM2, bos=True),
    "llava_bunny": Case(
        "llava-qwen2",
        "published.one_begins",
        "llava_bunny",
        ("<|im_start|>", "<|im_end|>"),
        NANO_LLAVA,
        mark="<image>\n",
    ),
    "llava_bunny_llama": Case(
        "bunny-llama",
        "published.bunny_llama",
        "llava_bunny_square",
        LLAMA_3_TOKENS,
        LLAMA_3,
        bos=True,
        mark="<image>\n",
    ),
    "kimi_k25": Case("kimi_k25", "published.kimi", "kimi_k25", KIMI_TOKENS, KIMI_K25),
    "kimi_vl": Case("kimi_vl", "published.kimi", "kimi_vl", KIMI_TOKENS, KIMI_VL),
    "llmjpvl": Case("llmjpvl", "published.llmjpvl", "llmjpvl", HARMONY_TOKENS, HARMONY, mark="<image>"),
    "mage_vl": Case(
        "mage_vl", "mlx_vlm.mage_vl.MageVLProcessor", "mage_vl", QWEN_TOKENS, QWEN.replace("You are a helpful", "Be an")
    ),
    "phi3_v": Case(
        "phi3_v",
        "published.all_begin",
        "phi3_v",
        ("<|user|>", "<|assistant|>", "<|end|>"),
        PHI_3,
        bos=True,
        mark="<|image_{}|>\n",
    ),
    "phi4_siglip": Case(
        "phi4-siglip",
        "published.one_begins",
        "phi4_siglip",
        ("<|im_start|>", "<|im_sep|>", "<|im_end|>"),
        PHI_4,
        mark="<image>\n",
    ),
    "minicpmv4_6": Case(
        "minicpmv4_6",
        "minicpmv4_6.MiniCPMV4_6Processor",
        "minicpmv4_6",
        (*QWEN_TOKENS, *MINICPM_NAMED.values()),
        QWEN.replace("<|vision_start|><|image_pad|><|vision_end|>", "<|image_pad|>"),
        named={**MINICPM_NAMED, "image_token": "<|image_pad|>", "video_token": "<|video_pad|>"},
    ),
    "youtu_vl": Case("youtu_vl", "published.youtu_vl", "youtu_vl", QWEN_TOKENS, QWEN),
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
    "gemma4": Case(
        "gemma4", "gemma4.Gemma4Processor", "gemma4", GEMMA_4_TOKENS, GEMMA_4, bos=True, named=GEMMA_4_NAMED
    ),
    "gemma4_unified": Case(
        "gemma4_unified",
        "gemma4_unified.Gemma4UnifiedProcessor",
        "gemma4_unified",
        GEMMA_4_TOKENS,
        GEMMA_4,
        bos=True,
        named=GEMMA_4_NAMED,
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
