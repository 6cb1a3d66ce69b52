"""Pages are read by asking a model about them, whole or region by region, and what it answers is checked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from docai.errors import InputError
from docai.geometry import inside
from docai.ocr.asking import Answer, Asker, Question
from docai.ocr.assemble import assemble
from docai.ocr.captions import with_captions
from docai.ocr.engines import Recognizer
from docai.ocr.guard import Finding, Verdict, instead, judge, summary
from docai.ocr.ink import Ink, ink_of, middle_gap
from docai.ocr.joining import in_reading_order, join_lines
from docai.ocr.located import CANVAS, LOCATED, Shown
from docai.ocr.manners import Manner
from docai.ocr.placing import assemble_by_place, with_lines
from docai.ocr.reading import read_part
from docai.ocr.routed import Route, blocks_of, cut_out, routes_of, whole_page
from docai.ocr.routes import PLAIN
from docai.types import Block, Line, Page, PageContent, PageOutcome, PageResult, Region, Status
from docai.vlm.request import Generation

if TYPE_CHECKING:
    from docai.types import RGB

Guard = Literal["fallback", "mark", "off"]
_MARKED = ("table", "formula")  # categories whose answers are markup
_PARTS = 2  # times that a region is cut in two when its answer does not end
_LEAST_PART = 48  # pixels of a part's height


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A page to be read, upright. `regions` None: it is asked about as a whole.

    `lines` are those of its text layer that can be trusted, `content` is what the file says of it, in its frame.
    `seen`: lines that the embedded engine has read of it already. `pixels` (H, W, 3): what it shows; None: not rendered
    yet.
    """

    page: Page
    regions: Sequence[Region] | None = None
    lines: Sequence[Line] = ()
    content: PageContent = PageContent()  # noqa: RUF009 - it is frozen
    seen: Sequence[Line] = ()
    pixels: RGB | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PromptedReader:
    """How pages are read by a model.

    `prompt` is asked in place of the manner's own words; `category` about every region, whatever it is. `guard`: take
    another text where an answer cannot be used, only say so, or do not look. `verify`: compare all answers with what
    `second`, the embedded engine, reads. `dpi` None: the manner's. `canvas`: where models that say where everything
    lies put a page, (height, width) in pixels.
    """

    asker: Asker
    manner: Manner
    second: Recognizer
    prompt: str | None = None
    category: str | None = None
    guard: Guard = "fallback"
    verify: bool = False
    dpi: int | None = None
    canvas: tuple[int, int] = CANVAS

    @property
    def source(self) -> str:
        """Where its blocks come from."""
        return f"vlm:{self.asker.name}"

    def read(self, leaves: Sequence[Leaf]) -> list[PageResult]:
        """The results of pages, whose questions are asked together."""
        return self.begin(leaves).results()

    def begin(self, leaves: Sequence[Leaf]) -> Pending:
        """Have the questions about pages asked; an engine answers them while others are prepared."""
        return Pending(self, [_Sheet(self, leaf) for leaf in leaves])

    def pixels(self, page: Page) -> RGB:
        """A page as the model is shown it."""
        return page.pixels(self.dpi or self.manner.dpi)

    def words(self, category: str) -> str:
        """What is asked about a category."""
        return self.prompt or self.manner.asked(category, self.category)

    def ask(self, parts: Sequence[_Part], heard: Callable[[], None]) -> Iterator[tuple[int, Answer]]:
        """The answers about parts, each with the place of its part, as they come; `heard` is told as they grow."""
        most = self.manner.max_tokens
        return self.asker.ask(
            [Question(self.words(part.route.category), part.pixels, most, heard=heard) for part in parts]
        )


class Pending:
    """Pages whose questions have been asked."""

    def __init__(self, reader: PromptedReader, sheets: Sequence[_Sheet]) -> None:
        self._reader, self._sheets = reader, sheets
        self._asked = [part for sheet in sheets for part in sheet.parts if part.worth_asking]
        self._on_progress: Callable[[], None] = lambda: None
        self._answers = reader.ask(self._asked, self._heard)

    def _heard(self) -> None:
        self._on_progress()

    def results(self, on_progress: Callable[[], None] = lambda: None) -> list[PageResult]:
        """The results, once all is answered. `on_progress` is called as answers grow, and for each.

        Raises InputError for what the model does not take where nobody looks at its answers.
        """
        self._on_progress = on_progress
        self._take(self._asked, self._answers)
        return [sheet.result() for sheet in self._sheets]

    def _take(self, asked: Sequence[_Part], answers: Iterator[tuple[int, Answer]]) -> None:
        """Give parts their answers; those whose answers do not end are asked about again in smaller ones."""
        reader = self._reader
        for place, answer in answers:
            if isinstance(answer, InputError) and reader.guard == "off":
                if isinstance(answers, Generator):
                    answers.close()  # nobody takes the others
                raise answer
            asked[place].answer = answer
            self._heard()
        if reader.guard == "off" or reader.manner.parser in LOCATED:  # half a page lies elsewhere
            return
        again = [half for part in asked for half in part.halves() if half.worth_asking]
        if again:
            self._take(again, reader.ask(again, self._heard))


@dataclass(slots=True, eq=False)
class _Part:
    """A region, or a part of one that is asked about by itself."""

    route: Route
    pixels: RGB
    ink: Ink
    depth: int = 0
    answer: Answer | None = None
    parts: list[_Part] = field(default_factory=list)

    @property
    def worth_asking(self) -> bool:
        return not self.ink.blank

    @property
    def marked(self) -> bool:
        """Whether its answer is markup."""
        return self.route.category in _MARKED

    def halves(self) -> list[_Part]:
        """Itself in two, where its answer does not end and a gap between lines parts it."""
        verdict = self.verdict()
        if verdict.finding not in (Finding.LOOP, Finding.CUT) or self.marked or self.depth >= _PARTS:
            return []
        row = middle_gap(self.pixels, _LEAST_PART)
        if row is None:
            return []
        for pixels in (self.pixels[:row], self.pixels[row:]):
            self.parts.append(_Part(self.route, pixels, ink_of(pixels), self.depth + 1))
        return self.parts

    def verdict(self, trusted: str = "") -> Verdict:
        """On its answer, or on those of its parts together: the worst finding of them, all of their text."""
        if self.parts:
            return _joined([part.verdict() for part in self.parts], self, trusted)
        if isinstance(self.answer, InputError):
            return Verdict(Finding.REFUSED, "")
        return judge(self.answer or Generation(""), self.ink, marked=self.marked, trusted=trusted)


def _joined(verdicts: Sequence[Verdict], whole: _Part, trusted: str) -> Verdict:
    text = "\n\n".join(verdict.text for verdict in verdicts if verdict.text)
    worst = min(verdicts, key=lambda v: (v.usable, v.finding is Finding.OK))
    sure = [verdict.confidence for verdict in verdicts if verdict.confidence is not None]
    if worst.finding is Finding.OK and trusted:
        return judge(Generation(text), whole.ink, marked=whole.marked, trusted=trusted)
    return Verdict(worst.finding, text, min(sure) if sure else None)


@dataclass(slots=True, eq=False)
class _Known:
    """A text of the same place from elsewhere: the text layer's, or what the embedded engine reads."""

    lines: Sequence[Line] = ()

    @property
    def text(self) -> str:
        return join_lines(in_reading_order(list(self.lines))).text if self.lines else ""


class _Sheet:
    """A page while it is read."""

    def __init__(self, reader: PromptedReader, leaf: Leaf) -> None:
        self.reader, self.leaf = reader, leaf
        page = leaf.page
        self.pixels = reader.pixels(page) if leaf.pixels is None else leaf.pixels
        self.routes = [whole_page(page)] if leaf.regions is None else routes_of(leaf.regions, page)
        self._parts = self._cut()
        if not self._parts and any(route.asked for route in self.routes):  # all of them are drawn lines and the like
            self.routes = [whole_page(page)]
            self._parts = self._cut()

    def _cut(self) -> dict[int, _Part]:
        return {n: part for n, route in enumerate(self.routes) if (part := self._part(route)) is not None}

    @property
    def parts(self) -> list[_Part]:
        return list(self._parts.values())

    def _part(self, route: Route) -> _Part | None:
        if not route.asked:
            return None
        pixels = cut_out(self.leaf.page, self.pixels, route.region.box)
        return None if pixels is None else _Part(route, pixels, ink_of(pixels))

    def result(self) -> PageResult:
        """The page with its blocks, and how far they are to be relied on."""
        blocks: list[Block] = []
        verdicts: list[tuple[int, Verdict]] = []
        replaced: list[int] = []
        for number, route in enumerate(self.routes):
            part = self._parts.get(number)
            if part is None:
                blocks += [] if route.asked else [self._picture(route)]
                continue
            name = 0 if route.category == PLAIN else number + 1
            verdict, found = self._judged(part)
            verdicts.append((name, verdict))
            if any(not block.source.startswith("vlm:") for block in found):
                replaced.append(name)
            blocks += found
        numbered = [replace(b, id=f"p{self.leaf.page.index + 1}-b{n}") for n, b in enumerate(blocks, 1)]
        return PageResult(
            self.leaf.page,
            tuple(with_captions(numbered)),
            _outcome(verdicts, replaced, self.leaf.content.notes),
            links=self.leaf.content.links,
        )

    def _picture(self, route: Route) -> Block:
        return Block(id="", page=self.leaf.page.index, region=route.region, source="layout")

    def _judged(self, part: _Part) -> tuple[Verdict, list[Block]]:
        """The verdict on a part and its blocks: the model's, or in want of a usable answer another's."""
        if self.reader.guard == "off":
            text = part.answer.text if isinstance(part.answer, Generation) else ""
            return Verdict(Finding.OK, text), self._blocks(part, text)
        known = self._known(part) if self.reader.verify else _Known(_within(part.route.region, self.leaf.lines))
        verdict = part.verdict(known.text)
        if not verdict.usable and self.reader.guard == "fallback":
            known = known if known.lines else self._known(part)
            if known.lines:
                return verdict, self._instead(part, verdict, known)
        if verdict.finding is Finding.INVENTED:
            return verdict, []
        return verdict, self._blocks(part, verdict.text, verdict)

    def _known(self, part: _Part) -> _Known:
        """What stands there by the text layer, in want of one by the embedded engine."""
        region = part.route.region
        lines = _within(region, self.leaf.lines) or _within(region, self.leaf.seen)
        if lines or part.ink.blank:
            return _Known(lines)
        return _Known(read_part(self.leaf.page, self.pixels, region.box, self.reader.second).lines)

    def _blocks(self, part: _Part, text: str, verdict: Verdict | None = None) -> list[Block]:
        page, parser, source = self.leaf.page, self.reader.manner.parser, self.reader.source
        if parser in LOCATED:
            shown = Shown(page, part.route.region, part.pixels.shape[:2], self.reader.canvas)
            made = LOCATED[parser](text, shown, source)
        else:
            made = blocks_of(part.route, text, page, parser=parser, source=source)
        made = with_lines(page, self.pixels, made, self.leaf.lines or self.leaf.seen)
        if verdict is None:
            return made
        return [replace(block, verdict=verdict.finding.value, confidence=verdict.confidence) for block in made]

    def _instead(self, part: _Part, verdict: Verdict, known: _Known) -> list[Block]:
        page, content = self.leaf.page, self.leaf.content
        whole = part.route.category == PLAIN  # what lies where on it is told by its lines
        regions = [part.route.region]
        made = assemble_by_place(page, known.lines, content) if whole else assemble(page, known.lines, content, regions)
        return [replace(block, verdict=verdict.finding.value) for block in made]


def _within(region: Region, lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if inside(line.box, region.box) > 0.5]


def _outcome(verdicts: Sequence[tuple[int, Verdict]], replaced: Sequence[int], notes: Sequence[str]) -> PageOutcome:
    reasons = (*notes, *summary(verdicts))
    if replaced:
        return PageOutcome(Status.FALLBACK, (*reasons, instead(replaced)))
    return PageOutcome(Status.DEGRADED, reasons) if reasons else PageOutcome()
