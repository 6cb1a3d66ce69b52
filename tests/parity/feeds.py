"""What an oracle is fed with beside the prompt: from a recipe to the arguments of its forward pass, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt

import numpy as np

from tests.parity.recipes.kinds import Image, Recipe, Sound
from tests.parity.weights import noise


def pixels(image: Image, number: int, seed: int) -> np.ndarray:
    """The pixels of an image of a case; the test makes the same."""
    return noise(f"image {number}", image.shape, seed)


def all_pixels(recipe: Recipe) -> list[np.ndarray]:
    return [pixels(image, number, recipe.seed) for number, image in enumerate(recipe.images)]


def text(recipe: Recipe) -> dict[str, np.ndarray]:
    return {}


def qwen(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all images in a row, their grids, and which tokens are theirs (else transformers skips MRoPE)."""
    token = recipe.config["image_token_id"]
    return {
        "pixel_values": np.concatenate(all_pixels(recipe)),
        "image_grid_thw": np.array([image.grid for image in recipe.images]),
        "mm_token_type_ids": np.array([[int(t == token) for t in recipe.tokens]]),
    }


def qwen_mlx(recipe: Recipe) -> dict[str, np.ndarray]:
    return {key: value for key, value in qwen(recipe).items() if key != "mm_token_type_ids"}


def qwen_clip(recipe: Recipe) -> dict[str, np.ndarray]:
    """Images, and one clip: its patches, its grid, the seconds between its steps where the family asks for them."""
    kinds = {recipe.config["image_token_id"]: 1, recipe.config["video_token_id"]: 2}
    seen = list(zip(recipe.images, all_pixels(recipe), strict=True))
    stills = [(image, values) for image, values in seen if image.grid and image.grid[0] == 1]
    ((clip, frames),) = ((image, values) for image, values in seen if image.grid and image.grid[0] > 1)
    seconds = {"second_per_grid_ts": np.array([clip.extra["seconds"]])} if "seconds" in clip.extra else {}
    return {
        "pixel_values": np.concatenate([values for _, values in stills]),
        "image_grid_thw": np.array([image.grid for image, _ in stills]),
        "pixel_values_videos": frames,
        "video_grid_thw": np.array([clip.grid]),
        "mm_token_type_ids": np.array([[kinds.get(t, 0) for t in recipe.tokens]]),
        **seconds,
    }


def pictures(recipe: Recipe) -> dict[str, np.ndarray]:
    """Pictures of one size, (N, 3, H, W)."""
    return {"pixel_values": channels_first(np.concatenate(all_pixels(recipe)))}


def masked(recipe: Recipe) -> dict[str, np.ndarray]:
    """With a mask, which the oracle wants to have and does not look at."""
    return {**pictures(recipe), "mask": np.ones((1, len(recipe.tokens)), np.int32)}


def channels_first(pictures: np.ndarray) -> np.ndarray:
    """(..., H, W, C) -> (..., C, H, W)"""
    return np.ascontiguousarray(np.moveaxis(pictures, -1, -3))


def tiles(recipe: Recipe) -> dict[str, np.ndarray]:
    """Tiles of each image, filled up to the largest number, (N, tiles, 3, H, W), and the images' sizes."""
    most = max(image.shape[0] for image in recipe.images)
    filled = [np.pad(a, [(0, most - len(a)), (0, 0), (0, 0), (0, 0)]) for a in all_pixels(recipe)]
    return {
        "pixel_values": channels_first(np.stack(filled)),
        "image_sizes": np.array([image.extra["size"] for image in recipe.images]),
    }


def fitted(recipe: Recipe) -> dict[str, np.ndarray]:
    """Pictures of any size, put together of their patches and filled up to the largest, and their sizes in pixels."""
    whole = [unpatched(a, image) for a, image in zip(all_pixels(recipe), recipe.images, strict=True)]
    sizes = np.array([a.shape[1:] for a in whole])
    height, width = sizes.max(axis=0)
    filled = [np.pad(a, [(0, 0), (0, height - a.shape[1]), (0, width - a.shape[2])]) for a in whole]
    return {"pixel_values": np.stack(filled), "image_sizes": sizes}


def unpatched(patches: np.ndarray, image: Image) -> np.ndarray:
    """Patches (N, 3 * p * p), in blocks that give a token each, as the picture (3, H, W) that they were cut from."""
    assert image.grid is not None
    _, h, w = image.grid
    merge, side = isqrt(h * w // image.tokens), isqrt(patches.shape[1] // 3)
    split = patches.reshape(h // merge, w // merge, merge, merge, 3, side, side)
    return split.transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, h * side, w * side)


def moonvit(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all images row by row, (N, 3, p, p), and their grids (h, w), one for each frame of a clip."""
    grids = [grid[1:] for image in recipe.images for grid in image.extra.get("grids", [image.grid])]
    return {
        "pixel_values": np.concatenate(list(map(by_rows, recipe.images, all_pixels(recipe)))),
        "image_grid_hws": np.array(grids),
    }


def moonvit_steps(recipe: Recipe) -> dict[str, np.ndarray]:
    """The same for transformers: grids (t, h, w) of images, and of the parts of clips."""
    out: dict[str, list[np.ndarray]] = {}
    for image, values in zip(recipe.images, all_pixels(recipe), strict=True):
        kind = (
            ("pixel_values_videos", "video_grid_thw") if "stamps" in image.extra else ("pixel_values", "image_grid_thw")
        )
        for name, value in zip(
            kind, (by_rows(image, values), np.array(image.extra.get("grids", [image.grid]))), strict=True
        ):
            out.setdefault(name, []).append(value)
    return {name: np.concatenate(parts) for name, parts in out.items()}


def by_rows(image: Image, values: np.ndarray) -> np.ndarray:
    """Patches in blocks (N, 3 * p * p), frame by frame, as patches row by row (N, 3, p, p)."""
    grids = image.extra.get("grids", [image.grid])
    merge, side = isqrt(sum(h * w for _, h, w in grids) // image.tokens), isqrt(values.shape[1] // 3)
    frames = [(h, w) for t, h, w in grids for _ in range(t)]
    parts = np.split(values, np.cumsum([h * w for h, w in frames])[:-1])
    out = [
        part.reshape(h // merge, w // merge, merge, merge, 3, side, side).swapaxes(1, 2).reshape(-1, 3, side, side)
        for part, (h, w) in zip(parts, frames, strict=True)
    ]
    return np.concatenate(out)


def flat(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all images in a row, as they lie in blocks, and their grids (h, w)."""
    grids = [image.grid[1:] for image in recipe.images if image.grid]
    return {"pixel_values": np.concatenate(all_pixels(recipe)), "spatial_shapes": np.array(grids)}


def naflex(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all parts of all images row by row, (parts, most, p * p * 3), which of them count, and the grids."""
    parts: list[np.ndarray] = []
    grids: list[tuple[int, int]] = []
    for image, values in zip(recipe.images, all_pixels(recipe), strict=True):
        own = [grid[1:] for grid in image.extra.get("grids", [image.grid])]
        side = isqrt(sum(h * w for h, w in own) // image.tokens)  # of a block of patches that gives a token
        for (h, w), patches in zip(own, np.split(values, np.cumsum([h * w for h, w in own])[:-1]), strict=True):
            blocks = patches.reshape(h // side, w // side, side, side, -1)
            parts.append(blocks.swapaxes(1, 2).reshape(h * w, -1))
            grids.append((h, w))
    most = max(len(part) for part in parts)
    return {
        "pixel_values": np.stack([np.pad(part, [(0, most - len(part)), (0, 0)]) for part in parts]),
        "pixel_attention_mask": np.array([[int(n < len(part)) for n in range(most)] for part in parts]),
        "spatial_shapes": np.array(grids),
    }


def navit(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all parts of all images row by row and side by side, (1, 3, p, N * p), and the parts' grids.

    Those of clips by themselves.
    """
    seen = list(zip(recipe.images, all_pixels(recipe), strict=True))
    fed: dict[str, np.ndarray] = {}
    for clips, ending in ((False, ""), (True, "_videos")):
        if chosen := [(image, values) for image, values in seen if ("stamps" in image.extra) == clips]:
            fed[f"pixel_values{ending}"], fed[f"target_sizes{ending}"] = side_by_side(chosen)
    return fed


def side_by_side(chosen: Sequence[tuple[Image, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """(strip, grids) of the parts of images."""
    strips: list[np.ndarray] = []
    grids: list[tuple[int, int]] = []
    for image, values in chosen:
        own = [grid[1:] for grid in image.extra["grids"]]
        side = isqrt(len(values) // image.tokens)
        for (h, w), patches in zip(own, np.split(values, np.cumsum([h * w for h, w in own])[:-1]), strict=True):
            raster = np.empty_like(patches)
            raster[[y * w + x for y, x in in_squares(0, 0, h, w, side)]] = patches
            strips.append(raster.reshape(h * w, 3, isqrt(raster.shape[1] // 3), -1))
            grids.append((h, w))
    patches = np.concatenate(strips)  # (N, 3, p, p)
    strip = patches.transpose(1, 2, 0, 3).reshape(1, 3, patches.shape[2], -1)
    return np.ascontiguousarray(strip), np.array(grids)


def in_squares(top: int, left: int, height: int, width: int, side: int) -> list[tuple[int, int]]:
    """(row, column) of the places of an area, square by square, those of a square in squares of half its side."""
    if side == 1:
        return [(top + y, left + x) for y in range(height) for x in range(width)]
    corners = [(top + y, left + x) for y in range(0, height, side) for x in range(0, width, side)]
    return [place for y, x in corners for place in in_squares(y, x, side, side, side // 2)]


def falcon(recipe: Recipe) -> dict[str, np.ndarray]:
    """One picture (1, H, W, 3) put together of its patches, whose numbers are in (p, p, 3) order, and its grid."""
    (image,), (patches,) = recipe.images, all_pixels(recipe)
    assert image.grid is not None
    (_, h, w), side = image.grid, isqrt(patches.shape[1] // 3)
    whole = patches.reshape(h, w, side, side, 3).swapaxes(1, 2).reshape(1, h * side, w * side, 3)
    return {"pixel_values": whole, "image_grid_hw": np.array([[h, w]])}


def prefix(recipe: Recipe) -> dict[str, np.ndarray]:
    """PaliGemma: every token of the prompt is of the prefix, which is type 0."""
    return {**pictures(recipe), "token_type_ids": np.zeros((1, len(recipe.tokens)), np.int64)}


def marked(recipe: Recipe) -> dict[str, np.ndarray]:
    """Gemma 3: the tokens of images are of type 1."""
    token = recipe.config["image_token_id"]
    return {**pictures(recipe), "token_type_ids": np.array([[int(t == token) for t in recipe.tokens]])}


def placed(recipe: Recipe) -> dict[str, np.ndarray]:
    """Gemma 4: patches row by row, filled up to the most that an image has, and their columns and rows, -1 behind.

    Clips are frames of their own; the tokens of images are of type 1, those of clips of type 2, those of sounds of 3.
    """
    kinds = {recipe.config[f"{kind}_token_id"]: number for number, kind in enumerate(("image", "video", "audio"), 1)}
    seen = [pair for pair in zip(recipe.images, all_pixels(recipe), strict=True) if not isinstance(pair[0], Sound)]
    fed = {"mm_token_type_ids": np.array([[kinds.get(token, 0) for token in recipe.tokens]])}
    for pixels, positions, clips in (
        ("pixel_values", "image_position_ids", False),
        ("pixel_values_videos", "video_position_ids", True),
    ):
        chosen = [(image, values) for image, values in seen if ("stamps" in image.extra) == clips]
        frames = [frame for image, values in chosen for frame in _frames(image, values)]
        if frames:
            most = max(len(rows) for rows, _ in frames)
            fed[pixels] = np.stack([np.pad(rows, [(0, most - len(rows)), (0, 0)]) for rows, _ in frames])
            at = [np.pad(place, [(0, most - len(place)), (0, 0)], constant_values=-1) for _, place in frames]
            fed[positions] = np.stack(at)
        if frames and clips:
            fed["num_frames_per_video"] = np.array([len(image.extra["grids"]) for image, _ in chosen])
    return fed


def heard(recipe: Recipe) -> dict[str, np.ndarray]:
    """The same with a sound, and some frames more that do not count."""
    (frames,) = (a for image, a in zip(recipe.images, all_pixels(recipe), strict=True) if isinstance(image, Sound))
    filled = np.pad(frames, [(0, 3), (0, 0)])
    return {
        **placed(recipe),
        "input_features": filled[None],
        "input_features_mask": (np.arange(len(filled)) < len(frames))[None],
    }


def _frames(image: Image, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each frame: patches row by row, and (column, row) of each."""
    grids = [grid[1:] for grid in image.extra.get("grids", [image.grid])]
    merge = isqrt(sum(h * w for h, w in grids) // image.tokens)
    out = []
    for (h, w), patches in zip(grids, np.split(values, np.cumsum([h * w for h, w in grids])[:-1]), strict=True):
        blocks = patches.reshape(h // merge, w // merge, merge, merge, -1).swapaxes(1, 2)
        rows, columns = np.indices((h, w)).reshape(2, -1)
        out.append((blocks.reshape(h * w, -1), np.stack([columns, rows], axis=1)))
    return out


FEEDS: dict[str, Callable[[Recipe], dict[str, np.ndarray]]] = {
    "text": text,
    "qwen": qwen,
    "qwen_clip": qwen_clip,
    "qwen_mlx": qwen_mlx,
    "pictures": pictures,
    "masked": masked,
    "tiles": tiles,
    "fitted": fitted,
    "falcon": falcon,
    "moonvit": moonvit,
    "moonvit_steps": moonvit_steps,
    "naflex": naflex,
    "flat": flat,
    "navit": navit,
    "prefix": prefix,
    "marked": marked,
    "placed": placed,
    "heard": heard,
}
