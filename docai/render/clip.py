"""A video that is open: when its frames are shown, and their pixels. It is decoded in the process of all documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from docai.render import wire
from docai.render.document import Source, input_file
from docai.render.inputs import InputFile
from docai.types import Limits

if TYPE_CHECKING:
    from docai.types import RGB

MOST_FRAME_PIXELS = 3840 * 2160  # of a frame that a model sees, which makes it smaller still
THUMB = (256, 144)  # (width, height) of the small grey frames by which frames are compared
_BATCH = 256  # thumbs in one answer
_LOOK_SECONDS = 5.0  # after which the decoding process answers with what it has


class Video(Source):
    """The frames of a video, by their number. `times` (n,) are in seconds from the first, ascending.

    `pages` are the frames that count as pages of a document: here all of them.
    """

    def __init__(self, file: InputFile, limits: Limits) -> None:
        super().__init__(file, None, limits, "video")
        header, (part, *_) = self._ask({"do": "times", "index": 0})
        self.times: NDArray[np.float64] = wire.unpack_array(header["array"], part)
        self.pages: Sequence[int] = range(len(self.times))

    def frame(self, number: int, most: int = MOST_FRAME_PIXELS) -> RGB:
        """A frame, upright, with at most `most` pixels."""
        header, parts = self._of_frame({"do": "frame", "index": number, "most": most})
        return wire.unpack_array(header["array"], parts[0])

    def thumbs(self, numbers: Sequence[int]) -> NDArray[np.uint8]:
        """Frames (k, height, width), small and grey: at least the first of those asked for, and as many as are ready.

        Asking for a few at a time keeps each call short, however long the video is.
        """
        asked = {"indices": [int(n) for n in numbers[:_BATCH]], "width": THUMB[0], "height": THUMB[1]}
        seconds = min(_LOOK_SECONDS, self._limits.page_seconds / 4)
        header, parts = self._of_frame({"do": "thumbs", "index": int(numbers[0]), "seconds": seconds, **asked})
        return wire.unpack_array(header["array"], parts[0])

    def _of_frame(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
        at = self.times[request["index"]]
        return self._call(request, (), None, f"at {at:.1f} s")

    def _ask(
        self, request: dict[str, Any], parts: wire.Parts = (), seconds: float | None = None
    ) -> tuple[dict[str, Any], list[memoryview]]:
        if "pages" not in self.__dict__:  # the pages are not known yet
            return super()._ask(request, parts, seconds)
        index = request["index"]
        if not 0 <= index < self.page_count:
            raise IndexError(f"page {index} of {self.page_count}")
        return self._call({**request, "index": int(self.pages[index])}, parts, seconds, f"page {index + 1}")


def open_video(
    source: str | Path | bytes | InputFile, *, limits: Limits | None = None, name: str | None = None
) -> Video:
    """Open a video: a path, its bytes, or an `InputFile`. Raises InputError, LimitExceeded or DependencyMissing."""
    return Video(input_file(source, name or "video"), limits or Limits())
