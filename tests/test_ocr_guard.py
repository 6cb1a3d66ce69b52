"""Answers that cannot be right are found out; those that can be are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from docai.ocr.guard import Finding, Verdict, confidence_of, judge, repetition, rolled_back, similarity, summary
from docai.ocr.ink import Ink, ink_of, middle_gap
from docai.vlm.request import Generation, TokenLogprob

TEXT = "The quick brown fox jumps over the lazy dog while nobody looks at it, and then goes home again at dusk."
SEEN = Ink(blank=False, share=0.1, characters=80.0, most=640.0)
BLANK = Ink(blank=True, share=0.0, characters=0.0, most=0.0)


def printed(*lines: str, size: int = 24, width: int = 900, noise: int = 0) -> np.ndarray:
    """Lines of text on paper, (H, W, 3)."""
    image = Image.new("RGB", (width, 20 + len(lines) * size * 2), (245, 243, 240))
    font = ImageFont.load_default(size)
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((10, 10 + number * size * 2), line, fill=(20, 20, 30), font=font)
    pixels = np.asarray(image).astype(np.int16)
    if noise:
        pixels = pixels + np.random.RandomState(1).randint(-noise, noise + 1, pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def finding(text: str, ink: Ink = SEEN, reason: str = "stop", *, marked: bool = False, trusted: str = "") -> Finding:
    return judge(Generation(text, finish_reason=reason), ink, marked=marked, trusted=trusted).finding  # type: ignore[arg-type]


# --- ink


@pytest.mark.parametrize("size", [12, 24, 48])
def test_ink_tells_about_how_much_is_printed(size: int) -> None:
    lines = [TEXT[: 1200 // size], TEXT[20 : 20 + 800 // size]]
    ink = ink_of(printed(*lines, size=size))
    letters = sum(not c.isspace() for line in lines for c in line)
    assert not ink.blank
    assert 0.5 * letters < ink.characters < 2 * letters


def test_paper_is_blank_and_a_word_is_not() -> None:
    assert ink_of(printed("")).blank
    assert ink_of(printed("", noise=8)).blank
    assert ink_of(np.zeros((0, 9, 3), np.uint8)).blank
    assert not ink_of(printed("a", noise=8)).blank
    assert not ink_of(255 - printed("white on black")).blank


def test_drawn_lines_are_no_print() -> None:
    pixels = printed("Two words", "and more")
    ruled = pixels.copy()
    for row in (5, 60, 110):
        ruled[row : row + 3] = 0
    assert ink_of(ruled).characters == ink_of(pixels).characters
    framed = ruled.copy()
    framed[:, 3:6] = 0  # joins all lines to one band
    assert ink_of(framed).characters < 20 < 400 < ink_of(framed).most


def test_a_gap_between_lines_parts_a_picture() -> None:
    pixels = printed(*["many lines of text"] * 8)
    row = middle_gap(pixels, 48)
    assert row is not None
    assert abs(row - pixels.shape[0] // 2) < pixels.shape[0] // 4
    assert (pixels[row - 2 : row + 2] > 200).all()
    assert middle_gap(printed("one line"), 48) is None
    assert middle_gap(np.zeros((500, 500, 3), np.uint8), 48) is None


# --- verdicts


def test_good_answers_are_good() -> None:
    assert finding(TEXT) is Finding.OK
    assert finding(TEXT, trusted=TEXT.upper()) is Finding.OK
    assert finding("", BLANK) is Finding.OK
    assert finding("- - - - - x", Ink(False, 0.01, 12.0, 96.0)) is Finding.OK
    assert finding("12", Ink(False, 0.01, 2.0, 16.0)) is Finding.OK
    assert finding("", Ink(False, 0.0, 0.3, 2.4)) is Finding.OK  # a speck


@pytest.mark.parametrize(
    ("text", "ink", "reason", "expected"),
    [
        (TEXT * 3 + "again and again " * 30, SEEN, "loop", Finding.LOOP),
        ("again and again " * 30, SEEN, "stop", Finding.LOOP),
        (TEXT, SEEN, "length", Finding.CUT),
        ("", SEEN, "stop", Finding.EMPTY),
        (" ## $$ $$ | |", SEEN, "stop", Finding.EMPTY),
        ("Text", BLANK, "stop", Finding.INVENTED),
        ("a", SEEN, "stop", Finding.SPARSE),
        (" ".join(str(n * n) for n in range(400)), SEEN, "stop", Finding.SWOLLEN),
    ],
)
def test_bad_answers_are_found_out(text: str, ink: Ink, reason: str, expected: Finding) -> None:
    verdict = judge(Generation(text, finish_reason=reason), ink)  # type: ignore[arg-type]
    assert verdict.finding is expected
    assert verdict.reason
    assert verdict.confidence is not None
    assert verdict.confidence < 0.6


def test_a_text_that_can_be_trusted_says_otherwise() -> None:
    assert (
        finding(TEXT, trusted="Something else entirely stands here, and it goes on for as long.") is Finding.DISAGREES
    )
    verdict = judge(Generation(TEXT), SEEN, trusted=TEXT[:60])
    assert verdict.finding is Finding.OK
    assert verdict.confidence == pytest.approx(0.73, abs=0.1)
    columns = " ".join(reversed([TEXT[n : n + 26] for n in range(0, 104, 26)]))
    assert finding(TEXT, trusted=columns) is Finding.OK  # in another order
    few = Ink(blank=False, share=0.1, characters=5.0, most=40.0)
    row = "<table><tr><td>1</td></tr></table>"
    assert finding(row, few, trusted="1 and other numbers that are many", marked=True) is Finding.OK


def test_confidence_is_that_of_the_tokens() -> None:
    tokens = tuple(TokenLogprob(1, "a", float(np.log(p))) for p in (0.9, 0.4))
    assert confidence_of(Generation("aa", logprobs=tokens)) == pytest.approx(0.6)
    assert judge(Generation(TEXT, logprobs=tokens), SEEN).confidence == pytest.approx(0.6)
    assert judge(Generation(TEXT), SEEN).confidence is None
    cut = judge(Generation(TEXT, finish_reason="length", logprobs=tokens), SEEN)
    assert cut.confidence == pytest.approx(0.24)


# --- loops


def test_a_loop_is_rolled_back_to_its_first_turn() -> None:
    start, unit = "A good beginning. ", "The same sentence comes back. "
    text, looped = rolled_back(start + unit * 9 + unit[:11], "loop")
    assert looped
    assert text == (start + unit).strip()
    assert rolled_back(start + unit * 9, "length") == ((start + unit).strip(), True)
    assert rolled_back("no repetition at all", "loop") == ("no repetition at all", True)


@pytest.mark.parametrize(
    "text",
    ["Total " + "." * 200 + " 12",
     "-" * 400, "1 2 3 " * 3, "yes, yes, yes", TEXT + " " + TEXT],
)  # fmt: skip
def test_what_documents_repeat_is_no_loop(text: str) -> None:
    assert rolled_back(text, "stop") == (text, False)


def test_rows_of_a_table_may_be_alike() -> None:
    rows = "<table>" + "<tr><td>none</td><td>0</td></tr>" * 20
    assert rolled_back(rows, "stop", marked=True) == (rows, False)
    assert rolled_back(rows, "loop", marked=True)[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("abcabcabc", (3, 9)), ("xabab", (2, 4)), ("aaaa", (1, 4)), ("abc", (0, 0)), ("", (0, 0)), ("zabcabcab", (3, 8))],
)
def test_repetitions_at_an_end(text: str, expected: tuple[int, int]) -> None:
    assert repetition(text) == expected


# --- comparing, and saying


def test_texts_are_compared_by_their_letters() -> None:
    assert similarity(TEXT, TEXT.replace(" ", "\n").upper()) == 1.0
    assert similarity("<b>" + TEXT + "</b>", TEXT) == 1.0
    assert similarity("short", "other") is None
    assert similarity(TEXT, "") == 0.0
    assert 0.8 < (similarity(TEXT, TEXT.replace("fox", "cat")) or 0) < 1.0


def test_a_page_is_told_what_is_wrong_with_which_of_its_parts() -> None:
    cut, good = Verdict(Finding.CUT, "x"), Verdict(Finding.OK, "x")
    verdicts = [(1, good), *((n, cut) for n in (2, 3, 4, 7)), (8, Verdict(Finding.EMPTY, ""))]
    assert summary(verdicts) == (
        "the answer was cut off at its limit of tokens (regions 2-4, 7)",
        "there is ink, but the answer is empty (region 8)",
    )
    assert summary([(0, cut)]) == ("the answer was cut off at its limit of tokens (the whole page)",)
    assert summary([(1, good)]) == ()
