"""How large a picture becomes before a tower reads it: the sizing rules, all in (height, width) pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from docai.errors import InputError
from docai.preprocess.inputs import Rgb

Size = tuple[int, int]  # (height, width)

STEEPEST = 200  # Qwen2-VL's own limit: above it, a side would be less than a patch for any area that the model takes


def sides(rgb: Rgb) -> Size:
    """(height, width) of a picture."""
    return rgb.shape[0], rgb.shape[1]


def smart_resize(size: Size, factor: int, *, least: int, most: int, strips: bool = False) -> Size:
    """Sides that are multiples of `factor`, the area between `least` and `most`, the shape kept as far as possible.

    The rule of Qwen2-VL (Python's rounding to even included). With `strips` that of LFM2-VL: a side counts as one
    `factor` at least before the area is looked at, and no shape is refused; thin ones may have more than `most`.
    """
    height, width = size
    if max(size) > STEEPEST * min(size) and not strips:
        raise InputError(
            f"the image is {width} x {height} px: this model reads images whose sides differ by at most "
            f"{STEEPEST} times; crop or pad it"
        )
    tall, wide = (max(factor * strips, round(side / factor) * factor) for side in size)
    if tall * wide > most:
        shrink = math.sqrt(height * width / most)
        tall = math.floor(height / shrink / factor) * factor
        wide = math.floor(width / shrink / factor) * factor
    elif tall * wide < least:
        grow = math.sqrt(least / (height * width))
        tall = math.ceil(height * grow / factor) * factor
        wide = math.ceil(width * grow / factor) * factor
    return max(factor, tall), max(factor, wide)


def clamped(size: Size, least: int, most: int) -> Size:
    """Both sides between `least` and `most`, the shape kept but for cut fractions (Falcon-OCR's rule).

    A side that is too short grows the picture; what is then, or else, too long shrinks it.
    """
    height, width = size
    if least <= min(size) and max(size) <= most:
        return size
    edge, shape = least if min(size) < least else most, width / height
    height, width = (int(edge / shape), edge) if width < height else (edge, int(edge * shape))
    if width > most:
        height, width = int(most / shape), most
    if height > most:
        height, width = most, int(most * shape)
    return height, width


def scaled_to_patches(size: Size, patch: int, most: int) -> Size:
    """The largest sides of whole patches, each rounded up, of which there are at most `most` (SigLIP 2's rule)."""
    small, large = 1e-6, 100.0
    while large - small >= 1e-5:
        middle = (small + large) / 2
        height, width = _whole_patches(size, patch, middle)
        small, large = (middle, large) if height * width <= most * patch**2 else (small, middle)
    return _whole_patches(size, patch, small)


def _whole_patches(size: Size, patch: int, scale: float) -> Size:
    height, width = (max(1, math.ceil(side * scale / patch)) * patch for side in size)
    return height, width


def stepped(size: Size, patch: int, merge: int, most: int) -> Size:
    """Sides grown to whole blocks of merge x merge patches, shrunk by fiftieths to at most `most` (Youtu-VL's rule)."""
    scale, block = 1.0, patch * merge
    while True:
        height, width = _whole_patches(size, block, scale)
        if height * width <= most * patch**2 or scale <= 0:
            return height, width
        scale -= 0.02  # time and again, as the reference does: its rounding decides now and then


def most_tiles(size: Size, tile: int, most: int) -> Size:
    """The largest size of a wide picture whose width is whole tiles, at most `most` of which cover it (Phi-3)."""
    ratio, across = size[1] / size[0], 1
    while (across + 1) * math.ceil((across + 1) / ratio) <= most:
        across += 1
    return max(1, int(across * tile / ratio)), across * tile


def shortest_edge(size: Size, edge: int) -> Size:
    """The shorter side becomes `edge`, the other follows (cut, not rounded: torchvision's rule)."""
    height, width = size
    if width <= height:
        return int(edge * height / width), edge
    return edge, int(edge * width / height)


def longest_edge(size: Size, edge: int, factor: int) -> Size:
    """Shrunk until both sides fit in `edge`, then each grown to the next multiple of `factor` (Pixtral's rule)."""
    height, width = size
    ratio = max(size) / edge
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    return max(1, -(-height // factor)) * factor, max(1, -(-width // factor)) * factor


def shrunk(size: Size, patch: int, most: int) -> Size:
    """Sides of the same shape with at most so many whole patches, cut to pixels (Moonshot's rule)."""
    count = (size[0] // patch) * (size[1] // patch)
    if count <= most:
        return size
    scale = math.sqrt(most / count)
    return int(size[0] * scale), int(size[1] * scale)


def shrunk_sides(size: Size, patch: int, most: int, most_side: int) -> Size:
    """`shrunk`, with sides of at most so many patches, too (Kimi K2.5's rule)."""
    height, width = size
    count = max(1, height // patch) * max(1, width // patch)
    longest = most_side * patch
    scale = min(1.0, math.sqrt(most / count), longest / width, longest / height)
    return min(max(1, int(height * scale)), longest), min(max(1, int(width * scale)), longest)


def grown(size: Size, factor: int) -> Size:
    """Each side grown to the next multiple of `factor`."""
    return -(-size[0] // factor) * factor, -(-size[1] // factor) * factor


def budgeted(size: Size, block: int, most: int, most_side: int) -> Size:
    """The largest sides of whole blocks, of the same shape and rounded down, that are at most `most` blocks (Gemma 4).

    A side that would be none is one; the other is then cut to whole blocks in proportion. None has more than
    `most_side`.
    """
    height, width = size
    factor = math.sqrt(most * block**2 / (height * width))
    tall, wide = math.floor(factor * height / block), math.floor(factor * width / block)
    if tall == 0:
        tall, wide = 1, max(1, min(width // height, most))
    elif wide == 0:
        tall, wide = max(1, min(height // width, most)), 1
    return min(tall, most_side) * block, min(wide, most_side) * block


def fit_within(size: Size, box: Size) -> Size:
    """The largest size of the same shape that fits in `box`; one of its sides is the box's (LLaVA-NeXT's rule)."""
    (height, width), (box_height, box_width) = size, box
    scale_w, scale_h = box_width / width, box_height / height
    if scale_w < scale_h:
        return min(math.ceil(height * scale_w), box_height), box_width
    return box_height, min(math.ceil(width * scale_h), box_width)


def best_resolution(size: Size, choices: Sequence[Size]) -> Size:
    """The choice that keeps most of the picture's pixels, and of those the one that wastes fewest (LLaVA-NeXT)."""
    height, width = size

    def rank(choice: Size) -> tuple[int, int]:
        scale = min(choice[1] / width, choice[0] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - choice[0] * choice[1]

    return max(choices, key=rank)


def unpadded(size: Size, grid: Size) -> tuple[int, int, int, int]:
    """(top, left, height, width) of what a picture of `size` covers of a feature `grid` that it was centred in.

    LLaVA-NeXT's rule: the padding is the same on both sides, so that an odd rest stays in.
    """
    (height, width), (rows, columns) = size, grid
    if width / height > columns / rows:
        top = (rows - int(round(height * (columns / width), 7))) // 2
        return top, 0, rows - 2 * top, columns
    left = (columns - int(round(width * (rows / height), 7))) // 2
    return 0, left, rows, columns - 2 * left
