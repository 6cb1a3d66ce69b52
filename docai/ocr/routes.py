"""What is asked about each kind of region: the names of detectors, and the categories that document models know."""

from __future__ import annotations

from docai.types import Label, Region

# Of Falcon-OCR, whose stage this is; for other models they say what to ask for.
CATEGORIES = (
    "text", "table", "formula", "caption", "footnote", "list-item", "page-footer", "page-header", "section-header",
    "title",
)  # fmt: skip
PLAIN = "plain"  # a whole page
SKIPPED = "picture"  # nothing is asked about it

# Names are compared without case and signs. PP-DocLayoutV3's display and inline formulas, vertical text and the images
# of headers and footers are not in the table of the reference, which loses them.
_NAMES: dict[str, str] = {
    **dict.fromkeys(
        ("text", "header", "number", "reference", "reference_content", "abstract", "aside_text", "content",
         "formula_number", "algorithm", "vertical_text"), "text",
    ),
    "table": "table",
    **dict.fromkeys(("formula", "display_formula", "inline_formula"), "formula"),
    **dict.fromkeys(("caption", "figure_title", "table_title", "chart_title"), "caption"),
    **dict.fromkeys(("footnote", "vision_footnote"), "footnote"),
    "list-item": "list-item",
    **dict.fromkeys(("title", "doc_title"), "title"),
    **dict.fromkeys(("footer", "page-footer"), "page-footer"),
    "page-header": "page-header",
    **dict.fromkeys(("paragraph_title", "section-header"), "section-header"),
    **dict.fromkeys(
        ("image", "picture", "figure", "chart", "seal", "header_image", "footer_image"), SKIPPED,
    ),
}  # fmt: skip
# What our own labels ask for, where a detector has no name of its own or one that is not in the table.
_LABELS: dict[Label, str] = {
    Label.TITLE: "title",
    Label.HEADING: "section-header",
    Label.LIST_ITEM: "list-item",
    Label.TABLE: "table",
    Label.FIGURE: SKIPPED,
    Label.FORMULA: "formula",
    Label.CAPTION: "caption",
    Label.FOOTNOTE: "footnote",
    Label.PAGE_HEADER: "page-header",
    Label.PAGE_FOOTER: "page-footer",
}


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


_ROUTES = {_bare(name): category for name, category in _NAMES.items()}


def category_of(region: Region) -> str:
    """What is asked about a region; `SKIPPED` for pictures. A detector's own name says most."""
    return _ROUTES.get(_bare(region.name)) or _LABELS.get(region.label, "text")
