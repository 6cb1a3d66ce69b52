"""What a model takes in beside text: pictures, clips and sounds, as inputs of its towers, whose features are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import mlx.core as mx
import numpy as np

from docai.errors import InputError
from docai.preprocess.clips import ClipProcessor
from docai.preprocess.fixed import cutting
from docai.preprocess.inputs import ImageInput, ImageProcessor
from docai.preprocess.sounds import SoundProcessor
from docai.vlm.clips import Clip, Medium, Sample
from docai.vlm.connector import ImageFeatures
from docai.vlm.features import FeatureCache, Key
from docai.vlm.generate import RequestImage
from docai.vlm.pictures import Picture
from docai.vlm.sounds import Sound


class Encoder(Protocol):
    """A network with towers."""

    def encode(self, images: Sequence[ImageInput]) -> list[ImageFeatures]: ...


class Senses:
    """The processors of a model's media, None for what it does not take, and the features of those seen last."""

    def __init__(
        self,
        network: Encoder,
        images: ImageProcessor | None,
        clips: ClipProcessor | None = None,
        sounds: SoundProcessor | None = None,
        size: int = 20,
    ) -> None:
        """`size`: how many media's features are kept."""
        self.images, self.clips, self.sounds = images, clips, sounds
        self.features: FeatureCache[tuple[ImageInput, ImageFeatures]] = FeatureCache(size, weigh=_weight)
        self._network = network

    @property
    def cuts(self) -> bool:
        """Whether it can cut an image into crops on request."""
        return self.images is not None and cutting(self.images) is not None

    def sample(self, clip: Clip) -> Sample:
        """The frames that are seen of a clip."""
        return clip.sample() if self.clips is None else clip.sample(self.clips.least_frames)

    def take(self, medium: Medium, most: int | None = None, *, crops: bool = False) -> RequestImage:
        """A medium of a request, in at most `most` tokens: what the cache has of it, or what the processor makes of it.

        Raises InputError for one that cannot be read or taken.
        """
        match medium:
            case Sound():
                return self._sound(medium)
            case Clip():
                return self._clip(medium, most)
            case _:
                return self._picture(medium, most, crops=crops)

    def _sound(self, sound: Sound) -> RequestImage:
        assert self.sounds is not None, "media that a model does not take are refused before"
        if known := self._known(sound.key):
            return known
        samples = sound.samples(self.sounds.rate, self.sounds.most)
        try:
            return self._new(sound.key, self.sounds(samples))
        except InputError as error:
            raise InputError(f"{sound.name}: {error}") from error

    def _clip(self, clip: Clip, most: int | None) -> RequestImage:
        """By the digest of its frames."""
        assert self.clips is not None, "media that a model does not take are refused before"
        sample = self.sample(clip)
        processor = self.clips if most is None else self.clips.within(most)
        taken: ImageInput | None = None
        if clip.key(sample) is None:  # decoding it tells what it shows
            taken = processor(clip.frames(sample), sample.times, sample.seconds)
        key = (clip.key(sample), most)
        if known := self._known(key):
            return known
        return self._new(key, taken or processor(clip.frames(sample), sample.times, sample.seconds))

    def _picture(self, picture: Picture, most: int | None, *, crops: bool) -> RequestImage:
        assert self.images is not None, "media that a model does not take are refused before"
        processor = (cutting(self.images) or self.images) if crops else self.images
        processor = processor if most is None else processor.within(most)
        key = (picture.key, repr(processor))
        return self._known(key) or self._new(key, processor(picture.load()))

    def _known(self, key: Key) -> RequestImage | None:
        """What the cache has under a key."""
        known = self.features.get(key)
        if known is None:
            return None
        seen, features = known
        return RequestImage(key, seen, lambda: features, cached=True)

    def _new(self, key: Key, taken: ImageInput) -> RequestImage:
        """What is still to be encoded, after which the cache has it."""

        def keep(features: ImageFeatures) -> None:
            shape_only = np.broadcast_to(np.float32(0), taken.pixels.shape)  # takes no memory
            self.features.put(key, (replace(taken, pixels=shape_only), features))

        def encoded() -> ImageFeatures:
            (features,) = self._network.encode([taken])
            mx.eval(features.rows, *features.deepstack)
            keep(features)
            return features

        return RequestImage(key, taken, encoded, keep=keep)


def _weight(kept: tuple[ImageInput, ImageFeatures]) -> int:
    """Bytes of what is kept."""
    return sum(int(array.nbytes) for array in (kept[1].rows, *kept[1].deepstack))
