"""The tesseract engine against a stand-in program that answers as tesseract does."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from docai.errors import DependencyMissing, InputError, LimitExceeded
from docai.ocr import tesseract
from docai.ocr.engines import get_engine
from docai.types import Box

HEAD = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"
WORDS = [
    "4\t1\t1\t1\t1\t0\t10\t10\t90\t20\t-1\t",
    '5\t1\t1\t1\t1\t1\t10\t10\t40\t20\t90\t"Hello',
    "5\t1\t1\t1\t1\t2\t60\t12\t40\t20\t80\tworld",
    "5\t1\t1\t1\t2\t1\t10\t40\t40\t20\t70\t漢",
    "5\t1\t1\t1\t2\t2\t55\t40\t40\t20\t70\t字",
    "5\t1\t1\t1\t3\t1\t10\t70\t40\t20\t95\t ",
]
PAGE = np.full((50, 100, 3), 255, np.uint8)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Puts a shell script in tesseract's place; the languages `eng` and `osd` are installed, unless said otherwise."""

    def install(read: str, osd: str = "exit 1", languages: str = "eng\\nosd") -> Path:
        script = tmp_path / "tesseract"
        script.write_text(
            f'#!/bin/sh\necho "$@ $OMP_THREAD_LIMIT" >> {tmp_path}/calls\n'
            f'case "$*" in *--list-langs*) printf "List of languages:\\n{languages}\\n"; exit;; esac\n'
            f'cat > {tmp_path}/image\ncase "$*" in *"--psm 0"*) {osd};; *) {read};; esac\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        tesseract.installed_languages.cache_clear()
        return tmp_path

    yield install
    tesseract.installed_languages.cache_clear()


def tsv(tmp_path: Path) -> str:
    (tmp_path / "tsv").write_text("\n".join([HEAD, *WORDS]) + "\n")
    return f"cat {tmp_path}/tsv"


def test_lines_and_words(program, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    program(tsv(tmp_path))
    first, second = get_engine("tesseract", threads=1).read(PAGE).lines
    assert (first.text, second.text) == ('"Hello world', "漢字")
    assert first.box == Box(10, 10, 100, 32)
    assert [word.text for word in first.words] == ['"Hello', "world"]
    assert first.confidence == 0.85
    assert first.source == "ocr:tesseract"
    assert (tmp_path / "image").read_bytes().startswith(b"P6\n100 50\n255\n")
    assert " 1\n" in (tmp_path / "calls").read_text()


@pytest.mark.parametrize(("confidence", "turned"), [("9.5", 90), ("0.3", 0)])
def test_the_page_is_turned_where_tesseract_is_sure(program, tmp_path: Path, confidence: str, turned: int) -> None:  # type: ignore[no-untyped-def]
    program(tsv(tmp_path), f'printf "Rotate: 90\\nOrientation confidence: {confidence}\\n"')
    assert get_engine("tesseract").read(PAGE).rotation == turned
    assert (tmp_path / "image").read_bytes().startswith(b"P6\n50 100" if turned else b"P6\n100 50")
    assert get_engine("tesseract").read(PAGE, straighten=False).rotation == 0


def test_a_missing_program_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyMissing, match="apt install tesseract-ocr"):
        get_engine("tesseract")


def test_a_missing_language_lists_the_others(program) -> None:  # type: ignore[no-untyped-def]
    program("exit 0")
    with pytest.raises(DependencyMissing, match=r"'fas' \(it has: eng, osd\)"):
        get_engine("tesseract", lang="eng+fas")


def test_its_failure_is_told(program) -> None:  # type: ignore[no-untyped-def]
    program("echo 'cannot read' >&2; exit 3")
    with pytest.raises(InputError, match="cannot read"):
        get_engine("tesseract").read(PAGE)


def test_it_has_a_time_limit(program, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    program("exec sleep 5")
    monkeypatch.setattr(tesseract, "_SECONDS", 0.2)
    with pytest.raises(LimitExceeded, match="longer than"):
        get_engine("tesseract").read(PAGE, straighten=False)
