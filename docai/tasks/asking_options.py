"""The options of the tasks that ask a model: which one, about what, and what is written of its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docai.checkpoint.options import LoadOptions
from docai.errors import UsageError
from docai.options import check, like, option
from docai.tasks.input_options import LIMITS, InputOptions
from docai.types import VIDEO_FRAMES, Limits


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions(LoadOptions):
    """Which model answers, and how it is loaded."""

    model: str | None = option(
        None,
        "The model: a folder, a repo id (org/name) or a short name.",
        flags=("--model", "-m"),
        variable="DOCAI_CHAT_MODEL",
    )
    feature_cache: int = option(20, "Images whose features are kept; 0 is none.", least=0)
    prefix_cache: int = option(1024, "Megabytes for what was read of prompts; 0 is none.", least=0)
    prefix_disk: str | None = option(
        None, "A folder that keeps what was read of prompts for the next time, up to 20 GB a model. Default: none."
    )

    @property
    def chosen(self) -> str:
        """The model. Raises UsageError where none was named."""
        if not self.model:
            raise UsageError("expected a model: name a folder, a repo id or a short name with -m")
        return self.model


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureOptions(InputOptions):
    """Files for a model to look at: images, and the pages of PDFs."""

    pages: str | None = option(None, "Pages of documents, counted from 1: 1-3,7,10-,last.")
    dpi: int = option(144, "Resolution at which PDF pages are rendered.", least=18)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatOptions:
    """`docai chat`."""

    prompt: str | None = option(
        None,
        "The question; - reads standard input. Without one: a conversation, or standard input where it is no terminal.",
        flags=("--prompt", "-p"),
    )
    image: list[str] | None = option(None, "A file to look at, as the arguments are; may be repeated.")
    max_images: int = option(16, "Most images of a conversation, pages of documents included.", least=1)
    system: str | None = option(None, "What the model is told before the conversation.")
    chat_template: bool = option(True, "Write the prompt as the model was taught to; without it, as it stands.")
    show_thinking: bool = option(False, "Show what the model thinks before it answers.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipOptions:
    """Videos for a model to look at: which of their frames it sees, and what opening them may cost."""

    video_fps: float = like(InputOptions, "video_fps")
    video_max_frames: int = option(
        VIDEO_FRAMES, "Most frames of a video that a model sees.", flags=("--video-max-frames", "--max-frames"), least=2
    )
    video_sampling: Literal["even", "scenes"] = option(
        "even", "Which frames: evenly spread, or one of each scene first.", choices=("even", "scenes")
    )
    max_bytes: int = like(InputOptions, "max_bytes")
    max_pixels: int = like(InputOptions, "max_pixels")
    page_seconds: float = like(InputOptions, "page_seconds")
    max_video_seconds: float = like(InputOptions, "max_video_seconds")
    max_decoded_frames: int = like(InputOptions, "max_decoded_frames")

    def __post_init__(self) -> None:
        check(self)

    @property
    def limits(self) -> Limits:
        return Limits(
            max_bytes=self.max_bytes,
            max_pixels=self.max_pixels,
            page_seconds=self.page_seconds,
            max_video_seconds=self.max_video_seconds,
            max_decoded_frames=self.max_decoded_frames,
            video_fps=self.video_fps,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundOptions:
    """A sound for a model to hear, and what opening it may cost."""

    audio: list[str] | None = option(
        None, "A sound for the model to hear, or a video whose sound it is: one in a conversation."
    )
    max_audio_seconds: float = option(LIMITS.max_audio_seconds, "Longest sound, in seconds.", least=0.1)
    max_bytes: int = like(InputOptions, "max_bytes")
    page_seconds: float = like(InputOptions, "page_seconds")

    def __post_init__(self) -> None:
        check(self)
        if len(self.audio or ()) > 1:
            raise UsageError(f"audio: expected one audio clip; got {len(self.audio or ())}")

    @property
    def limits(self) -> Limits:
        return Limits(
            max_bytes=self.max_bytes, page_seconds=self.page_seconds, max_audio_seconds=self.max_audio_seconds
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoOptions:
    """`docai video`."""

    prompt: str | None = option(
        None, "The question, instead of the last argument; - reads standard input.", flags=("--prompt", "-p")
    )
    contact_sheet: str | None = option(None, "Write a picture of the frames that the model saw, a PNG.")
    max_images: int = like(ChatOptions, "max_images")
    system: str | None = like(ChatOptions, "system")
    chat_template: bool = like(ChatOptions, "chat_template")
    show_thinking: bool = like(ChatOptions, "show_thinking")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionOptions:
    """`docai caption`."""

    detail: Literal["short", "normal", "long"] = option(
        "normal", "A sentence, a few, or all that can be seen.", choices=("short", "normal", "long")
    )
    prompt: str | None = option(None, "Ask for the captions in other words.", flags=("--prompt",))

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroundOptions:
    """`docai ground`."""

    shape: Literal["box", "outline", "point"] = option(
        "box", "What to give of each thing, as far as the model can.", choices=("box", "outline", "point")
    )
    sought: Literal["all", "one", "text", "screen"] = option(
        "all",
        "What a phrase names: all things of that kind, a single one, text (without a phrase: all of it), or a part of "
        "a screen; as far as the model tells them apart.",
        choices=("all", "one", "text", "screen"),
    )
    task: str | None = option(
        None,
        "One of Florence-2's tasks by its marker, as in DENSE_REGION_CAPTION; phrases are the text behind it.",
        variable="DOCAI_GROUND_TASK",
    )
    region: str | None = option(None, "What a task about a region is about: left,top,right,bottom in the page's unit.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroundModelOptions(ModelOptions):
    """Which model looks for things."""

    model: str | None = option(
        "florence-2",
        "The model, of Florence-2 or LocateAnything: a folder, a repo id or a short name.",
        flags=("--model", "-m"),
        variable="DOCAI_GROUND_MODEL",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GroundOutputOptions:
    """What `docai ground` writes, and where."""

    format: Literal["json", "wkt", "png"] = option(
        "json",
        "A JSON object a page, well-known text and a name a line, or the pages with what was found drawn in.",
        flags=("--format", "-f"),
        choices=("json", "wkt", "png"),
        variable="DOCAI_GROUND_FORMAT",
    )
    output: str = option("-", "A file; - is standard output.", flags=("--output", "-o"))

    def __post_init__(self) -> None:
        check(self)
