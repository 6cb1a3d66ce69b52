"""What models write becomes the parts of a document, slips and all."""

from __future__ import annotations

import time

import pytest

from docai.ocr.parsers import PARSERS, Element, get_parser
from docai.ocr.parsers.inline import inline
from docai.ocr.parsers.markdown import bare_formula, parse
from docai.ocr.parsers.tables import html_table, latex_table, pipe_table
from docai.types import Box, Cell, Label, Span, Table

BOX = Box(10.0, 20.0, 110.0, 220.0)


def grid(table: Table | None) -> list[list[str]]:
    """Texts by row and column; '<' and '^' where a cell spans to the right and down."""
    assert table is not None
    rows = [["" for _ in range(table.cols)] for _ in range(table.rows)]
    for cell in table.cells:
        for r in range(cell.rowspan):
            for c in range(cell.colspan):
                assert rows[cell.row + r][cell.col + c] == "", "cells overlap"
                rows[cell.row + r][cell.col + c] = cell.text if not r and not c else "^" if not c else "<"
    return rows


def shown(elements: list[Element]) -> list[tuple[str, str]]:
    return [(e.label.value, "|".join("/".join(row) for row in grid(e.table)) if e.table else e.text) for e in elements]


PAGE = """\
# The title

Some *running* text, which was bro-
ken over lines and
goes on.

## 2. A heading ##

- first item
  goes on
  - nested
- second

1. one
2) two

| a | b |
|---|:-:|
| 1 | **2** |

$$
E = mc^2
$$ (3)

```python
print("# no heading")
```

[^1]: A note.

![A picture](data:,x)

---
<table><tr><td>x</td></tr></table> after it
"""


def test_a_page_of_markdown() -> None:
    assert shown(parse(PAGE, BOX)) == [
        ("title", "The title"),
        ("text", "Some running text, which was broken over lines and goes on."),
        ("heading", "2. A heading"),
        ("list_item", "first item goes on"),
        ("list_item", "nested"),
        ("list_item", "second"),
        ("list_item", "one"),
        ("list_item", "two"),
        ("table", "a/b|1/2"),
        ("formula", "E = mc^2"),
        ("code", 'print("# no heading")'),
        ("footnote", "A note."),
        ("table", "x"),
        ("text", "after it"),
    ]
    found = parse(PAGE, BOX)
    assert [e.level for e in found[:6]] == [1, None, 2, None, 1, None]
    assert [e.marker for e in found if e.marker] == ["-", "-", "-", "1.", "2)", "1"]
    table = found[8].table
    assert table is not None
    assert [c.header for c in table.cells] == [True, True, False, False]
    assert {c.box for c in table.cells} == {BOX}


@pytest.mark.parametrize("fence", ["```markdown\n{}\n```", "```\n{}\n```", "~~~md\n{}\n~~~", "```markdown\n{}"])
def test_a_fence_around_everything_is_taken_off(fence: str) -> None:
    assert shown(parse(fence.format("# A\n\nb"), BOX)) == [("title", "A"), ("text", "b")]


def test_code_stays_code() -> None:
    assert shown(parse("```\nx = 1\n```", BOX)) == [("code", "x = 1")]
    assert shown(parse("```\nx = 1", BOX)) == [("code", "x = 1")]  # cut off
    assert parse("```\n```", BOX) == []


@pytest.mark.parametrize(
    ("answer", "formula"),
    [
        ("$$x$$", "x"),
        ("\\[ x + y \\]", "x + y"),
        ("\\begin{equation}\nx\n\\end{equation}", "x"),
        ("\\begin{align*}\na &= b \\\\\nc &= d\n\\end{align*}", "\\begin{align*}\na &= b \\\\\nc &= d\n\\end{align*}"),
        ("```latex\nx^2\n```", "x^2"),
        ("$$ a \\tag{1} $$.", "a \\tag{1}"),
    ],
)
def test_formulas_that_stand_alone(answer: str, formula: str) -> None:
    assert shown(parse(answer, BOX)) == [("formula", formula)]


@pytest.mark.parametrize("marked", ["$$x$$", "$x$", "\\[x\\]", "\\(x\\)", " x ", "\\begin{equation*}x\\end{equation*}"])
def test_bare_formulas(marked: str) -> None:
    assert bare_formula(marked) == "x"


def test_formulas_that_nothing_ends_take_their_line_only() -> None:
    assert shown(parse("$$ x = 1\n\nand text", BOX)) == [("formula", "x = 1"), ("text", "and text")]


def test_lines_that_end_for_good() -> None:
    assert parse("12 High Street  \nTown\\\nCountry", BOX)[0].text == "12 High Street\nTown\nCountry"
    assert parse("> quoted\n> text", BOX)[0].text == "quoted text"
    assert parse("中文\n没有空格", BOX)[0].text == "中文没有空格"


def test_nothing_is_nothing() -> None:
    assert parse("", BOX) == parse(" \n\n", BOX) == parse("<!-- image -->", BOX) == parse("![](x.png)", BOX) == []


# --- inline


@pytest.mark.parametrize(
    ("text", "said", "spans"),
    [
        ("a **b** c", "a b c", [(2, 3, "bold")]),
        ("***x*** _y_", "x y", [(0, 1, "bold"), (0, 1, "italic"), (2, 3, "italic")]),
        ("2 * 3 * 4, snake_case_name, **open", "2 * 3 * 4, snake_case_name, **open", []),
        ("`a*b*` and $x_1$ costs $5 or $6", "a*b* and x_1 costs $5 or $6", [(0, 4, "code"), (9, 12, "math")]),
        ("\\(a\\)", "a", [(0, 1, "math")]),
        ("\\*no\\* 1 &lt; 2 &amp; 3", "*no* 1 < 2 & 3", []),
        ("x<sup>2</sup> H<sub>2</sub>O", "x2 H2O", [(1, 2, "superscript"), (4, 5, "subscript")]),
        ("<b>k</b> <strong>s</strong> <u>u</u>", "k s u", [(0, 1, "bold"), (2, 3, "bold")]),
        ("one<br>two", "one\ntwo", []),
        ("____ and ** **", "____ and ** **", []),
    ],
)
def test_marks_become_spans(text: str, said: str, spans: list[tuple[int, int, str]]) -> None:
    found, styled = inline(text)
    assert found == said
    assert sorted((s.start, s.end, s.style) for s in styled) == sorted(spans)


def test_links() -> None:
    text, spans = inline("see [the **page**](https://a.b/c) and ![pic](x)!")
    assert text == "see the page and !"
    assert set(spans) == {Span(8, 12, "bold"), Span(4, 12, None, "https://a.b/c")}


# --- tables


def test_html_tables_keep_spans_and_heads() -> None:
    table = html_table(
        "<table><thead><tr><th rowspan=2>A</th><th colspan='2'>B</th></tr><tr><td>c</td><td>d</td></tr></thead>"
        "<tbody><tr><td>1</td><td>x<br>y &amp; z</td><td></td></tr></tbody></table><p>after</p>",
        BOX,
    )
    assert grid(table) == [["A", "B", "<"], ["^", "c", "d"], ["1", "x\ny & z", ""]]
    assert table is not None
    assert table.header_rows == 2
    assert table.cells[0] == Cell(0, 0, "A", BOX, 2, 1, True)


@pytest.mark.parametrize(
    "markup",
    [
        "<table><tr><td>a<td>b<tr><td>c<td>d</table>",
        "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d",
        "<TABLE border=1><TR><TD>a</TD><TD>b</TD></TR>\n<TR><TD>c</TD><TD>d</TD></TR></TABLE>",
        "<table><tr><td>a</td><td><b>b</b></td></tr></tr><tr><td><p>c</p></td><td>d</td></tr></table>",
        "<table><td>a</td><td>b</td><tr><td>c</td><td>d</td></tr></table>",
    ],
)
def test_html_tables_however_broken(markup: str) -> None:
    assert grid(html_table(markup, BOX)) == [["a", "b"], ["c", "d"]]


def test_tables_in_cells_are_text() -> None:
    inner = "<table><tr><td>b</td><td>c</td></tr></table>"
    assert grid(html_table(f"<table><tr><td>a{inner}</td><td>d</td></tr></table>", BOX)) == [["a b c", "d"]]


def test_spans_do_not_overlap_and_end_with_the_table() -> None:
    table = html_table(
        "<table><tr><td rowspan=9>a</td><td rowspan=2>b</td></tr><tr><td colspan=5>c</td></tr></table>", BOX
    )
    assert grid(table) == [["a", "b", "", "", "", "", ""], ["^", "^", "c", "<", "<", "<", "<"]]
    huge = html_table("<table><tr><td rowspan=99999 colspan=99999>a</td></tr></table>", BOX)
    assert huge is not None
    assert (huge.rows, huge.cols) == (1, 512)


@pytest.mark.parametrize("empty", ["", "<table></table>", "<table><tr><td> </td></tr></table>", "no table"])
def test_tables_of_nothing_are_none(empty: str) -> None:
    assert html_table(empty, BOX) is None
    assert latex_table(empty, BOX) is None


def test_pipe_tables() -> None:
    lines = ["| a \\| b | `c` |", "| --- | --- |", "|1|2<br>3|", "x | y |"]
    assert grid(pipe_table(lines, BOX)) == [["a | b", "c"], ["1", "2\n3"], ["x", "y"]]
    assert grid(pipe_table(["|a|", "|-|"], BOX)) == [["a"]]


def test_latex_tables() -> None:
    table = latex_table(
        "\\begin{table}\\begin{tabular}{|l|c|}\n\\hline\n\\multicolumn{2}{|c|}{\\textbf{Head}} \\\\ \\hline\n"
        "\\multirow{2}{*}{a} & $x \\& y$ \\\\\n"
        " & 5\\% \\\\[2pt] \\cline{1-2}\n{b & c} & d\\\\\n\\end{tabular}\\end{table}",
        BOX,
    )
    assert grid(table) == [["Head", "<"], ["a", "$x & y$"], ["^", "5%"], ["{b & c}", "d"]]
    assert grid(latex_table("\\begin{tabular}{ll} a & b \\\\ c & d", BOX)) == [["a", "b"], ["c", "d"]]  # cut off


def test_tables_in_an_answer() -> None:
    answer = (
        "<table><caption>Table 1: Sums</caption>\n<tr><td>a</td></tr>\n</table>\n\\begin{tabular}{l}b\\\\\\end{tabular}"
    )
    assert shown(parse(answer, BOX)) == [("caption", "Table 1: Sums"), ("table", "a"), ("table", "b")]


# --- any text at all


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "text",
    ["$$" * 3000, "**" * 5000, "<table>" * 2000, "\\begin{tabular}" * 500, "|" * 5000 + "\n|-|", "[" * 5000, "`" * 4000,
     "<td>" * 3000, "![" * 3000, "<!--" * 3000, "- " * 4000, "\\begin{align}\n" * 800, "_a_ " * 3000, "{" * 4000,
     "<table><tr>" + "<td rowspan=99 colspan=99>x" * 300, "\\multirow{9}{*}{" * 800, "$a" * 3000,
     "\\(" * 5000, "\\[" * 3000,
     "<b>" * 3000, "\x00\ud800\u202e"],
    ids=lambda text: ascii(text[:14]),
)  # fmt: skip
def test_any_answer_is_parsed_in_no_time(name: str, text: str) -> None:
    started = time.perf_counter()
    get_parser(name)(text, BOX)
    assert time.perf_counter() - started < 2.0


def test_plain_text_has_no_marks() -> None:
    found = get_parser("plain")("# not a heading\nand *no* stars\n\n\nnext", BOX)
    assert [(e.label, e.text) for e in found] == [(Label.TEXT, "# not a heading and *no* stars"), (Label.TEXT, "next")]
