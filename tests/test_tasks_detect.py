"""The detect task: labels, thresholds, pages that fail. And what doctor finds."""

from __future__ import annotations

import pytest

from docai import detect
from docai.errors import DependencyMissing, DocaiError, ExitCode, InputError, UsageError
from docai.render.document import Source, open_document
from docai.tasks import doctor
from docai.tasks.detect import detect_pages, kept, wanted_labels
from docai.tasks.options import DetectOptions
from docai.types import Box, Label, Page, Region


def test_regions_of_every_page(tiny_pdf: bytes) -> None:
    found = detect(tiny_pdf, with_lines=True)
    assert [page.index for page in found] == [0, 1]
    assert [line.text for page in found for line in page.lines] == ["Hello world", "Second page"]


def test_labels_are_words() -> None:
    assert wanted_labels("table, figure") == {Label.TABLE, Label.FIGURE}
    assert wanted_labels(None) == frozenset(Label)
    with pytest.raises(UsageError, match="expected some of title"):
        wanted_labels("tables")


def test_a_region_without_a_score_stays() -> None:
    box = Box(0, 0, 1, 1)
    regions = [Region(box, Label.TEXT, 0.2), Region(box, Label.TEXT, 0.9), Region(box, Label.TEXT)]
    assert [r.score for r in kept(regions, frozenset(Label), 0.5)] == [0.9, None]


def test_a_page_that_fails_is_told_and_the_others_go_on(tiny_pdf: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def page(source: Source, index: int) -> Page:
        if index == 0:
            raise InputError("page 1 is broken")
        return whole(source, index)

    whole = Source.page
    monkeypatch.setattr(Source, "page", page)
    with open_document(tiny_pdf) as source:
        errors: list[DocaiError] = []
        assert [found.index for found in detect_pages(source, DetectOptions(), on_error=errors.append)] == [1]
        assert [str(error) for error in errors] == ["page 1 is broken"]
        with pytest.raises(InputError, match="broken"):
            list(detect_pages(source, DetectOptions()))


def test_doctor_misses_what_docai_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_pdfium", lambda: "1.0")
    assert doctor.exit_code(doctor.findings()) == ExitCode.OK
    monkeypatch.setattr(doctor, "_PACKAGES", ("numpy", "no-such-package"))
    found = doctor.findings()
    assert doctor.exit_code(found) == ExitCode.DEPENDENCY
    assert "  no-such-package: missing" in doctor.report(found).splitlines()
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert doctor.findings()["engines"]["tesseract"].startswith("missing")


def test_doctor_says_on_what_models_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_pdfium", lambda: "1.0")
    told = doctor.findings()["models"]
    assert told["backend"].startswith("MLX 0.")
    assert told["device"].endswith(("(cpu)", "(cuda)", "(metal)"))
    assert told["memory"].endswith(" free")
    assert told["cache"].endswith(" models)")

    def missing() -> None:
        raise DependencyMissing("models need MLX")

    monkeypatch.setattr("docai.checkpoint.backend.require_mlx", missing)
    assert doctor.findings()["models"]["backend"] == "models need MLX"
