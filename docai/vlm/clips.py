"""Videos for models: as such where a family sees them, else as pictures in order. This is the one place that decides.

Sounds are taken by those that hear, one a request.

Nothing is decoded before it is known how many frames a request takes and whether they may be taken.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from docai.errors import LimitExceeded, UsageError
from docai.preprocess.inputs import Rgb
from docai.render.sampling import MOST_LOOKED_AT, even, frame_count, scenes
from docai.types import VIDEO_FPS, VIDEO_FRAMES
from docai.vlm.ask import MEDIA, medium_kind
from docai.vlm.features import Key, pixels_key
from docai.vlm.pictures import Picture, PictureLike, picture_of
from docai.vlm.sounds import Sound

if TYPE_CHECKING:
    from docai.render.clip import Video
    from docai.render.inputs import InputFile
    from docai.types import Limits
    from docai.vlm.families import Family
    from docai.vlm.prompt import Message

_LOG = logging.getLogger(__name__)

_MOST_HELD = 256 << 20  # bytes of decoded frames kept for a request; others are decoded again when they are needed

Sampling = Literal["even", "scenes"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The frames of a clip that a model sees: their numbers, when they are shown, how long the clip is (in seconds)."""

    numbers: tuple[int, ...]
    times: tuple[float, ...]
    seconds: float


class Clip:
    """A video, with how it is to be sampled. It is opened when it is needed.

    `fps` frames a second are looked at, and at most `most` of them are shown to a model. What they show is told by
    digests of their bytes, which are kept with it, so that a clip that is asked about again need not be decoded again.
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], Video],
        *,
        fps: float = VIDEO_FPS,
        most: int = VIDEO_FRAMES,
        sampling: Sampling = "even",
    ) -> None:
        self.name, self.fps, self.most, self.sampling = name, fps, most, sampling
        self._opened = opened
        self._video: Video | None = None
        self._samples: dict[int, Sample] = {}
        self._keys: dict[int, Key] = {}  # of frames, by number
        self._told: set[str] = set()

    @property
    def video(self) -> Video:
        """The open video. Raises InputError, LimitExceeded or DependencyMissing."""
        if self._video is None:
            self._video = self._opened()
        return self._video

    def plan(self, least: int = 2) -> tuple[int, int]:
        """(frames to be shown, frames there would be without the cap), before any is decoded."""
        looked = self._even(least, MOST_LOOKED_AT)
        sent = min(len(looked), self.most) if self.sampling == "scenes" else len(self._even(least, self.most))
        return sent, len(looked)

    def sample(self, least: int = 2) -> Sample:
        """The frames to show, at least `least` where the clip has them and the cap allows it."""
        if least not in self._samples:
            numbers = self._even(least, self.most)
            if self.sampling == "scenes":
                looked = self._even(least, MOST_LOOKED_AT)
                numbers = scenes(self.video.times, looked, self.most, self.video.thumbs)
            times = tuple(float(self.video.times[n]) for n in numbers)
            self._samples[least] = Sample(tuple(numbers), times, self.video.seconds)
        return self._samples[least]

    def _even(self, least: int, most: int) -> list[int]:
        times = self.video.times
        return even(times, min(frame_count(times, self.video.seconds, self.fps, least), most))

    def frames(self, sample: Sample) -> Iterator[Rgb]:
        """The frames of a sample, each decoded as it is asked for."""
        for number in sample.numbers:
            rgb = self.video.frame(number)
            self._keys[number] = pixels_key(rgb)
            yield rgb

    def key(self, sample: Sample) -> Key | None:
        """What tells these frames from others; None before they were decoded once."""
        if any(number not in self._keys for number in sample.numbers):
            return None
        digest = hashlib.sha256(repr([self._keys[n] for n in sample.numbers]).encode()).hexdigest()
        return ("clip", digest, sample.times, sample.seconds)

    def pictures(self) -> list[Picture]:
        """The sampled frames as pictures, in order."""
        sample, held, pictures = self.sample(), 0, []
        for number, time in zip(sample.numbers, sample.times, strict=True):
            key, load = self._keys.get(number), self._loader(number)
            if key is None:
                rgb = self.video.frame(number)
                key = self._keys[number] = pixels_key(rgb)
                held += rgb.nbytes
                load = load if held > _MOST_HELD else _given(rgb)
            pictures.append(Picture(f"{self.name} at {time:.1f} s", key, load))
        return pictures

    def _loader(self, number: int) -> Callable[[], Rgb]:
        return lambda: self.video.frame(number)

    def tell(self, model: str, sent: int, sampled: int) -> None:
        """Say once for a model that it sees pictures instead."""
        if model not in self._told:
            self._told.add(model)
            _LOG.warning(
                "model %s has no native video path; sending %d of %d sampled frames from %s as ordered images",
                model, sent, sampled, self.name,
            )  # fmt: skip


Medium: TypeAlias = "Picture | Clip | Sound"
MediumLike: TypeAlias = "Clip | Sound | PictureLike"


def _given(rgb: Rgb) -> Callable[[], Rgb]:
    return lambda: rgb


def clip_of(
    source: str | Path | bytes | InputFile,
    *,
    fps: float = VIDEO_FPS,
    most: int = VIDEO_FRAMES,
    sampling: Sampling = "even",
    limits: Limits | None = None,
    name: str | None = None,
) -> Clip:
    """A clip of a file or its bytes. Raises UsageError for fewer than two frames."""
    if most < 2:
        raise UsageError(f"video_max_frames: expected 2 or more; got {most}")
    if not fps > 0:
        raise UsageError(f"video_fps: expected more than 0; got {fps:g}")

    def opened() -> Video:
        from docai.render.clip import open_video

        return open_video(source, limits=limits, name=name)

    known = name or ("video" if isinstance(source, bytes) else str(getattr(source, "name", source)))
    return Clip(known, opened, fps=fps, most=most, sampling=sampling)


def medium_of(source: MediumLike) -> Medium:
    """A clip or a sound as it is, and a file or bytes that begin like a video as a clip; anything else as a picture."""
    if isinstance(source, Clip | Picture | Sound):
        return source
    if isinstance(source, str | Path | bytes) and _begins_like_a_video(source):
        return clip_of(source)
    return picture_of(source)


def _begins_like_a_video(source: str | Path | bytes) -> bool:
    from docai.render.inputs import is_video

    if isinstance(source, bytes):
        return is_video(source[:1024])
    try:
        with Path(source).open("rb") as file:
            return is_video(file.read(1024))
    except (OSError, ValueError):  # said by whoever opens it
        return False


@dataclass(frozen=True, slots=True)
class Settled:
    """A conversation whose media are those that the model takes, in the order in which they stand."""

    messages: Sequence[Message]
    media: Sequence[Medium]


def settle(
    messages: Sequence[Message],
    media: Sequence[Medium],
    *,
    model: str,
    family: Family,
    sees: bool,
    hears: bool = False,
    most_images: int | None = None,
) -> Settled:
    """What a model is given of a conversation with clips, whatever asks it: they stay, or become pictures.

    Raises UsageError where the model takes no video or no sound or the messages have other media than came,
    LimitExceeded where pictures and frames are more than `most_images`; both before anything is decoded.
    """
    clips = [medium for medium in media if isinstance(medium, Clip)]
    sounds = sum(isinstance(medium, Sound) for medium in media)
    check_sounds(media, model=model, family=family, hears=hears)
    if sounds:
        _check_order(messages, media)
    if not clips:
        return Settled(messages, media)
    if why := refusal(family, sees=sees):
        raise UsageError(f"{clips[0].name}: model {model} takes no video: {why}")
    own = len(media) - len(clips) - sounds
    if family.videos is not None:
        _check(own, [], most_images)
        return Settled(messages, media)
    _check(own, clips, most_images)
    for clip in clips:
        clip.tell(model, *clip.plan())
    return _as_pictures(messages, media)


def check_sounds(media: Sequence[Medium], *, model: str, family: Family, hears: bool) -> None:
    """Raise UsageError for sounds among media that a model does not take, or not together with the rest."""
    sounds = [medium for medium in media if isinstance(medium, Sound)]
    if not sounds:
        return
    if not (hears and family.sound_with_video) and any(isinstance(medium, Clip) for medium in media):
        raise UsageError("Combined video and audio inputs are not supported")
    if not hears:
        why = "this checkpoint has no weights for it" if family.sounds else "models of its family hear nothing"
        raise UsageError(f"{sounds[0].name}: model {model} takes no audio: {why}")
    if len(sounds) > 1:
        raise UsageError(f"expected one audio clip in a request; got {len(sounds)}")


def _check_order(messages: Sequence[Message], media: Sequence[Medium]) -> None:
    """Raise UsageError where the parts of messages are not what came for them, one after another."""
    parts = [
        part for message in messages if isinstance(content := message.get("content"), list)
        for part in content if medium_kind(part)
    ]  # fmt: skip
    _check_kinds([*zip(parts, media, strict=False), *((part, None) for part in parts[len(media) :])])


def refusal(family: Family, *, sees: bool) -> str:
    """Why a model takes no video; nothing where it does."""
    if not sees:
        return "it has no vision tower"
    if family.no_video:
        return family.no_video
    alone = family.asked is not None or family.prompt.most_images == 1
    return "it looks at one image at a time" if alone else ""


def _check(own: int, clips: Sequence[Clip], most: int | None) -> None:
    """Raise LimitExceeded for too many pictures. Counting frames reads a video's time stamps, and decodes nothing."""
    frames = sum(clip.plan()[0] for clip in clips)
    if most is None or own + frames <= most:
        return
    names, images = ", ".join(clip.name for clip in clips), f"{own} image{'' if own == 1 else 's'}"
    raise LimitExceeded(
        f"{frames} frames of {names} and {images} are more than the {most} images allowed; take fewer frames with "
        "--video-max-frames, or raise --max-images"
        if clips
        else f"{images} are more than the {most} allowed; take fewer, or raise --max-images"
    )


def sentence(frames: int) -> str:
    """What stands before the frames of a clip."""
    return f"Here is a video as a sequence of {frames} frames in chronological order."


def _as_pictures(messages: Sequence[Message], media: Sequence[Medium]) -> Settled:
    """Each clip as a sentence and its frames."""
    left = iter(media)
    turns: list[Message] = []
    taken: list[Medium] = []
    for message in messages:
        content = message.get("content")
        places = [part for part in content if medium_kind(part)] if isinstance(content, list) else []
        held = [(part, next(left, None)) for part in places]
        _check_kinds(held)
        own = [medium for _, medium in held if medium is not None]
        if any(isinstance(medium, Clip) for medium in own):
            message, own = _in_frames(message, own)
        turns.append(message)
        taken += own
    if next(left, None) is not None:
        raise UsageError(f"{len(media)} images and videos came with the messages, which have fewer places for them")
    return Settled(turns, taken)


def _in_frames(message: Message, media: Sequence[Medium]) -> tuple[Message, list[Medium]]:
    """A message with clips, and its pictures: images come first, then the clips, each by its frames, then the words."""
    content: list[Any] = message["content"]
    parts = [part for part in content if medium_kind(part) == "image"]
    taken: list[Medium] = [medium for medium in media if isinstance(medium, Picture)]
    for clip in media:
        if isinstance(clip, Clip):
            pictures = clip.pictures()
            parts += [{"type": "text", "text": sentence(len(pictures))}, *({"type": "image"} for _ in pictures)]
            taken += pictures
    words = [part for part in content if not medium_kind(part)]
    return {**message, "content": [*parts, *words]}, taken


def _check_kinds(held: Sequence[tuple[Any, Medium | None]]) -> None:
    for part, medium in held:
        if medium is None:
            raise UsageError(f"messages: a part is of type {medium_kind(part)}, but none came for it")
        came = _KINDS.get(type(medium), "image")
        if came != medium_kind(part):
            raise UsageError(f"messages: a part is of type {medium_kind(part)}, but what came for it is {_CAME[came]}")


_KINDS: dict[type, str] = {Clip: "video", Sound: "audio"}
_CAME = {"image": "an image", "video": "a video", "audio": "a sound"}


def in_turn(media: Iterable[Medium]) -> list[Medium]:
    """Images, then videos, then sounds."""
    return sorted(media, key=lambda medium: MEDIA.index(_KINDS.get(type(medium), "image")))


def with_sound(messages: Sequence[Message], media: Sequence[Medium], sound: Sound) -> list[Medium]:
    """Media with a sound among them, where the messages have a part for it; without messages, behind them.

    Raises UsageError where they have none.
    """
    kinds = [
        kind for message in messages if isinstance(content := message.get("content"), list)
        for part in content if (kind := medium_kind(part))
    ]  # fmt: skip
    if messages and "audio" not in kinds:
        raise UsageError("messages: audio came with them, but no part of them is of type audio")
    place = kinds.index("audio") if messages else len(media)
    return [*media[:place], sound, *media[place:]]


def question_about(media: Sequence[Medium], text: str) -> dict[str, Any]:
    """A question as a message behind its media, which are `in_turn`."""
    kinds = [_KINDS.get(type(medium), "image") for medium in media]
    return question_of(kinds.count("image"), text, kinds.count("video"), kinds.count("audio"))


def question_of(images: int, text: str, videos: int = 0, sounds: int = 0) -> dict[str, Any]:
    """A question as a message, its images, then its videos, then its sounds before it."""
    kinds = ["image"] * images + ["video"] * videos + ["audio"] * sounds
    if not kinds:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [*({"type": kind} for kind in kinds), {"type": "text", "text": text}]}
