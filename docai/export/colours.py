"""A colour for each label, the same in every picture of a page. Hues from Paul Tol's "bright" and "muted" schemes."""

from __future__ import annotations

from docai.types import Label

COLOURS: dict[Label, str] = {
    Label.TITLE: "#aa3377",
    Label.HEADING: "#cc6677",
    Label.TEXT: "#4477aa",
    Label.LIST_ITEM: "#66a5d9",
    Label.TABLE: "#228833",
    Label.FIGURE: "#c27c0e",
    Label.FORMULA: "#882255",
    Label.CODE: "#44aa99",
    Label.CAPTION: "#999933",
    Label.FOOTNOTE: "#7766bb",
    Label.ASIDE: "#117733",
    Label.PAGE_HEADER: "#888888",
    Label.PAGE_FOOTER: "#888888",
    Label.PAGE_NUMBER: "#888888",
    Label.STAMP: "#bb5566",
}


def rgb(label: Label) -> tuple[int, int, int]:
    """A label's colour as red, green, blue."""
    digits = COLOURS[label].removeprefix("#")
    return int(digits[0:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)
