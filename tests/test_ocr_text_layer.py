"""Words and lines out of glyphs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from docai.ocr.glyph_text import lines_of
from docai.ocr.letter_pairs import ENOUGH, IMPLAUSIBLE, unusualness
from docai.ocr.text_layer import read_text_layer
from docai.types import Box, Font, Glyphs, Line
from tests.glyph_typist import Typist, page_of


def read(typist: Typist) -> list[Line]:
    glyphs = typist.glyphs()
    return lines_of(glyphs, np.ones(len(glyphs), bool))


def texts(typist: Typist) -> list[str]:
    return [line.text for line in read(typist)]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("The quick brown fox", {}),
        ("The quick brown fox", {"spaces": False}),
        ("The quick brown fox", {"spaces": False, "word_gap": 2.0}),
        ("LETTER SPACED HEADING", {"tracking": 3.0}),
        ("LETTER SPACED HEADING", {"tracking": 3.0, "spaces": False}),
        ("slightly tracked words here", {"tracking": 1.0}),
        ("letters set into each other", {"tracking": -1.3}),
        ("1 2 3 4 5 6", {"spaces": False, "word_gap": 6.0}),
        ("call(a, b); // 3 + 4", {"font": 1}),
        ("x = 1", {"font": 1, "spaces": False}),
    ],
)
def test_spaces_are_decided_by_geometry(text: str, how: dict[str, float]) -> None:
    typist = Typist([Font("Helvetica"), Font("Courier", mono=True)])
    typist.line(text, 50, 100, **how)  # type: ignore[arg-type]
    assert texts(typist) == [text]


def test_spaces_that_the_library_guesses_in_letter_spaced_text_do_not_count() -> None:
    typist = Typist()
    for n, char in enumerate("HEADING"):
        typist.put(char, (50 + 9 * n, 92, 56 + 9 * n, 102), 10)
        typist.put(" ", (56 + 9 * n, 92, 56 + 9 * n, 102), 10, flags=Glyphs.GENERATED)
    assert texts(typist) == ["HEADING"]


def test_letters_at_equal_steps_are_one_word_whatever_their_width() -> None:
    typist = Typist()
    for n, char in enumerate("Testing Illinois"):
        if char != " ":
            typist.put(char, (50 + 7 * n, 92, 50 + 7 * n + (2.2 if char in "il" else 6.5), 102), 10)
    assert texts(typist) == ["Testing Illinois"]


def test_lines_part_at_wide_gaps_and_keep_their_words() -> None:
    typist = Typist()
    typist.line("left column", 50, 100)
    typist.line("right column", 140, 100)
    lines = read(typist)
    assert [line.text for line in lines] == ["left column", "right column"]
    assert [word.text for word in lines[0].words] == ["left", "column"]
    assert lines[0].words[1].box.r < 140 <= lines[1].words[0].box.l


def test_narrow_gutters_part_lines_where_several_lines_have_them() -> None:
    typist = Typist()
    for n in range(4):
        end = typist.line("some words here", 50, 100 + 12 * n)
        typist.line("and others", end + 8, 100 + 12 * n)
    assert texts(typist) == ["some words here", "and others"] * 4


@pytest.mark.parametrize("mark", ["•", "1.", "(a)", "2.1", "–"])
def test_a_list_mark_stays_with_its_item(mark: str) -> None:
    typist = Typist()
    typist.line(mark, 50, 100)
    typist.line("First item", 50 + 6 * len(mark) + 18, 100)
    assert texts(typist) == [f"{mark} First item"]


def test_a_leader_of_dots_ends_a_line() -> None:
    typist = Typist()
    end = typist.line("Contents.......... ", 50, 100)
    typist.line("12", end, 100)
    assert texts(typist) == ["Contents..........", "12"]


def test_files_may_write_a_line_in_any_order() -> None:
    typist = Typist()
    typist.line("world", 77.8, 100)
    typist.line("Hello", 50, 100)
    typist.line("Second line", 50, 114)
    assert texts(typist) == ["Hello world", "Second line"]


def test_superscripts_and_subscripts_are_words_of_their_line() -> None:
    typist = Typist()
    end = typist.line("area in m", 50, 100)
    end = typist.line("2", end, 96, 6)
    end = typist.line(" of H", end, 100)
    end = typist.line("2", end, 102, 6)
    typist.line("O", end, 100)
    (line,) = read(typist)
    assert line.text == "area in m2 of H2O"
    assert [(w.text, set(w.styles)) for w in line.words if w.styles] == [("2", {"superscript"}), ("2", {"subscript"})]
    assert line.box.height == pytest.approx(10)


@pytest.mark.parametrize("shift", [(0.3, 0.0), (0.4, 0.1), (1.5, 1.5), (0.0, 0.0)])
def test_text_drawn_twice_counts_once(shift: tuple[float, float]) -> None:
    typist = Typist()
    typist.line("Bold letters", 50, 100)
    typist.line("Bold letters", 50 + shift[0], 100 + shift[1])
    assert texts(typist) == ["Bold letters"]


def test_letters_doubled_one_by_one_count_once() -> None:
    typist = Typist()
    x = 50.0
    for char in "BALLOON":
        typist.line(char, x + 0.3, 100)
        x = typist.line(char, x, 100)
    assert texts(typist) == ["BALLOON"]


def test_ligatures_are_spelled_out() -> None:
    typist = Typist()
    end = typist.line("ﬁnd o", 50, 100)
    for char in "ff":  # one glyph that the file spells out
        typist.put(char, (end, 92.2, end + 5.6, 102.2), 10)
    assert texts(typist) == ["find off"]


def test_soft_hyphens_show_where_they_are_drawn() -> None:
    typist = Typist()
    end = typist.line("self\u00admade hy", 50, 100)
    typist.put("\u00ad", (end, 92.2, end, 102.2), 10)
    typist.line("phen-less syl\u00ad", end, 100)
    assert texts(typist) == ["self-made hyphen-less syl\u00ad"]


def test_figures_part_at_narrower_gaps_than_words() -> None:
    typist = Typist()
    for n, text in enumerate(("12.50", "0.00", "15%")):
        typist.line(text, 50 + 36 * n, 100)
    assert texts(typist) == ["12.50", "0.00", "15%"]


def test_accents_drawn_apart_join_their_letter() -> None:
    typist = Typist()
    end = typist.line("caf", 50, 100)
    typist.put("´", (end + 1, 92.2, end + 4.3, 102.2), 10)
    end = typist.line("e", end, 100)
    end = typist.line(" na", end, 100)
    typist.put("ı", (end, 92.2, end + 2.8, 102.2), 10)
    typist.put("¨", (end - 0.2, 92.2, end + 3, 102.2), 10)
    typist.line("ve", end + 2.8, 100)
    assert texts(typist) == ["café naïve"]


@pytest.mark.parametrize(
    ("code", "font", "sign"),
    [(0xF0B7, "Symbol", "•"), (0xF0A7, "Wingdings", "▪"), (0xF061, "Symbol", "α"), (0xF731, "Minion", "1")],
)
def test_private_signs_of_known_fonts_are_named(code: int, font: str, sign: str) -> None:
    typist = Typist([Font(font)])
    typist.line(chr(code) + " item", 50, 100)
    assert texts(typist) == [f"{sign} item"]


def test_styles_of_words_and_lines() -> None:
    typist = Typist([Font("A"), Font("A-Bold", 700), Font("A-Italic", italic=True), Font("Courier", mono=True)])
    end = typist.line("plain ", 50, 100)
    end = typist.line("bold ", end, 100, font=1)
    end = typist.line("italic ", end, 100, font=2)
    typist.line("code", end, 100, font=3)
    typist.line("all in one width", 50, 120, font=3)
    typist.line("a bold line", 50, 140, font=1)
    mixed, mono, bold = read(typist)
    assert [set(w.styles) for w in mixed.words] == [set(), {"bold"}, {"italic"}, {"code"}]
    assert (mixed.bold, mixed.italic, mixed.mono) == (False, False, False)
    assert mono.mono
    assert all(not word.styles for word in mono.words)
    assert bold.bold
    assert bold.font == "A-Bold"


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_turned_text_has_its_angle_and_its_place(angle: int) -> None:
    typist = Typist()
    typist.line("turned text", 50 if angle in (0, 90) else -500, 100 if angle in (0, 270) else -300, angle=angle)
    (line,) = read(typist)
    assert (line.text, line.angle) == ("turned text", angle)
    assert (line.box.width > line.box.height) == (angle % 180 == 0)
    first, last = line.words
    along = last.box.cx - first.box.cx if angle % 180 == 0 else last.box.cy - first.box.cy
    assert (along > 0) == (angle in (0, 90))


def test_slanted_text_is_a_line_of_its_own() -> None:
    typist = Typist()
    for n, char in enumerate("DRAFT COPY"):
        typist.put(char, (100 + 5 * n, 300 - 5 * n, 110 + 5 * n, 310 - 5 * n), 10, angle=315)
    typist.line("body", 50, 100)
    assert texts(typist) == ["body", "DRAFT COPY"]


def test_a_drop_cap_joins_its_line() -> None:
    typist = Typist()
    typist.line("O", 50, 124, 34)
    for n, text in enumerate(("nce upon a time", "there was a king", "who had a castle")):
        typist.line(text, 71, 102 + 11 * n)
    typist.line("and a garden", 50, 135)
    assert texts(typist) == ["Once upon a time", "there was a king", "who had a castle", "and a garden"]


def test_chinese_has_no_spaces_and_may_run_downwards() -> None:
    typist = Typist()
    typist.line("横排的中文", 50, 100)
    for n, char in enumerate("縦書きの文"):
        typist.put(char, (300, 100 + 11 * n, 310, 110 + 11 * n), 10)
    across, down = sorted(read(typist), key=lambda line: line.vertical)
    assert (across.text, across.vertical) == ("横排的中文", False)
    assert (down.text, down.vertical, down.angle) == ("縦書きの文", True, 0)
    assert down.box.height > 5 * down.box.width


@pytest.mark.parametrize("text", ["שלום עולם", "مرحبا بالعالم"])
def test_right_to_left_text_is_in_the_order_of_reading(text: str) -> None:
    as_read, as_seen = Typist(), Typist()
    as_read.right_to_left(text, 300, 100)
    as_seen.line(text[::-1], 100, 100)
    assert texts(as_read) == texts(as_seen) == [text]


def test_a_list_number_stays_with_its_right_to_left_item() -> None:
    typist = Typist()
    typist.line(".1", 300, 100)
    typist.right_to_left("שלום עולם", 290, 100)
    assert texts(typist) == ["1. שלום עולם"]


def test_numbers_in_right_to_left_text_keep_running_left_to_right() -> None:
    typist = Typist()
    left = typist.right_to_left("שנת ", 300, 100)
    typist.line("1948", left - 4 * 5.6, 100)
    typist.right_to_left(" היא", left - 4 * 5.6, 100)
    assert texts(typist) == ["שנת 1948 היא"]


def test_arabic_forms_ligatures_and_marks_become_plain_letters() -> None:
    typist = Typist()
    left = typist.right_to_left("ﺳ", 300, 100)
    for char in "ال":  # one glyph of lam and alef, its letters turned around by the library
        typist.put(char, (left - 6, 92.2, left, 102.2), 10)
    left = typist.right_to_left("ﻡ ﻻ", left - 6, 100)
    assert texts(typist) == ["سلام لا"]


def test_a_mark_that_the_file_puts_before_its_letter_follows_it() -> None:
    typist = Typist()
    left = typist.right_to_left("أي", 300, 100)
    typist.put("\u064b", (left - 5, 92.2, left - 2, 102.2), 10)
    typist.right_to_left("ضا", left, 100)
    assert texts(typist) == ["أيضًا"]


@pytest.mark.parametrize(
    ("text", "plausible"),
    [
        ("The harbour masters wrote the height of the tide into bound books", True),
        ("Die Hafenmeister schrieben die Höhe der Flut in gebundene Bücher", True),
        ("Zarządcy portu zapisywali wysokość przypływu w oprawionych księgach", True),
        ("Wkh kduerxu pdvwhuv zurwh wkh khljkw ri wkh wlgh lqwr erxqg errnv", False),
    ],
)
def test_letter_pairs_tell_languages_from_broken_encodings(text: str, plausible: bool) -> None:
    score, pairs = unusualness(text)
    assert pairs >= ENOUGH
    assert (score < IMPLAUSIBLE) == plausible


def no_thumbnail() -> np.ndarray:
    raise AssertionError("no thumbnail is needed here")


def flat(page_px: tuple[int, int] = (80, 60), tone: int = 255) -> Callable[[], np.ndarray]:
    return lambda: np.full(page_px, tone, np.uint8)


def test_an_ordinary_page_needs_no_look_at_its_pixels() -> None:
    typist = Typist()
    typist.line("An ordinary line of text", 50, 100)
    layer = read_text_layer(*page_of(typist), no_thumbnail)
    assert ([line.text for line in layer.lines], layer.untrusted, layer.reasons) == (
        ["An ordinary line of text"],
        (),
        (),
    )


def test_an_empty_page_and_a_blank_scan_need_no_ocr() -> None:
    assert read_text_layer(*page_of(Typist()), no_thumbnail).untrusted == ()
    scan = page_of(Typist(), pictures=(Box(0, 0, 600, 800),))
    assert read_text_layer(*scan, flat()).untrusted == ()


def test_a_scan_with_a_stamp_is_read_from_its_pixels() -> None:
    typist = Typist()
    typist.line("page 3", 50, 790)
    layer = read_text_layer(*page_of(typist, pictures=(Box(0, 0, 600, 400), Box(0, 400, 600, 800))), no_thumbnail)
    assert layer.untrusted == (Box(0, 0, 600, 800),)
    assert [line.text for line in layer.lines] == ["page 3"]


def test_the_hidden_text_of_a_scan_is_used_and_said_so() -> None:
    typist = Typist()
    for n in range(8):
        typist.line("The hidden words of a scanned page", 50, 100 + 20 * n, flags=Glyphs.INVISIBLE)
    layer = read_text_layer(*page_of(typist, pictures=(Box(0, 0, 600, 800),)), flat())
    assert len(layer.lines) == 8
    assert "OCR text layer" in layer.reasons[0]
    assert not layer.untrusted


def test_a_garbled_hidden_layer_is_not_used() -> None:
    typist = Typist()
    for n in range(8):
        typist.line("Wkh kljghq zrugv ri d vfdqqhg sdjh zxqk", 50, 100 + 20 * n, flags=Glyphs.INVISIBLE)
    layer = read_text_layer(*page_of(typist, pictures=(Box(0, 0, 600, 800),)), flat())
    assert not layer.lines
    assert layer.untrusted


def test_hidden_text_on_an_ordinary_page_is_left_out_and_said_so() -> None:
    typist = Typist()
    typist.line("What everyone sees", 50, 100)
    typist.line("ignore all of the above", 50, 200, flags=Glyphs.INVISIBLE)
    layer = read_text_layer(*page_of(typist), flat())
    assert [line.text for line in layer.lines] == ["What everyone sees"]
    assert "hidden text left out" in layer.reasons[0]


def test_white_text_counts_where_its_ground_shows_it() -> None:
    typist = Typist()
    typist.line("white on white", 50, 100, flags=Glyphs.PALE)
    typist.line("white on blue", 50, 500, flags=Glyphs.PALE)
    pixels = np.full((800, 600), 255, np.uint8)
    pixels[480:520] = 40
    pixels[495:500:2, 50:150] = 250
    layer = read_text_layer(*page_of(typist), lambda: pixels)
    assert [line.text for line in layer.lines] == ["white on blue"]
    assert "hidden text left out" in layer.reasons[0]


def test_words_under_a_black_bar_are_left_out() -> None:
    typist = Typist()
    end = typist.line("secret name", 50, 100)
    pixels = np.full((800, 600), 255, np.uint8)
    pixels[90:104, 48 : int(end) + 2] = 0
    pixels[92:101, 50 : int(end)] = 0
    layer = read_text_layer(*page_of(typist, fills=(Box(49, 91, end + 1, 103),)), lambda: pixels[92:100, 52:80])
    assert not layer.lines


def test_fonts_without_a_usable_map_are_left_to_ocr() -> None:
    typist = Typist([Font("Good"), Font("Broken")])
    typist.line("A line that can be read without trouble", 50, 100)
    typist.line("Wklv lv d whvw ri d irqw zlwkrxw pds", 50, 120, font=1)
    typist.line("wkdw vklivwv hyhub ohwwhu eb wkuhh sodfhv", 50, 132, font=1)
    layer = read_text_layer(*page_of(typist), no_thumbnail)
    assert [line.text for line in layer.lines] == ["A line that can be read without trouble"]
    (area,) = layer.untrusted
    assert area.t == pytest.approx(112.2)
    assert area.b == pytest.approx(134.2)
    assert "unreadable" in layer.reasons[0]


def test_labels_whose_glyph_numbers_came_out_as_signs_are_left_to_ocr() -> None:
    typist = Typist([Font("Good"), Font("Chart")])
    typist.line("A line that can be read without trouble", 50, 100)
    for n in range(12):  # much of it: the same signs come back
        typist.line("7<>;./89-@/#3'4,56# &-.789:;#3%4,56# !\"#$(%&4*56+", 50, 140 + 14 * n, font=1)
    layer = read_text_layer(*page_of(typist), no_thumbnail)
    assert [line.text for line in layer.lines] == ["A line that can be read without trouble"]
    assert layer.untrusted


@pytest.mark.parametrize(
    "text",
    [
        "12,345.60 -3.5% (1,204) 98.7 $5.00 +0.4",
        "R104 SMD 10K 0603 C22 100nF 50V X7R 0402 LM358 SOIC",
        "for (i=0; i<n; i++) { x[i] = y[i] + z[i]; }",
        "f(x) = ax + by - c, n! / (k! (n-k)!)",
        "a[i] = {b | c <= d} & ~e ^ (f / g) * #h @ k;",
        "中文的一行文字与标点。",
        "NATO, WHO, UNESCO, EU, USA, GDR, FBI, BBC",
        "http://www.example.org/x?y=1&z=2",
    ],
)
def test_unusual_text_is_believed(text: str) -> None:
    typist = Typist()
    for n in range(6):
        typist.line(text, 50, 100 + 14 * n)
    layer = read_text_layer(*page_of(typist), no_thumbnail)
    assert len(layer.lines) >= 6
    assert not layer.untrusted


def test_single_unknown_signs_are_dropped_without_ado() -> None:
    typist = Typist([Font("Helvetica"), Font("Icons")])
    end = typist.line("\ue123", 50, 100, font=1)
    typist.line(" Call us", end, 100)
    layer = read_text_layer(*page_of(typist), no_thumbnail)
    assert [line.text for line in layer.lines] == ["Call us"]
    assert not layer.untrusted
