"""Stop strings: they end an answer and are no part of it, wherever tokens begin and end."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Watches text as it comes, and holds back what may be the beginning of a stop string.

    The answer ends with the first stop string that is complete, so that it does not matter how the text is cut into
    parts; of several that end at the same place, the longest counts.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """What can be given out. After that, `stopped` tells whether the answer has ended."""
        if not self._stops:
            return text
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        kept = self._beginning(text)
        text, self._held = text[: len(text) - kept], text[len(text) - kept :]
        return text

    def end(self) -> str:
        """What was held back, as no stop string followed."""
        text, self._held = self._held, ""
        return text

    def _beginning(self, text: str) -> int:
        """The length of the longest end of `text` that begins a stop string."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
