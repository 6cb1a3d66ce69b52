"""Running text of markdown: marks of emphasis, code, links, formulas and raised characters become spans."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from docai.types import Span, Style

_TOKEN = re.compile(
    r"(?P<math>\$(?=\S)(?:\\.|[^$\\\n])+?(?<=\S)\$(?!\d)|\\\([\s\S]{1,500}?\\\))"
    r"|(?P<escaped>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>(?P<ticks>`+)(?!`)[\s\S]{1,500}?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<picture>!\[(?P<alt>[^\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\))"
    r"|(?P<link>\[(?P<said>(?:\\.|[^\[\]\\])+)\]\((?P<target>[^()\s]+)(?:\s+\"[^\"]*\")?\))"
    r"|(?P<raised><(?P<tag>su[bp])>(?P<small>[^<]*)</(?P=tag)>)"
    r"|(?P<tagged></?(?:b|i|strong|em|u|span|font|mark)\b[^<>]*>)"
    r"|(?P<broken><br\s*/?>)"
    r"|(?P<stars>\*{1,3}|_{1,3}(?!_))"
)
_TAGS: dict[str, Style] = {"b": "bold", "strong": "bold", "i": "italic", "em": "italic"}
_STYLES: dict[int, tuple[Style, ...]] = {1: ("italic",), 2: ("bold",), 3: ("bold", "italic")}


@dataclass(slots=True)
class _Open:
    """A mark that may begin emphasis: its characters stay in the text until their like is found."""

    mark: str
    place: int  # in the parts


@dataclass(slots=True)
class _Writer:
    """Text as it grows, in parts, and the spans over it. Marks are taken out once they are closed."""

    parts: list[str] = field(default_factory=list)
    spans: list[tuple[int, int, Style | None, str | None]] = field(default_factory=list)  # places in the parts
    opened: list[_Open] = field(default_factory=list)

    def add(self, text: str, style: Style | None = None, link: str | None = None) -> None:
        self.parts.append(text)
        if style or link:
            self.spans.append((len(self.parts) - 1, len(self.parts), style, link))

    def close(self, mark: str) -> bool:
        """End the emphasis that this mark began, where it did."""
        at = next((n for n in reversed(range(len(self.opened))) if self.opened[n].mark == mark), None)
        if at is None or self.opened[at].place + 1 == len(self.parts):
            return False
        start = self.opened[at].place
        styles = _STYLES[len(mark)] if mark[0] in "*_" else (_TAGS[mark],)
        self.parts[start] = ""
        for style in styles:
            self.spans.append((start, len(self.parts), style, None))
        del self.opened[at:]
        return True

    def finished(self) -> tuple[str, tuple[Span, ...]]:
        starts = [0]
        for part in self.parts:
            starts.append(starts[-1] + len(part))
        found = (Span(starts[a], starts[b], style, link) for a, b, style, link in self.spans if starts[a] < starts[b])
        return "".join(self.parts), tuple(sorted(found, key=lambda span: (span.start, -span.end)))


def inline(text: str) -> tuple[str, tuple[Span, ...]]:
    """The text without its marks, and what they said of it."""
    writer = _Writer()
    at = 0
    for found in _TOKEN.finditer(text):
        writer.add(html.unescape(text[at : found.start()]))
        _token(writer, found)
        at = found.end()
    writer.add(html.unescape(text[at:]))
    return writer.finished()


def _token(writer: _Writer, found: re.Match[str]) -> None:
    match found.lastgroup:
        case "escaped":
            writer.add(found[0][1])
        case "math":
            writer.add(found[0].strip("$").removeprefix("\\(").removesuffix("\\)").strip(), "math")
        case "code":
            writer.add(found["code"].strip("`").strip(), "code")
        case "picture":
            pass
        case "link":
            _link(writer, found)
        case "raised":
            writer.add(html.unescape(found["small"]), "superscript" if found["tag"] == "sup" else "subscript")
        case "tagged":
            _tag(writer, found[0])
        case "broken":
            writer.add("\n")
        case _:
            _stars(writer, found)


def _link(writer: _Writer, found: re.Match[str]) -> None:
    said, spans = inline(found["said"])
    start = len(writer.parts)
    for piece, style in _styled(said, spans):
        writer.add(piece, style)
    writer.spans.append((start, len(writer.parts), None, html.unescape(found["target"])))


def _styled(text: str, spans: tuple[Span, ...]) -> Iterator[tuple[str, Style | None]]:
    """A text in pieces of one style each; of styles within styles the outer one."""
    at = 0
    for span in spans:
        if span.start >= at:
            yield text[at : span.start], None
            yield text[span.start : span.end], span.style
            at = span.end
    yield text[at:], None


def _tag(writer: _Writer, tag: str) -> None:
    name = re.sub(r"[</>\s].*$", "", tag.lstrip("</")).lower()
    if name not in _TAGS:
        return
    if tag.startswith("</"):
        writer.close("strong" if _TAGS[name] == "bold" else "em")
    else:
        writer.opened.append(_Open("strong" if _TAGS[name] == "bold" else "em", len(writer.parts)))
        writer.add("")


def _stars(writer: _Writer, found: re.Match[str]) -> None:
    mark, text = found[0], found.string
    before, after = text[found.start() - 1 : found.start()] or " ", text[found.end() : found.end() + 1] or " "
    opens, closes = not after.isspace(), not before.isspace()
    if mark[0] == "_":  # snake_case is none
        opens, closes = opens and not before.isalnum(), closes and not after.isalnum()
    if closes and writer.close(mark):
        return
    if opens:
        writer.opened.append(_Open(mark, len(writer.parts)))
    writer.add(mark)
