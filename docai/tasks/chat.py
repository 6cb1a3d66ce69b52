"""`docai chat`: a conversation with a model about pictures and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from docai.vlm.clips import check_sounds, in_turn, question_about
from docai.vlm.sounds import Sound
from docai.writing import counted

if TYPE_CHECKING:
    from docai.vlm.clips import Medium
    from docai.vlm.model import Model
    from docai.vlm.request import Generation, GenerationOptions, Piece


class Chat:
    """A conversation. Pictures, videos and a sound that are added belong to the next question and to later ones.

    More than `most_images` are refused, the frames that a model sees as pictures among them.
    """

    def __init__(
        self,
        model: Model,
        options: GenerationOptions,
        *,
        system: str | None = None,
        template: bool = True,
        most_images: int | None = None,
    ) -> None:
        self.model = model
        self._options, self._system, self._template, self._most = options, system, template, most_images
        self.reset()

    def reset(self) -> None:
        """Forget all turns and what belongs to them."""
        self._turns: list[dict[str, Any]] = []
        self._media: list[Medium] = []
        self._added: list[Medium] = []
        if self._system:
            self._turns.append({"role": "system", "content": self._system})

    @property
    def pictures(self) -> int:
        """The number of pictures and videos so far."""
        return sum(not isinstance(medium, Sound) for medium in (*self._media, *self._added))

    def add(self, media: Iterable[Medium]) -> None:
        """Pictures, videos and a sound for the next question, which stands behind them; pictures come first.

        Raises UsageError for sounds that the model does not take, LimitExceeded for one that is too long: those of a
        conversation are all in its next request.
        """
        added = in_turn([*self._added, *media])
        if any(isinstance(medium, Sound) for medium in (*self._media, *added)):
            model = self.model
            check_sounds([*self._media, *added], model=model.name, family=model.family, hears=model.hears)
            for sound in [medium for medium in added if isinstance(medium, Sound)]:
                model.check_sound(sound)
        self._added = added

    def ask(self, text: str, on_piece: Callable[[Piece], None] = lambda _: None) -> Generation:
        """The answer to a question; `on_piece` hears of it as it comes.

        An answer that is interrupted stays in the conversation as far as it came, and the KeyboardInterrupt goes on. A
        question that fails leaves the conversation as it was.
        """
        turn = question_about(self._added, text)
        stream = self.model.answer(
            [*self._turns, turn],
            [*self._media, *self._added],
            self._options,
            template=self._template,
            most_images=self._most,
        )
        try:
            for piece in stream:
                on_piece(piece)
        except KeyboardInterrupt:
            stream.close()
            if stream.result.tokens:
                self._took(turn, stream.result)
            raise
        self._took(turn, stream.result)
        return stream.result

    def _took(self, turn: dict[str, Any], answer: Generation) -> None:
        self._turns += [turn, {"role": "assistant", "content": answer.text}]
        self._media += self._added
        self._added = []


def answer_json(answer: Generation, model: str) -> dict[str, Any]:
    """An answer as `--json` prints it."""
    said: dict[str, Any] = {
        "model": model,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "thinking": answer.thinking or None,
        "usage": asdict(answer.usage),
        "timings": {name: round(seconds, 4) for name, seconds in asdict(answer.timings).items()},
        "seed": answer.seed,
        "logprobs": None if answer.logprobs is None else [asdict(logprob) for logprob in answer.logprobs],
    }
    return {name: value for name, value in said.items() if value is not None}


def remarks(answer: Generation, options: GenerationOptions) -> list[str]:
    """What is worth telling of how an answer ended."""
    if answer.finish_reason == "loop":
        return ["the answer was ended because it only repeated itself (--no-loop-guard lets it go on)"]
    if answer.finish_reason != "length":
        return []
    if answer.usage.generated < options.most_tokens:
        return ["the answer ends here because the model's context is full"]
    return [f"the answer ends after {counted(answer.usage.generated, 'token')}; raise --max-tokens for more"]
