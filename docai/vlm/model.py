"""A model that answers: a checkpoint's network, tokenizer, prompt and image processor, and caches for its requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.hub import open_checkpoint
from docai.errors import DocaiError, UsageError
from docai.preprocess.clips import ClipProcessor
from docai.preprocess.inputs import ImageProcessor
from docai.preprocess.sounds import SoundProcessor
from docai.vlm.ask import Setting
from docai.vlm.audio import audio_config
from docai.vlm.clips import (
    Clip,
    MediumLike,
    Sample,
    in_turn,
    medium_of,
    question_about,
    question_of,
    settle,
    with_sound,
)
from docai.vlm.engine import Engine
from docai.vlm.families import Family
from docai.vlm.features import CacheCounts
from docai.vlm.generate import Request, Runtime
from docai.vlm.loading import load_network, resolve
from docai.vlm.many import in_order
from docai.vlm.network import Network
from docai.vlm.prefix import BlockStore
from docai.vlm.prep import preprocessor_config
from docai.vlm.prompt import Message, encode, render, share
from docai.vlm.request import Answering, Generation, GenerationOptions
from docai.vlm.scheduler import EngineLimits
from docai.vlm.senses import Senses
from docai.vlm.shelf import shelf_of
from docai.vlm.sounds import Sound, SoundLike, sound_of
from docai.vlm.spec import ModelSpec
from docai.vlm.stream import Pieces
from docai.vlm.structured import Grammar, Vocabulary
from docai.vlm.thinking import thinking_marks
from docai.vlm.tokenizer import Tokenizer
from docai.vlm.videos import video_config

_LOG = logging.getLogger(__name__)

PREFIX_CACHE = 1024  # megabytes for what was read of prompts


class Model:
    """Answers prompts with images. Requests share its weights and caches; nothing else of them stays here."""

    def __init__(
        self,
        name: str,
        network: Network,
        family: Family,
        tokenizer: Tokenizer,
        processor: ImageProcessor | None,
        *,
        clips: ClipProcessor | None = None,
        sounds: SoundProcessor | None = None,
        feature_cache: int = 20,
        prefixes: BlockStore | None = None,
        limits: EngineLimits | None = None,
    ) -> None:
        self.name, self.network, self.family, self.tokenizer = name, network, family, tokenizer
        self.senses = Senses(network, processor, clips, sounds, feature_cache)
        self.runtime = Runtime(network, Pieces(tokenizer), thinking_marks(tokenizer), self.senses.features)
        self.engine = Engine(self.runtime, store=prefixes, limits=limits)  # where its requests run
        self._vocabulary: Vocabulary | None = None
        self._told = False  # that nothing is guessed

    @property
    def sees(self) -> bool:
        """Whether it takes images."""
        return self.senses.images is not None

    @property
    def hears(self) -> bool:
        """Whether it takes sounds."""
        return self.senses.sounds is not None

    @property
    def context(self) -> int:
        """The longest prompt and answer together, in tokens."""
        return self.runtime.context

    @property
    def at_once(self) -> int:
        """How many questions are best asked before the first answer is there."""
        return self.engine.rows

    @property
    def feature_counts(self) -> CacheCounts:
        """Hits, misses and evictions of the feature cache."""
        return self.senses.features.counts

    @property
    def feature_size(self) -> int:
        """How many images' features are kept."""
        return self.senses.features.size

    @feature_size.setter
    def feature_size(self, size: int) -> None:
        self.senses.features.size = size

    def clear(self, *, disk: bool = False) -> None:
        """Forget all features and prompts; `disk`: those in `prefix_disk`, too."""
        self.senses.features.clear()
        self.engine.store.clear(disk=disk)
        mx.clear_cache()

    def generate(
        self,
        prompt: str | Sequence[Message],
        images: Sequence[MediumLike] = (),
        *,
        audio: SoundLike | None = None,
        template: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Generation:
        """The whole answer; see `stream`."""
        return self.stream(prompt, images, audio=audio, template=template, tools=tools, **options).whole()

    def stream(
        self,
        prompt: str | Sequence[Message],
        images: Sequence[MediumLike] = (),
        *,
        audio: SoundLike | None = None,
        template: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Answering:
        """The answer to a prompt or a conversation, piece by piece.

        `images` stand before a prompt; in a conversation, where its content has parts `{"type": "image"}`, in order.
        Videos may be among them (`{"type": "video"}`): files, or what `docai.vlm.clips.clip_of` gives. `audio` is a
        file, its bytes, or (samples, how many a second); it stands behind them, or at the part `{"type": "audio"}`.
        `template=False` leaves the chat template out. Other options are those of `GenerationOptions`. Raises a
        DocaiError for images that cannot be read or taken, and a prompt that is too long.
        """
        media = [medium_of(image) for image in images]
        if audio is not None:
            media = with_sound(() if isinstance(prompt, str) else prompt, media, sound_of(audio))
        if isinstance(prompt, str):
            media = in_turn(media)
            prompt = [question_about(media, prompt)]
        return self.answer(prompt, media, GenerationOptions(**options), template=template, tools=tools)

    def generate_many(
        self,
        asked: Iterable[tuple[str | Sequence[Message], Sequence[MediumLike]]],
        *,
        template: bool = True,
        **options: Any,
    ) -> Iterator[Generation | DocaiError]:
        """The answers to many prompts with their images, in order; several are worked on at once.

        Where one cannot be had, its error stands in its place. Options are those of `GenerationOptions`.
        """

        def ask(one: tuple[str | Sequence[Message], Sequence[MediumLike]]) -> Answering:
            return self.stream(*one, template=template, **options)

        return (answer for _, answer in in_order(asked, ask, self.at_once))

    def answer(
        self,
        messages: Sequence[Message],
        images: Sequence[MediumLike],
        options: GenerationOptions,
        *,
        template: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        most_images: int | None = None,
    ) -> Answering:
        """The next turn of a conversation; `stream` with its options in one. More than `most_images` are refused."""
        started = time.perf_counter()
        asked = self.request(messages, images, options, template=template, tools=tools, most_images=most_images)
        return self.engine.submit(asked, started=started)

    def request(
        self,
        messages: Sequence[Message],
        images: Sequence[MediumLike],
        options: GenerationOptions,
        *,
        template: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        most_images: int | None = None,
    ) -> Request:
        """What `answer` asks; `engine` answers many of them at once."""
        media = [medium_of(image) for image in images]
        settled = settle(
            messages, media, model=self.name, family=self.family, sees=self.sees, hears=self.hears,
            most_images=most_images,
        )  # fmt: skip
        seen = sum(not isinstance(medium, Sound) for medium in settled.media)
        if seen and not self.sees:
            raise UsageError(f"model {self.name} was loaded without a vision tower (text-only checkpoint)")
        if options.beams > 1:
            raise UsageError(f"beams: {self.name} writes one answer token by token; encoder-decoder models search")
        self._tell_guess(options)
        setting = Setting(options.multi_page, options.crop_to_patches)
        self._check_setting(seen, setting)
        said, prompt = _thinking(options), self.family.prompt
        text = render(settled.messages, self.tokenizer, prompt, template=template, tools=tools, setting=setting, **said)
        most = options.image_tokens or share(text, seen, self.tokenizer, prompt)
        taken = [self.senses.take(medium, most, crops=setting.crops) for medium in settled.media]
        ids = encode(text, [image.input for image in taken], self.tokenizer, self.family.prompt)
        ngram = options.no_repeat_ngram or self.family.no_repeat_ngram
        return Request(ids, taken, replace(options, no_repeat_ngram=ngram), self._grammar(options))

    def _tell_guess(self, options: GenerationOptions) -> None:
        """Say once of a model that it takes no guesses."""
        if options.guess and not self._told and not self.network.spec.decoder.cuttable:
            self._told = True
            _LOG.warning("model %s: guess is left out; its sliding windows or states cannot be cut back", self.name)

    def _check_setting(self, images: int, setting: Setting) -> None:
        """Raise UsageError for more images than the model reads, and for what it cannot be asked about them."""
        prompt = self.family.prompt
        if setting.pages and not prompt.pages:
            raise UsageError(f"multi_page: {self.name} reads no images as the pages of one text; GOT-OCR does")
        if setting.crops and not self.senses.cuts:
            raise UsageError(f"crop_to_patches: {self.name} cuts no image into crops; GOT-OCR does")
        if prompt.most_images is not None and images > prompt.most_images and not setting.pages:
            more = "; --multi-page reads several as the pages of one text" if prompt.pages else ""
            raise UsageError(f"{self.name} reads one image at a time; got {images}{more}")

    def check_sound(self, sound: Sound) -> None:
        """Raise LimitExceeded for a sound that says that it is longer than this model hears."""
        if self.senses.sounds is not None:
            sound.check(self.senses.sounds.rate, self.senses.sounds.most)

    def sample(self, clip: Clip) -> Sample:
        """The frames that this model sees of a clip."""
        return self.senses.sample(clip)

    def _grammar(self, options: GenerationOptions) -> Grammar | None:
        schema = options.schema()
        if schema is None:
            return None
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(self.tokenizer)
        return Grammar(self._vocabulary, schema)


def as_messages(prompt: str | Sequence[Message], images: int) -> Sequence[Message]:
    """A prompt as a conversation of one turn: its images first."""
    return [question_of(images, prompt)] if isinstance(prompt, str) else prompt


def _thinking(options: GenerationOptions) -> dict[str, Any]:
    """What chat templates call it to have a model think, or not."""
    if options.thinking == "auto":
        return {}
    return dict.fromkeys(("enable_thinking", "thinking"), options.thinking == "on")


def open_model(
    name: str,
    *,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    feature_cache: int = 20,
    prefix_cache: int = PREFIX_CACHE,
    prefix_disk: str | Path | None = None,
    limits: EngineLimits | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Model:
    """The model of a folder, a repo id or a short name; see `docai.tasks.load.load`."""
    return model_of(
        open_checkpoint(name, revision=revision, offline=offline),
        dtype=dtype,
        feature_cache=feature_cache,
        prefix_cache=prefix_cache,
        prefix_disk=prefix_disk,
        limits=limits,
        on_progress=on_progress,
    )


def model_of(
    checkpoint: Checkpoint,
    *,
    dtype: str | None = None,
    feature_cache: int = 20,
    prefix_cache: int = PREFIX_CACHE,
    prefix_disk: str | Path | None = None,
    limits: EngineLimits | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Model:
    """The model of a checkpoint. Raises CheckpointError or LimitExceeded."""
    family, spec = resolve(checkpoint)
    network = load_network(checkpoint, dtype=dtype, on_progress=on_progress)
    network.fuse()
    _wire()
    processor = clips = sounds = None
    if spec.connector is not None and family.images is not None:
        processor = family.images(preprocessor_config(checkpoint), checkpoint.config)
        clips = None if family.videos is None else family.videos(video_config(checkpoint), checkpoint.config)
    if isinstance(spec, ModelSpec) and spec.hearing is not None and family.sounds is not None:
        sounds = family.sounds(audio_config(checkpoint), checkpoint.config)
    tokenizer = Tokenizer.from_checkpoint(checkpoint).stopping_at(family.prompt.stops)
    if not isinstance(network, Network):
        from docai.vlm.encdec_generate import Habits
        from docai.vlm.encdec_model import EncDecModel

        return EncDecModel(
            checkpoint.name, network, family, tokenizer, processor, Habits.of(checkpoint), feature_cache=feature_cache
        )
    return Model(
        checkpoint.name,
        network,
        family,
        tokenizer,
        processor,
        clips=clips,
        sounds=sounds,
        feature_cache=feature_cache,
        prefixes=BlockStore(
            prefix_cache << 20, None if prefix_disk is None else shelf_of(Path(prefix_disk), checkpoint, network)
        ),
        limits=limits,
    )


def _wire() -> None:
    """On Apple silicon, let as much memory as the system recommends stay resident, so that weights are not paged out.

    As mlx-lm does while it generates.
    """
    if mx.metal.is_available():
        mx.set_wired_limit(int(mx.device_info()["max_recommended_working_set_size"]))
