"""Markdown and plain text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.export.formats import ExportOptions, export
from docai.export.inline import inline
from docai.export.markdown import cell_markdown, display_math, fenced, table_markdown
from docai.export.text import aligned, width
from docai.types import Document, Label, Span
from tests.export_samples import Blocks, document, rich, spanned, table


def markdown(doc: Document, **options: Any) -> str:
    result = export(doc, "markdown", ExportOptions(**options))
    assert isinstance(result, str)
    return result


def test_a_document_of_everything() -> None:
    assert markdown(rich()) == (
        "# A Title\n\n## 1 Introduction\n\n**Bold** word and a [link](https://example.org/).\n\n"
        "- first\n  - inner\n- second\n\n"
        "```\nx = 1\n  y = 2\n```\n\n"
        "| Name | Sum |\n| --- | --- |\n| a\\|b | 1 |\n\n"
        "Table 1: sums\n\n"
        "Figure 1: a &lt;b>bar&lt;/b>\n\n"
        "E = mc2\n\n"
        "Noted here[^1] and goes on automatic, to its end.\n\n"
        "[^1]: The note.\n\n"
        "مرحبا بالعالم\n\n"
        "<table>\n<thead>\n"
        '<tr><th rowspan="2">Item</th><th colspan="2">Price &lt;EUR&gt;</th></tr>\n'
        "<tr><th>net</th><th>gross</th></tr>\n</thead>\n<tbody>\n"
        "<tr><td>A &amp; B</td><td>1<br>2</td><td></td></tr>\n</tbody>\n</table>\n\n"
        "$$\n\\frac{1}{2}\n$$\n"
    )


def test_furniture_and_page_breaks_where_asked_for() -> None:
    text = markdown(rich(), furniture="keep", page_breaks=True)
    assert text.startswith("<!-- page 1 -->\n\nRunning head\n\n# A Title")
    assert "\n\n1\n\n<!-- page 2 -->\n\nمرحبا" in text


def test_figures_by_reference() -> None:
    text = markdown(rich(), images="ref")
    assert "![Figure 1: a &lt;b>bar&lt;/b>](doc_images/page-1-figure-1.png)\n\nFigure 1: a" in text
    assert "![E = mc2](doc_images/page-1-formula-1.png)" in text
    assert "](a%20b/page-1-figure-1.png)" in markdown(rich(), images="ref", image_dir="a b/")


def test_figures_embedded() -> None:
    assert "](data:image/png;base64,iVBOR" in markdown(rich(), images="embed")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2. a - b. (c) 10% ~5 #1 e.g.", "2. a - b. (c) 10% ~5 #1 e.g."),
        ("snake_case_name, 5 * 3", "snake_case_name, 5 * 3"),
        ("a *b* _c_", r"a \*b\* \_c\_"),
        ("see note*", r"see note\*"),
        ("Name: ________", "Name: ________"),
        ("<script>alert(1)</script> 1 < 2", "&lt;script>alert(1)&lt;/script> 1 < 2"),
        ("R&D &amp; &lt;", "R&D &amp;amp; &amp;lt;"),
        ("# not a heading", r"\# not a heading"),
        ("> no quote", r"\> no quote"),
        ("---", r"\---"),
        ("[1] and [a](b)", r"[1] and \[a](b)"),
        (r"C:\dir \* done", r"C:\dir \\\* done"),
        ("`` a ` b", r"\`\` a \` b"),
        ("$5 and $6", "$5 and $6"),
        ("$x$ is", r"\$x\$ is"),
        ("one\n# two", "one  \n\\# two"),
    ],
)
def test_escapes_only_what_would_change_meaning(text: str, written: str) -> None:
    assert inline(text) == written


@pytest.mark.parametrize(
    ("text", "spans", "written"),
    [
        ("all bold", [Span(0, 8, "bold")], "**all bold**"),
        ("both here", [Span(0, 4, "bold"), Span(0, 4, "italic")], "***both*** here"),
        ("a bold b", [Span(1, 7, "bold")], "a **bold** b"),
        ("midword", [Span(0, 3, "bold")], "<b>mid</b>word"),
        ("a(bc)d", [Span(1, 5, "italic")], "a<i>(bc)</i>d"),
        ("let x ∈ U be", [Span(4, 9, "italic")], "let x ∈ U be"),
        ("xi", [Span(0, 2, "italic"), Span(1, 2, "subscript")], "x<sub>i</sub>"),
        ("10−3 m2", [Span(2, 4, "superscript"), Span(6, 7, "superscript")], "10⁻³ m²"),
        ("20th H2O", [Span(2, 4, "superscript"), Span(6, 7, "subscript")], "20<sup>th</sup> H₂O"),
        ("run a*b now", [Span(4, 7, "code")], "run `a*b` now"),
        ("see here.", [Span(4, 8, link="http://x.org/a b(c)")], "see [here](http://x.org/a%20b%28c%29)."),
        ("see https://x.org", [Span(4, 17, link="https://x.org/")], "see https://x.org"),
        ("as [12] says", [Span(3, 7, link="https://x.org")], r"as \[[12](https://x.org)\] says"),
        ("bad", [Span(0, 3, link="javascript:alert(1)")], "bad"),
        ("bad", [Span(0, 3, link=" java\nscript:alert(1)")], "bad"),
        ("within", [Span(0, 6, link="#page=3")], "within"),
        ("a bold link", [Span(2, 11, link="https://x.org"), Span(2, 6, "bold")], "a [**bold** link](https://x.org)"),
    ],
)
def test_styles_and_links(text: str, spans: list[Span], written: str) -> None:
    assert inline(text, spans) == written


@pytest.mark.parametrize(
    ("items", "written"),
    [
        ([("1.", 0), ("2.", 0)], "1. a\n2. b"),
        ([("1.", 0), ("3.", 0)], "1. a\n- 3. b"),
        ([("(a)", 0), ("(b)", 0)], "- (a) a\n- (b) b"),
        ([("1)", 1), ("•", 2)], "1) a\n   - b"),
        ([("•", 2), ("•", 0)], "- a\n- b"),
        ([("", 0), ("", 0)], "- a\n- b"),
    ],
)
def test_lists(items: list[tuple[str, int]], written: str) -> None:
    make = Blocks()
    blocks = [make(t, Label.LIST_ITEM, marker=m, level=n) for t, (m, n) in zip("ab", items, strict=True)]
    assert markdown(document(blocks)) == written + "\n"


def test_marks_of_footnotes_come_back_on_later_pages() -> None:
    pages = []
    for n in range(2):
        make = Blocks(n)
        pages.append([make("Text¹ here"), make("¹ Note.", Label.FOOTNOTE), make("2 Unmatched.", Label.FOOTNOTE)])
    assert markdown(document(*pages)) == (
        "Text[^1] here\n\n[^1]: Note.\n\n2 Unmatched.\n\nText[^1-p2] here\n\n[^1-p2]: Note.\n\n2 Unmatched.\n"
    )


def test_exponents_are_no_marks_of_footnotes() -> None:
    make = Blocks()
    raised = Span(1, 2, "superscript"), Span(7, 8, "superscript")
    blocks = [make("P2 word2", spans=raised), make("2 Note.", Label.FOOTNOTE), make("2 Other.", Label.FOOTNOTE)]
    assert markdown(document(blocks)) == "P² word[^2]\n\n[^2]: Note.\n\n2 Other.\n"


@pytest.mark.parametrize("rule", ["-----", "= = = = =", ". . . . . .", "..........", "·····"])
def test_printed_rules(rule: str) -> None:
    blocks = Blocks()
    assert markdown(document([blocks("above"), blocks(rule)])) == "above\n\n---\n"


def test_code_with_fences_in_it() -> None:
    assert fenced("```\na\n```") == "````\n```\na\n```\n````"


@given(st.text(alphabet="a|\\\n<*`", max_size=12))
def test_a_cell_stays_one_cell(text: str) -> None:
    row = table_markdown(table([["head", "x"], [text, "end"]])).split("\n")
    assert len(row) == 3
    unescaped = [i for i, c in enumerate(row[2]) if c == "|" and (row[2][i - 1] != "\\" or i == 0)]
    assert len(unescaped) == 3
    assert "<a" not in cell_markdown(text)


def test_text_of_a_document() -> None:
    text = export(rich(), "text")
    assert isinstance(text, str)
    assert (
        "A Title\n\n1 Introduction\n\nBold word and a link.\n\n• first\n  - inner\n• second\n\nx = 1\n  y = 2" in text
    )
    assert "Name  Sum\na|b   1\n\nTable 1: sums\n\nFigure 1: a <b>bar</b>\n\nE = mc2" in text


def test_columns_are_aligned_by_display_width() -> None:
    assert width("日本é") == 5
    assert aligned(table([["日本", "x"], ["abc", "y"]])) == "日本  x\nabc   y"
    assert aligned(spanned()).split("\n") == ["Item   Price <EUR>", "       net          gross", "A & B  1", "       2"]


def test_an_empty_document() -> None:
    assert markdown(document()) == ""
    assert export(document(), "text") == ""


@pytest.mark.parametrize(
    ("latex", "written"),
    [
        ("x", "x"),
        ("$$x$$", "x"),
        (r"\[x\]", "x"),
        ("$ x $", "x"),
        ("a<b", "a< b"),
        ("a\n\nb", "a\nb"),
        ("a < b", "a < b"),
    ],
)
def test_formulas(latex: str, written: str) -> None:
    assert display_math(latex) == f"$$\n{written}\n$$"
