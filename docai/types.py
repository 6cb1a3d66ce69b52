"""The types that flow through docai: Page -> Line -> Region -> Block -> Document.

Coordinates. A page has a unit of its own, `pt` (1/72 inch) for PDFs and `px` for images; the origin is top-left and
y runs down. A page is *upright*: whatever its file says or its scanner did, text runs left to right on it. `rotation`
and `skew` keep what that took, and `Page.to_displayed` leads back to the page as a viewer shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:  # numpy is not needed to name these types, and `docai --help` must not load it
    import numpy as np
    from numpy.typing import NDArray

    RGB: TypeAlias = NDArray[np.uint8]  # (H, W, 3)

Unit = Literal["pt", "px"]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """An upright rectangle: left, top, right, bottom in its page's unit."""

    l: float  # noqa: E741 - the name that the JSON uses
    t: float
    r: float
    b: float

    @property
    def width(self) -> float:
        return self.r - self.l

    @property
    def height(self) -> float:
        return self.b - self.t

    @property
    def area(self) -> float:
        return max(0.0, self.r - self.l) * max(0.0, self.b - self.t)

    @property
    def cx(self) -> float:
        return (self.l + self.r) / 2

    @property
    def cy(self) -> float:
        return (self.t + self.b) / 2

    def as_tuple(self) -> tuple[float, float, float, float]:
        return (self.l, self.t, self.r, self.b)


class Label(StrEnum):
    """What a region is on its page. Labels of foreign detectors are translated to these."""

    TITLE = "title"
    HEADING = "heading"
    TEXT = "text"
    LIST_ITEM = "list_item"
    TABLE = "table"
    FIGURE = "figure"
    FORMULA = "formula"
    CODE = "code"
    CAPTION = "caption"
    FOOTNOTE = "footnote"
    ASIDE = "aside"  # a note in the margin that belongs to the content
    PAGE_HEADER = "page_header"
    PAGE_FOOTER = "page_footer"
    PAGE_NUMBER = "page_number"
    STAMP = "stamp"  # download notes, watermarks, line numbers in the margin


FURNITURE = frozenset({Label.PAGE_HEADER, Label.PAGE_FOOTER, Label.PAGE_NUMBER, Label.STAMP})

BlockKind = Literal["text", "table", "formula", "figure"]
Style = Literal["bold", "italic", "code", "superscript", "subscript", "math"]  # math: LaTeX within a text


class PixelSource(Protocol):
    """Renders one page. Injected by `docai.render`, so that types know no PDF library."""

    def __call__(self, dpi: float, rotation: int, skew: float) -> RGB:
        """The page turned clockwise by `rotation`, then turned back by `skew` degrees, as RGB (H, W, 3)."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """One upright page; its pixels are rendered when asked for.

    `size` is (width, height) in `unit`, already swapped where `rotation` is 90 or 270.
    `rotation`: degrees clockwise (0, 90, 180, 270) by which the displayed page was turned to stand upright.
    `skew`: degrees clockwise by which its content leaned after that; pixels and boxes have it taken out.
    """

    index: int
    size: tuple[float, float]
    unit: Unit
    source: str
    rotation: int = 0
    skew: float = 0.0
    time: float | None = None  # of a frame of a video: seconds from its beginning
    render: PixelSource | None = field(default=None, repr=False, compare=False)

    @property
    def width(self) -> float:
        return self.size[0]

    @property
    def height(self) -> float:
        return self.size[1]

    @property
    def box(self) -> Box:
        return Box(0.0, 0.0, *self.size)

    def scale(self, dpi: float) -> float:
        """Pixels per unit at `dpi`. Images have one resolution, their own."""
        return dpi / 72 if self.unit == "pt" else 1.0

    def pixels(self, dpi: float = 144) -> RGB:
        """The upright page as RGB (H, W, 3); `dpi` counts for PDFs only. A huge page comes smaller than asked for."""
        if self.render is None:
            raise ValueError(f"page {self.index + 1} of {self.source} has no pixels: its source is closed")
        return self.render(dpi, self.rotation, self.skew)

    def from_pixels(self, box: Box, pixels_shape: Sequence[int]) -> Box:
        """A box in the pixels of `pixels(...)`, whose shape is (H, W, ...), in this page's unit."""
        sx, sy = self.width / pixels_shape[1], self.height / pixels_shape[0]
        return Box(box.l * sx, box.t * sy, box.r * sx, box.b * sy)

    def turned(self, rotation: int = 0, skew: float = 0.0) -> Page:
        """This page turned clockwise by a further `rotation`, with a lean of `skew` degrees taken out."""
        size = self.size if rotation % 180 == 0 else (self.size[1], self.size[0])
        return replace(self, size=size, rotation=(self.rotation + rotation) % 360, skew=skew)

    def to_displayed(self, x: float, y: float) -> Point:
        """A point of the upright page, on the page as a viewer shows it (before `rotation` and `skew`)."""
        width, height = self.size
        lean = math.radians(self.skew)
        dx, dy = x - width / 2, y - height / 2
        x = width / 2 + dx * math.cos(lean) - dy * math.sin(lean)
        y = height / 2 + dx * math.sin(lean) + dy * math.cos(lean)
        return {0: (x, y), 90: (y, width - x), 180: (width - x, height - y), 270: (height - y, x)}[self.rotation]


@dataclass(frozen=True, slots=True)
class Word:
    """A run of characters without a space. `quad`-free: boxes lie along the upright page."""

    text: str
    box: Box
    styles: frozenset[Style] = frozenset()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text in logical order (right-to-left text too), with what layout needs to know of it.

    `size` is the font size or, for recognised text, the height of its glyphs, in the page's unit.
    `angle`: 0, or 90, 180, 270 clockwise for lines that run along another side of the upright page.
    `source`: `text-layer` or `ocr:<engine>`. `confidence` is None where the source measures none.
    """

    text: str
    box: Box
    words: tuple[Word, ...] = ()
    size: float = 0.0
    confidence: float | None = None
    source: str = "text-layer"
    font: str = ""
    bold: bool = False
    italic: bool = False
    mono: bool = False
    angle: int = 0
    vertical: bool = False  # characters stacked top to bottom (CJK), lines running right to left


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight ruling line, horizontal or vertical, `width` thick."""

    box: Box
    width: float = 0.0

    @property
    def horizontal(self) -> bool:
        box = self.box
        return box.r - box.l >= box.b - box.t


@dataclass(frozen=True, slots=True)
class Link:
    """A link on a page: where it is and where it leads (a URL, or `#page=N`, 1-based)."""

    box: Box
    target: str


@dataclass(frozen=True, slots=True)
class Font:
    """A font as a PDF names it. `weight` is 400 for regular, 700 for bold."""

    name: str
    weight: int = 400
    italic: bool = False
    mono: bool = False


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a text layer as columns, in the order of the file. n = number of characters.

    Generated characters (spaces and line ends that the PDF library inserts) are included and flagged.
    """

    codepoints: NDArray[np.uint32]  # (n,) Unicode
    boxes: NDArray[np.float32]  # (n, 4) l, t, r, b in points on the page as displayed; loose: ascent to descent
    sizes: NDArray[np.float32]  # (n,) font size in points, as drawn
    fonts: NDArray[np.int32]  # (n,) index into `font_table`
    angles: NDArray[np.int16]  # (n,) clockwise direction of writing as displayed, whole degrees 0..359
    flags: NDArray[np.uint8]  # (n,) GENERATED | UNMAPPED | INVISIBLE | HYPHEN | PALE
    font_table: tuple[Font, ...] = ()

    GENERATED = 1
    UNMAPPED = 2  # the PDF gives no Unicode for it
    INVISIBLE = 4  # drawn in render mode 3 or 7, or fully transparent
    HYPHEN = 8  # a soft hyphen at a line end
    PALE = 16  # drawn in (nearly) white: readable on a dark ground only

    def __len__(self) -> int:
        return len(self.codepoints)


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a file itself says is on a page, in the page's unit as displayed. An image has none of it."""

    glyphs: Glyphs | None = None
    rules: tuple[Rule, ...] = ()  # thin lines and the edges of stroked or thin filled rectangles
    fills: tuple[Box, ...] = ()  # filled areas (coloured cells, bars), not page-sized
    pictures: tuple[Box, ...] = ()  # embedded images
    drawings: tuple[Box, ...] = ()  # bounds of other vector paths (charts, diagrams)
    links: tuple[Link, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be read of the page
    damage: str = ""  # of an image that is broken: what part of it could be decoded


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page with a label. `order` is its place in reading order, `polygon` its exact outline."""

    box: Box
    label: Label
    score: float | None = None
    order: int | None = None
    polygon: tuple[Point, ...] | None = None
    name: str = ""  # the detector's own name for the label, where that says more


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start`..`end` of a block's text that carry a style or a link."""

    start: int
    end: int
    style: Style | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell at (row, column), counted from 0, with the rows and columns that it spans."""

    row: int
    col: int
    text: str
    box: Box
    rowspan: int = 1
    colspan: int = 1
    header: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A grid of cells. Cells are sorted by row, then column, and do not overlap; a place without a cell is empty."""

    rows: int
    cols: int
    cells: tuple[Cell, ...]

    @property
    def header_rows(self) -> int:
        """Leading rows that consist of header cells."""
        body = min((c.row for c in self.cells if not c.header), default=self.rows)
        return min(body, self.rows)

    @property
    def has_spans(self) -> bool:
        return any(c.rowspan > 1 or c.colspan > 1 for c in self.cells)


@dataclass(frozen=True, slots=True)
class Block:
    """A region with what it says. Blocks of a page stand in reading order.

    `text` is in logical order with lines joined (code keeps its line ends). `level`: 1.. for headings, nesting depth
    for list items. `marker`: a list item's or footnote's own mark, as printed. `source`: `text-layer`, `ocr:<engine>`,
    `vlm:<model>`. `continues`: this block goes on from the one before it (over a column or page border). `verdict`:
    what a check of a model's answer found (`docai.ocr.guard`); empty where there was none.
    """

    id: str  # unique in the document: "p3-b12"
    page: int  # 0-based index of its page
    region: Region
    text: str = ""
    lines: tuple[Line, ...] = ()
    spans: tuple[Span, ...] = ()
    table: Table | None = None
    level: int | None = None
    marker: str = ""
    confidence: float | None = None
    source: str = "text-layer"
    continues: bool = False
    verdict: str = ""
    children: tuple[Block, ...] = ()  # a figure's or table's caption, the names of a figure's parts

    @property
    def box(self) -> Box:
        return self.region.box

    @property
    def label(self) -> Label:
        return self.region.label

    @property
    def kind(self) -> BlockKind:
        kinds: dict[Label, BlockKind] = {Label.TABLE: "table", Label.FORMULA: "formula", Label.FIGURE: "figure"}
        return kinds.get(self.label, "text")

    @property
    def furniture(self) -> bool:
        return self.label in FURNITURE


class Status(StrEnum):
    """How a page ended."""

    OK = "ok"
    DEGRADED = "degraded"
    FALLBACK = "fallback"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """How a page ended, and why it did not end well. A failed page keeps its error's exit code."""

    status: Status = Status.OK
    reasons: tuple[str, ...] = ()
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class PageResult:
    """A page with all that was read from it."""

    page: Page
    blocks: tuple[Block, ...] = ()
    outcome: PageOutcome = PageOutcome()
    seconds: float = 0.0
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class OutlineItem:
    """An entry of a PDF's own table of contents; `page` is a 0-based index."""

    title: str
    level: int
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document: its pages in order, each with its blocks in reading order."""

    source: str
    pages: tuple[PageResult, ...]
    metadata: dict[str, str] = field(default_factory=dict)
    outline: tuple[OutlineItem, ...] = ()
    engine: str = "embedded"

    @property
    def blocks(self) -> Iterator[Block]:
        return (block for page in self.pages for block in page.blocks)

    @property
    def outcome(self) -> PageOutcome:
        """The worst of the pages' outcomes, with every reason."""
        severity = list(Status)
        worst = max((p.outcome for p in self.pages), key=lambda o: severity.index(o.status), default=PageOutcome())
        reasons = tuple(f"page {p.page.index + 1}: {r}" for p in self.pages for r in p.outcome.reasons)
        return PageOutcome(worst.status, reasons, worst.exit_code)


VIDEO_FPS, VIDEO_FRAMES = 2.0, 16  # how often a second a video is looked at; how many frames a model sees of it


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may cost. None means no limit."""

    max_bytes: int | None = 512 << 20
    max_pages: int | None = 5000
    max_pixels: int = 64_000_000  # of one page: PDFs are rendered smaller, images refused
    page_seconds: float = 120.0  # for opening a file or rendering or reading one page in the library that decodes it
    max_video_seconds: float = 4 * 3600.0
    max_decoded_frames: int = 1_000_000  # of one video
    video_fps: float = VIDEO_FPS
    max_audio_seconds: float = 600.0
