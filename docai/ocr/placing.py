"""What a model has read gets lines: its words are spread over the lines that are known to be there.

Models say what stands in a region, and not where each line of it ends. Formats that lay text over a picture of the page
need that. Where a text layer or an engine has told of lines, words are found in them; elsewhere the ink tells how many
lines there are and how full each is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from docai.geometry import inside
from docai.ocr.assemble import assemble
from docai.ocr.ink_lines import strips
from docai.types import Block, Box, Line, Page, PageContent, Word
from docai.writing import count_cjk, is_cjk, is_rtl

if TYPE_CHECKING:
    from docai.types import RGB

_SNAP = 0.35  # of a line: an end of a paragraph that is nearer than this to where a line ends by measure is its end
_LETTER = 0.45  # of a line's height: the ink of a letter across it
_ERROR = (0.08, 3.0)  # of the letters that ink tells of: a part of them, and some
_UNUSED, _NONE = 5.0, 1e6  # what a line costs that nothing is put into, and a text without a line
_LIKE = 0.4  # of the logarithm of two heights: the difference within which lines may be of one size
_NARROW = 0.2  # of a line's height: the width of its letters, at least
_SPACE = 0.55
_WIDTHS = {**dict.fromkeys("ijltfrI.,;:'!|()[]-", 0.6), **dict.fromkeys("mwMW@%", 1.6)}
_FOUND = 0.5  # of the words have to be found in known lines, for those to tell of all
_MOST_PLACES = 1000  # lines of a region: more are a pattern, whose sharing out would take long


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line lies. `weight`: about how many letters it holds; `line`: what is known of it."""

    box: Box
    weight: float
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class _Said:
    """A word of a block, by the block's number, or a sign of a script that parts no words.

    `ends`: a line ends with it for sure; `close`: no space parts it from the one before.
    """

    block: int
    text: str
    ends: bool = False
    close: bool = False

    @property
    def letters(self) -> int:
        """How many it has, with the space in front."""
        return len(self.text) + (not self.close)


def with_lines(page: Page, pixels: RGB, blocks: Sequence[Block], known: Sequence[Line] = ()) -> list[Block]:
    """Blocks that a model has read of an upright page, with lines. `pixels` (H, W, 3): what the page shows.

    Tables, formulas and figures get none, but keep their place among the others of one region.
    """
    out: list[Block] = []
    for box, group in groupby(blocks, key=lambda block: block.box):
        part = list(group)
        words = [word for n, block in enumerate(part) if not block.lines for word in _words(n, block)]
        if not words or not any(map(_has_lines, part)):
            out += part
            continue
        placed = _placed(words, box, page, pixels, known)
        out += [_lined(block, n, words, placed) if _has_lines(block) else block for n, block in enumerate(part)]
    return out


def _has_lines(block: Block) -> bool:
    return block.kind == "text" and not block.lines and bool(block.text.strip())


def _words(number: int, block: Block) -> Iterator[_Said]:
    text = f"{block.marker} {block.text}" if block.marker else block.text
    for row in text.split("\n"):
        pieces = [piece for word in row.split() for piece in _pieces(word)]
        yield from (_Said(number, *piece) for piece in _ended(pieces))


def _pieces(word: str) -> Iterator[tuple[str, bool]]:
    """What a line end may part of a word: itself, or Chinese and Japanese signs; and whether it stands close."""
    start = 0
    for at in range(1, len(word) + 1):
        if at == len(word) or is_cjk(word[at - 1]) or is_cjk(word[at]):
            yield word[start:at], start > 0
            start = at


def _ended(pieces: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, bool, bool]]:
    """Pieces of a row; a line ends with the last one."""
    yield from ((text, n == len(pieces) - 1, close) for n, (text, close) in enumerate(pieces))


def _placed(
    words: Sequence[_Said], box: Box, page: Page, pixels: RGB, known: Sequence[Line]
) -> list[tuple[Place, range]]:
    """The lines of a region, each with the words that stand in it; none where the ink is no lines of such a text."""
    lines = [line for line in known if inside(line.box, box) > 0.5 and not line.vertical and not line.angle]
    if lines:
        ordered = [line for block in assemble_by_place(page, lines) for line in block.lines]
        found = _by_words(words, [Place(line.box, len(line.text), line) for line in ordered])
        if found is not None:
            return found
    places = _by_ink(page, pixels, box)
    if len(places) > _MOST_PLACES:
        return []
    letters = sum(word.letters for word in words)
    room = sum(place.box.width / (_NARROW * place.box.height) for place in places)
    return _by_measure(words, places) if places and letters <= room else []


def assemble_by_place(page: Page, lines: Sequence[Line], content: PageContent | None = None) -> list[Block]:
    """Blocks of lines about which nothing is known but where they lie."""
    from docai.layout.detector import get_detector

    content = content or PageContent()
    return assemble(page, lines, content, get_detector("embedded").detect(page, lines, content))


def _by_ink(page: Page, pixels: RGB, box: Box) -> list[Place]:
    """The lines of a region by its ink."""
    height, width = pixels.shape[:2]
    sx, sy = width / page.width, height / page.height
    left, top = max(0, int(box.l * sx)), max(0, int(box.t * sy))
    found = strips(pixels[top : round(box.b * sy), left : round(box.r * sx)])
    heights = np.array([strip.bottom - strip.top for strip in found], float)
    # lines of one size differ by their letters with tails
    usual = [float(np.median(heights[np.abs(np.log(heights / height)) < _LIKE])) for height in heights]
    return [
        Place(
            page.from_pixels(Box(left + s.left, top + s.top, left + s.right, top + s.bottom), pixels.shape),
            s.ink / (_LETTER * height),
        )
        for s, height in zip(found, usual, strict=True)
    ]


def _by_words(words: Sequence[_Said], places: Sequence[Place]) -> list[tuple[Place, range]] | None:
    """Words where known lines have them; the others go with those before. None where too few of them are there."""
    there = [
        (n, _bare(text))
        for n, place in enumerate(places)
        for word in (place.line.text.split() if place.line else ())
        for text, _ in _pieces(word)
    ]
    matcher = SequenceMatcher(None, [text for _, text in there], [_bare(word.text) for word in words], autojunk=False)
    homes: dict[int, int] = {}
    for a, b, size in matcher.get_matching_blocks():
        homes |= {b + n: there[a + n][0] for n in range(size)}
    if len(homes) < _FOUND * len(words):
        return None
    at, starts = min(homes.values()), list[int]()
    for n in range(len(words)):
        at = homes.get(n, at)
        starts.append(at)
    return [(places[home], range(group[0], group[-1] + 1)) for home, group in _runs(starts)]


def _runs(homes: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    for home, group in groupby(range(len(homes)), key=lambda n: homes[n]):
        yield home, list(group)


def _bare(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum()) or word


def _by_measure(words: Sequence[_Said], places: Sequence[Place]) -> list[tuple[Place, range]]:
    """Words by how full lines are: first the lines of each block, then the words of each line."""
    blocks = [list(group) for _, group in groupby(range(len(words)), key=lambda n: words[n].block)]
    letters = [float(sum(len(words[n].text) + count_cjk(words[n].text) for n in block)) for block in blocks]
    spans = shared_out(letters, [place.weight for place in places])
    return [
        one
        for block, span in zip(blocks, spans, strict=True)
        for one in _filled(words, range(block[0], block[-1] + 1), places[span.start : span.stop])
    ]


def shared_out(letters: Sequence[float], weights: Sequence[float]) -> list[range]:
    """Consecutive lines for each of several texts in order, so that lines hold what texts have; some stay unused.

    By dynamic programming: what texts and lines are like in length is taken for a normal error, whose logarithm counts.
    """
    held = np.concatenate([[0.0], np.cumsum(weights)])  # by the lines up to each
    places = np.arange(len(held))
    size, lines = held[None, :] - held[:, None], places[None, :] - places[:, None]  # of those from one to another
    no_line = np.where(lines <= 0, _NONE, 0.0)
    skipped = np.where(lines >= 0, _UNUSED * lines, np.inf)
    best = _UNUSED * places.astype(float)
    starts, ends = list[NDArray[np.intp]](), [np.zeros(len(held), np.intp)]
    for count in letters:
        cost = best[:, None] + ((count - size) / (_ERROR[0] * count + _ERROR[1])) ** 2 / 2 + no_line
        starts.append(cost.argmin(axis=0))
        over = cost.min(axis=0)[:, None] + skipped
        ends.append(over.argmin(axis=0))
        best = over.min(axis=0)
    spans, at = list[range](), len(weights)
    for start, end in zip(reversed(starts), reversed(ends), strict=False):
        stop = int(end[at])
        at = int(start[stop])
        spans.append(range(at, stop) if at < stop else range(max(0, stop - 1), max(1, stop)))
    return spans[::-1]


def _filled(words: Sequence[_Said], span: range, places: Sequence[Place]) -> list[tuple[Place, range]]:
    """The lines of one text, by how full they are. Those that the model tells of count, if there are as many."""
    ends = [n + 1 for n in span if words[n].ends]
    if len(ends) == len(places):
        return [(place, range(a, b)) for place, a, b in zip(places, [span.start, *ends], ends, strict=False)]
    sums = [0.0, *accumulate(_width(words[n]) for n in range(span.stop))]
    out, start = list[tuple[Place, range]](), span.start
    for n, place in enumerate(places):
        left = sum(other.box.width for other in places[n:])
        stop = span.stop if n == len(places) - 1 else _stop(sums, start, place.box.width / max(left, 1e-9), ends)
        if stop > start:
            out.append((place, range(start, stop)))
        start = stop
    return out


def _width(word: _Said) -> float:
    """How wide a word is with its space, in letters of a usual width: about, in a usual type."""
    space = 0.0 if word.close else _SPACE
    return space + sum(2.0 if is_cjk(c) else _WIDTHS.get(c, 1.25 if c.isupper() else 1.0) for c in word.text)


def _stop(sums: Sequence[float], start: int, share: float, ends: Sequence[int]) -> int:
    """Where a line ends that begins with the word `start` and takes such a share of what is left."""
    length = share * (sums[-1] - sums[start])
    target = sums[start] + length
    near = [end for end in ends[:-1] if end > start and abs(sums[end] - target) <= _SNAP * length]
    choices = near or range(start, len(sums))
    return min(choices, key=lambda n: abs(sums[n] - target))


def _lined(block: Block, number: int, words: Sequence[_Said], placed: Sequence[tuple[Place, range]]) -> Block:
    """A block with its lines. Of a line that several blocks share each has its part."""
    lines = []
    for place, span in placed:
        own = [n for n in span if words[n].block == number]
        if own:
            lines.append(_line(block, place, [words[n] for n in own], _share(words, span, own)))
    return replace(block, lines=tuple(lines))


def _share(words: Sequence[_Said], span: range, own: Sequence[int]) -> tuple[float, float]:
    """From where to where the words of a line are its own, 0..1 from its left."""
    sums = [0, *accumulate(words[n].letters for n in span)]
    start, end = sums[own[0] - span.start] / sums[-1], sums[own[-1] + 1 - span.start] / sums[-1]
    return (1 - end, 1 - start) if is_rtl("".join(words[n].text for n in span)) else (start, end)


def _line(block: Block, place: Place, said: Sequence[_Said], share: tuple[float, float]) -> Line:
    text = "".join(word.text if word.close else f" {word.text}" for word in said).strip()
    box, known, texts = place.box, place.line.words if place.line else (), text.split()
    box = replace(box, l=box.l + share[0] * place.box.width, r=box.l + share[1] * place.box.width)
    measured = share == (0.0, 1.0) and len(known) == len(texts)
    words = tuple(Word(text, word.box) for text, word in zip(texts, known, strict=True)) if measured else ()
    return Line(text, box, words, confidence=block.confidence, source=block.source)
