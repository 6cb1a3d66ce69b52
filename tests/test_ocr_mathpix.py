"""Answers in which titles, lists and notes are LaTeX's become the parts of a document."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docai.ocr.parsers import Element, get_parser
from docai.ocr.parsers.mathpix import markdown, parse
from docai.types import Box, Label

BOX = Box(0, 0, 100, 100)
PAGE = r"""\title{
A Study of Tides:\\ Part One
}

\author{
A. Author \({ }^{1}\) \\
Institute of X
}

\begin{abstract}
We show that \(x^{2}\) holds.
\end{abstract}

\section*{1 Introduction}
Some text that goes
on here.

\begin{itemize}
\item one
\item[(a)] two
\begin{enumerate}
\item first
\item second
\end{enumerate}
\end{itemize}

\[
\begin{aligned}
\section{no}
x &= y
\end{aligned}
\]
\subsection*{1.1 Results}
\begin{tabular}{|l|l|}
\hline a & b \\
\hline 1 & 2 \\
\hline
\end{tabular}

\footnotetext{
\({ }^{1}\) The note of
the author.
}
\begin{figure}
\includegraphics[width=3cm]{x.png}
\caption{Figure 1: A thing}
\end{figure}
"""


def test_a_page_is_taken_apart() -> None:
    found = get_parser("mathpix")(PAGE, BOX)
    assert [(e.label, e.text, e.level, e.marker) for e in found if e.table is None] == [
        (Label.TITLE, "A Study of Tides: Part One", 1, ""),
        (Label.TEXT, "A. Author { }^{1}\nInstitute of X", None, ""),
        (Label.TEXT, "We show that x^{2} holds.", None, ""),
        (Label.HEADING, "1 Introduction", 2, ""),
        (Label.TEXT, "Some text that goes on here.", None, ""),
        (Label.LIST_ITEM, "one", None, "-"),
        (Label.LIST_ITEM, "(a) two", None, "-"),
        (Label.LIST_ITEM, "first", 1, "1."),
        (Label.LIST_ITEM, "second", 1, "2."),
        (Label.FORMULA, "\\begin{aligned}\n\\section{no}\nx &= y\n\\end{aligned}", None, ""),
        (Label.HEADING, "1.1 Results", 3, ""),
        (Label.FOOTNOTE, "The note of the author.", None, "1"),
        (Label.TEXT, "Figure 1: A thing", None, ""),
    ]
    (table,) = [e.table for e in found if e.table is not None]
    assert [[cell.text for cell in table.cells if cell.row == row] for row in (0, 1)] == [["a", "b"], ["1", "2"]]


def test_what_is_cut_off_is_kept() -> None:
    assert parse("\\section*{Half a hea", BOX) == [Element(Label.HEADING, "Half a hea", level=2)]
    assert [e.text for e in parse("\\begin{itemize}\n\\item one\n\\item tw", BOX)] == ["one", "tw"]
    assert parse("\\title{}", BOX) == []
    assert parse("\\item alone", BOX) == [Element(Label.LIST_ITEM, "alone", marker="-")]


def test_markdown_stays_markdown() -> None:
    text = "# A\n\ntext \\emph{x} \\section\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert markdown(text) == text


@given(st.text(alphabet="\\{}[]sectionitem*be^ \n1ab$", max_size=60))
def test_no_answer_is_too_strange(text: str) -> None:
    parse(text, BOX)
    parse("\\begin{itemize}\n\\section*{" + text, BOX)
