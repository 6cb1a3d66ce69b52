"""Image processors of towers of one size: pictures stretched, cropped or padded to it, alone or in tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from PIL import Image

from docai.preprocess.inputs import ImageInput, ImageProcessor, OneSize, Rgb
from docai.preprocess.normalize import Normalization
from docai.preprocess.resample import BICUBIC, BILINEAR, interpolate, resize
from docai.preprocess.sizes import Size, best_resolution, fit_within, grown, most_tiles, sides, unpadded
from docai.preprocess.tiles import Cuts, PanAndScan, pad_to, resize_crop, split_tiles


@dataclass(frozen=True, slots=True)
class CroppedImages(OneSize):
    """The shorter side to `edge`, then the middle (CLIP, LLaVA 1.5); with `square`, first padded to a square."""

    normalize: Normalization
    edge: int
    crop: Size
    tokens: int
    how: Image.Resampling = BICUBIC
    square: bool = False

    def __call__(self, rgb: Rgb) -> ImageInput:
        """One picture, (1, H, W, 3)."""
        if self.square:
            # the colour that normalises to nearly nothing
            colour = tuple(int(value * 255) for value in self.normalize.mean)
            rgb = pad_to(rgb, (max(sides(rgb)),) * 2, colour=colour)  # type: ignore[arg-type]  # three channels
        cropped = resize_crop(rgb, self.edge, self.crop, self.how)
        return ImageInput(self.normalize(cropped)[None], self.tokens)


@dataclass(frozen=True, slots=True)
class StretchedImages(OneSize):
    """Stretched to one size, whatever the shape (SigLIP, PaliGemma, Gemma 3); with `pan`, crops of long ones too.

    With `cut`, in squares of that size as `cuts` says (GOT-OCR).
    """

    normalize: Normalization
    size: Size
    tokens: int
    how: Image.Resampling = BICUBIC
    pan: PanAndScan | None = None
    cuts: Cuts | None = None
    cut: bool = False

    def __call__(self, rgb: Rgb) -> ImageInput:
        """The picture and its crops, (1 + crops, H, W, 3); `tokens` is that of all of them."""
        if self.cuts and self.cut:
            parts = self.cuts(rgb, self.size[0], self.how)
        else:
            parts = [rgb, *(self.pan.crops(rgb) if self.pan else ())]
        pixels = self.normalize(np.stack([resize(part, self.size, self.how) for part in parts]))
        return ImageInput(pixels, self.tokens * len(parts))

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`."""
        if not self.cuts or not self.cut:
            return self
        return replace(self, cuts=self.cuts.within(tokens // self.tokens - 1))


@dataclass(frozen=True, slots=True)
class TiledImages(OneSize):
    """The whole picture at the tower's size, then tiles of it at the best of some larger sizes (LLaVA 1.6 anyres)."""

    normalize: Normalization
    tile: int
    patch: int
    choices: tuple[Size, ...]
    how: Image.Resampling = BICUBIC

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Tiles (1 + rows * columns, tile, tile, 3), the whole picture first.

        extra: `size` (h, w) of the picture in pixels, `tiles` (rows, columns), and `crop` (top, left, height, width),
        what the picture covers of the features of all tiles put together. The rows of that crop end in a line break,
        which is counted in `tokens`.
        """
        size, side = sides(rgb), self.tile // self.patch
        target = best_resolution(size, self.choices)
        fitted = pad_to(resize(rgb, fit_within(size, target), self.how), target)
        parts = [resize(rgb, (self.tile, self.tile), self.how), *split_tiles(fitted, self.tile)]
        layout = target[0] // self.tile, target[1] // self.tile
        crop = unpadded(size, (layout[0] * side, layout[1] * side))
        return ImageInput(
            self.normalize(np.stack(parts)),
            tokens=side * side + crop[2] * (crop[3] + 1),
            extra={"size": np.array(size), "tiles": np.array(layout), "crop": np.array(crop)},
        )


@dataclass(frozen=True, slots=True)
class PaddedImages:
    """In tiles that the longer side fills, white beside the shorter one; the whole of it first (Phi-3 Vision's HD)."""

    normalize: Normalization
    tile: int
    patch: int
    most_cuts: int
    how: Image.Resampling = BILINEAR

    def __call__(self, rgb: Rgb) -> ImageInput:
        """Tiles (1 + rows * columns, tile, tile, 3), the whole picture first; extra: `tiles` (rows, columns).

        Each row of 2 x 2 patches ends in a line break, and one row stands between the tiles and the whole picture.
        """
        tall = rgb.shape[0] > rgb.shape[1]  # such are laid on their side first, which shows in the last bits
        padded = self._padded(rgb.swapaxes(0, 1)).swapaxes(0, 1) if tall else self._padded(rgb)
        whole = interpolate(self.normalize(padded), (self.tile, self.tile), kind="bicubic")
        rows, columns = padded.shape[0] // self.tile, padded.shape[1] // self.tile
        side = self._side
        return ImageInput(
            np.concatenate([whole[None], self.normalize(np.stack(split_tiles(padded, self.tile)))]),
            tokens=rows * side * (columns * side + 1) + 1 + side * (side + 1),
            extra={"tiles": np.array((rows, columns))},
        )

    def within(self, tokens: int) -> Self:
        """See `ImageProcessor`: fewer tiles, but one beside the whole picture."""
        part = self._side * (self._side + 1)  # of a tile, or the whole, that stands alone in its lines
        return replace(self, most_cuts=max(1, min(self.most_cuts, (tokens - 1) // part - 1)))

    @property
    def _side(self) -> int:
        """Tokens in a line of a tile: each is 2 x 2 patches."""
        return self.tile // self.patch // 2

    def _padded(self, rgb: Rgb) -> Rgb:
        """A wide picture at its size, with white above and below."""
        size = most_tiles(sides(rgb), self.tile, self.most_cuts)
        return pad_to(resize(rgb, size, self.how), grown(size, self.tile), colour=255)


def cutting(processor: ImageProcessor) -> ImageProcessor | None:
    """The processor with pictures cut into crops as well; None where it does not know how."""
    if isinstance(processor, StretchedImages) and processor.cuts:
        return replace(processor, cut=True)
    return None
