"""A recording as a document: each picture that stays on the screen for a while is a page, with the time it came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from docai.errors import LimitExceeded
from docai.render.clip import Video
from docai.render.inputs import InputFile
from docai.render.sampling import MOST_LOOKED_AT, even, frame_count, new_pictures
from docai.types import Limits, Page


class Recording(Video):
    """A video whose pages are its pictures; looked at `limits.video_fps` times a second.

    `on_look` hears of every few seconds that this takes.
    """

    def __init__(self, file: InputFile, limits: Limits, on_look: Callable[[], None] = lambda: None) -> None:
        super().__init__(file, limits)
        count = min(frame_count(self.times, self.seconds, limits.video_fps) + 1, MOST_LOOKED_AT)

        def thumbs(numbers: Sequence[int]) -> NDArray[np.uint8]:
            on_look()
            return self.thumbs(numbers)

        found = new_pictures(self.times, even(self.times, count), thumbs)
        self.pages = [number for number, _ in found]
        self.since = [since for _, since in found]
        self.page_count = len(found)
        self.notes = (*self.notes, f"{self.seconds:.0f} s of video: {len(found)} pictures are read as pages")
        if limits.max_pages is not None and len(found) > limits.max_pages:
            raise LimitExceeded(
                f"{self.name}: {len(found)} pictures exceed the limit of {limits.max_pages} pages; raise it with"
                " --max-pages, or look at the video less often with --video-fps"
            )

    def page(self, index: int) -> Page:
        """A picture, with the time since when it is shown."""
        return replace(super().page(index), time=self.since[index])
