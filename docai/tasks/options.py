"""The options of every task, declared once: the command line, Python and the server all read these classes.

Those of reading documents are here, those of asking models and of opening files in modules of their own, which this one
passes on. A field's metadata says how it looks on the command line (`docai.cli.options` builds the parameters from it).
What models are asked with is declared beside them, in `docai.vlm.request`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from docai.checkpoint.options import LoadOptions, SourceOptions
from docai.errors import UsageError
from docai.options import check, like, option
from docai.tasks.asking_options import CaptionOptions as CaptionOptions
from docai.tasks.asking_options import ChatOptions as ChatOptions
from docai.tasks.asking_options import ClipOptions as ClipOptions
from docai.tasks.asking_options import GroundModelOptions as GroundModelOptions
from docai.tasks.asking_options import GroundOptions as GroundOptions
from docai.tasks.asking_options import GroundOutputOptions as GroundOutputOptions
from docai.tasks.asking_options import ModelOptions as ModelOptions
from docai.tasks.asking_options import PictureOptions as PictureOptions
from docai.tasks.asking_options import SoundOptions as SoundOptions
from docai.tasks.asking_options import VideoOptions as VideoOptions
from docai.tasks.input_options import InputOptions as InputOptions
from docai.tasks.input_options import parse_pages as parse_pages

ENGINES = ("embedded", "tesseract")


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
        elif near := get_close_matches(self.model, ENGINES, n=1, cutoff=0.8):
            raise UsageError(f"model: there is no engine {self.model!r}; near it: {near[0]}")
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
