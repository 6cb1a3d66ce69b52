"""`docai video`: questions about videos, with the frames that a model saw."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from docai.errors import UsageError
from docai.tasks.chat import Chat
from docai.tasks.options import ClipOptions, VideoOptions
from docai.tasks.pictures import clip_in
from docai.types import VIDEO_FPS, VIDEO_FRAMES
from docai.vlm.clips import Clip
from docai.vlm.request import Generation, GenerationOptions
from docai.vlm.sounds import sound_of
from docai.writing import clock

if TYPE_CHECKING:
    from docai.vlm.clips import Medium
    from docai.vlm.model import Model
    from docai.vlm.sounds import SoundLike

_SHEET, _CELL, _EDGE, _LINE = 4, (320, 180), 8, 18  # columns; pixels of a frame, between frames, of the line below
_GROUND, _INK = (255, 255, 255), (32, 32, 32)


@dataclass(frozen=True, slots=True)
class Shown:
    """The frames of a video that a model saw: when each is shown, in seconds."""

    source: str
    seconds: float
    times: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "seconds": round(self.seconds, 3),
            "frames": [{"time": round(time, 3)} for time in self.times],
        }


@dataclass(frozen=True, slots=True)
class VideoAnswer:
    """An answer about videos, and what was looked at for it."""

    text: str
    videos: tuple[Shown, ...]
    generation: Generation


def video(
    sources: str | Path | bytes | Sequence[str | Path | bytes],
    question: str,
    model: str | Model,
    *,
    fps: float = VIDEO_FPS,
    max_frames: int = VIDEO_FRAMES,
    sampling: Literal["even", "scenes"] = "even",
    max_images: int | None = None,
    audio: SoundLike | None = None,
    **options: Any,
) -> VideoAnswer:
    """The answer to a question about one or more videos: paths, or their bytes.

    `audio` is heard beside them: a path, bytes, or (samples, how many a second). `model` is a name, or what
    `docai.load` gave. Other options are those of `GenerationOptions`.
    """
    from docai.render.document import input_file
    from docai.tasks.load import load

    asked = ClipOptions(video_fps=fps, video_max_frames=max_frames, video_sampling=sampling)
    several = [sources] if isinstance(sources, str | Path | bytes) else list(sources)
    clips = [clip_in(input_file(source, "video"), asked) for source in several]
    chosen = GenerationOptions(**options)
    talk = Chat(load(model) if isinstance(model, str) else model, chosen, most_images=max_images)
    talk.add([*clips, *(() if audio is None else (sound_of(audio),))])
    answer = talk.ask(question)
    return VideoAnswer(answer.text, shown(talk.model, clips), answer)


def talk_about(model: Model, media: Sequence[Medium], asked: VideoOptions, options: GenerationOptions) -> Chat:
    """A conversation about videos, and pictures beside them. Raises UsageError where there is no video."""
    if not any(isinstance(medium, Clip) for medium in media):
        raise UsageError("expected a video; docai chat asks about images and documents")
    talk = Chat(model, options, system=asked.system, template=asked.chat_template, most_images=asked.max_images)
    talk.add(media)
    return talk


def shown(model: Model, media: Iterable[Medium]) -> tuple[Shown, ...]:
    """What the model sees of each video."""
    found = [(medium, model.sample(medium)) for medium in media if isinstance(medium, Clip)]
    return tuple(Shown(clip.name, sample.seconds, sample.times) for clip, sample in found)


def contact_sheet(model: Model, media: Iterable[Medium]) -> bytes:
    """A PNG of the frames that the model sees, each with its time below; a line for each video."""
    from PIL import Image, ImageDraw, ImageOps

    rows = [row for medium in media if isinstance(medium, Clip) for row in _rows(model, medium)]
    step = (_CELL[0] + _EDGE, _CELL[1] + _EDGE + _LINE)
    sheet = Image.new("RGB", (_EDGE + _SHEET * step[0], _EDGE + len(rows) * step[1]), _GROUND)
    draw = ImageDraw.Draw(sheet)
    for down, row in enumerate(rows):
        for across, (rgb, said) in enumerate(row):
            left, top = _EDGE + across * step[0], _EDGE + down * step[1]
            sheet.paste(ImageOps.contain(Image.fromarray(rgb), _CELL), (left, top))
            draw.text((left, top + _CELL[1] + 2), said, fill=_INK)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _rows(model: Model, clip: Clip) -> list[list[tuple[Any, str]]]:
    """The frames of a clip, small, with what is said below them, in rows of a sheet."""
    sample = model.sample(clip)
    name = Path(clip.name).name[:32]
    cells = [
        (clip.video.frame(number, most=_CELL[0] * _CELL[1] * 4), f"{clock(time, 1)}  {name}")
        for number, time in zip(sample.numbers, sample.times, strict=True)
    ]
    return [cells[at : at + _SHEET] for at in range(0, len(cells), _SHEET)]
