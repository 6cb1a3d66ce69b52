"""Markdown in which titles, sections, lists and notes are LaTeX's, as Mathpix and GOT-OCR write it.

Such commands become markdown's own marks line by line; formulas and tabulars are left as they are, for the parser of
markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from docai.ocr.parsers import Element
from docai.ocr.parsers.markdown import parse as parse_markdown
from docai.ocr.parsers.markdown import unwrapped
from docai.ocr.parsers.plain import joined
from docai.ocr.parsers.tables import end_of_group
from docai.types import Box

_LEVELS = {"title": 1, "part": 2, "chapter": 2, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
_COMMAND = re.compile(
    rf"^[ \t]*\\(?P<name>{'|'.join(_LEVELS)}|author|date|footnotetext|footnote|caption)\*?[ \t]*"
    r"(?:\[[^\]\n]*\])?(?=\{)",
    re.MULTILINE,
)
# Environments whose lines are text like any other.
_PLAIN = r"abstract|document|figure\*?|center|quote|quotation|flushleft|flushright|itemize|enumerate|description"
_EDGE = re.compile(rf"^[ \t]*\\(?P<edge>begin|end)\{{(?P<name>{_PLAIN})\}}(?:\[[^\]\n]*\])?[ \t]*", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*\\item(?![a-zA-Z])[ \t]*(?:\[(?P<mark>[^\]\n]*)\])?[ \t]*", re.MULTILINE)
_NOTHING = re.compile(
    r"^[ \t]*\\(?:maketitle|centering|newpage|clearpage|noindent|includegraphics\b.*|label\{[^{}\n]*\})[ \t]*$",
    re.MULTILINE,
)
# What is not to be touched: formulas that stand by themselves, tables.
_KEPT = re.compile(
    r"\\\[.*?(?:\\\]|\Z)|\$\$.*?(?:\$\$|\Z)"
    r"|\\begin\{(?P<env>table\*?|tabular[xy*]?|longtable|equation\*?|align\*?|gather\*?|multline\*?|eqnarray\*?)\}"
    r".*?(?:\\end\{(?P=env)\}|\Z)",
    re.DOTALL,
)
_MARK = re.compile(
    r"^(?:\\\(\s*)?(?:\{\s*\}\s*)?\^\s*(?:\{\s*(?P<long>[^{}]{1,20}?)\s*\}|(?P<short>\w))\s*(?:\\\))?\s*"
)


def parse(answer: str, box: Box) -> list[Element]:
    """The parts of an answer in order."""
    return parse_markdown(markdown(unwrapped(answer)), box)


def markdown(text: str) -> str:
    """The text with markdown's marks in the place of commands."""
    return "".join(part if kept else _translated(part) for part, kept in _parts(text))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Stretches of text, and whether they are to be left alone."""
    at = 0
    for found in _KEPT.finditer(text):
        yield text[at : found.start()], False
        yield found[0], True
        at = found.end()
    yield text[at:], False


def _translated(text: str) -> str:
    text = _NOTHING.sub("", _listed(text))
    out, at = "", 0
    while found := _COMMAND.search(text, at):
        end = end_of_group(text, found.end())
        inner = text[found.end() + 1 : end - 1] if text[end - 1 : end] == "}" else text[found.end() + 1 : end]
        out += text[at : found.start()] + _COMMANDS.get(found["name"], _heading)(found["name"], inner.strip()) + "\n\n"
        at = end
    return out + text[at:]


def _heading(name: str, inner: str) -> str:
    said = " ".join(joined(inner.replace(r"\\", " ")).split())
    return f"{'#' * _LEVELS[name]} {said}" if said else ""


def _note(_: str, inner: str) -> str:
    mark = _MARK.match(inner)
    said = joined(inner[mark.end() :] if mark else inner)
    return f"[^{(mark['long'] or mark['short']) if mark else '*'}]: {said}" if said else ""


def _lines(_: str, inner: str) -> str:
    """Lines that stay apart: names of authors, and where they are."""
    lines = [line.strip() for line in re.split(r"\\\\|\n", inner)]
    return "  \n".join(filter(None, lines))


_COMMANDS: dict[str, Callable[[str, str], str]] = {
    "author": _lines,
    "date": _lines,
    "footnotetext": _note,
    "footnote": _note,
}
_COMMANDS["caption"] = lambda _, inner: joined(inner)


def _listed(text: str) -> str:
    """Items with the marks of their lists, and nothing left of the environments around."""
    out, at, lists = "", 0, list[list[int | None]]()
    edges = sorted((*_EDGE.finditer(text), *_ITEM.finditer(text)), key=lambda found: found.start())
    for found in edges:
        out += text[at : found.start()]
        at = found.end()
        if found.re is _ITEM:
            out += _item(found["mark"], lists)
        elif found["name"] in ("itemize", "enumerate", "description"):
            if found["edge"] == "begin":
                lists.append([0 if found["name"] == "enumerate" else None])
            elif lists:
                lists.pop()
    return out + text[at:]


def _item(mark: str | None, lists: list[list[int | None]]) -> str:
    """The mark of an item: its own, the next number, or a dash; deeper ones further in."""
    inner = lists[-1] if lists else [None]
    if inner[0] is not None:
        inner[0] += 1
    indent = "  " * max(0, len(lists) - 1)
    own = (mark or "").strip()
    if own and not re.fullmatch(r"[-*+•◦▪●○]|\(?\d{1,3}[.)]|\[\d{1,3}\]", own):
        return f"{indent}- {own} "
    return f"{indent}{own or ('-' if inner[0] is None else f'{inner[0]}.')} "
