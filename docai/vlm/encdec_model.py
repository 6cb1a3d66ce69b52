"""An encoder-decoder model that answers: one picture and one question a request, with the face of `Model`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken

from docai.checkpoint.backend import on_gpu
from docai.errors import InputError, LimitExceeded, UsageError
from docai.preprocess.centred import CentredImages
from docai.preprocess.inputs import ImageProcessor
from docai.vlm.ask import Asked, Setting
from docai.vlm.clips import MediumLike, medium_of, settle
from docai.vlm.encdec import EncDecNetwork
from docai.vlm.encdec_generate import EncDecRequest, EncDecStream, EndPieces, Habits, in_step
from docai.vlm.families import Family
from docai.vlm.model import Model, as_messages
from docai.vlm.prompt import Message
from docai.vlm.request import Generation, GenerationOptions
from docai.vlm.senses import Senses
from docai.vlm.tokenizer import Tokenizer

_IN_STEP = 8  # answers: on a GPU a step of several costs little more than one


class EncDecModel(Model):
    """Answers one question about one picture. Nothing of a request stays here but the picture's features."""

    network: EncDecNetwork  # type: ignore[assignment]  # it has what is asked of one here

    def __init__(
        self,
        name: str,
        network: EncDecNetwork,
        family: Family,
        tokenizer: Tokenizer,
        processor: ImageProcessor | None,
        habits: Habits,
        *,
        feature_cache: int = 20,
    ) -> None:
        tokenizer = completed(tokenizer, family.added_tokens)
        self.name, self.network, self.family, self.tokenizer = name, network, family, tokenizer
        self.senses, self._habits = Senses(network, processor, size=feature_cache), habits
        self._pieces = EndPieces(tokenizer)

    @property
    def thinks(self) -> bool:
        return False

    @property
    def context(self) -> int:
        """The longest answer, in tokens."""
        return self.network.spec.context

    @property
    def canvas(self) -> tuple[int, int] | None:
        """The size (height, width) in pixels of the canvas in whose middle it puts pictures; None without one."""
        return self.senses.images.size if isinstance(self.senses.images, CentredImages) else None

    @property
    def at_once(self) -> int:
        """It answers one question after the other."""
        return 1

    def clear(self, *, disk: bool = False) -> None:  # noqa: ARG002 - it keeps nothing there
        """Forget all features."""
        self.senses.features.clear()
        mx.clear_cache()

    def answer(
        self,
        messages: Sequence[Message],
        images: Sequence[MediumLike],
        options: GenerationOptions,
        *,
        template: bool = True,  # noqa: ARG002 - it has none
        tools: Sequence[Mapping[str, Any]] | None = None,  # noqa: ARG002
        most_images: int | None = None,  # noqa: ARG002 - it is one
    ) -> EncDecStream:
        """The answer to the last question of a conversation, about its picture; what was said before does not count.

        It is the likeliest one, so temperature and the like have no effect. Raises UsageError for another number of
        pictures than one and for prompts that the model was not taught, LimitExceeded for one that is too long.
        """
        started = time.perf_counter()
        media = [medium_of(image) for image in images]
        settle(messages, media, model=self.name, family=self.family, sees=True)  # refuses videos
        if len(images) != 1:
            raise UsageError(f"{self.name} looks at one image at a time; got {len(images)}")
        self._check_setting(1, Setting(options.multi_page, options.crop_to_patches))
        if options.json_schema is not None:
            raise UsageError(f"json_schema: {self.name} writes locations and text, no JSON")
        assert self.family.asked is not None
        asked = self.family.asked(question_in(messages), self.tokenizer)
        (picture,) = media
        image = self.senses.take(picture)
        request = EncDecRequest(image, asked.prompt, self._seed(asked), self._settled(options))
        self._check(request)
        return EncDecStream(self.network, self._pieces, request, self._habits, started)

    def answer_all(
        self, prompt: str, images: Sequence[MediumLike], options: GenerationOptions
    ) -> list[Generation | InputError]:
        """The answers to one question about each of several pictures, written together where nothing is searched.

        The error stands in the place of a picture that cannot be read or taken.
        """
        asked = [self._asked(prompt, image, options) for image in images]
        streams = [one for one in asked if isinstance(one, EncDecStream)]
        if streams and options.beams == 1:
            in_step(streams)
            return [one.result if isinstance(one, EncDecStream) else one for one in asked]
        return [one.whole() if isinstance(one, EncDecStream) else one for one in asked]

    def _asked(self, prompt: str, image: MediumLike, options: GenerationOptions) -> EncDecStream | InputError:
        try:
            return self.answer(as_messages(prompt, 1), [image], options)
        except InputError as error:
            return error

    @property
    def in_step(self) -> int:
        """How many answers to equal questions are best written together."""
        return _IN_STEP if on_gpu() else 1

    def _seed(self, asked: Asked) -> tuple[int, ...]:
        start = self.network.spec.start
        return asked.seed if asked.seed[:1] == (start,) else (start, *asked.seed)

    def _settled(self, options: GenerationOptions) -> GenerationOptions:
        ngram = options.no_repeat_ngram or self._habits.no_repeat_ngram
        return replace(options, temperature=0.0, seed=None, no_repeat_ngram=ngram)

    def _check(self, request: EncDecRequest) -> None:
        """Raise LimitExceeded for a prompt that is too long."""
        spec, rows = self.network.spec, request.image.input.tokens
        read = rows + len(request.prompt)
        if spec.encoder is not None and spec.encoder.positions and read > spec.encoder.positions:
            raise LimitExceeded(
                f"the prompt has {len(request.prompt)} tokens behind an image of {rows}, but the model reads "
                f"{spec.encoder.positions} in all; ask with less text"
            )
        if len(request.seed) >= spec.context:
            raise LimitExceeded(f"the prompt has {len(request.seed)} tokens, but the model's context is {spec.context}")


def question_in(messages: Sequence[Message]) -> str:
    """The text of the last message of a user. Raises UsageError where there is none."""
    content = next((m.get("content") for m in reversed(messages) if m.get("role") == "user"), None)
    if content is None:
        raise UsageError("messages: expected one of a user, got none")
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)


def completed(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """The tokenizer with tokens that its files may have left out, behind its vocabulary in their order."""
    missing = [token for token in tokens if tokenizer.token_id(token) is None]
    tokenizer.backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in missing])
    return tokenizer
