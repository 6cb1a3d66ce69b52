"""What image processors do that only checkpoints' own repos have, said anew with Pillow and NumPy.

Not made of docai's code and not of the published one: each function says what the rule is, in the plainest way. They
take a picture and what the checkpoint's files say, and give the tower's pixels and, of packed towers, their grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.float32]


def _colours(image: Image.Image, said: Mapping[str, Any]) -> Pixels:
    mean, std = (np.array(said[name]) for name in ("image_mean", "image_std"))
    return ((np.asarray(image) * said["rescale_factor"] - mean) / std).astype(np.float32)


def bunny(image: Image.Image, said: Mapping[str, Any]) -> tuple[Pixels]:
    """`process_images` of Bunny and nanoLLaVA: in the middle of a square of the mean colour, which is then resized."""
    side = max(image.size)
    square = Image.new("RGB", (side, side), tuple(int(value * 255) for value in said["image_mean"]))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    size = said["size"]["width"], said["size"]["height"]
    return (_colours(square.resize(size, said["resample"]), said)[None],)


def llmjpvl(image: Image.Image, said: Mapping[str, Any]) -> tuple[Pixels]:
    """`dynamic_preprocess` of LLM-jp-VL: InternVL's tiles, the whole picture behind them where they are several."""
    side = said["size"]["width"]
    shapes = {(w, h) for w in range(1, 13) for h in range(1, 13)}
    shapes = {s for s in shapes if said["min_dynamic_patch"] <= s[0] * s[1] <= said["max_dynamic_patch"]}
    best, least = (1, 1), inf
    for w, h in sorted(shapes, key=lambda s: s[0] * s[1]):
        off = abs(image.width / image.height - w / h)
        if off < least or (off == least and image.width * image.height > 0.5 * side * side * w * h):
            best, least = (w, h), off
    columns, rows = best
    large = image.resize((columns * side, rows * side), Image.Resampling.BICUBIC)
    corners = [(x * side, y * side) for y in range(rows) for x in range(columns)]
    tiles = [large.crop((x, y, x + side, y + side)) for x, y in corners]
    if len(tiles) > 1:
        tiles.append(image.resize((side, side), Image.Resampling.BICUBIC))
    return (np.stack([_colours(tile, said) for tile in tiles]),)


def youtu_vl(image: Image.Image, said: Mapping[str, Any]) -> tuple[Pixels, tuple[int, int, int]]:
    """image_processing_siglip2_fast.py of Youtu-VL: sides rounded up to whole blocks of 2 x 2 patches.

    A picture with too many patches is shrunk by fiftieths of itself; nothing is said of one with few, and
    `max_num_patches` of the files is not looked at: there may be 36864. Patches are (row, column, colour), those of a
    block after each other.
    """
    patch, scale = said["patch_size"], 1.0
    block = 2 * patch
    while True:
        width, height = (max(block, ceil(side * scale / block) * block) for side in image.size)
        if (height // patch) * (width // patch) <= 36_864:
            break
        scale -= 0.02
    pixels = _colours(image.resize((width, height), said["resample"]), said)
    rows = []
    for top in range(0, height, block):
        for left in range(0, width, block):
            for y in (top, top + patch):
                rows += [pixels[y : y + patch, x : x + patch].reshape(-1) for x in (left, left + patch)]
    return np.stack(rows), (1, height // patch, width // patch)
