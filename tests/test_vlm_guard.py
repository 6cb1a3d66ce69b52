"""The loop guard ends loops, and lets documents be. A token is a character here."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

import pytest

from docai.vlm.guard import LONGEST_PERIOD, LoopGuard


def characters(tokens: Sequence[int]) -> str:
    return "".join(map(chr, tokens))


def ended_at(text: Iterable[str]) -> int | None:
    """After how many characters (each a token here) the guard ends a text; None where it does not."""
    guard = LoopGuard(characters)
    return next((place for place, c in enumerate(text, 1) if guard.add(ord(c))), None)


LOREM = "The committee met on three days, and what it found is told below, page after page, without repeating. "


@pytest.mark.parametrize("unit", ["a", "na ", "the same again ", LOREM, LOREM[::-1] + LOREM.upper() + LOREM])
def test_words_that_come_again_and_again_are_a_loop(unit: str) -> None:
    start = "An answer begins well. "
    at = ended_at(start + unit * 500)
    assert at is not None
    assert at <= len(start) + max(256, 4 * len(unit)) + len(unit)


@pytest.mark.parametrize("period", [1, 2, 3, 5, 17, 64, 200, LONGEST_PERIOD])
def test_any_period_up_to_the_bound(period: int) -> None:
    chance = random.Random(period)
    unit = "".join(chance.choice("abcdefgh") for _ in range(period))
    assert ended_at(unit * max(4, 300 // period + 2)) is not None


@pytest.mark.parametrize(
    "unit", ["-", ". ", "|   ", "| | | | |\n", "<td></td>", "<tr><td></td><td>0</td></tr>\n", "&nbsp;"]
)
def test_marks_may_go_on_for_long_but_not_for_ever(unit: str) -> None:
    assert ended_at(unit * (1000 // len(unit))) is None
    assert ended_at(unit * 5000) is not None


def documents() -> dict[str, str]:
    chance = random.Random(5)
    numbers = "\n".join(f"| {row} | {chance.random():.3f} | yes | no |" for row in range(300))
    same_rows = "| yes | no | yes |\n" * 50  # a table whose rows are all alike
    contents = "\n".join(f"{row}. Chapter {row} {'.' * 200} {row * 7}" for row in range(60))
    form = "Name: ____________________\n" * 8 + "\n" + ("| | | | | |\n" * 80)
    chorus = ("La la la la la la la la, hey!\n" * 4 + "Another verse of the song goes here\n") * 2
    csv = "\n".join(f"2024-01-{day:02d};open;closed;open" for day in itertools.chain(range(1, 31), range(1, 31)))
    return {
        "numbers": numbers,
        "same_rows": same_rows,
        "contents": contents,
        "form": form,
        "chorus": chorus,
        "csv": csv,
    }


@pytest.mark.parametrize("name", documents())
def test_documents_are_no_loops(name: str) -> None:
    assert ended_at(documents()[name]) is None
