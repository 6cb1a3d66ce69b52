"""Where the tables of a page are."""

from __future__ import annotations

from collections.abc import Sequence

from docai.types import Box, Line, Page, Region, Rule


def find_tables(page: Page, lines: Sequence[Line], rules: Sequence[Rule], fills: Sequence[Box]) -> list[Region]:
    """Table regions of a page, without their captions and notes."""
    return []
