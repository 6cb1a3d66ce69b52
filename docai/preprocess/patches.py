"""Pictures cut into the flattened patches of packed towers."""

from __future__ import annotations

import numpy as np

from docai.preprocess.inputs import Pixels


def grid_patches(picture: Pixels, patch: int) -> Pixels:
    """`picture` (H, W, C) as rows of patches (N, patch * patch * C), row by row, and each row in (p, p, C) order."""
    height, width, channels = picture.shape
    split = picture.reshape(height // patch, patch, width // patch, patch, channels)
    return split.swapaxes(1, 2).reshape(-1, patch * patch * channels)


def flat_patches(frames: Pixels, patch: int, *, temporal: int = 1, merge: int = 1, inner: int = 1) -> Pixels:
    """`frames` (T, H, W, C) as rows of patches (N, C * temporal * patch * patch), and each row in (C, T, p, p) order.

    `temporal` frames make one patch; a last group that is not full repeats the last frame (so a still image is
    doubled). The patches of each merge x merge block follow each other, as the merger takes them, within it those of
    each inner x inner block; blocks go by rows.
    """
    frames = np.concatenate([frames, np.repeat(frames[-1:], -len(frames) % temporal, axis=0)])
    count, height, width, channels = frames.shape
    split = frames.reshape(
        count // temporal,
        temporal,
        height // patch // merge,
        merge // inner,
        inner,
        patch,
        width // patch // merge,
        merge // inner,
        inner,
        patch,
        channels,
    )
    ordered = split.transpose(0, 2, 6, 3, 7, 4, 8, 10, 1, 5, 9)  # (t, gh, gw, mh, mw, ih, iw, C, T, p, p)
    return ordered.reshape(-1, channels * temporal * patch * patch)
