"""Messages into the text that a model was trained on, and that text into ids with room for its images."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from docai.errors import CheckpointError, DocaiError, UsageError
from docai.preprocess.inputs import ImageInput
from docai.vlm.ask import Setting
from docai.vlm.template import EndlessTemplate, render_template
from docai.vlm.tokenizer import Tokenizer
from docai.writing import clock

Message = Mapping[str, Any]  # role, content (a text, or parts of type text and image), and what else templates read
Expansion = Callable[[str, ImageInput], str]

# What --no-chat-template gives: the texts of all messages, with images where they stand.
_PLAIN = (
    "{% for message in messages %}{% for part in message.content %}{{ part.text }}{% endfor %}"
    "{{ '' if loop.last else '\\n' }}{% endfor %}"
)
_TEXT_KINDS = ("text", "input_text", "output_text")
_IMAGE_KINDS = ("image", "image_url", "input_image")
_VIDEO_KINDS = ("video", "video_url", "input_video")
_AUDIO_KINDS = ("audio", "audio_url", "input_audio")
_SEEN = ("image", "video", "audio")  # kinds of parts once they are read
_CALLED = {"video": "video", "audio": "sound"}  # in errors
_PROBE = "docai-probe"


def run(token: str, image: ImageInput) -> str:
    """One image token per row of features, nothing between them."""
    return token * image.tokens


@dataclass(frozen=True, slots=True)
class Between:
    """The run between two marks (Falcon-OCR, LocateAnything)."""

    before: str
    after: str

    def __call__(self, token: str, image: ImageInput) -> str:
        """The text of one image."""
        return f"{self.before}{token * image.tokens}{self.after}"


@dataclass(frozen=True, slots=True)
class Framed:
    """The run between two marks; where an image has crops beside it, they follow with a sentence (Gemma 3)."""

    before: str
    after: str
    crops: str = " and here are some crops to help you see better "

    def __call__(self, token: str, image: ImageInput) -> str:
        """The text of one image."""
        parts = len(image.pixels)
        one = f"{self.before}{token * (image.tokens // parts)}{self.after}"
        if parts == 1:
            return one
        return f"Here is the original image {one}{self.crops}{' '.join([one] * (parts - 1))}"


@dataclass(frozen=True, slots=True)
class Parts:
    """A run for each crop of an image, the whole picture last, between two marks for all of them.

    `crop` stands before a crop's run ({} is its number, from 1), `whole` before the whole picture's, and `end` after
    each run.
    """

    before: str
    after: str
    crop: str = ""
    whole: str = ""
    end: str = ""

    def __call__(self, token: str, image: ImageInput) -> str:
        """The text of one image."""
        parts = len(image.pixels)
        one = token * (image.tokens // parts) + self.end
        crops = "".join(self.crop.format(number) + one for number in range(1, parts))
        return f"{self.before}{crops}{self.whole}{one}{self.after}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """A run between two marks or, of a picture in tiles, one for each, behind the marks of its row and column.

    `whole` stands before that of the whole picture, if it is there (LFM2-VL).
    """

    before: str
    after: str
    tile: str
    whole: str

    def __call__(self, token: str, image: ImageInput) -> str:
        """The text of one image."""
        if "tiles" not in image.extra:
            return f"{self.before}{token * image.tokens}{self.after}"
        rows, columns = (int(number) for number in image.extra["tiles"])
        merged = sum(h * w for _, h, w in image.grids) // image.tokens
        runs = [token * (h * w // merged) for _, h, w in image.grids]
        marks = [self.tile.format(row, column) for row in range(1, rows + 1) for column in range(1, columns + 1)]
        parts = [mark + one for mark, one in zip((*marks, self.whole), runs, strict=False)]
        return f"{self.before}{''.join(parts)}{self.after}"


@dataclass(frozen=True, slots=True)
class Slices:
    """A run between two marks and, behind it, one between two others for each slice of a picture, in lines by rows.

    The whole picture comes first (MiniCPM-V). Those of the frames of a clip follow each other.
    """

    before: str
    after: str
    slice_before: str
    slice_after: str

    def __call__(self, token: str, image: ImageInput) -> str:
        """The text of one image."""
        merged = sum(h * w for _, h, w in image.grids) // image.tokens
        runs = iter([token * (h * w // merged) for _, h, w in image.grids])
        layouts = np.reshape(image.extra.get("slices", (0, 0)), (-1, 2)).tolist()  # of each frame
        return "".join(self._frame(runs, rows, columns) for rows, columns in layouts)

    def _frame(self, runs: Iterator[str], rows: int, columns: int) -> str:
        whole = f"{self.before}{next(runs)}{self.after}"
        slices = ([f"{self.slice_before}{next(runs)}{self.slice_after}" for _ in range(columns)] for _ in range(rows))
        return whole + "\n".join("".join(line) for line in slices)


@dataclass(frozen=True, slots=True)
class Rows:
    """A run for each row of patches, a mark after each row and another after the last (Pixtral, Mistral 3)."""

    line_break: str
    end: str

    def __call__(self, token: str, image: ImageInput) -> str:
        """The text of one image."""
        if image.grid is None:
            raise ValueError("an image of rows needs a grid")
        _, height, width = image.grid
        merge = math.isqrt(height * width // image.tokens)
        row = token * (width // merge)
        return self.line_break.join([row] * (height // merge)) + self.end


@dataclass(frozen=True, slots=True)
class Stamped:
    """A run for each step of a clip between two marks, its time before it (Qwen3-VL).

    So it was trained; transformers 5 leaves a further pair of marks around all of them.
    """

    before: str
    after: str

    def __call__(self, token: str, clip: ImageInput) -> str:
        """The text of one clip."""
        step = f"{self.before}{token * (clip.tokens // len(clip.extra['stamps']))}{self.after}"
        return "".join(f"<{float(stamp):.1f} seconds>{step}" for stamp in clip.extra["stamps"])


_thousandths = partial(clock, digits=3)


@dataclass(frozen=True, slots=True)
class Timed:
    """A run for each part of a clip between two marks, behind the time at which it begins (Kimi K2.5, Gemma 4).

    `time` writes it; `between` stands between the parts.
    """

    before: str
    after: str
    time: Callable[[float], str] = _thousandths
    between: str = ""

    def __call__(self, token: str, clip: ImageInput) -> str:
        """The text of one clip."""
        merged = sum(h * w for _, h, w in clip.grids) // clip.tokens
        parts = zip(clip.extra["stamps"], clip.grids, strict=True)
        return self.between.join(
            f"{self.time(float(stamp))}{self.before}{token * (h * w // merged)}{self.after}"
            for stamp, (_, h, w) in parts
        )


@dataclass(frozen=True, slots=True)
class ClipPrompt:
    """How a family writes clips that it sees as such, or sounds; the names mean what they mean in `PromptSpec`."""

    placeholder: str
    token: str
    text: str
    expand: Expansion = run


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """How a family writes images and turns where its checkpoint does not say it.

    `placeholder` stands for one image in a rendered prompt (what chat templates write; where that has a number in it,
    `written` is a regular expression for it); `expand` gives the text that replaces it, made of `token`, one for each
    row of features. `image` is what we write for an image where there is no template or it knows no images: the
    placeholder with the marks around it. `template` is the chat template of
    checkpoints that ship none, `plain` that of `--no-chat-template`: both see `messages`, whose content is always
    parts (`text` of an image part is `image`), `image`, `bos_token` and the other named tokens. Jinja drops a line
    break after a block and at the very end: `{{ '\\n' }}` stays. `surround` says whether the tokenizer may add its BOS.
    `fixed`: the template here counts, whatever the checkpoint has. `stops` are tokens that end an answer, too.
    `captions` are the fixed words that some models were taught for short, normal and long captions. `asked` puts the
    last message's words into the form that the model was taught. `most_images` of a request; with `pages`, more may be
    read as the pages of one text, where that is asked for. `token_id`: of `token`, where no vocabulary has it: then the
    texts between images are encoded each by itself, as the original code of LLaVA does; `all_begin`: each of them with
    its BOS (Phi-3 Vision). `opening`: what stands behind a template's last words, which checkpoints leave to the
    processor. `context`: the tokens that prompts were taught to have at most; images share what their text leaves.
    `number` stands before each image or clip that asks for it; {} is how many came before. `clips`: how videos are
    written, of models that see them; `sounds`: likewise, of those that hear.
    """

    placeholder: str = ""
    token: str = ""
    image: str = ""
    template: str = ""
    plain: str = ""
    expand: Expansion = run
    surround: bool = True
    fixed: bool = False
    stops: tuple[str, ...] = ()
    captions: tuple[str, str, str] | None = None
    clips: ClipPrompt | None = None
    sounds: ClipPrompt | None = None
    asked: Callable[[str, Setting], str] | None = None
    most_images: int | None = None
    pages: bool = False
    written: str = ""
    token_id: int | None = None
    all_begin: bool = False
    opening: str = ""
    number: str = ""
    context: int | None = None

    @property
    def marks(self) -> str:
        """A regular expression of what stands for an image in a rendered prompt."""
        return self.written or re.escape(self.placeholder)

    @property
    def beside(self) -> dict[str, ClipPrompt]:
        """How media are written that are no images, by their kinds."""
        return {kind: how for kind, how in (("video", self.clips), ("audio", self.sounds)) if how is not None}

    def marks_of(self, kind: str) -> str:
        """A regular expression of what stands for a medium of that kind; nothing where the family writes none."""
        how = self.beside.get(kind)
        return self.marks if kind == "image" else re.escape(how.placeholder) if how else ""


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
    return max(1, (spec.context - words) // images - 2)  # the marks around it


def encode(text: str, images: Sequence[ImageInput], tokenizer: Tokenizer, spec: PromptSpec) -> list[int]:
    """The ids of a rendered prompt, each placeholder as many tokens as its image has rows.

    BOS is added where the tokenizer does so and the text does not begin with it. Raises UsageError where placeholders
    and images differ in number, CheckpointError where the vocabulary lacks the image token.
    """
    bos = tokenizer.named.get("bos_token")
    surround = spec.surround and not (bos and text.startswith(bos))
    ids = _encoded(expand(text, images, spec), tokenizer, spec, special=surround)
    if images:
        _check_rows(ids, images, tokenizer, spec)
    return ids


def _encoded(text: str, tokenizer: Tokenizer, spec: PromptSpec, *, special: bool) -> list[int]:
    if spec.token_id is None:
        return tokenizer.encode(text, special=special)
    first, *others = text.split(spec.token)
    ids = tokenizer.encode(first, special=special)
    for part in others:
        ids += [spec.token_id, *(tokenizer.encode(part, special=spec.all_begin) if part else ())]
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


def _texts(spec: PromptSpec, how: PromptSpec | ClipPrompt, media: Sequence[ImageInput], kind: str) -> list[str]:
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
        number = tokenizer.token_id(token) if spec.token_id is None else spec.token_id
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
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _IMAGE_KINDS:
        if not spec.placeholder:
            raise UsageError("messages: a part is an image, but this model reads text only")
        return {"type": "image", "text": spec.image}
    if kind in _VIDEO_KINDS:
        if spec.clips is None:
            raise UsageError("messages: a part is a video, but no frames of it came; this model reads none as it is")
        return {"type": "video", "text": spec.clips.text}
    if kind in _AUDIO_KINDS:
        if spec.sounds is None:
            raise UsageError("messages: a part is audio, but this model hears nothing")
        return {"type": "audio", "text": spec.sounds.text}
    if kind in _TEXT_KINDS and isinstance(part.get("text"), str):
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


@dataclass(frozen=True, slots=True)
class Forms:
    """In which form a chat template takes the content of messages, found out by rendering probes with it.

    Templates differ: content as a text or as parts, by role, with images or without.
    """

    source: str
    spec: PromptSpec
    named: tuple[tuple[str, str], ...]

    def fit(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """The turn with its content in a form that the template takes."""
        if "content" not in turn:
            return dict(turn)
        role, parts = turn["role"], turn["content"]
        images = [kind for kind in _SEEN if any(part["type"] == kind for part in parts)]
        if images and all(self.takes(role, kind) for kind in images):
            bare = [{"type": part["type"]} if part["type"] in _SEEN else part for part in parts]
            return {**turn, "content": bare}
        whole = "".join(part["text"] for part in parts)
        if self.takes(role, "parts"):
            if images:  # it passes over them, or prints them in another way
                return {**turn, "content": [{"type": "text", "text": whole}]}
            if len(parts) > 1 or not self.takes(role, "text"):
                return {**turn, "content": parts}
        return {**turn, "content": whole}

    def takes(self, role: str, form: str) -> bool:
        """Whether the content of a role may be a `text`, `parts` of text, or have a medium of that kind among parts."""
        return _takes(self.source, self.spec.marks_of(form) or self.spec.marks, self.named, role, form)


@lru_cache(maxsize=256)
def _takes(source: str, marks: str, named: tuple[tuple[str, str], ...], role: str, form: str) -> bool:
    content: Any = [{"type": "text", "text": _PROBE}]
    if form == "text":
        content = _PROBE
    elif form in _SEEN:
        content.insert(0, {"type": form})
    variables = {**dict(named), "add_generation_prompt": False, "tools": None, "documents": None}
    for messages in _around(source, marks, named, {"role": role, "content": content}):
        try:
            text = render_template(source, {**variables, "messages": messages})
        except EndlessTemplate:
            raise
        except DocaiError:
            continue
        printed = str(content[-1]) in text or json.dumps(content[-1]) in text  # the list itself, not what it says
        if _PROBE in text and (form == "text" or not printed):
            return form not in _SEEN or len(re.findall(marks, text)) == 1
    return False


def _around(
    source: str, marks: str, named: tuple[tuple[str, str], ...], message: dict[str, Any]
) -> Iterable[list[dict[str, Any]]]:
    """Conversations in which `message` may stand: templates want a user first, or last."""
    if message["role"] == "user":
        return ([message],)
    form = "text" if _takes(source, marks, named, "user", "text") else "parts"
    user = {"role": "user", "content": "?" if form == "text" else [{"type": "text", "text": "?"}]}
    return [message, user], [user, message], [message]
