"""The measures, against values worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from docai.errors import DependencyMissing, InputError
from docai.tasks.eval import evaluate, means, plain, reading_order, score, table, table_score, tables_in, teds

pytest.importorskip("rapidfuzz")
pytest.importorskip("apted")
pytest.importorskip("lxml")

PARAGRAPHS = ["The first paragraph of all.", "Quite another thing here.", "And some closing remarks."]


@pytest.mark.parametrize(
    ("marked", "bare"),
    [
        ("# Title\n\nText", "Title Text"),
        ("a **bold** and *slanted* word", "a bold and slanted word"),
        ("[link](http://x.org) ![image](x.png)", "link"),
        ("- one\n- two\n> said", "one two said"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "a b 1 2"),
        ("<p>5 &lt; 6</p><!-- note -->", "5 < 6"),
        ("snake_case stays, \\*stars\\* too", "snake_case stays, *stars* too"),
        ("ﬁne", "fine"),
    ],
)
def test_marks_come_off(marked: str, bare: str) -> None:
    assert plain(marked) == bare


@pytest.mark.parametrize(
    ("gold", "got", "similarity", "cer", "wer"),
    [
        ("kitten", "sitting", 1 - 3 / 7, 3 / 6, 1.0),
        ("one two three", "one two three", 1.0, 0.0, 0.0),
        ("one two", "", 0.0, 1.0, 1.0),
        ("ab", "abcdefgh", 0.25, 3.0, 1.0),
        ("", "", 1.0, 0.0, 0.0),
    ],
)
def test_edit_distances(gold: str, got: str, similarity: float, cer: float, wer: float) -> None:
    scores = score("x", gold, got)
    assert (scores.similarity, scores.cer, scores.wer) == pytest.approx((similarity, cer, wer), abs=1e-4)


@pytest.mark.parametrize(
    ("order", "edit"), [([0, 1, 2], 0.0), ([2, 0, 1], 2 / 3), ([0, 2], 0.0), ([], 1.0), ([1, 0], 1.0)]
)
def test_reading_order(order: list[int], edit: float) -> None:
    got = " ".join(PARAGRAPHS[n] for n in order)
    assert reading_order("\n\n".join(PARAGRAPHS), got) == pytest.approx(edit, abs=1e-4)


def test_one_paragraph_has_no_order() -> None:
    assert reading_order(PARAGRAPHS[0], PARAGRAPHS[0]) is None


def test_tables_are_found_in_markdown_and_html() -> None:
    markdown = "text | more\n\n| a | b |\n|---|:-:|\n| 1 | 2 \\| 3 |\n\nend"
    html = "<table><tr><th colspan=2>a</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert tables_in(markdown) == [[[("a", 1, 1), ("b", 1, 1)], [("1", 1, 1), ("2 | 3", 1, 1)]]]
    assert tables_in(html) == [[[("a", 1, 2)], [("1", 1, 1), ("2", 1, 1)]]]


@pytest.mark.parametrize(
    ("got", "value"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |", 1.0),
        ("| a | b |\n|---|---|\n| 1 | 3 |", 1 - 1 / 7),  # a cell of seven nodes has other text
        ("| a | b |\n|---|---|", 1 - 3 / 7),  # a row and its two cells are missing
        ("no table", 0.0),
        ("| x | y |\n|---|---|\n| 9 | 9 |\n\n| a | b |\n|---|---|\n| 1 | 2 |", 1.0),  # the best one counts
    ],
)
def test_teds(got: str, value: float) -> None:
    assert table_score("| a | b |\n|---|---|\n| 1 | 2 |", got) == pytest.approx(value, abs=1e-4)


def test_other_spans_are_other_cells() -> None:
    assert teds([[("a", 1, 2)]], [[("a", 1, 1)]]) == pytest.approx(2 / 3)


def test_folders_are_compared_by_place_and_name(tmp_path: Path) -> None:
    for name, text in {"gold/x/a.md": "text", "gold/b.md": "text", "got/x/a.txt": "text"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    scores = evaluate(str(tmp_path / "got"), str(tmp_path / "gold"))
    assert {s.file: s.similarity for s in scores} == {"b.md": 0.0, "x/a.md": 1.0}
    assert means(scores) == {"similarity": 0.5, "cer": 0.5, "wer": 0.5, "order": None, "teds": None}
    assert table(scores).splitlines()[-1].split() == ["mean", "0.5000", "0.5000", "0.5000", "-", "-"]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "empty").mkdir()
    for predicted, truth in [("a.md", "none"), ("empty", "a.md"), ("a.md", "empty")]:
        with pytest.raises(InputError):
            evaluate(str(tmp_path / predicted), str(tmp_path / truth))


@pytest.mark.parametrize("module", ["rapidfuzz", "apted", "lxml"])
def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DependencyMissing, match=r"pip install 'docai\[eval\]'"):
        score("x", "<table><tr><td>a</td></tr></table>", "<table><tr><td>a</td></tr></table>")
