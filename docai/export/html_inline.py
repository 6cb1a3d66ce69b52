"""Blocks as HTML: running text with styles and links, headings, tables, figures. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from docai.export.figures import alt_text, is_latex, is_prose
from docai.export.grid import html_table
from docai.export.markup import element, escaped
from docai.export.runs import Run, page_link, runs, web_link
from docai.types import Block, Label, Span

_TAGS = (
    ("code", "code"), ("math", "code"), ("superscript", "sup"), ("subscript", "sub"), ("italic", "em"),
    ("bold", "strong"),
)  # fmt: skip


def inline_html(text: str, spans: Sequence[Span] = ()) -> str:
    """A block's text with its styles and links, line ends as breaks."""
    return "".join(_run(run) for run in runs(text, spans))


def _run(run: Run) -> str:
    said = escaped(run.text).replace("\n", "<br>")
    for style, tag in _TAGS:
        said = f"<{tag}>{said}</{tag}>" if style in run.styles else said
    if run.link and (target := web_link(run.link)):
        return element("a", {"href": target, "rel": "noopener noreferrer nofollow"}, said)
    if run.link and (page := page_link(run.link)):
        return element("a", {"href": f"#page-{page}"}, said)
    return said


def body_html(block: Block, picture: str | None, caption: str = "") -> str:
    """What a block says. `picture` is the data URI of a figure, `caption` the element of a table's."""
    text = inline_html(block.text, block.spans)
    match block.label:
        case Label.TITLE | Label.HEADING:
            level = min(6, max(1, block.level or (1 if block.label is Label.TITLE else 2)))
            return f"<h{level}>{text}</h{level}>"
        case Label.TABLE if block.table is not None:
            return f'<div class="scroll">{html_table(block.table, caption)}</div>'
        case Label.CODE:
            return f"<pre><code>{escaped(block.text)}</code></pre>"
        case Label.FIGURE | Label.FORMULA:
            return _picture(block, picture)
    marker = f'<span class="marker">{escaped(block.marker)}</span> ' if block.marker else ""
    return f"<p>{marker}{text}</p>"


def _picture(block: Block, picture: str | None) -> str:
    if is_latex(block):
        return f'<pre class="latex"><code>{escaped(block.text)}</code></pre>'
    text = f"<p>{inline_html(block.text, block.spans)}</p>"
    if picture is None:
        return text
    labels = block.text if block.kind == "figure" and not is_prose(block) else ""
    title = f' title="{escaped(labels)}"' if labels else ""
    return f'<img src="{picture}" alt="{escaped(alt_text(block))}"{title}>' + (text if is_prose(block) else "")
