"""Reading a prompt into caches, chunk by chunk, from where an earlier one has left off."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import mlx.core as mx
import numpy as np

from docai.errors import UsageError
from docai.nn.attention import AttentionSpec
from docai.nn.cache import Cache, FullCache, RotatingCache
from docai.nn.latent_cache import LatentCache, RotatingLatentCache
from docai.nn.mla import LatentSpec
from docai.nn.rope import LongScaling
from docai.nn.rounding import SMALLEST_GROUP, Rounding
from docai.vlm.connector import ImageFeatures
from docai.vlm.features import Key
from docai.vlm.generate import Request
from docai.vlm.network import Network, Prompt
from docai.vlm.prefix import Block, BlockStore, Layout, Span, chain, chunk_ends, restore
from docai.vlm.request import GenerationOptions


class Reading:
    """One prompt on its way into caches of its own. `shift` and `logits` are known once it is `done`.

    `answered`: tokens behind the prompt that were generated before, and have to be read again. `features`: of images,
    by their keys, as far as they are known.
    """

    def __init__(
        self,
        network: Network,
        request: Request,
        store: BlockStore,
        tenant: Hashable = "",
        answered: Sequence[int] = (),
        features: Mapping[Key, ImageFeatures] | None = None,
    ) -> None:
        self._network, self._request, self._store = network, request, store
        self._known = features or {}
        self._ids = [*request.ids, *answered]
        self.layout = self._layout()
        self._keys = chain(self.layout, (tenant, cache_kind(network, request))) if store.on else []
        self.caches: list[Cache] = []
        self.offset = self.reused = 0
        self.shift = 0
        self.logits: mx.array | None = None
        self._prompt: Prompt | None = None

    @property
    def done(self) -> bool:
        return self.logits is not None

    @property
    def next_size(self) -> int:
        """The tokens of the next chunk."""
        return 0 if self.done else next(end for end in self.layout.ends if end > self.offset) - self.offset

    def begin(self) -> None:
        """Look up what is known of the prompt, and have the rest of its images encoded."""
        found = self._store.find(self._keys) if self._keys else []
        self.caches = new_caches(self._network, self._request.options)
        if found:
            restore(found, self.caches)
            self.offset = self.reused = found[-1].end
            self.logits = found[-1].logits if self.offset == len(self._ids) else None
        positions, self.shift = self._network.positions(self._ids, [image.input for image in self._request.images])
        if not self.done:
            left = None if positions is None else positions[:, self.offset :]
            ids, features = self._ids[self.offset :], self._features(self.offset)
            self._prompt = self._network.prompt(ids, features, left, self.shift, end=len(self._ids))

    @property
    def options(self) -> GenerationOptions:
        return self._request.options

    @property
    def whole(self) -> Prompt:
        """The prompt, of which nothing has been read yet."""
        assert self._prompt is not None, "reading has not begun"
        assert self.offset == 0, "something has been read"
        return self._prompt

    def finish(self, logits: mx.array, *, wait: bool) -> None:
        """Somebody else has read all of it: the caches are filled, and these are the scores (1, V) at its end."""
        self.offset, self.logits, self._prompt = len(self._ids), logits, None
        (mx.eval if wait else mx.async_eval)([logits, *(a for cache in self.caches for a in cache.state)])

    def advance(self, *, wait: bool) -> None:
        """Read the next chunk. `wait`: until the device has done it, so that no more than one is on its way."""
        assert self._prompt is not None, "reading has not begun"
        start, end = self.offset, self.offset + self.next_size
        already = self.reused
        hidden = self._network.prefill(self._prompt.part(start - already, end - already), self.caches, last=True)
        self.offset = end
        if end == len(self._ids):
            self.logits = self._network.decoder.logits(hidden[:, -1])
            self._prompt = None
        state = [array for cache in self.caches for array in cache.state]
        block = Block.of(self.caches, end - start, self.logits) if self._keys else None
        waited = [*state, *([] if self.logits is None else [self.logits]), *([] if block is None else block.arrays)]
        (mx.eval if wait else mx.async_eval)(waited)
        if block is not None:
            self._store.put(self._keys[self.layout.ends.index(end)], block, end - start)

    def _layout(self) -> Layout:
        spec = self._network.spec
        spans = self._spans()
        step = self._request.options.prefill_step or (512 if mx.default_device() == mx.cpu else 2048)
        if spec.image_mask == "prompt":  # all tokens see each other: there are no chunks
            return Layout(tuple(self._ids), spans, (len(self._ids),))
        whole = [Span(block.start, block.stop) for block in self._network.blocks(self._ids)]
        return Layout(tuple(self._ids), spans, chunk_ends(len(self._ids), spans, step, whole))

    def _spans(self) -> tuple[Span, ...]:
        spans, marks = zip(self._places(), self._request.images, strict=True), self._network.spec.image_marks
        return tuple(Span(max(0, p[0] - marks), p[-1] + 1, image.key) for p, image in spans if p)

    def _places(self) -> list[list[int]]:
        """Where the tokens of each image stand."""
        ids = np.asarray(self._request.ids)
        places = np.flatnonzero(np.isin(ids, self._network.image_tokens)).tolist()
        ends = np.cumsum([image.input.tokens for image in self._request.images]).tolist()
        return [places[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def _features(self, start: int) -> list[ImageFeatures]:
        """The features of the image tokens from `start` on: of the images behind it, and of what is left of one."""
        features = []
        for places, image in zip(self._places(), self._request.images, strict=True):
            done = sum(place < start for place in places)
            if done < len(places) or not done:
                whole = self._known.get(image.key) or image.features()
                features.append(ImageFeatures(whole.rows[done:], tuple(level[done:] for level in whole.deepstack)))
        return features


def new_caches(network: Network, options: GenerationOptions) -> list[Cache]:
    """Empty caches, as the options have them. Raises UsageError where heads cannot be rounded, or are none."""
    if not options.kv_bits:
        caches, window = network.caches(), options.kv_window
        return caches if window is None else [_rotating(cache, window) for cache in caches]
    layers = [layer.attention for layer in network.spec.decoder.layers]
    heads = {size for layer in layers if not layer.state_size for size in _rounded_sizes(layer)}
    if odd := sorted(head for head in heads if head % SMALLEST_GROUP):
        raise UsageError(
            f"kv_bits: this model has heads of {odd[0]} numbers, and only groups of {SMALLEST_GROUP} can be rounded"
        )
    rounding = Rounding(options.kv_bits, options.kv_value_bits or options.kv_bits, options.kv_group)
    return network.caches(rounding=rounding, dense_last=options.kv_dense_last)


def _rotating(cache: Cache, window: int) -> Cache:
    """A cache of the last tokens in the place of one of all."""
    if isinstance(cache, LatentCache):
        return RotatingLatentCache(window)
    return RotatingCache(window) if isinstance(cache, FullCache) else cache


def _rounded_sizes(layer: AttentionSpec) -> tuple[int, ...]:
    """Numbers that are kept side by side: of a head, or of a latent row and of a turned key."""
    if isinstance(layer, LatentSpec) and layer.rope is not None:
        return layer.rank, layer.rope.dims
    return (layer.head_dim,)


def cache_kind(network: Network, request: Request) -> Hashable:
    """What has to be equal for one request to go on with what was read for another."""
    ropes = {layer.attention.rope for layer in network.spec.decoder.layers}
    scalings = {rope.scaling for rope in ropes if rope is not None}
    turned = any(len(request.ids) > s.context for s in scalings if isinstance(s, LongScaling))
    return request.options.context_kind, turned
