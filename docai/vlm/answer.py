"""An answer as it grows on the host: tokens become text, and what ends it is noticed."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from docai.vlm.guard import LoopGuard
from docai.vlm.request import FinishReason, GenerationOptions, Piece, TokenLogprob
from docai.vlm.stop import StopStrings
from docai.vlm.stream import Detokenizer, Pieces
from docai.vlm.structured import Grammar
from docai.vlm.thinking import Thinking


class Answer:
    """Takes the tokens of one answer, gives out its text, and knows when and why it has ended."""

    def __init__(
        self,
        options: GenerationOptions,
        pieces: Pieces,
        thinking: Thinking,
        grammar: Grammar | None = None,
    ) -> None:
        self._pieces, self._stops = pieces, pieces.tokenizer.stops
        self._skip = not options.special_tokens
        self._may_think = options.thinking == "on"
        self.thought, self.grammar = thinking, grammar
        self._guard = LoopGuard(self._plain) if options.loop_guard else None
        self._watch = StopStrings(options.stops)
        self._detokenizer = Detokenizer(pieces, skip_special=self._skip)
        self._fresh = False  # no text yet since thinking began or ended: line breaks there belong to neither
        self._text: dict[bool, list[str]] = {False: [], True: []}  # thinking? -> its parts
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish_reason: FinishReason | None = None

    @property
    def text(self) -> str:
        return "".join(self._text[False])

    @property
    def thinking(self) -> str:
        return "".join(self._text[True]).rstrip()

    def allowed(self, vocab: int) -> mx.array | None:
        """(V,) True for the tokens that may come next; None where all may."""
        if self.grammar is None or self.thought.inside:
            return None
        allowed = self.grammar.allowed(vocab)
        may_think = self.thought.opening if self._may_think and not self.tokens else None
        return allowed if may_think is None else allowed | (mx.arange(vocab) == may_think)

    def add(self, token: int, logprob: TokenLogprob | None = None) -> list[Piece]:
        """Take in a token: the text that it makes known."""
        self.tokens.append(token)
        said = () if logprob is None else (logprob,)
        self.logprobs += said
        if token in self._stops:
            return self.end("stop")
        inside = self.thought.inside
        if self.thought.add(token):
            return self._turned(inside)
        if self.grammar is not None and not inside:
            self.grammar.add(token)
        out = self._given(self._detokenizer.add(token), inside, said)
        if self._watch.stopped:
            self.finish_reason = "stop"
        elif self.grammar is not None and self.grammar.done:
            out += self.end("stop")
        elif self._guard is not None and self._guard.add(token):
            out += self.end("loop")
        return out

    def end(self, reason: FinishReason) -> list[Piece]:
        """The answer is over: what was held back of its text."""
        self.finish_reason = reason
        inside = self.thought.inside
        out = self._given(self._detokenizer.end(), inside, ())
        return out + self._piece(self._watch.end(), False, ())

    def _turned(self, inside: bool) -> list[Piece]:
        """Thinking has begun or ended; `inside` tells of the text before."""
        out = self._given(self._detokenizer.end(), inside, ())
        self._detokenizer = Detokenizer(self._pieces, skip_special=self._skip)
        self._fresh = True
        return out

    def _given(self, text: str, inside: bool, logprobs: tuple[TokenLogprob, ...]) -> list[Piece]:
        if self._fresh:
            text = text.lstrip()
            self._fresh = not text
        return self._piece(text if inside else self._watch.add(text), inside, logprobs)

    def _piece(self, text: str, inside: bool, logprobs: tuple[TokenLogprob, ...]) -> list[Piece]:
        self._text[inside].append(text)
        return [Piece(text, inside, logprobs)] if text or logprobs else []

    def _plain(self, tokens: Sequence[int]) -> str:
        return "".join(map(self._pieces.text, tokens))
