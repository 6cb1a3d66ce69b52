"""`docai eval`: text, order and tables measured against the truth.

- `similarity`: 1 - Levenshtein distance / longer text, after white space is folded.
- `cer`, `wer`: Levenshtein distance over characters and over words / length of the truth.
- `order`: edit distance of the order in which the truth's paragraphs are found / their number; 0 is best
  (the reading-order measure of OmniDocBench, Ouyang et al. 2024).
- `teds`: mean over the truth's tables of the best tree-edit-distance similarity (Zhong, ShafieiBavani and Jimeno Yepes
  2020): trees of rows and cells, where cells of equal spans cost the normalised distance of their texts.

Markup is taken off before texts are compared (`plain`).
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docai.errors import DependencyMissing, InputError

_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".html", ".htm"})


@dataclass(frozen=True, slots=True)
class Scores:
    """The measures of one file; None where a measure does not apply."""

    file: str
    similarity: float
    cer: float
    wer: float
    order: float | None = None
    teds: float | None = None


def evaluate(predicted: str, truth: str) -> list[Scores]:
    """Scores of a file, or of all files of a folder that have a truth of the same name.

    A predicted file that is missing scores as empty. Raises InputError where there is nothing to compare,
    DependencyMissing without the extra `eval`.
    """
    pairs = _pairs(Path(predicted), Path(truth))
    return [score(name, _read(gold), _read(got) if got else "") for name, got, gold in pairs]


def _pairs(predicted: Path, truth: Path) -> list[tuple[str, Path | None, Path]]:
    for path in (predicted, truth):
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    if truth.is_file():
        if predicted.is_dir():
            raise InputError(f"{predicted} is a folder, {truth} a file: compare two files or two folders")
        return [(truth.name, predicted, truth)]
    golds = sorted(p for p in truth.rglob("*") if p.suffix.lower() in _SUFFIXES)
    if not golds:
        raise InputError(f"{truth}: no truth in this folder; expected files like .md, .txt or .html")
    return [(str(gold.relative_to(truth)), _match(predicted, gold.relative_to(truth)), gold) for gold in golds]


def _match(folder: Path, name: Path) -> Path | None:
    """The predicted file of the same place and stem."""
    place = folder / name.parent
    if not place.is_dir():
        return None
    same = (p for p in sorted(place.iterdir()) if p.suffix.lower() in _SUFFIXES and p.stem == name.stem)
    return next(same, None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def score(name: str, gold: str, got: str) -> Scores:
    """All measures of one text against its truth."""
    distance = _levenshtein()
    a, b = plain(gold), plain(got)
    words = a.split()
    characters = distance(a, b)
    return Scores(
        name,
        round(1 - characters / max(len(a), len(b), 1), 4),
        round(characters / max(len(a), 1), 4),
        round(distance(words, b.split()) / max(len(words), 1), 4),
        reading_order(gold, b),
        table_score(gold, got),
    )


def _levenshtein() -> Any:
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise DependencyMissing("docai eval needs its extra: pip install 'docai[eval]'") from error
    return Levenshtein.distance


def plain(text: str) -> str:
    """Text without the marks of markdown and HTML, white space folded, in NFKC."""
    text = re.sub(r"<!--.*?-->|</?[a-zA-Z][^<>]{0,300}>", " ", text, flags=re.DOTALL)
    text = html.unescape(text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:```.*|\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*|#{1,6}\s|>\s?|[-*+]\s)", " ", text, flags=re.MULTILINE)
    text = re.sub(r"(?<!\\)(?:\*\*|__|\||`)|(?<![\w\\])[*_](?=\S)|(?<=[^\s\\])[*_](?!\w)", " ", text)
    text = re.sub(r"\\([\\`*_{}\[\]()#+\-.!|<>$&~=])", r"\1", text)
    return " ".join(unicodedata.normalize("NFKC", text).split())


def reading_order(gold: str, got: str) -> float | None:
    """Edit distance of the order of the truth's paragraphs found in a plain text; None for fewer than two of them."""
    from rapidfuzz import fuzz

    blocks = [plain(part)[:200] for part in re.split(r"\n\s*\n", gold) if "|" not in part and "<t" not in part]
    blocks = [b for b in blocks if len(b) >= 12]
    if len(blocks) < 2:
        return None
    found = []
    for number, block in enumerate(blocks):
        at = fuzz.partial_ratio_alignment(block, got, score_cutoff=75) if got else None
        if at is not None:
            found.append((at.dest_start, number))
    order = [number for _, number in sorted(found)]
    return round(_levenshtein()(order, sorted(order)) / len(order), 4) if order else 1.0


Row = list[tuple[str, int, int]]  # (text, rowspan, colspan) of each cell


def tables_in(text: str) -> list[list[Row]]:
    """HTML and markdown tables of a text, as rows of cells."""
    found = [_html_table(part) for part in re.findall(r"<table.*?</table>", text, re.DOTALL | re.IGNORECASE)]
    rest = re.sub(r"<table.*?</table>", "", text, flags=re.DOTALL | re.IGNORECASE)
    return [*found, *_markdown_tables(rest)]


def _html_table(part: str) -> list[Row]:
    try:
        import lxml.html
    except ImportError as error:
        raise DependencyMissing("docai eval needs its extra: pip install 'docai[eval]'") from error
    rows = lxml.html.fromstring(part).iter("tr")
    return [[(plain(c.text_content()), _span(c, "rowspan"), _span(c, "colspan")) for c in row if c.tag in ("td", "th")]
            for row in rows]  # fmt: skip


def _span(cell: Any, name: str) -> int:
    value = cell.get(name, "1")
    return max(1, min(100, int(value))) if value.isdecimal() else 1


def _markdown_tables(text: str) -> list[list[Row]]:
    tables: list[list[Row]] = []
    lines = text.splitlines()
    rule = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
    for n, line in enumerate(lines):
        if "|" in line and rule.match(line) and n and "|" in lines[n - 1]:
            body = [lines[n - 1]]
            for row in lines[n + 1 :]:
                if "|" not in row:
                    break
                body.append(row)
            tables.append([[(plain(c), 1, 1) for c in re.split(r"(?<!\\)\|", row.strip().strip("|"))] for row in body])
    return tables


def table_score(gold: str, got: str) -> float | None:
    """Mean TEDS over the truth's tables; None where it has none."""
    wanted = tables_in(gold)
    if not wanted:
        return None
    there = tables_in(got)
    return round(sum(max((teds(g, t) for t in there), default=0.0) for g in wanted) / len(wanted), 4)


def teds(gold: Sequence[Row], got: Sequence[Row]) -> float:
    """Tree-edit-distance similarity of two tables, 0..1."""
    try:
        from apted import APTED, Config
    except ImportError as error:
        raise DependencyMissing("docai eval needs its extra: pip install 'docai[eval]'") from error
    distance = _levenshtein()

    class Costs(Config):  # type: ignore[misc]
        def rename(self, a: _Node, b: _Node) -> float:
            if a.tag != b.tag or a.spans != b.spans:
                return 1.0
            return float(distance(a.text, b.text)) / max(len(a.text), len(b.text), 1)

        def children(self, node: _Node) -> Sequence[_Node]:
            return node.parts

    a, b = _tree(gold), _tree(got)
    return max(0.0, 1 - float(APTED(a, b, Costs()).compute_edit_distance()) / max(a.size, b.size))


@dataclass(frozen=True, slots=True)
class _Node:
    tag: str
    text: str = ""
    spans: tuple[int, int] = (1, 1)
    parts: tuple[_Node, ...] = ()

    @property
    def size(self) -> int:
        return 1 + sum(part.size for part in self.parts)


def _tree(rows: Sequence[Row]) -> _Node:
    cells = [tuple(_Node("cell", text, (down, across)) for text, down, across in row) for row in rows]
    return _Node("table", parts=tuple(_Node("row", parts=row) for row in cells))


def table_json(scores: Sequence[Scores]) -> str:
    """One JSON object: every file, and the means."""
    return json.dumps({"files": [asdict(s) for s in scores], "mean": means(scores)}, ensure_ascii=False)


def means(scores: Sequence[Scores]) -> dict[str, float | None]:
    """The mean of each measure over the files that it applies to."""
    out: dict[str, float | None] = {}
    for name in ("similarity", "cer", "wer", "order", "teds"):
        values = [v for v in (getattr(s, name) for s in scores) if v is not None]
        out[name] = round(sum(values) / len(values), 4) if values else None
    return out


def table(scores: Sequence[Scores]) -> str:
    """A line a file and a line of means."""
    rows = [[s.file, s.similarity, s.cer, s.wer, s.order, s.teds] for s in scores]
    if len(scores) > 1:
        rows.append(["mean", *means(scores).values()])
    cells = [["file", "similarity", "CER", "WER", "order", "TEDS"], *([_cell(v) for v in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
