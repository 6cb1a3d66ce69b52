"""Messages into the text that a model was trained on, and that text into ids with room for its media."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docai.errors import CheckpointError, UsageError
from docai.preprocess.inputs import ImageInput
from docai.vlm.ask import Setting, medium_kind
from docai.vlm.forms import Forms
from docai.vlm.prompt_spec import MediumPrompt, PromptSpec
from docai.vlm.template import render_template
from docai.vlm.tokenizer import Tokenizer

Message = Mapping[str, Any]  # role, content (a text, or parts of type text and image), and what else templates read

# What --no-chat-template gives: the texts of all messages, with images where they stand.
_PLAIN = (
    "{% for message in messages %}{% for part in message.content %}{{ part.text }}{% endfor %}"
    "{{ '' if loop.last else '\\n' }}{% endfor %}"
)
_TEXT_KINDS = ("text", "input_text", "output_text")
_CALLED = {"video": "video", "audio": "sound"}  # in errors
_REFUSED = {
    "image": "an image, but this model reads text only",
    "video": "a video, but no frames of it came; this model reads none as it is",
    "audio": "audio, but this model hears nothing",
}


def render(
    messages: Sequence[Message],
    tokenizer: Tokenizer,
    spec: PromptSpec,
    *,
    template: bool = True,
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = True,
    setting: Setting | None = None,
    **template_kwargs: Any,
) -> str:
    """The prompt for a conversation, with a placeholder where each image stands.

    The checkpoint's chat template makes it, in want of one the family's; with `template=False` neither. Other keywords
    reach the template. Raises UsageError for messages that it cannot take, CheckpointError for a broken template.
    """
    turns = [_turn(message, spec) for message in messages]
    if not turns:
        raise UsageError("messages: expected at least one, got none")
    if template and spec.asked:
        turns[-1] = _in_taught_words(turns[-1], spec.asked, setting or Setting())
    variables = {
        **tokenizer.named,
        "tools": _plain(tools),
        "documents": None,
        "add_generation_prompt": add_generation_prompt,
        **_plain(template_kwargs),
    }
    opening = spec.opening if template and add_generation_prompt else ""
    source = None if spec.fixed else (tokenizer.tool_template if tools else None) or tokenizer.chat_template
    if template and source:
        forms = Forms(source, spec, tuple(tokenizer.named.items()))
        text = render_template(source, {**variables, "messages": [forms.fit(turn) for turn in turns]})
    else:
        own = spec.template if template else spec.plain
        text = render_template(own or spec.plain or _PLAIN, {**variables, "messages": turns, "image": spec.image})
    return text if text.endswith(opening) else text + opening


def share(text: str, images: int, tokenizer: Tokenizer, spec: PromptSpec) -> int | None:
    """The tokens that each of some images may take beside a rendered prompt; None for as many as it wants."""
    if spec.context is None or not images:
        return None
    words = len(tokenizer.encode(re.sub(spec.marks, "", text), special=False))
    return max(1, ((tokenizer.longest or spec.context) - words) // images - 2)  # the marks around it


def encode(text: str, images: Sequence[ImageInput], tokenizer: Tokenizer, spec: PromptSpec) -> list[int]:
    """The ids of a rendered prompt, each placeholder as many tokens as its image has rows.

    BOS is added where the tokenizer does so and the text does not begin with it. Raises UsageError where placeholders
    and images differ in number, CheckpointError where the vocabulary lacks the image token.
    """
    bos = tokenizer.named.get("bos_token")
    surround = spec.surround and not (bos and text.startswith(bos))
    if spec.token_id is not None:
        return _between(text, images, tokenizer, spec, special=surround)
    ids = tokenizer.encode(expand(text, images, spec), special=surround)
    if images:
        _check_rows(ids, images, tokenizer, spec)
    return ids


def _between(
    text: str, images: Sequence[ImageInput], tokenizer: Tokenizer, spec: PromptSpec, *, special: bool
) -> list[int]:
    """The ids of the texts between images, each encoded by itself, with `token_id` for each row of an image."""
    assert spec.token_id is not None
    _check_places(text, spec.marks, spec.placeholder, len(images), "image")
    first, *others = re.split(spec.marks, text)
    ids = tokenizer.encode(first, special=special)
    for image, part in zip(images, others, strict=True):
        ids += [spec.token_id] * image.tokens
        # an empty text has a BOS, too: two images beside each other have one between them
        ids += tokenizer.encode(part, special=spec.all_begin)
    return ids


def expand(text: str, images: Sequence[ImageInput], spec: PromptSpec) -> str:
    """The text with each placeholder replaced by what its image takes. Raises UsageError for one without the other.

    Text, not ids: marks such as line breaks around an image join with the text beside them when both are encoded.
    """
    if not spec.placeholder:
        if images:
            raise UsageError(f"{_images(len(images))} came with the prompt, but this model reads text only")
        return text
    texts = {"image": _texts(spec, spec, images, "image")}
    _check_places(text, spec.marks, spec.placeholder, len(texts["image"]), "image")
    for kind, how in spec.beside.items():
        texts[kind] = _texts(spec, how, images, kind)
        _check_places(text, spec.marks_of(kind), how.placeholder, len(texts[kind]), _CALLED[kind])
    marks = {kind: spec.marks_of(kind) for kind in texts}
    left = {kind: iter(expanded) for kind, expanded in texts.items()}
    places = re.compile("|".join(f"(?P<{kind}>{mark})" for kind, mark in marks.items()))
    return places.sub(lambda found: next(left[str(found.lastgroup)]), text)


def _texts(spec: PromptSpec, how: PromptSpec | MediumPrompt, media: Sequence[ImageInput], kind: str) -> list[str]:
    """What stands for each medium of a kind."""
    shown = [medium for medium in media if medium.kind == kind]
    numbers = (spec.number.format(at) if "numbered" in one.extra else "" for at, one in enumerate(shown))
    return [number + how.expand(how.token, one) for number, one in zip(numbers, shown, strict=True)]


def _check_places(text: str, marks: str, placeholder: str, count: int, kind: str) -> None:
    found = sum(1 for _ in re.finditer(marks, text))
    if found != count:
        raise UsageError(
            f"the prompt has {placeholder} {found} times, but {_images(count, kind)} came with it; "
            f"each {kind} needs one, and a text cannot contain it otherwise"
        )


def _images(count: int, kind: str = "image") -> str:
    return f"{count} {kind}{'' if count == 1 else 's'}"


def _check_rows(ids: list[int], images: Sequence[ImageInput], tokenizer: Tokenizer, spec: PromptSpec) -> None:
    written = {"image": spec.token, **{kind: how.token for kind, how in spec.beside.items()}}
    tokens = dict.fromkeys(written.values(), 0)
    for image in images:
        tokens[written[image.kind]] += image.tokens
    for token, rows in tokens.items():
        number = tokenizer.token_id(token)
        if number is None and rows:
            raise CheckpointError(f"the checkpoint's tokenizer has no token {token!r}, which stands for image features")
        places = 0 if number is None else ids.count(number)
        if rows != places:
            raise UsageError(
                f"the images have {rows} rows of features, but the prompt has {token} {places} times; "
                "a text cannot contain it"
            )


def _turn(message: Message, spec: PromptSpec) -> dict[str, Any]:
    """A message of plain values; content as parts of type text or of media, missing where the message has none."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise UsageError(f"messages: expected objects with a role and content, got {message!r}")
    turn = {name: _plain(value) for name, value in message.items() if value is not None}
    content = turn.get("content")
    if isinstance(content, str):
        turn["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        turn["content"] = [_part(part, spec) for part in content]
    elif content is not None:
        raise UsageError(f"messages: expected content to be a text or a list of parts, got {content!r}")
    return turn


def _in_taught_words(turn: dict[str, Any], asked: Callable[[str, Setting], str], setting: Setting) -> dict[str, Any]:
    """A turn whose texts are one, as the model was taught to be asked."""
    images = [part for part in turn.get("content", ()) if part["type"] == "image"]
    said = "".join(part["text"] for part in turn.get("content", ()) if part["type"] != "image")
    return {**turn, "content": [*images, {"type": "text", "text": asked(said, setting)}]}


def _part(part: Any, spec: PromptSpec) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if kind := medium_kind(part):
        text = spec.text_of(kind)
        if text is None:
            raise UsageError(f"messages: a part is {_REFUSED[kind]}")
        return {"type": kind, "text": text}
    if isinstance(part, Mapping) and part.get("type") in _TEXT_KINDS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    known = "text (with a text), image, video or audio"
    raise UsageError(f"messages: expected parts of type {known}, got {str(part)[:200]}")


def _plain(value: Any) -> Any:
    """`value` of JSON's own types; templates see nothing else, since methods of other objects may do harm."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return f"<{type(value).__name__}>"
