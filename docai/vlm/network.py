"""A whole model: tower, connector and decoder, without tokenizer, files or requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from docai.errors import UsageError
from docai.nn.cache import Cache, LayerCache
from docai.nn.rounding import Rounding
from docai.preprocess.inputs import ImageInput, SoundInput
from docai.vlm.connector import ImageFeatures, build_connector
from docai.vlm.decoder import Decoder
from docai.vlm.hearing import Hearing
from docai.vlm.spec import ModelSpec
from docai.vlm.vision import Seen, build_tower, seen_together

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A prompt in numbers, of one request, or a part of one. `positions`, `shift`, `end` as in `Decoder.__call__`.

    `embeddings` (1, L, D); `tokens` (1, L), with a blank one at the places of images; `blocks` (1, L); `deepstack`
    (1, L, D) each, 0 where there is no image.
    """

    embeddings: mx.array
    tokens: mx.array
    positions: mx.array | None = None
    shift: int = 0
    blocks: mx.array | None = None
    deepstack: tuple[mx.array, ...] = ()
    end: int = 0

    def __len__(self) -> int:
        return int(self.embeddings.shape[1])

    def part(self, start: int, stop: int) -> Prompt:
        """Tokens start ... stop - 1."""
        return replace(
            self,
            embeddings=self.embeddings[:, start:stop],
            tokens=self.tokens[:, start:stop],
            positions=None if self.positions is None else self.positions[..., start:stop],
            blocks=None if self.blocks is None else self.blocks[:, start:stop],
            deepstack=tuple(a[:, start:stop] for a in self.deepstack),
        )


class Network(nn.Module):
    """Names: vision and connector (in models that see; those of early fusion have no vision), hearing, decoder."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        if spec.vision is not None:
            self.vision = build_tower(spec.vision)
        if spec.connector is not None:
            self.connector = build_connector(spec.connector)
        if spec.hearing is not None:
            self.hearing = Hearing(spec.hearing)
        self.decoder = Decoder(spec.decoder)
        self._spec = spec

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        if "vision" in self:
            self.vision.fuse()
        self.decoder.fuse()

    def encode(self, images: Sequence[ImageInput], *, together: bool = False) -> list[ImageFeatures]:
        """The features of each image or sound, as the decoder takes them.

        `together`: images of one shape, see `seen_together`. Sounds are heard one by one.
        """
        pictures = [image for image in images if not isinstance(image, SoundInput)]
        seen = iter(self._seen(pictures, together) if pictures else ())
        return [self.hearing(image) if isinstance(image, SoundInput) else next(seen) for image in images]

    def _seen(self, images: Sequence[ImageInput], together: bool) -> list[ImageFeatures]:
        if "vision" not in self:
            seen = [Seen(mx.array(image.pixels)) for image in images]
        else:
            seen = seen_together(self.vision, images) if together else self.vision(images)
        return [self.connector(one, image) for one, image in zip(seen, images, strict=True)]

    def positions(self, tokens: Sequence[int], images: Sequence[ImageInput]) -> tuple[mx.array | None, int]:
        """Positions (axes, L) of a prompt's tokens and the shift of later ones; (None, 0) where they count up."""
        if self._spec.mrope is None or not images:
            return None, 0
        found = self._spec.mrope.positions(tokens, self.image_tokens, images)
        return mx.array(found.ids), found.delta

    def prompt(
        self,
        tokens: Sequence[int],
        features: Sequence[ImageFeatures] = (),
        positions: mx.array | None = None,
        shift: int = 0,
        *,
        end: int = 0,
    ) -> Prompt:
        """Tokens with the images' features in the place of their image tokens, in order.

        `positions` (axes, L) and `shift` are those of `positions()`. `end`: the length of the whole prompt, where these
        tokens are the last part of it. Raises UsageError where rows and image tokens differ in number.
        """
        ids = np.asarray(tokens, np.int32)
        places = self._image_places(ids)
        known = ids.copy()
        inner = self._spec.decoder.per_layer
        known[places] = inner.blank if inner else 0  # an image token may lie beyond the table (PaliGemma)
        known_ids = mx.array(known[None])
        x = self.decoder.embedded(known_ids)
        rows = sum(int(f.rows.shape[0]) for f in features)
        if rows != len(places):
            raise UsageError(f"the prompt has room for {len(places)} image tokens, but the images give {rows}")
        placed = None if positions is None else positions[:, None]
        prompt = Prompt(x, known_ids, placed, shift, self._numbered(tokens), end=end or len(ids))
        return self._merged(prompt, features, mx.array(places)) if rows else prompt

    def _merged(self, prompt: Prompt, features: Sequence[ImageFeatures], places: mx.array) -> Prompt:
        x = prompt.embeddings
        rows = mx.concatenate([f.rows for f in features]).astype(x.dtype)
        if self._spec.image_scale != 1.0:
            rows = rows * mx.array(self._spec.image_scale, x.dtype)
        x[0, places] = rows
        levels = zip(*(f.deepstack for f in features), strict=True)
        return replace(prompt, embeddings=x, deepstack=tuple(self._spread(level, x, places) for level in levels))

    def _spread(self, rows: Sequence[mx.array], x: mx.array, places: mx.array) -> mx.array:
        out = mx.zeros_like(x)
        out[0, places] = mx.concatenate(list(rows)).astype(x.dtype)
        return out

    @property
    def image_tokens(self) -> list[int]:
        """The ids that features replace."""
        spec = self._spec
        return [t for t in (spec.image_token, spec.video_token, spec.audio_token) if t is not None]

    def _image_places(self, ids: Ids) -> Ids:
        return np.flatnonzero(np.isin(ids, self.image_tokens)).astype(np.int32)

    def blocks(self, tokens: Sequence[int]) -> list[range]:
        """Tokens that see each other: those of an image, of a crop of it or of a frame, and the marks before them.

        None where all of a prompt do. Sounds are heard in their order.
        """
        spec = self._spec
        if spec.image_mask != "image":
            return []
        seen = [t for t in (spec.image_token, spec.video_token) if t is not None]
        places = np.flatnonzero(np.isin(np.asarray(tokens, np.int32), seen))
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        return [range(max(0, int(run[0]) - spec.image_marks), int(run[-1]) + 1) for run in runs if len(run)]

    def _numbered(self, tokens: Sequence[int]) -> mx.array | None:
        """(1, L) the block of each token, 0 for none."""
        if self._spec.image_mask == "prompt":
            return mx.ones((1, len(tokens)), mx.int32)
        blocks = self.blocks(tokens)
        numbers = np.zeros(len(tokens), np.int32)
        for number, block in enumerate(blocks, 1):
            numbers[block.start : block.stop] = number
        return mx.array(numbers[None]) if blocks else None

    def caches(self, *, rounding: Rounding | None = None, dense_last: bool = False) -> list[Cache]:
        """Empty caches for one request; see `Decoder.caches`."""
        return self.decoder.caches(rounding=rounding, dense_last=dense_last)

    def prefill(self, prompt: Prompt, caches: Sequence[Cache], *, last: bool = False) -> mx.array:
        """Take in a prompt, or a part of one: hidden states (1, L, D); `last` as in `Decoder.__call__`."""
        return self.decoder(
            prompt.embeddings,
            caches,
            positions=prompt.positions,
            shift=prompt.shift,
            blocks=prompt.blocks,
            deepstack=prompt.deepstack,
            end=prompt.end,
            tokens=prompt.tokens,
            last=last,
        )

    def step(self, tokens: mx.array, caches: Sequence[LayerCache], shift: int | mx.array = 0) -> mx.array:
        """One token of each sequence, (B, 1), behind those taken in: logits of the next one (B, vocabulary)."""
        hidden = self.decoder(self.decoder.embedded(tokens), caches, shift=shift, tokens=tokens)
        return self.decoder.logits(hidden[:, -1])

    def steps(self, tokens: mx.array, caches: Sequence[LayerCache], shift: int | mx.array = 0) -> mx.array:
        """Some tokens of each sequence, (B, L): logits of the one behind each of them (B, L, vocabulary)."""
        hidden = self.decoder(self.decoder.embedded(tokens), caches, shift=shift, tokens=tokens)
        return self.decoder.logits(hidden)
