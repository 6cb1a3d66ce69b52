"""The options of every task, declared once: the command line, Python and the server all read these classes.

A field's metadata says how it looks on the command line (`docai.cli.options` builds the parameters from it). What
models are asked with is declared beside them, in `docai.vlm.request`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.errors import UsageError
from docai.options import check, like, option
from docai.types import VIDEO_FRAMES, Limits

_LIMITS = Limits()
ENGINES = ("embedded", "tesseract")


@dataclass(frozen=True, kw_only=True, slots=True)
class InputOptions:
    """How documents are opened, and what they may cost."""

    pages: str | None = option(None, "Pages to read, counted from 1: 1-3,7,10-,last.", flags=("--pages", "-p"))
    password: str | None = option(None, "Password of locked PDFs.", secret=True)
    max_bytes: int = option(_LIMITS.max_bytes, "Largest file, in bytes.", least=1)
    max_pages: int = option(_LIMITS.max_pages, "Most pages of a document.", least=1)
    max_pixels: int = option(
        _LIMITS.max_pixels, "Most pixels of a page: larger images are refused, PDF pages rendered smaller.", least=1
    )
    page_seconds: float = option(_LIMITS.page_seconds, "Longest time that decoding a page may take.", least=0.1)
    video_fps: float = option(
        _LIMITS.video_fps,
        "How many frames a second of a video are looked at.",
        flags=("--video-fps", "--fps"),
        least=0.001,
    )
    max_video_seconds: float = option(_LIMITS.max_video_seconds, "Longest video, in seconds.", least=0.1)
    max_decoded_frames: int = option(_LIMITS.max_decoded_frames, "Most frames in a video.", least=1)

    def __post_init__(self) -> None:
        check(self)

    @property
    def limits(self) -> Limits:
        return Limits(
            self.max_bytes,
            self.max_pages,
            self.max_pixels,
            self.page_seconds,
            self.max_video_seconds,
            self.max_decoded_frames,
            self.video_fps,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingOptions(InputOptions):
    """How pages become lines of text."""

    model: str = option("embedded", "Engine that reads pixels.", flags=("--model", "-m"), choices=ENGINES)
    lang: str | None = option(None, "Languages for tesseract, as in eng+deu.")
    ocr: Literal["auto", "force", "never"] = option(
        "auto",
        "When to read pixels: where the text layer cannot be trusted, everywhere, or never.",
        choices=("auto", "force", "never"),
    )
    dpi: int | None = option(None, "Resolution at which PDF pages are read. Default: chosen by the engine.", least=18)
    threads: int | None = option(None, "Threads of the engine. Default: all cores, shared among jobs.", least=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class OcrOptions(ReadingOptions):
    """`docai ocr`. `dtype`, `revision`, `offline` are those of `LoadOptions`."""

    model: str = option(
        "embedded",
        "What reads: embedded, tesseract, or a model (a folder, a repo id or a short name such as falcon-ocr).",
        flags=("--model", "-m"),
    )
    layout: str | None = option(
        None,
        "Regions to use: what `docai detect` wrote, a file (- or nothing reads standard input), or a detector: auto, "
        "embedded, a model's name. With a model, each region is asked about by itself; without, the whole page.",
    )
    task: str | None = option(
        None, "Ask a model for this everywhere: plain, text, table, formula, ..., or a marker that it knows."
    )
    prompt: str | None = option(None, "Ask a model in these words.", flags=("--prompt",))
    max_tokens: int | None = option(
        None, "Most tokens of a model's answer about a page or a region. Default: chosen by the model.", least=1
    )
    guard: Literal["fallback", "mark", "off"] = option(
        "fallback",
        "Where a model's answer cannot be right: take the embedded engine's text, only mark it, or do not look.",
        choices=("fallback", "mark", "off"),
    )
    verify: bool = option(False, "Compare all answers of a model with what the embedded engine reads.")
    multi_page: bool = option(False, "Read all pages as one text, by GOT-OCR.")
    crop_to_patches: bool = option(False, "Show pages in crops as well, to GOT-OCR.")
    dtype: str | None = like(LoadOptions, "dtype")
    revision: str | None = like(SourceOptions, "revision")
    offline: bool = like(SourceOptions, "offline")

    def __post_init__(self) -> None:
        check(self)
        for name in ("task", "prompt"):
            _check_words(name, getattr(self, name))
        if self.engine:
            _refuse_asking(self)
        if self.lang and self.model == ENGINES[0]:
            raise UsageError(
                f"lang: {self.model} reads the scripts that it knows unasked; languages are for -m tesseract"
            )

    @property
    def engine(self) -> bool:
        """Whether an engine reads, and not a model."""
        return self.model in ENGINES

    @property
    def reads_together(self) -> bool:
        """Whether pages of many documents are asked about together: a model reads, page by page."""
        return not (self.engine or self.ocr == "never" or self.multi_page)

    @property
    def without_model(self) -> OcrOptions:
        """The same where no pixels are read, so that no model is asked for anything."""
        return replace(
            self, model=ENGINES[0], lang=None, task=None, prompt=None, multi_page=False, crop_to_patches=False
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectOptions(ReadingOptions):
    """`docai detect`."""

    model: str = option(
        "embedded",
        "Detector: embedded, pp-doclayout-v3, rt-detr-v2, or the folder or repo of such a model.",
        flags=("--model", "-m"),
        variable="DOCAI_DETECT_MODEL",
    )
    engine: Literal["embedded", "tesseract"] = option(
        "embedded", "Engine that reads pixels, where lines are needed.", choices=("embedded", "tesseract")
    )
    labels: str | None = option(None, "Keep only these labels, as in table,figure.")
    threshold: float | None = option(
        None, "Leave out regions with a lower score. Default: what suits the detector.", least=0, most=1
    )
    label_thresholds: str | None = option(None, "Lowest scores of single labels, as in table=0.6,figure=0.3.")
    order: Literal["layout", "plain"] = option(
        "layout",
        "Order of detectors that give none: column by column, or from top to bottom and left to right.",
        choices=("layout", "plain"),
    )
    suppress: Literal["auto", "none"] = option(
        "auto",
        "Which of overlapping regions stay: as the detector's own pipeline has it, or all.",
        choices=("auto", "none"),
    )
    overlap: float | None = option(
        None,
        "Of two regions of one label that share more (intersection over union) the likelier stays.",
        least=0,
        most=1,
    )
    nested: float | None = option(
        None, "Leave out regions of which more than this lies in another; figures and tables stay.", least=0, most=1
    )
    batch: int | None = option(None, "Pages that a model looks at at once. Default: 1 on a CPU, 8 on a GPU.", least=1)
    with_lines: bool = option(False, "Add the recognised lines, so that `docai ocr --layout` reads no page twice.")


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectOutputOptions:
    """What `docai detect` writes, and where."""

    format: Literal["json", "png", "csv", "coco"] = option(
        "json",
        "A JSON object a page, pages with the regions drawn in, a table, or COCO's JSON of a whole document.",
        flags=("--format", "-f"),
        choices=("json", "png", "csv", "coco"),
        variable="DOCAI_DETECT_FORMAT",
    )
    output: str = option("-", "File, or folder for many; - is standard output.", flags=("--output", "-o"))

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputOptions:
    """What `docai ocr` writes, and where."""

    format: str = option(
        "markdown",
        "One or more, with commas: markdown, text, json, jsonl, html, hocr, alto, csv, chunks, pdf, png; raw is what "
        "a model writes.",
        flags=("--format", "-f"),
    )
    output: str = option("-", "File, or folder for many; - is standard output.", flags=("--output", "-o"))
    images: Literal["auto", "none", "ref", "embed"] = option(
        "auto",
        "Figures: left out, as files beside the output, or embedded. auto: files where there is a folder.",
        choices=("auto", "none", "ref", "embed"),
    )
    furniture: Literal["drop", "keep"] = option(
        "drop", "Running headers, footers and page numbers.", choices=("drop", "keep")
    )
    jobs: int = option(
        1,
        "Files read at the same time, into a folder; with a model, files that are opened and prepared beside it.",
        flags=("--jobs", "-j"),
        least=1,
    )
    strict: bool = option(False, "Exit with 1 also where pages are degraded.")
    progress: Literal["auto", "jsonl", "none"] = option(
        "auto", "Progress on standard error: a bar on a terminal, or JSON lines.", choices=("auto", "jsonl", "none")
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseOptions(OcrOptions):
    """`docai parse`: what is read is what `docai ocr` reads, by the best layout that is there."""

    model: str = option(
        "embedded",
        "What reads: embedded, tesseract, or a model; nemotron-parse reads whole pages in one pass, others region by "
        "region.",
        flags=("--model", "-m"),
        variable="DOCAI_PARSE_MODEL",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseOutputOptions(OutputOptions):
    """What `docai parse` writes, and where."""

    format: str = option(
        "json",
        "One or more, with commas: json, jsonl, markdown, html, chunks, csv, text, hocr, alto, pdf, png; raw is what "
        "a model writes.",
        flags=("--format", "-f"),
        variable="DOCAI_PARSE_FORMAT",
    )


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
    max_audio_seconds: float = option(_LIMITS.max_audio_seconds, "Longest sound, in seconds.", least=0.1)
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


_ASKED = ("task", "prompt", "multi_page", "crop_to_patches")


def _refuse_asking(options: OcrOptions) -> None:
    """Raise UsageError for what only models can be asked for."""
    for name in _ASKED:
        if getattr(options, name):
            raise UsageError(
                f"{name}: {options.model} is an engine, which reads all text as it is; name a model with -m"
            )


_MOST_WORDS = 1024  # bytes of a prompt about a page


def _check_words(name: str, words: str | None) -> None:
    if words is None:
        return
    if len(words.encode("utf-8", "replace")) > _MOST_WORDS:
        raise UsageError(f"{name}: expected at most {_MOST_WORDS} bytes; got {len(words.encode('utf-8', 'replace'))}")
    if not words.strip() or any(unicodedata.category(char) == "Cc" and char not in "\n\t" for char in words):
        raise UsageError(f"{name}: expected text without control characters; got {words!r}")


_RANGE = re.compile(r"^(\d+|last)?(-)?(\d+|last)?$")


def parse_pages(text: str, count: int) -> list[int]:
    """`1-3,7,10-,last` for a document of `count` pages -> 0-based indices, in the order asked for, each once.

    Ranges may reach past the end; a single page may not. Raises UsageError.
    """
    indices: dict[int, None] = {}
    for part in text.replace(" ", "").split(","):
        for index in _page_range(part, count):
            indices.setdefault(index)
    return list(indices)


def _page_range(part: str, count: int) -> range:
    match = _RANGE.match(part)
    if not part or not match or part == "-":
        raise UsageError(f"pages: expected a list such as 1-3,7,10-,last; got {part!r}")
    first = _page(match[1], count) if match[1] else 1
    last = first if not match[2] else _page(match[3], count) if match[3] else count
    if first < 1 or last < 1:
        raise UsageError(f"pages: {part!r} names no page; they count from 1")
    if first > count:
        raise UsageError(f"pages: {part!r} lies behind the last page, {count}")
    if last < first:
        raise UsageError(f"pages: {part!r} runs backwards; write the lower page first")
    return range(first - 1, min(last, count))


def _page(text: str, count: int) -> int:
    return count if text == "last" else int(text)
