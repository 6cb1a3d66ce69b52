"""What stands for a medium in a prompt: its token as often as it has rows, with the marks that a family was taught.

An expansion takes that token and the medium as it was prepared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from docai.preprocess.inputs import ImageInput
from docai.writing import clock

Expansion = Callable[[str, ImageInput], str]


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
