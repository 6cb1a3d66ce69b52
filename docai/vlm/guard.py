"""The loop guard: tells an answer that only repeats itself from one that lists, rules and tabulates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST_PERIOD = 512  # tokens of what is repeated
# A repetition is a loop once it has gone on for so many tokens and so many times. Sentences come again and again in no
# document that makes sense; a page of empty cells, dot leaders or equal rows is a real thing, so those may go on.
_WORDS = (256, 4)
_MARKS = (1280, 6)
_SHORTEST = _WORDS[0] * (_WORDS[1] - 1) // _WORDS[1]  # the least tokens in a row that equal earlier ones in a loop
_ROOM = 8 * LONGEST_PERIOD

_CELLS = re.compile(r"\||<t[dhr]\b|&|\\\\")  # rows of Markdown, HTML and LaTeX tables


class LoopGuard:
    """Watches the tokens of one answer for any run of up to `LONGEST_PERIOD` tokens that comes again and again.

    For each period it counts how many tokens in a row have equalled the one a period before: a comparison with the
    last tokens, whose cost does not grow with the answer.
    """

    def __init__(self, text_of: Callable[[Sequence[int]], str]) -> None:
        """`text_of` gives the text of tokens, to tell words from marks."""
        self._text_of = text_of
        self._room = np.full(_ROOM, -1, dtype=np.int64)  # filled from its end, so that the latest token comes first
        self._at = _ROOM - LONGEST_PERIOD
        self._same = np.zeros(LONGEST_PERIOD, dtype=np.int64)  # at p - 1: tokens in a row equal to that p before
        self._recheck = 0
        self._seen = 0

    def add(self, token: int) -> bool:
        """Whether the answer has become a loop with this token."""
        self._same += 1
        self._same *= self._last == token
        self._note(token)
        if self._seen < self._recheck:
            return False
        missing = _SHORTEST - int(self._same.max())
        if missing > 0:  # a token more makes a repetition no more than one token longer
            self._recheck = self._seen + missing
            return False
        period = self._period(*_WORDS)
        if period is None:
            return False
        if not self._of_marks(period) or self._period(*_MARKS) is not None:
            return True
        self._recheck = self._seen + 16  # a ruler so far: what it consists of need not be asked at every token
        return False

    @property
    def _last(self) -> NDArray[np.int64]:
        """The last tokens, latest first."""
        return self._room[self._at : self._at + LONGEST_PERIOD]

    def _note(self, token: int) -> None:
        if self._at == 0:
            self._room[-LONGEST_PERIOD:] = self._last
            self._at = _ROOM - LONGEST_PERIOD
        self._at -= 1
        self._room[self._at] = token
        self._seen += 1

    def _period(self, tokens: int, times: int) -> int | None:
        """The shortest period of a repetition that has reached this length, or None."""
        periods = np.arange(1, LONGEST_PERIOD + 1)
        found = np.flatnonzero((self._same + periods >= tokens) & (self._same >= periods * (times - 1)))
        return int(found[0]) + 1 if len(found) else None

    def _of_marks(self, period: int) -> bool:
        """Whether what is repeated is no running text: rows of a table, rulers, dot leaders, numbers."""
        text = self._text_of(self._last[: 2 * period][::-1].tolist())
        return _CELLS.search(text) is not None or not any(c.isalpha() for c in text)
