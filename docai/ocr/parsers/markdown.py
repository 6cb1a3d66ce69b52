"""Markdown as models write it, with tables in HTML or LaTeX and formulas in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from docai.ocr.parsers import Element
from docai.ocr.parsers.inline import inline
from docai.ocr.parsers.plain import joined
from docai.ocr.parsers.tables import html_table, is_ruler, latex_table, pipe_table
from docai.types import Box, Label

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})\s*([\w-]*)\s*$")
_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(\s*)([-*+•◦▪●○]|\(?\d{1,3}[.)]|\[\d{1,3}\])\s+(?=\S)")
_NOTE = re.compile(r"^\s{0,3}\[\^([^\]\s]{1,20})\]:\s*")
_RULE = re.compile(r"^\s{0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,}|={3,})$")
_QUOTE = re.compile(r"^\s{0,3}>\s?")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PICTURE = re.compile(r"^\s*(?:!\[[^\]]*\]\([^)]*\)|<img\b[^>]*>|<figure\b.*|</figure>)\s*$", re.IGNORECASE)
_WRAPPERS = ("", "markdown", "md", "html", "latex", "tex", "text")
# Where a formula that stands by itself begins, and what ends it.
_MATH = re.compile(r"^\s*(?:(\$\$)|(\\\[)|\\begin\{((?:equation|align|gather|multline|eqnarray|displaymath)\*?)\})")
_TABULAR = re.compile(r"^\s*\\begin\{(table\*?|tabular[xy*]?|longtable)\}")
_LONGEST = 400  # lines of a formula


def parse(answer: str, box: Box) -> list[Element]:
    """The parts of an answer in order."""
    return list(_Reader(_COMMENT.sub("", unwrapped(answer)).split("\n"), box).parts())


def unwrapped(answer: str) -> str:
    """An answer without a fence around all of it, which some models put there."""
    text = answer.strip().replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    opened = _FENCE.match(lines[0])
    if opened is None or opened[2].lower() not in _WRAPPERS or len(lines) < 2:
        return text
    if opened[2].lower() in ("", "latex", "tex") and not _looks_marked(lines[1:]):
        return text  # code, or a formula
    last = lines[-1].strip() == opened[1]
    inner = lines[1 : len(lines) - last]
    return text if any(line.strip() == opened[1] for line in inner) else "\n".join(inner)


def _looks_marked(lines: list[str]) -> bool:
    return any(_HEADING.match(line) or is_ruler(line) or "<table" in line or _TABULAR.match(line) for line in lines)


@dataclass(slots=True)
class _Reader:
    """Goes through the lines; each kind of part takes the lines that are its own."""

    lines: list[str]
    box: Box
    at: int = 0

    def parts(self) -> Iterator[Element]:
        kinds: tuple[Callable[[str], list[Element] | None], ...] = (
            self._nothing, self._code, self._html, self._latex, self._formula, self._pipes, self._heading, self._note,
            self._item, self._paragraph,
        )  # fmt: skip
        while self.at < len(self.lines):
            line = self.lines[self.at]
            yield from next(found for kind in kinds if (found := kind(line)) is not None)

    def _nothing(self, line: str) -> list[Element] | None:
        if line.strip() and not _PICTURE.match(line) and not _RULE.match(line):
            return None
        self.at += 1
        return []

    def _code(self, line: str) -> list[Element] | None:
        opened = _FENCE.match(line)
        if opened is None:
            return None
        body = self._until(lambda text: text.strip().startswith(opened[1]) and not text.strip().strip(opened[1][0]))
        if opened[2].lower() in ("math", "latex", "tex") and body:
            return [Element(Label.FORMULA, bare_formula("\n".join(body)))]
        return [Element(Label.CODE, "\n".join(body).strip("\n"))] if any(map(str.strip, body)) else []

    def _until(self, ends: Callable[[str], bool]) -> list[str]:
        """The lines up to one that ends them, which is passed over, too."""
        start = self.at + 1
        stop = next((n for n in range(start, len(self.lines)) if ends(self.lines[n])), len(self.lines))
        self.at = stop + 1
        return self.lines[start:stop]

    def _html(self, line: str) -> list[Element] | None:
        if not re.match(r"\s*<table\b", line, re.IGNORECASE):
            return None
        return self._enclosed(re.compile(r"</table\s*>", re.IGNORECASE), self._html_table)

    def _html_table(self, markup: str) -> list[Element]:
        caption = re.search(r"<caption\b[^>]*>(.*?)</caption>", markup, re.DOTALL | re.IGNORECASE)
        found = [_text(Label.CAPTION, joined(re.sub(r"<[^>]*>", "", caption[1])))] if caption else []
        table = html_table(markup, self.box)
        return [*found, *([Element(Label.TABLE, table=table)] if table else [])]

    def _latex(self, line: str) -> list[Element] | None:
        found = _TABULAR.match(line)
        if found is None:
            return None
        return self._enclosed(re.compile(rf"\\end\{{{re.escape(found[1])}\}}"), self._latex_table)

    def _latex_table(self, text: str) -> list[Element]:
        table = latex_table(text, self.box)
        caption = re.search(r"\\caption\{([^{}]*)\}", text)
        said = [_text(Label.CAPTION, joined(caption[1]))] if caption else []
        return [*said, *([Element(Label.TABLE, table=table)] if table else [_text(Label.TEXT, joined(text))])]

    def _enclosed(self, end: re.Pattern[str], made: Callable[[str], list[Element]]) -> list[Element]:
        """What is made of the text up to an end, which may stand within a line; the rest of that line follows."""
        taken = ""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            found = end.search(line)
            if found is None:
                taken += line + "\n"
                self.at += 1
                continue
            self.lines[self.at] = line[found.end() :]
            return made(taken + line[: found.end()])
        return made(taken)

    def _formula(self, line: str) -> list[Element] | None:
        opened = _MATH.match(line)
        if opened is None:
            return None
        end = "$$" if opened[1] else "\\]" if opened[2] else f"\\end{{{opened[3]}}}"
        inner = line[opened.end() :]
        rest = self.lines[self.at + 1 : self.at + _LONGEST]
        body = "\n".join([inner, *rest])
        stop = body.find(end)
        if stop < 0:  # cut off, or no formula at all
            body, stop = inner, len(inner)
        taken, left = body[:stop], body[stop + len(end) :].split("\n")[0]
        self.at += taken.count("\n") + 1
        if re.fullmatch(r"\s*\(?\w{0,4}(?:\.\w{1,3})*\)?[.,;]?\s*", left):  # a number, or a stop behind it
            left = ""
        after = [_text(Label.TEXT, left.strip())] if left.strip() else []
        environment = f"\\begin{{{opened[3]}}}{taken}{end}" if opened[3] else taken
        return [Element(Label.FORMULA, bare_formula(environment)), *after] if taken.strip() else after

    def _pipes(self, line: str) -> list[Element] | None:
        following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        if "|" not in line or not is_ruler(following):
            return None
        stop = self.at + 2
        while stop < len(self.lines) and "|" in self.lines[stop]:
            stop += 1
        lines, self.at = self.lines[self.at : stop], stop
        table = pipe_table(lines, self.box)
        return [Element(Label.TABLE, table=table)] if table else []

    def _heading(self, line: str) -> list[Element] | None:
        found = _HEADING.match(line)
        if found is None:
            return None
        self.at += 1
        level = len(found[1])
        text = re.sub(r"^(\*\*|__)(.*)\1$", r"\2", found[2])
        return [_text(Label.TITLE if level == 1 else Label.HEADING, text, level=level)] if text else []

    def _note(self, line: str) -> list[Element] | None:
        found = _NOTE.match(line)
        if found is None:
            return None
        return [_text(Label.FOOTNOTE, joined("\n".join([line[found.end() :], *self._more()])), marker=found[1])]

    def _item(self, line: str) -> list[Element] | None:
        found = _ITEM.match(line)
        if found is None:
            return None
        level = len(found[1].expandtabs(4)) // 2
        text = joined("\n".join([line[found.end() :], *self._more()]))
        return [_text(Label.LIST_ITEM, text, level=level or None, marker=found[2])]

    def _paragraph(self, line: str) -> list[Element] | None:
        lines = [_QUOTE.sub("", text) for text in (line, *self._more())]
        parts, start = [], 0
        for n, text in enumerate(lines, 1):  # two blanks or a backslash end a line for good
            if text.endswith(("  ", "\\")) or n == len(lines):
                parts.append(joined("\n".join(lines[start:n]).rstrip("\\")))
                start = n
        return [_text(Label.TEXT, "\n".join(filter(None, parts)))]

    def _more(self) -> list[str]:
        """The lines that go on with the one here."""
        start = self.at = self.at + 1
        while self.at < len(self.lines) and not self._begins(self.at):
            self.at += 1
        return self.lines[start : self.at]

    def _begins(self, at: int) -> bool:
        line = self.lines[at]
        following = self.lines[at + 1] if at + 1 < len(self.lines) else ""
        marks = (_FENCE, _HEADING, _ITEM, _NOTE, _PICTURE, _RULE, _MATH, _TABULAR)
        return (
            not line.strip()
            or any(mark.match(line) for mark in marks)
            or re.match(r"\s*<table\b", line, re.IGNORECASE) is not None
            or ("|" in line and is_ruler(following))
        )


def _text(label: Label, text: str, *, level: int | None = None, marker: str = "") -> Element:
    said, spans = inline(text)
    return Element(label, said, spans, level=level, marker=marker)


def bare_formula(text: str) -> str:
    """LaTeX without the marks that say that it is a formula."""
    text = text.strip()
    for begins, ends in (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")):
        if len(text) > len(begins) + len(ends) - 1 and text.startswith(begins) and text.endswith(ends):
            inner = text[len(begins) : -len(ends)]
            if begins not in inner:
                return inner.strip()
    return re.sub(r"^\\begin\{(equation|displaymath)(\*?)\}\s*(.*?)\s*\\end\{\1\2\}$", r"\3", text, flags=re.DOTALL)
