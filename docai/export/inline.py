"""Running text in markdown: what has to be escaped, emphasis, raised characters, links, footnote references."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from docai.export.footnotes import Reference
from docai.export.runs import Run, runs, web_link
from docai.types import Span, Style

_SPECIAL = re.compile(
    r"(?P<backslash>\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<run>\*+|_+)"
    r"|(?P<tag><(?=[A-Za-z/!?]))"
    r"|(?P<entity>&(?=#?\w{1,31};))"
    r"|(?P<bracket>\[(?=\^|[^\[\]]*\](?:\(|\[|:\s)))"
    r"|(?P<strike>~~+)"
)
_MARK = re.compile(r"[\\*_<&\[~]")  # begins all of these: text without one is soon seen to be plain
_MATH = re.compile(r"\$(?=\S)([^$\n]*[^\s$])\$(?!\d)")
_LINE_START = re.compile(r"^(#{1,6}(?=\s|$)|>|[+*](?=\s)|(?:=+|-+|_{3,}|\*{3,})(?=\s*$)|```|~~~)")
_RAISED = str.maketrans("0123456789+-=()ni−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ⁻")
_LOWERED = str.maketrans("0123456789+-=()−", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎₋")
_WORD = re.compile(r"[^\W_]{2}|[\u3040-\u30ff\u3400-\u9fff]")
_BLANK = 4  # as many stars or underscores are a line to fill in, not emphasis


def escape(text: str) -> str:
    """Text with escapes where markdown would read something else; not on every dot and hyphen."""
    marked = _SPECIAL.sub(_escaped, text) if _MARK.search(text) else text
    if marked.count("`") > 1:
        marked = marked.replace("`", "\\`")
    return _MATH.sub(r"\\$\1\\$", marked)


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    match match.lastgroup:
        case "tag":
            return "&lt;"
        case "entity":
            return "&amp;"
        case "run" if not _could_emphasise(match.string, *match.span()):
            return found
    return "".join("\\" + c for c in found)


def _could_emphasise(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start] or " ", text[end : end + 1] or " "
    if end - start >= _BLANK or (before.isspace() and after.isspace()):
        return False
    return text[start] == "*" or not (before.isalnum() and after.isalnum())


def escape_start(line: str) -> str:
    """A line of a paragraph that does not start a heading, quote, list, rule or fence by accident."""
    return _LINE_START.sub(r"\\\1", line.lstrip())


def inline(text: str, spans: Sequence[Span] = (), references: Sequence[Reference] = ()) -> str:
    """A block's text as markdown, in one line for each of its own."""
    cuts = [edge for ref in references for edge in (ref.start, ref.end)]
    out = ""
    for group in _by_link(runs(text, spans, cuts)):
        link = web_link(group[0].link) if group[0].link else None
        said = out if link is None else ""
        for run in group:
            said += _run(run, said or out, text[run.end : run.end + 1], references)
        out = said if link is None else out + _linked(said, link)
    return "  \n".join(escape_start(line.rstrip()) for line in out.split("\n"))


def _by_link(parts: Sequence[Run]) -> list[list[Run]]:
    """Neighbouring runs of one link together."""
    groups: list[list[Run]] = []
    for run in parts:
        if groups and groups[-1][0].link == run.link:
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def _run(run: Run, before: str, after: str, references: Sequence[Reference]) -> str:
    for ref in references:
        if ref.start <= run.start and run.end <= ref.end:
            return f"[^{ref.name}]" if run.start == ref.start else ""
    core = run.text.strip()
    if not core or not run.styles:
        return escape(run.text)
    lead = run.text[: len(run.text) - len(run.text.lstrip())]
    trail = run.text[len(run.text.rstrip()) :]
    return lead + _styled(core, run.styles, (before + lead)[-1:], (trail + after)[:1]) + trail


def _styled(core: str, styles: frozenset[Style], before: str, after: str) -> str:
    if "code" in styles:
        return _code(core)
    if "math" in styles:
        return _math(core)
    if "superscript" in styles:
        return _shifted(core, _RAISED, "sup")
    if "subscript" in styles:
        return _shifted(core, _LOWERED, "sub")
    return _emphasised(core, styles, before, after)


def _math(latex: str) -> str:
    """LaTeX within a line; nothing in it can open a tag or end it early."""
    one_line = re.sub(r"(?<!\\)\$", r"\\$", " ".join(latex.split()))
    return f"${re.sub(r'<(?=[A-Za-z/!?])', '< ', one_line)}$"


def _code(text: str) -> str:
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence, pad = "`" * (longest + 1), " " if "`" in text else ""
    return fence + pad + text.replace("\n", " ") + pad + fence


def _shifted(text: str, table: dict[int, int], tag: str) -> str:
    """Raised or lowered characters: as characters of their own where there are such, else in a tag."""
    return text.translate(table) if all(ord(c) in table for c in text) else f"<{tag}>{escape(text)}</{tag}>"


def _emphasised(core: str, styles: frozenset[Style], before: str, after: str) -> str:
    """Stars where markdown takes them for emphasis, tags where it would not (CommonMark's flanking rules).

    Signs and single letters stay plain: slanted variables are a matter of type, not of emphasis.
    """
    bold, italic = "bold" in styles, "italic" in styles
    body = escape(core)
    if not (bold or italic) or not _WORD.search(core):
        return body
    if _flanked(before, body[0]) and _flanked(after, body[-1]) and before != "*" and after != "*":
        stars = "**" * bold + "*" * italic
        return stars + body + stars
    body = f"<i>{body}</i>" if italic else body
    return f"<b>{body}</b>" if bold else body


def _flanked(outside: str, inside: str) -> bool:
    outside_ends = not outside or outside.isspace() or outside in string.punctuation
    return outside_ends and (inside not in string.punctuation or not outside or outside.isspace())


def _linked(said: str, link: str) -> str:
    """A link around a text; an address that is its own text links itself."""
    core = said.strip()
    if not core or _same_address(core, link):
        return said
    lead, trail = said[: len(said) - len(said.lstrip())], said[len(said.rstrip()) :]
    target = re.sub(r"[\s<>()\[\]\\\"]", lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), link)
    if bracketed := re.fullmatch(r"\\?\[([^\[\]]*?)\\?\]", core):
        return f"{lead}\\[[{bracketed[1]}]({target})\\]{trail}"
    inner = core.replace("\\[", "[").replace("[", "\\[").replace("\\]", "]").replace("]", "\\]").replace("\n", " ")
    return f"{lead}[{inner}]({target}){trail}"


def _same_address(text: str, link: str) -> bool:
    def bare(address: str) -> str:
        return re.sub(r"^(?:https?://|mailto:)", "", address.replace("\\", "").casefold()).rstrip("/")

    return bare(text) == bare(link) and ("@" in text or "://" in text or text.startswith("www."))
