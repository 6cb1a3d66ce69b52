"""How prompts are written whose processor only checkpoints' own repos have, said anew.

Each takes the tokenizer (of transformers), the case and a conversation, and gives the ids and, where it is not numbered
otherwise here, the rendered text. An image takes as many ids as its tower's rows leave after merging.
"""

from __future__ import annotations

import re
from typing import Any

from PIL import Image

from tests.goldens.processors import cases as pictures
from tests.goldens.processors import stated
from tests.goldens.processors.make import reference
from tests.goldens.prompts.cases import Case, Conversation

OUTSIDE = -200  # stands for every row of an image where no vocabulary has a token for it


def one_begins(words: Any, case: Case, conversation: Conversation, text: str | None = None) -> dict[str, Any]:
    """`tokenizer_image_token` of LLaVA, as in Bunny, nanoLLaVA and Phi-4: one BOS, texts encoded each by itself."""
    text = text or rendered(words, case, conversation)
    first, *others = [words(part).input_ids for part in text.split("<image>")]
    added = case.bos and not text.startswith("<s>")
    ids = first if added or not case.bos else first[1:]
    for count, part in zip(rows(case, conversation), others, strict=True):
        ids = [*ids, *[OUTSIDE] * count, *part[case.bos :]]
    return {"text": text, "ids": ids}


def bunny_llama(words: Any, case: Case, conversation: Conversation) -> dict[str, Any]:
    """The conversation `bunny` of Bunny's code, whatever template the tokenizer has."""
    text = (
        "A chat between a curious user and an artificial intelligence assistant. "
        "The assistant gives helpful, detailed, and polite answers to the user's questions. "
    )
    for message in in_texts(case, conversation):
        asks = message["role"] == "user"
        text += f"{'USER' if asks else 'ASSISTANT'}: {message['content']}{' ' if asks else '</s>'}"
    return one_begins(words, case, conversation, text + "ASSISTANT:")


def all_begin(words: Any, case: Case, conversation: Conversation) -> dict[str, Any]:
    """processing_phi3_v.py of Phi-3 Vision: texts encoded each by itself, every one with its BOS."""
    text = rendered(words, case, conversation)
    first, *others = [words(part).input_ids for part in re.split(r"<\|image_\d+\|>", text)]
    for count, part in zip(rows(case, conversation), others, strict=True):
        first = [*first, *[OUTSIDE] * count, *part]
    return {"ids": first}


def llmjpvl(words: Any, case: Case, conversation: Conversation) -> dict[str, Any]:
    """processing_llmjpvl.py: the answer is opened behind the template; tiles are a run between two marks."""
    text = rendered(words, case, conversation) + "<|channel|>final<|message|>"
    whole = text
    for count in rows(case, conversation):
        whole = whole.replace("<image>", f"<|image_start|>{'<|image_pad|>' * count}<|image_end|>", 1)
    return {"text": text, "ids": words(whole, add_special_tokens=False).input_ids}


def youtu_vl(words: Any, case: Case, conversation: Conversation) -> dict[str, Any]:
    """As Qwen2.5-VL's: the token of the template as many times as there are blocks of 2 x 2 patches."""
    text = rendered(words, case, conversation)
    first, *others = text.split("<|image_pad|>")
    for count, part in zip(rows(case, conversation), others, strict=True):
        first += "<|image_pad|>" * count + part
    return {"text": text, "ids": words(first).input_ids}


def kimi(words: Any, case: Case, conversation: Conversation) -> dict[str, Any]:
    """The processors of Kimi-VL and Kimi K2.5: the token of the template as many times as there are 2 x 2 patches."""
    text, processor = rendered(words, case, conversation), reference(pictures.CASES[case.image_case])
    first, *others = text.split("<|media_pad|>")
    for size, part in zip(conversation.images, others, strict=True):
        out = processor(Image.fromarray(pictures.picture(size)))
        height, width = out["image_grid_hws"].tolist()[0]
        first += "<|media_pad|>" * (height * width // 4) + part
    return {"text": text, "ids": words(first, add_special_tokens=False).input_ids}


def rendered(words: Any, case: Case, conversation: Conversation) -> str:
    """The template's text; with a mark, of messages whose content is a text."""
    messages = in_texts(case, conversation) if case.mark else conversation.messages
    return str(words.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def in_texts(case: Case, conversation: Conversation) -> list[dict[str, Any]]:
    """The messages with texts as their content, marks where images stand."""
    messages, number = [], 0
    for message in conversation.messages:
        said = ""
        for part in message["content"]:
            number += part["type"] == "image"
            said += case.mark.format(number) if part["type"] == "image" else part["text"]
        messages.append({**message, "content": said})
    return messages


def rows(case: Case, conversation: Conversation) -> list[int]:
    """How many rows of features each image gives."""
    counts = {
        "llava_bunny": lambda *_: 27 * 27,  # 384 px in patches of 14
        "llava_bunny_square": lambda *_: 27 * 27,
        "llmjpvl": lambda image, said: len(stated.llmjpvl(image, said)[0]) * 2 * 2,  # tiles of 64 px
        "youtu_vl": lambda image, said: len(stated.youtu_vl(image, said)[0]) // 4,
        "phi3_v": _lines,
        "phi4_siglip": _patches,
    }
    case_of = pictures.CASES[case.image_case]
    images = [Image.fromarray(pictures.picture(size)) for size in conversation.images]
    return [counts[case.image_case](image, {**case_of.prep, **case_of.config}) for image in images]


def _lines(image: Image.Image, said: dict[str, Any]) -> int:
    """Tiles of 12 x 12 rows, a row at the end of each line, one between the tiles and the whole picture."""
    long, short = max(image.size), min(image.size)
    across = max(n for n in range(1, 20) if n * -(-n * short // long) <= said["num_crops"])
    down = -(-int(across * 336 * short / long) // 336)
    lines = down if image.width >= image.height else across
    return (across * down + 1) * 144 + 1 + (lines + 1) * 12


def _patches(image: Image.Image, said: dict[str, Any]) -> int:
    """As transformers scales a picture to the patches that it holds, within bounds."""
    from transformers.models.siglip2.image_processing_pil_siglip2 import get_image_size_for_max_num_patches

    own = (image.height // 16) * (image.width // 16)
    most = min(max(own, said["min_num_patches"]), said["max_num_patches"])
    height, width = get_image_size_for_max_num_patches(image.height, image.width, 16, most)
    return (height // 16) * (width // 16)
